using System;
using System.Collections;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Channels;
using System.Threading.Tasks;

namespace Strata
{
    /// <summary>A piece of an answer.</summary>
    public sealed class Event
    {
        internal Event(string text, string thinking, IReadOnlyList<ToolCall> calls, JsonElement raw) =>
            (Text, Thinking, Calls, Raw) = (text, thinking, calls, raw);

        /// <summary>What the model says.</summary>
        public string Text { get; }

        /// <summary>What it thinks.</summary>
        public string Thinking { get; }

        /// <summary>Tool calls, complete.</summary>
        public IReadOnlyList<ToolCall> Calls { get; }

        /// <summary>The document that it came with, in OpenAI's shape.</summary>
        public JsonElement Raw { get; }
    }

    /// <summary>
    /// An answer that comes while you read it, with foreach, await foreach, Text() or As. Reading begins the request.
    /// </summary>
    public sealed class Answer : IEnumerable<Event>, IAsyncEnumerable<Event>, IDisposable
    {
        private static readonly ToolCall[] NoCalls = Array.Empty<ToolCall>();
        private readonly Dictionary<string, object> body;
        private readonly Dictionary<string, Tool> functions = new Dictionary<string, Tool>();
        private readonly Func<Dictionary<string, object>, bool, JsonStream> start;
        private readonly StringBuilder said = new StringBuilder();
        private readonly StringBuilder thought = new StringBuilder();
        private readonly List<ToolCall> calls = new List<ToolCall>();
        private readonly object gate = new object();
        private JsonStream? stream;
        private bool canceled;
        private bool over;

        internal Answer(IDictionary<string, object>? fields, Func<Dictionary<string, object>, bool, JsonStream> start)
        {
            this.start = start;
            body = new Dictionary<string, object> { ["stream"] = true };
            foreach (var field in fields ?? new Dictionary<string, object>()) body[field.Key] = field.Value;
        }

        /// <summary>Why it ended, once it has.</summary>
        public string? FinishReason { get; private set; }

        /// <summary>Sets a field of the request, such as "temperature".</summary>
        public Answer Set(string name, object value)
        {
            body[name] = value;
            return this;
        }

        /// <summary>Offers tools, whose functions are called by themselves.</summary>
        public Answer Tools(params Tool[] tools)
        {
            foreach (Tool tool in tools) functions[tool.Name] = tool;
            return Set("tools", tools.Select(tool => tool.Document).ToArray());
        }

        /// <summary>Holds the answer to a JSON schema.</summary>
        public Answer WithSchema(object schema)
        {
            var form = new Dictionary<string, object> { ["name"] = "answer", ["strict"] = true, ["schema"] = schema };
            return Set("response_format", new Dictionary<string, object> { ["type"] = "json_schema", ["json_schema"] = form });
        }

        /// <summary>Applies adapters, by number, with their strengths.</summary>
        public Answer Adapters(IDictionary<int, double> scales) => Set("lora", Model.Loras(scales));

        private JsonStream Opened()
        {
            lock (gate)
            {
                stream ??= start(body, functions.Count > 0);
                if (canceled) stream.Cancel();
                return stream;
            }
        }

        /// <summary>The next piece that says something; null after the last.</summary>
        private Event? Read()
        {
            while (!over)
            {
                if (!(Opened().Next() is JsonElement document))
                {
                    over = true;
                }
                else if (document.TryGetProperty("object", out var what) && what.ValueEquals("tool.calls"))
                {
                    ToolCall[] asked = document.GetProperty("calls").EnumerateArray().Select(Call).ToArray();
                    Reply(asked);
                    return new Event("", "", asked, document);
                }
                else
                {
                    Event heard = Hear(document);
                    if (heard.Text.Length + heard.Thinking.Length > 0) return heard;
                }
            }
            return null;
        }

        private static ToolCall Call(JsonElement call) => new ToolCall(
            call.GetProperty("id").GetString(), call.GetProperty("name").GetString(), call.GetProperty("arguments").GetRawText());

        /// <summary>Answers calls, if there are functions for all of them; else the answer is over.</summary>
        private void Reply(ToolCall[] asked)
        {
            if (!asked.All(call => functions.ContainsKey(call.Name)))
            {
                over = true;
                Opened().Cancel();
                return;
            }
            // What was said before its calls is no part of the answer.
            calls.Clear();
            said.Clear();
            foreach (ToolCall call in asked) Opened().ToolResult(call.Id, functions[call.Name].Call(call.Arguments));
        }

