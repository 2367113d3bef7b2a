using System;
using System.Collections.Generic;
using System.Text.Json;

namespace Strata
{
    /// <summary>The documents of a request. Disposing it cancels the request.</summary>
    public sealed class JsonStream : IDisposable
    {
        private readonly Handle handle;

        internal JsonStream(IntPtr given) => handle = new Handle(given, Native.strata_stream_free);

        /// <summary>Waits for the next document; null after the last.</summary>
        public JsonElement? Next() => TryNext(-1, out JsonElement document) == Native.Ended ? (JsonElement?)null : document;

        /// <summary>Waits so many milliseconds at most: 1 with a document, 2 if none came in time, 0 after the last.</summary>
        public int TryNext(long milliseconds, out JsonElement document)
        {
            (int status, string? text) = handle.Use(stream =>
            {
                int told = Native.strata_next(stream, milliseconds, out IntPtr given);
                if (told == Native.Failed) throw Native.Error();
                return (told, told == Native.Document ? Native.Taken(given) : null);
            });
            document = text == null ? default : Schema.Parse(text);
            return status;
        }

        /// <summary>The documents as they come.</summary>
        public IEnumerable<JsonElement> All()
        {
            while (Next() is JsonElement document) yield return document;
        }

        /// <summary>Cancels the request, from any thread, at any time.</summary>
        public void Cancel()
        {
            try
            {
                handle.Use(stream => { Native.strata_cancel(stream); return 0; });
            }
            catch (StrataException)
            {
                // It is gone, and its request with it.
            }
        }

        /// <summary>Gives the result of a tool call.</summary>
        public void ToolResult(string id, string result) =>
            handle.Use(stream => { Native.Checked(Native.strata_tool_result(stream, Native.Text(id), Native.Text(result))); return 0; });

        /// <summary>Frees the stream and cancels what it waits for.</summary>
        public void Dispose()
        {
            Cancel();
            handle.Dispose();
        }
    }
}
