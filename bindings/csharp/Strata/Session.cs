using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

namespace Strata
{
    /// <summary>A text that grows over many requests.</summary>
    public sealed class Session : IDisposable
    {
        private readonly Handle handle;

        internal Session(IntPtr given) => handle = new Handle(given, Native.strata_session_free);

        /// <summary>Appends to the text. Control tokens in it are read as such.</summary>
        public Session Append(string text)
        {
            handle.Use(session => { Native.Checked(Native.strata_session_append(session, Native.Text(text))); return 0; });
            return this;
        }

        /// <summary>
        /// Holds all later runs, and those of forks, to constraints: deadline_ms, first_token_ms, token_ms, memory in bytes, a format
        /// (response_format, guided_regex, guided_choice, grammar), never_to_disk, never_off_machine.
        /// </summary>
        public Session Constrain(IDictionary<string, object> constraints)
        {
            byte[] json = Schema.Write(constraints);
            handle.Use(session => { Native.Checked(Native.strata_session_constrain(session, json)); return 0; });
            return this;
        }

        /// <summary>Continues the text. The fields are those of /v1/completions.</summary>
        public Answer Run(IDictionary<string, object>? fields = null) => new Answer(fields, (body, tools) =>
            handle.Use(session => new JsonStream(Native.strata_session_run(session, Schema.Write(body)))));

        /// <summary>The text so far.</summary>
        public string Text => handle.Use(session => Native.Taken(Native.strata_session_text(session)));

        /// <summary>Another session with the same text; both share what was computed of it.</summary>
        public Session Fork() => handle.Use(session => new Session(Native.strata_session_fork(session)));

        /// <summary>The session as bytes, for Model.Restore.</summary>
        public byte[] Save() => handle.Use(session =>
        {
            IntPtr given = Native.Checked(Native.strata_session_save(session, out UIntPtr count));
            var saved = new byte[(int)count];
            Marshal.Copy(given, saved, 0, saved.Length);
            Native.strata_bytes_free(given, count);
            return saved;
        });

        /// <summary>Lets go of the session.</summary>
        public void Dispose() => handle.Dispose();
    }
}