        private Event Hear(JsonElement document)
        {
            var (text, thinking) = (new StringBuilder(), new StringBuilder());
            foreach (JsonElement choice in Items(document, "choices"))
            {
                if (choice.GetProperty("index").GetInt32() != 0) continue;
                text.Append(String(choice, "text"));
                if (String(choice, "finish_reason") is string why) FinishReason = why;
                if (!choice.TryGetProperty("delta", out JsonElement delta)) continue;
                text.Append(String(delta, "content"));
                thinking.Append(String(delta, "reasoning_content"));
                foreach (JsonElement part in Items(delta, "tool_calls")) AddCall(part);
            }
            said.Append(text);
            thought.Append(thinking);
            return new Event(text.ToString(), thinking.ToString(), NoCalls, document);
        }

        private void AddCall(JsonElement part)
        {
            JsonElement function = part.GetProperty("function");
            if (String(part, "id") is string id) calls.Add(new ToolCall(id, String(function, "name") ?? "", ""));
            calls[^1].Arguments += String(function, "arguments");
        }

        private static string? String(JsonElement of, string name) =>
            of.TryGetProperty(name, out JsonElement value) && value.ValueKind == JsonValueKind.String ? value.GetString() : null;

        private static IEnumerable<JsonElement> Items(JsonElement of, string name) =>
            of.TryGetProperty(name, out JsonElement list) && list.ValueKind == JsonValueKind.Array
                ? list.EnumerateArray() : Enumerable.Empty<JsonElement>();

        /// <summary>The pieces as they come. Leaving the loop cancels the request.</summary>
        public IEnumerator<Event> GetEnumerator()
        {
            try
            {
                while (Read() is Event heard) yield return heard;
            }
            finally
            {
                if (!over) Cancel();
            }
        }

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

        /// <summary>The pieces as they come; a thread of its own waits for them. Leaving the loop and the token cancel.</summary>
        public async IAsyncEnumerator<Event> GetAsyncEnumerator(CancellationToken token = default)
        {
            var pieces = Channel.CreateBounded<Event>(16);
            Task reader = Task.Factory.StartNew(() => Pump(pieces.Writer), TaskCreationOptions.LongRunning);
            using (token.Register(Cancel))
            {
                try
                {
                    while (await Wait(pieces.Reader, token).ConfigureAwait(false))
                        while (pieces.Reader.TryRead(out Event heard)) yield return heard;
                }
                finally
                {
                    if (!over) Cancel();
                    // A reader that waits for room is let go.
                    while (pieces.Reader.TryRead(out _)) { }
                    await reader.ConfigureAwait(false);
                }
            }
        }

        private static async Task<bool> Wait(ChannelReader<Event> pieces, CancellationToken token)
        {
            try
            {
                return await pieces.WaitToReadAsync().ConfigureAwait(false);
            }
            catch (StrataException problem) when (problem.Code == "canceled" && token.IsCancellationRequested)
            {
                throw new OperationCanceledException(token);
            }
        }

        private void Pump(ChannelWriter<Event> pieces)
        {
            try
            {
                while (Read() is Event heard)
                {
                    while (!pieces.TryWrite(heard))
                    {
                        if (canceled || !pieces.WaitToWriteAsync().AsTask().Result) break;
                    }
                }
                pieces.Complete();
            }
            catch (StrataException problem)
            {
                pieces.Complete(problem);
            }
        }

        /// <summary>The whole text. Waits for it.</summary>
        public string Text()
        {
            while (Read() != null) { }
            return said.ToString();
        }

        /// <summary>The whole text, awaited.</summary>
        public async Task<string> TextAsync(CancellationToken token = default)
        {
            await foreach (Event _ in this.WithCancellation(token).ConfigureAwait(false)) { }
            return said.ToString();
        }

        /// <summary>What the model thought. Waits for it.</summary>
        public string Thinking()
        {
            Text();
            return thought.ToString();
        }

        /// <summary>The answer as a value, to whose schema it is held.</summary>
        public T As<T>()
        {
            if (stream == null && !body.ContainsKey("response_format")) WithSchema(Schema.Of(typeof(T)));
            return JsonSerializer.Deserialize<T>(Text(), Schema.Options);
        }

        /// <summary>The tool calls that no function has answered. Waits for the end.</summary>
        public IReadOnlyList<ToolCall> Calls()
        {
            Text();
            return calls;
        }

        /// <summary>Cancels the request, from any thread, at any time.</summary>
        public void Cancel()
        {
            lock (gate)
            {
                canceled = true;
                stream?.Cancel();
            }
        }

        /// <summary>Lets go of the answer, and cancels what is left of it.</summary>
        public void Dispose()
        {
            Cancel();
            stream?.Dispose();
        }
    }
}
