package dev.strata;

import java.util.Map;

/**
 * A call that the model makes.
 *
 * @param id names the call
 * @param name names the tool
 * @param arguments what it is called with
 */
public record ToolCall(String id, String name, Map<String, Object> arguments) {
    @SuppressWarnings("unchecked")
    static ToolCall of(Object document) {
        Map<String, Object> fields = (Map<String, Object>) document;
        return new ToolCall((String) fields.get("id"), (String) fields.get("name"), (Map<String, Object>) fields.get("arguments"));
    }
}
