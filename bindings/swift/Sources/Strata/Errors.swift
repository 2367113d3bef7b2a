import CStrata

/// What went wrong: a sentence, a code that stays the same from version to version, perhaps a hint.
public struct StrataError: Error, CustomStringConvertible {
    /// The error's kind, such as `not_found` or `out_of_memory`.
    public let code: String
    /// A sentence.
    public let message: String
    /// What the user can do about it.
    public let hint: String?

    public var description: String { "\(code): \(message)" }

    /// What the thread's latest call failed with.
    static func last() -> StrataError {
        let code = strata_error_code().map { String(cString: $0) }
        let message = strata_error_message().map { String(cString: $0) }
        let hint = strata_error_hint().map { String(cString: $0) }
        return StrataError(code: code ?? "internal", message: message ?? "the call failed", hint: hint)
    }
}

/// A handle or memory, unless the call failed.
func checked<T>(_ given: T?) throws -> T {
    guard let given = given else { throw StrataError.last() }
    return given
}

/// Throws where a call gave no 0.
func succeeded(_ status: Int32) throws {
    if status != 0 { throw StrataError.last() }
}

/// A text that the library gave, copied and freed.
func taken(_ given: UnsafeMutablePointer<CChar>?) throws -> String {
    let text = try checked(given)
    defer { strata_string_free(text) }
    return String(cString: text)
}
