import CStrata
import Dispatch

/// The documents of a request. Letting go of it cancels the request.
public final class JsonStream: @unchecked Sendable {
    private let handle: OpaquePointer

    init(_ given: OpaquePointer?) throws {
        handle = try checked(given)
    }

    deinit {
        strata_stream_free(handle)
    }

    /// Waits for the next document on this thread; nil after the last.
    public func next() throws -> Json? {
        var document: UnsafeMutablePointer<CChar>?
        let status = Int(strata_next(handle, -1, &document))
        if status == STRATA_ERROR { throw StrataError.last() }
        if status == STRATA_END { return nil }
        return try parsed(taken(document)) as? Json
    }

    /// Awaits the next document: another thread waits for it. Canceling the task cancels the request.
    public func nextAsync() async throws -> Json? {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                DispatchQueue.global().async {
                    continuation.resume(with: Result { try self.next() })
                }
            }
        } onCancel: {
            self.cancel()
        }
    }

    /// Cancels the request, from any thread, at any time. Never waits.
    public func cancel() {
        strata_cancel(handle)
    }

    /// Gives the result of a tool call.
    public func toolResult(_ id: String, _ result: String) throws {
        try succeeded(strata_tool_result(handle, id, result))
    }
}
