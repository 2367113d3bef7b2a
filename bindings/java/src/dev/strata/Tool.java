package dev.strata;

import java.util.Map;
import java.util.function.Function;

/** A tool that a function answers. Its parameters are the components of a record. */
public final class Tool {
    private final String name;
    private final Map<String, Object> document;
    private final Function<Object, Object> function;

    private Tool(String name, Map<String, Object> document, Function<Object, Object> function) {
        this.name = name;
        this.document = document;
        this.function = function;
    }

    /** A tool with a record's components as parameters. What the function returns is told as text, or as JSON. */
    public static <T extends Record> Tool of(String name, String description, Class<T> parameters, Function<T, ?> function) {
        Map<String, Object> spelt =
                Map.of("name", name, "description", description, "strict", true, "parameters", Schema.of(parameters));
        Function<Object, Object> call = arguments -> function.apply(parameters.cast(Schema.read(arguments, parameters)));
        return new Tool(name, Map.of("type", "function", "function", spelt), call);
    }

    /** The tool as requests list it. Given to {@link Answer#set} under "tools", its calls are left to you. */
    public Map<String, Object> document() {
        return document;
    }

    String name() {
        return name;
    }

    /** Calls the function. The model is told of errors. */
    String call(Map<String, Object> arguments) {
        try {
            Object result = function.apply(arguments);
            return result instanceof String said ? said : Json.write(result);
        } catch (RuntimeException problem) {
            return "error: " + problem.getMessage();
        }
    }
}
