using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Text.Json;
using System.Text.Json.Serialization;

namespace Strata
{
    /// <summary>The least and the greatest number that a property may be, for its schema.</summary>
    [AttributeUsage(AttributeTargets.Property)]
    public sealed class RangeAttribute : Attribute
    {
        /// <summary>A range with both its ends.</summary>
        public RangeAttribute(long min, long max) => (Min, Max) = (min, max);

        /// <summary>The least.</summary>
        public long Min { get; }

        /// <summary>The greatest.</summary>
        public long Max { get; }
    }

    /// <summary>JSON schemas of types, and values of those types: classes with properties, enums, lists, texts, numbers.</summary>
    public static class Schema
    {
        internal static readonly JsonSerializerOptions Options = new JsonSerializerOptions
        {
            PropertyNamingPolicy = JsonNamingPolicy.CamelCase,
            PropertyNameCaseInsensitive = true,
            Converters = { new JsonStringEnumConverter() },
        };

        /// <summary>The schema of a type.</summary>
        public static Dictionary<string, object> Of(Type type)
        {
            type = Nullable.GetUnderlyingType(type) ?? type;
            if (type.IsEnum) return new Dictionary<string, object> { ["enum"] = Enum.GetNames(type) };
            string? word = Word(type);
            if (word != null) return new Dictionary<string, object> { ["type"] = word };
            Type? item = type.IsArray ? type.GetElementType()
                : type.IsGenericType && type.GetGenericTypeDefinition() == typeof(List<>) ? type.GetGenericArguments()[0] : null;
            if (item != null) return new Dictionary<string, object> { ["type"] = "array", ["items"] = Of(item) };
            var properties = type.GetProperties().ToDictionary(one => JsonNamingPolicy.CamelCase.ConvertName(one.Name), Property);
            return new Dictionary<string, object>
            {
                ["type"] = "object",
                ["properties"] = properties,
                ["required"] = properties.Keys.ToArray(),
                ["additionalProperties"] = false,
            };
        }

        private static object Property(PropertyInfo property)
        {
            var schema = Of(property.PropertyType);
            if (property.GetCustomAttribute<RangeAttribute>() is RangeAttribute range)
            {
                schema["minimum"] = range.Min;
                schema["maximum"] = range.Max;
            }
            return schema;
        }

        private static string? Word(Type type)
        {
            if (type == typeof(string)) return "string";
            if (type == typeof(bool)) return "boolean";
            if (type == typeof(int) || type == typeof(long)) return "integer";
            return type == typeof(float) || type == typeof(double) ? "number" : null;
        }

        internal static byte[] Write(object value) => Native.Text(JsonSerializer.Serialize(value, value.GetType(), Options));

        internal static JsonElement Parse(string text)
        {
            using JsonDocument document = JsonDocument.Parse(text);
            return document.RootElement.Clone();
        }
    }
}
