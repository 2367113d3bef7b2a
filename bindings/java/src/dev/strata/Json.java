package dev.strata;

import java.lang.reflect.Array;
import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON: objects are maps, arrays are lists, numbers are {@link Long} or {@link Double}. */
public final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Reads a document. */
    public static Object parse(String text) {
        Json reader = new Json(text);
        Object value = reader.value();
        reader.space();
        if (reader.at < text.length()) {
            throw reader.bad("the end");
        }
        return value;
    }

    /** Reads an object. */
    @SuppressWarnings("unchecked")
    public static Map<String, Object> object(String text) {
        return (Map<String, Object>) parse(text);
    }

    /** Writes a value: maps, iterables, arrays, records, enums, texts, numbers, booleans, null. */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private IllegalArgumentException bad(String wanted) {
        return new IllegalArgumentException("JSON: " + wanted + " is missing at " + at + " of " + text.length());
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean takes(char wanted) {
        space();
        if (at < text.length() && text.charAt(at) == wanted) {
            at++;
            return true;
        }
        return false;
    }

    private void take(char wanted) {
        if (!takes(wanted)) {
            throw bad("'" + wanted + "'");
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw bad(word);
        }
        at += word.length();
        return value;
    }

    private Object value() {
        space();
        if (at == text.length()) {
            throw bad("a value");
        }
        return switch (text.charAt(at)) {
            case '{' -> members();
            case '[' -> items();
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> members() {
        Map<String, Object> members = new LinkedHashMap<>();
        take('{');
        if (takes('}')) {
            return members;
        }
        do {
            space();
            String name = string();
            take(':');
            members.put(name, value());
        } while (takes(','));
        take('}');
        return members;
    }

    private List<Object> items() {
        List<Object> items = new ArrayList<>();
        take('[');
        if (takes(']')) {
            return items;
        }
        do {
            items.add(value());
        } while (takes(','));
        take(']');
        return items;
    }

    private String string() {
        take('"');
        StringBuilder out = new StringBuilder();
        while (at < text.length()) {
            char next = text.charAt(at++);
            if (next == '"') {
                return out.toString();
            }
            out.append(next == '\\' ? escaped() : next);
        }
        throw bad("'\"'");
    }

    private char escaped() {
        if (at == text.length()) {
            throw bad("an escape");
        }
        char name = text.charAt(at++);
        return switch (name) {
            case 'n' -> '\n';
            case 't' -> '\t';
            case 'r' -> '\r';
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'u' -> {
                if (at + 4 > text.length()) {
                    throw bad("a number");
                }
                yield (char) Integer.parseInt(text.substring(at, at += 4), 16);
            }
            default -> name;
        };
    }

    private Object number() {
        int from = at;
        while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String spelt = text.substring(from, at);
        if (spelt.isEmpty()) {
            throw bad("a value");
        }
        boolean whole = spelt.chars().allMatch(letter -> letter == '-' || Character.isDigit(letter));
        if (whole && spelt.length() < 19) {
            return Long.parseLong(spelt);
        }
        return Double.parseDouble(spelt);
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            char between = '{';
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                quote(entry.getKey().toString(), out.append(between));
                write(entry.getValue(), out.append(':'));
                between = ',';
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> items) {
            char between = '[';
            for (Object item : items) {
                write(item, out.append(between));
                between = ',';
            }
            out.append(between == '[' ? "[]" : "]");
        } else if (value instanceof Record record) {
            write(fields(record), out);
        } else if (value != null && value.getClass().isArray()) {
            List<Object> items = new ArrayList<>();
            for (int i = 0; i < Array.getLength(value); i++) {
                items.add(Array.get(value, i));
            }
            write(items, out);
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            quote(value instanceof Enum<?> one ? one.name() : value.toString(), out);
        }
    }

    private static Map<String, Object> fields(Record record) {
        Map<String, Object> fields = new LinkedHashMap<>();
        try {
            for (RecordComponent component : record.getClass().getRecordComponents()) {
                var reader = component.getAccessor();
                reader.setAccessible(true);
                fields.put(component.getName(), reader.invoke(record));
            }
        } catch (ReflectiveOperationException problem) {
            throw new IllegalArgumentException(problem);
        }
        return fields;
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char letter = text.charAt(i);
            if (letter == '"' || letter == '\\') {
                out.append('\\').append(letter);
            } else if (letter < ' ') {
                out.append(String.format("\\u%04x", (int) letter));
            } else {
                out.append(letter);
            }
        }
        out.append('"');
    }
}
