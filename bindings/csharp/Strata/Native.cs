using System;
using System.Runtime.InteropServices;
using System.Text;

namespace Strata
{
    /// <summary>The functions of strata.h.</summary>
    internal static class Native
    {
        private const string Library = "strata_c";
        private const uint Abi = 1;
        private const string Needed = "chat completions constraints embeddings plan sessions tokenize tools";

        internal const int Failed = -1;
        internal const int Ended = 0;
        internal const int Document = 1;

        static Native()
        {
            if (strata_abi_version() != Abi)
                throw new StrataException("unsupported", "the library is of another version than this package", null);
            Checked(strata_require(Text(Needed)));
        }

        [DllImport(Library)] private static extern uint strata_abi_version();
        [DllImport(Library)] private static extern IntPtr strata_features();
        [DllImport(Library)] private static extern int strata_require(byte[] features);
        [DllImport(Library)] private static extern IntPtr strata_error_code();
        [DllImport(Library)] private static extern IntPtr strata_error_message();
        [DllImport(Library)] private static extern IntPtr strata_error_hint();
        [DllImport(Library)] private static extern void strata_string_free(IntPtr text);

        [DllImport(Library)] internal static extern IntPtr strata_open(byte[] model, byte[] options);
        [DllImport(Library)] internal static extern IntPtr strata_plan(byte[] model, byte[] options);
        [DllImport(Library)] internal static extern void strata_model_free(IntPtr model);
        [DllImport(Library)] internal static extern IntPtr strata_model_info(IntPtr model);
        [DllImport(Library)] internal static extern IntPtr strata_adapters(IntPtr model);
        [DllImport(Library)] internal static extern int strata_adapters_set(IntPtr model, byte[] scales);
        [DllImport(Library)] internal static extern IntPtr strata_tokenize(IntPtr model, byte[] text, UIntPtr bytes, out UIntPtr count);
        [DllImport(Library)] internal static extern void strata_tokens_free(IntPtr tokens, UIntPtr count);
        [DllImport(Library)] internal static extern IntPtr strata_detokenize(IntPtr model, int[] tokens, UIntPtr count);
        [DllImport(Library)] internal static extern IntPtr strata_request(IntPtr model, byte[] path, byte[]? body);
        [DllImport(Library)] internal static extern IntPtr strata_chat_tools(IntPtr model, byte[] request);
        [DllImport(Library)] internal static extern int strata_tool_result(IntPtr stream, byte[] id, byte[] result);
        [DllImport(Library)] internal static extern int strata_next(IntPtr stream, long milliseconds, out IntPtr document);
        [DllImport(Library)] internal static extern int strata_stream_fd(IntPtr stream);
        [DllImport(Library)] internal static extern void strata_cancel(IntPtr stream);
        [DllImport(Library)] internal static extern void strata_stream_free(IntPtr stream);
        [DllImport(Library)] internal static extern IntPtr strata_session_new(IntPtr model);
        [DllImport(Library)] internal static extern int strata_session_constrain(IntPtr session, byte[] constraints);
        [DllImport(Library)] internal static extern int strata_session_append(IntPtr session, byte[] text);
        [DllImport(Library)] internal static extern IntPtr strata_session_run(IntPtr session, byte[] request);
        [DllImport(Library)] internal static extern IntPtr strata_session_text(IntPtr session);
        [DllImport(Library)] internal static extern IntPtr strata_session_fork(IntPtr session);
        [DllImport(Library)] internal static extern IntPtr strata_session_save(IntPtr session, out UIntPtr count);
        [DllImport(Library)] internal static extern void strata_bytes_free(IntPtr bytes, UIntPtr count);
        [DllImport(Library)] internal static extern IntPtr strata_session_restore(IntPtr model, byte[] saved, UIntPtr count);
        [DllImport(Library)] internal static extern void strata_session_free(IntPtr session);

        /// <summary>A text with the zero at its end.</summary>
        internal static byte[] Text(string text) => Encoding.UTF8.GetBytes(text + "\0");

        internal static string Features => Marshal.PtrToStringUTF8(strata_features())!;

        /// <summary>What the thread's latest call failed with.</summary>
        internal static StrataException Error()
        {
            string code = Marshal.PtrToStringUTF8(strata_error_code()) ?? "internal";
            string message = Marshal.PtrToStringUTF8(strata_error_message()) ?? "the call failed";
            return new StrataException(code, message, Marshal.PtrToStringUTF8(strata_error_hint()));
        }

        /// <summary>A handle or memory, unless the call failed.</summary>
        internal static IntPtr Checked(IntPtr given) => given == IntPtr.Zero ? throw Error() : given;

        /// <summary>Throws where a call gave no 0.</summary>
        internal static void Checked(int status)
        {
            if (status != 0) throw Error();
        }

        /// <summary>A text that the library gave.</summary>
        internal static string Taken(IntPtr given)
        {
            string text = Marshal.PtrToStringUTF8(Checked(given))!;
            strata_string_free(given);
            return text;
        }
    }

    /// <summary>A handle that frees itself.</summary>
    internal sealed class Handle : SafeHandle
    {
        private readonly Action<IntPtr> free;

        internal Handle(IntPtr given, Action<IntPtr> free) : base(IntPtr.Zero, true)
        {
            this.free = free;
            SetHandle(Native.Checked(given));
        }

        public override bool IsInvalid => handle == IntPtr.Zero;

        protected override bool ReleaseHandle()
        {
            free(handle);
            return true;
        }

        /// <summary>Does something with the handle, which nobody frees meanwhile.</summary>
        internal T Use<T>(Func<IntPtr, T> act)
        {
            bool held = false;
            try
            {
                DangerousAddRef(ref held);
                return act(handle);
            }
            catch (ObjectDisposedException)
            {
                throw new StrataException("closed", "it was closed", null);
            }
            finally
            {
                if (held) DangerousRelease();
            }
        }
    }
}
