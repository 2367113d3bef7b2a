using System;
using System.Collections.Generic;
using System.Text.Json;

namespace Strata
{
    /// <summary>A tool that a function answers.</summary>
    public sealed class Tool
    {
        private readonly Func<string, object?> function;

        private Tool(string name, object document, Func<string, object?> function) =>
            (Name, Document, this.function) = (name, document, function);

        /// <summary>A tool whose parameters are the properties of a class. The result is told as text, or as JSON.</summary>
        public static Tool Of<T>(string name, string description, Func<T, object?> function)
        {
            var spelt = new Dictionary<string, object>
            {
                ["name"] = name, ["description"] = description, ["strict"] = true, ["parameters"] = Schema.Of(typeof(T)),
            };
            var document = new Dictionary<string, object> { ["type"] = "function", ["function"] = spelt };
            return new Tool(name, document, json => function(JsonSerializer.Deserialize<T>(json, Schema.Options)));
        }

        /// <summary>Its name.</summary>
        public string Name { get; }

        /// <summary>The tool as requests list it. Set as a field "tools", its calls are left to you.</summary>
        public object Document { get; }

        /// <summary>Calls the function. The model is told of errors.</summary>
        internal string Call(string arguments)
        {
            try
            {
                object? result = function(arguments);
                return result as string ?? JsonSerializer.Serialize(result, Schema.Options);
            }
            catch (Exception problem)
            {
                return "error: " + problem.Message;
            }
        }
    }

    /// <summary>A call that the model makes.</summary>
    public sealed class ToolCall
    {
        internal ToolCall(string id, string name, string arguments) => (Id, Name, Arguments) = (id, name, arguments);

        /// <summary>Names the call.</summary>
        public string Id { get; }

        /// <summary>Names the tool.</summary>
        public string Name { get; }

        /// <summary>What it is called with, as JSON.</summary>
        public string Arguments { get; internal set; }
    }
}
