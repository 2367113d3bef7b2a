using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.Json;

namespace Strata
{
    /// <summary>A model in memory. Any number of threads may ask it at once.</summary>
    public sealed class Model : IDisposable
    {
        private readonly Handle handle;

        private Model(IntPtr given) => handle = new Handle(given, Native.strata_model_free);

        /// <summary>
        /// Opens a model: a GGUF file, a Hugging Face folder, a name in the store, or "tale", which is built in. Options are
        /// memory ("6G"), threads, context, requests, adapters and others.
        /// </summary>
        public static Model Load(string model, IDictionary<string, object>? options = null) =>
            new Model(Native.strata_open(Native.Text(model), Written(options)));

        /// <summary>What a model would take in bytes, without loading it.</summary>
        public static JsonElement Plan(string model, IDictionary<string, object>? options = null) =>
            Schema.Parse(Native.Taken(Native.strata_plan(Native.Text(model), Written(options))));

        /// <summary>What this build can do, by name.</summary>
        public static string[] Features => Native.Features.Split(' ');

        private static byte[] Written(IDictionary<string, object>? options) =>
            Schema.Write(options ?? new Dictionary<string, object>());

        internal static object Loras(IDictionary<int, double> scales) =>
            scales.Select(one => new Dictionary<string, object> { ["id"] = one.Key, ["scale"] = one.Value }).ToArray();

        /// <summary>Asks what `strata serve` is asked at a path; no body is a GET.</summary>
        public JsonStream Request(string path, object? body = null) => handle.Use(model =>
            new JsonStream(Native.strata_request(model, Native.Text(path), body == null ? null : Schema.Write(body))));

        /// <summary>Asks for an answer to a message.</summary>
        public Answer Chat(string message, IDictionary<string, object>? fields = null) =>
            Chat(new object[] { new Dictionary<string, object> { ["role"] = "user", ["content"] = message } }, fields);

        /// <summary>Asks for the next message of a conversation. The fields are those of /v1/chat/completions.</summary>
        public Answer Chat(IEnumerable<object> messages, IDictionary<string, object>? fields = null) =>
            new Answer(fields, (body, tools) => tools
                ? handle.Use(model => new JsonStream(Native.strata_chat_tools(model, Schema.Write(body))))
                : Request("/v1/chat/completions", body)).Set("messages", messages.ToArray());

        /// <summary>Continues a text as it is. The fields are those of /v1/completions.</summary>
        public Answer Complete(string prompt, IDictionary<string, object>? fields = null) =>
            new Answer(fields, (body, tools) => Request("/v1/completions", body)).Set("prompt", prompt);

        /// <summary>A vector of length 1 for each text.</summary>
        public float[][] Embed(params string[] texts)
        {
            var body = new Dictionary<string, object> { ["input"] = texts, ["encoding_format"] = "base64" };
            using JsonStream stream = Request("/v1/embeddings", body);
            return stream.Next()!.Value.GetProperty("data").EnumerateArray().Select(Vector).ToArray();
        }

        /// <summary>
        /// What is said in an audio file, with a model for speech. The fields are those of /v1/audio/transcriptions.
        /// </summary>
        public JsonElement Transcribe(string file, IDictionary<string, object>? fields = null)
        {
            var body = new Dictionary<string, object>(fields ?? new Dictionary<string, object>()) { ["file"] = file };
            using JsonStream stream = Request("/v1/audio/transcriptions", body);
            return stream.Next()!.Value;
        }

        private static float[] Vector(JsonElement one) =>
            MemoryMarshal.Cast<byte, float>(one.GetProperty("embedding").GetBytesFromBase64()).ToArray();

        /// <summary>The tokens of a text, with those that the model wants around one.</summary>
        public int[] Tokenize(string text) => handle.Use(model =>
        {
            byte[] bytes = Encoding.UTF8.GetBytes(text);
            IntPtr given = Native.Checked(Native.strata_tokenize(model, bytes, (UIntPtr)bytes.Length, out UIntPtr count));
            var tokens = new int[(int)count];
            Marshal.Copy(given, tokens, 0, tokens.Length);
            Native.strata_tokens_free(given, count);
            return tokens;
        });

        /// <summary>The text of tokens.</summary>
        public string Detokenize(int[] tokens) =>
            handle.Use(model => Native.Taken(Native.strata_detokenize(model, tokens, (UIntPtr)tokens.Length)));

        /// <summary>What is known of the model.</summary>
        public JsonElement Info => handle.Use(model => Schema.Parse(Native.Taken(Native.strata_model_info(model))));

        /// <summary>The adapters that it was opened with: id, path and scale.</summary>
        public JsonElement Adapters => handle.Use(model => Schema.Parse(Native.Taken(Native.strata_adapters(model))));

        /// <summary>Sets the strength of adapters for requests that name none; those that are not listed are left out.</summary>
        public void SetAdapters(IDictionary<int, double> scales) =>
            handle.Use(model => { Native.Checked(Native.strata_adapters_set(model, Schema.Write(Loras(scales)))); return 0; });

        /// <summary>An empty session.</summary>
        public Session Session() => handle.Use(model => new Session(Native.strata_session_new(model)));

        /// <summary>A session that was saved, perhaps by another process.</summary>
        public Session Restore(byte[] saved) =>
            handle.Use(model => new Session(Native.strata_session_restore(model, saved, (UIntPtr)saved.Length)));

        /// <summary>Lets go of the model. It leaves memory when its last stream and session are gone too.</summary>
        public void Dispose() => handle.Dispose();
    }
}
