package dev.strata;

import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON schemas of Java's types, and values of those types from JSON: records, enums, lists, texts, numbers, booleans. */
public final class Schema {
    private Schema() {}

    /** The schema of a type. */
    public static Map<String, Object> of(Type type) {
        if (type instanceof ParameterizedType list && list.getRawType() == List.class) {
            return Map.of("type", "array", "items", of(list.getActualTypeArguments()[0]));
        }
        Class<?> plain = (Class<?>) type;
        if (plain.isRecord()) {
            Map<String, Object> properties = new LinkedHashMap<>();
            for (RecordComponent component : plain.getRecordComponents()) {
                Map<String, Object> schema = new LinkedHashMap<>(of(component.getGenericType()));
                Range range = component.getAnnotation(Range.class);
                if (range != null) {
                    schema.put("minimum", range.min());
                    schema.put("maximum", range.max());
                }
                properties.put(component.getName(), schema);
            }
            Map<String, Object> schema = new LinkedHashMap<>();
            schema.put("type", "object");
            schema.put("properties", properties);
            schema.put("required", new ArrayList<>(properties.keySet()));
            schema.put("additionalProperties", false);
            return schema;
        }
        if (plain.isEnum()) {
            return Map.of("enum", Arrays.stream(plain.getEnumConstants()).map(one -> ((Enum<?>) one).name()).toList());
        }
        return Map.of("type", word(plain));
    }

    private static String word(Class<?> type) {
        if (type == String.class) return "string";
        if (type == boolean.class || type == Boolean.class) return "boolean";
        if (type == int.class || type == Integer.class || type == long.class || type == Long.class) return "integer";
        if (type == double.class || type == Double.class || type == float.class || type == Float.class) return "number";
        throw new IllegalArgumentException(type + " has no schema: use records, enums, lists, texts, numbers and booleans");
    }

    /** A value of a type, from what {@link Json#parse} gives. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    public static Object read(Object json, Type type) {
        if (json == null) {
            return null;
        }
        if (type instanceof ParameterizedType list) {
            Type item = list.getActualTypeArguments()[0];
            return ((List<Object>) json).stream().map(one -> read(one, item)).toList();
        }
        Class<?> plain = (Class<?>) type;
        if (plain.isRecord()) {
            return record((Map<String, Object>) json, plain);
        }
        if (plain.isEnum()) {
            return Enum.valueOf((Class<Enum>) plain, (String) json);
        }
        if (json instanceof Number number) {
            if (plain == int.class || plain == Integer.class) return number.intValue();
            if (plain == long.class || plain == Long.class) return number.longValue();
            if (plain == float.class || plain == Float.class) return number.floatValue();
            if (plain == double.class || plain == Double.class) return number.doubleValue();
        }
        return json;
    }

    private static Object record(Map<String, Object> fields, Class<?> type) {
        RecordComponent[] components = type.getRecordComponents();
        Class<?>[] types = new Class<?>[components.length];
        Object[] values = new Object[components.length];
        for (int i = 0; i < components.length; i++) {
            types[i] = components[i].getType();
            values[i] = read(fields.get(components[i].getName()), components[i].getGenericType());
        }
        try {
            var constructor = type.getDeclaredConstructor(types);
            constructor.setAccessible(true);
            return constructor.newInstance(values);
        } catch (ReflectiveOperationException problem) {
            throw new StrataException("invalid_argument", "cannot make a " + type.getSimpleName() + ": " + problem, null);
        }
    }
}
