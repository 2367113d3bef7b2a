using System;

namespace Strata
{
    /// <summary>What went wrong: a sentence, a code that stays the same from version to version, perhaps a hint.</summary>
    public sealed class StrataException : Exception
    {
        internal StrataException(string code, string message, string? hint) : base(message)
        {
            Code = code;
            Hint = hint;
        }

        /// <summary>The error's kind, such as not_found or out_of_memory.</summary>
        public string Code { get; }

        /// <summary>What the user can do about it.</summary>
        public string? Hint { get; }
    }
}
