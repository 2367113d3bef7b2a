package dev.strata;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.function.BiFunction;

/**
 * An answer that comes while you read it: {@code for (Event event : answer)}, {@code answer.text()},
 * {@code answer.as(Hero.class)}. Fields are set before it is read; reading begins the request. Another thread may cancel it.
 */
public final class Answer implements Iterable<Event>, AutoCloseable {
    private final BiFunction<Map<String, Object>, Boolean, JsonStream> start;
    private final Map<String, Object> body = new LinkedHashMap<>();
    private final Map<String, Tool> functions = new LinkedHashMap<>();
    private final StringBuilder said = new StringBuilder();
    private final StringBuilder thought = new StringBuilder();
    private final List<Map<String, Object>> calls = new ArrayList<>();
    private JsonStream stream;
    private boolean canceled;
    private boolean over;
    private String finish;

    Answer(Map<String, Object> fields, BiFunction<Map<String, Object>, Boolean, JsonStream> start) {
        this.start = start;
        body.put("stream", true);
        body.putAll(fields);
    }

    /** Sets a field of the request, such as "temperature" or "max_tokens". */
    public Answer set(String name, Object value) {
        body.put(name, value);
        return this;
    }

    /** Offers tools, whose functions are called by themselves, on the thread that reads. */
    public Answer tools(Tool... tools) {
        for (Tool tool : tools) {
            functions.put(tool.name(), tool);
        }
        return set("tools", Arrays.stream(tools).map(Tool::document).toList());
    }

    /** Holds the answer to a JSON schema. */
    public Answer schema(Map<String, Object> schema) {
        Map<String, Object> form = Map.of("name", "answer", "strict", true, "schema", schema);
        return set("response_format", Map.of("type", "json_schema", "json_schema", form));
    }

    /** Applies adapters, by number, with their strengths. */
    public Answer adapters(Map<Integer, Double> scales) {
        return set("lora", Model.loras(scales));
    }

    private synchronized JsonStream stream() {
        if (stream == null) {
            stream = start.apply(body, !functions.isEmpty());
            if (canceled) {
                stream.cancel();
            }
        }
        return stream;
    }

    @Override
    public Iterator<Event> iterator() {
        return new Iterator<>() {
            private Event ahead;

            @Override
            public boolean hasNext() {
                if (ahead == null) {
                    ahead = read();
                }
                return ahead != null;
            }

            @Override
            public Event next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                Event given = ahead;
                ahead = null;
                return given;
            }
        };
    }

    /** The next piece that says something; null after the last. */
    private Event read() {
        while (!over) {
            Map<String, Object> document = stream().next();
            if (document == null) {
                over = true;
            } else if ("tool.calls".equals(document.get("object"))) {
                List<ToolCall> asked = ((List<?>) document.get("calls")).stream().map(ToolCall::of).toList();
                answer(asked);
                return new Event("", "", asked, document);
            } else {
                Event event = hear(document);
                if (!event.text().isEmpty() || !event.thinking().isEmpty()) {
                    return event;
                }
            }
        }
        return null;
    }

    /** Answers calls, if there are functions for all of them; else the answer is over. */
    private void answer(List<ToolCall> asked) {
        if (!asked.stream().allMatch(call -> functions.containsKey(call.name()))) {
            over = true;
            stream().cancel();
            return;
        }
        // What was said before its calls is no part of the answer.
        calls.clear();
        said.setLength(0);
        for (ToolCall call : asked) {
            stream().toolResult(call.id(), functions.get(call.name()).call(call.arguments()));
        }
    }

    @SuppressWarnings("unchecked")
    private Event hear(Map<String, Object> document) {
        StringBuilder text = new StringBuilder();
        StringBuilder thinking = new StringBuilder();
        for (Map<String, Object> choice : (List<Map<String, Object>>) document.getOrDefault("choices", List.of())) {
            if (!choice.get("index").equals(0L)) {
                continue;
            }
            Map<String, Object> delta = (Map<String, Object>) choice.getOrDefault("delta", Map.of());
            append(text, delta.getOrDefault("content", choice.get("text")));
            append(thinking, delta.get("reasoning_content"));
            for (Map<String, Object> part : (List<Map<String, Object>>) delta.getOrDefault("tool_calls", List.of())) {
                addCall(part);
            }
            if (choice.get("finish_reason") instanceof String why) {
                finish = why;
            }
        }
        said.append(text);
        thought.append(thinking);
        return new Event(text.toString(), thinking.toString(), List.of(), document);
    }

    private static void append(StringBuilder out, Object text) {
        if (text instanceof String given) {
            out.append(given);
        }
    }

    @SuppressWarnings("unchecked")
    private void addCall(Map<String, Object> part) {
        Map<String, Object> function = (Map<String, Object>) part.get("function");
        if (part.containsKey("id")) {
            calls.add(new LinkedHashMap<>(Map.of("id", part.get("id"), "name", function.get("name"), "arguments", "")));
        }
        Map<String, Object> last = calls.get(calls.size() - 1);
        last.merge("arguments", function.getOrDefault("arguments", ""), (before, more) -> before + (String) more);
    }

    private void readAll() {
        for (Event event = read(); event != null; event = read()) {
            // Read for what it leaves behind.
        }
    }

    /** The whole text. Waits for it. */
    public String text() {
        readAll();
        return said.toString();
    }

    /** What the model thought. Waits for it. */
    public String thinking() {
        readAll();
        return thought.toString();
    }

    /** The answer as a value: a record, an enum, or a number. Its schema holds the answer to it. */
    public <T> T as(Class<T> type) {
        if (stream == null && !body.containsKey("response_format")) {
            schema(Schema.of(type));
        }
        return type.cast(Schema.read(Json.parse(text()), type));
    }

    /** The tool calls that no function has answered. Waits for the end. */
    public List<ToolCall> calls() {
        readAll();
        return calls.stream()
                .map(call -> new ToolCall((String) call.get("id"), (String) call.get("name"), Json.object((String) call.get("arguments"))))
                .toList();
    }

    /** Why it ended. */
    public String finishReason() {
        readAll();
        return finish;
    }

    /** Cancels the request, from any thread, at any time: readers get {@link CanceledException}. */
    public void cancel() {
        JsonStream open;
        synchronized (this) {
            canceled = true;
            open = stream;
        }
        if (open != null) {
            open.cancel();
        }
    }

    /** Lets go of the answer, and cancels what is left of it. */
    @Override
    public void close() {
        over = true;
        JsonStream open;
        synchronized (this) {
            open = stream;
        }
        if (open != null) {
            open.close();
        }
    }
}
