package dev.strata;

import java.util.List;
import java.util.Map;

/**
 * A piece of an answer.
 *
 * @param text what the model says
 * @param thinking what it thinks
 * @param calls tool calls, complete
 * @param raw the document that it came with, in OpenAI's shape
 */
public record Event(String text, String thinking, List<ToolCall> calls, Map<String, Object> raw) {}
