import CStrata
import Foundation

/// A model in memory. Any number of threads and tasks may ask it at once.
public final class Model: @unchecked Sendable {
    private let handle: OpaquePointer

    /// Opens a model and waits until it is in memory: a GGUF file, a Hugging Face folder, a name in the store, or "tale", which
    /// is built in. Options are memory ("2G"), threads, context, requests, adapters and others.
    public init(_ model: String, options: Json = [:]) throws {
        guard strata_abi_version() == UInt32(STRATA_ABI_VERSION) else {
            let message = "the library is of another version than this package"
            throw StrataError(code: "unsupported", message: message, hint: nil)
        }
        try succeeded(strata_require("chat completions constraints embeddings plan sessions tokenize tools"))
        handle = try checked(strata_open(model, try written(options)))
    }

    deinit {
        strata_model_free(handle)
    }

    /// What a model would take in bytes, without loading it.
    public static func plan(_ model: String, options: Json = [:]) throws -> Json {
        try parsed(taken(strata_plan(model, try written(options)))) as? Json ?? [:]
    }

    /// What the library can do, by name.
    public static var features: [String] {
        String(cString: strata_features()).split(separator: " ").map(String.init)
    }

    /// Asks what `strata serve` is asked at a path; no body is a GET.
    public func request(_ path: String, _ body: Json? = nil) throws -> JsonStream {
        let json = try body.map { try written($0) }
        return try JsonStream(strata_request(handle, path, json))
    }

    func chatTools(_ body: Json) throws -> JsonStream {
        try JsonStream(strata_chat_tools(handle, try written(body)))
    }

    /// Asks for an answer to a message.
    public func chat(_ message: String, tools: [Tool] = [], schema: Json? = nil, adapters: [Int: Double]? = nil, fields: Json = [:]) -> Answer {
        chat([["role": "user", "content": message]], tools: tools, schema: schema, adapters: adapters, fields: fields)
    }

    /// Asks for the next message of a conversation. The fields are those of /v1/chat/completions.
    public func chat(_ messages: [Json], tools: [Tool] = [], schema: Json? = nil, adapters: [Int: Double]? = nil, fields: Json = [:]) -> Answer {
        var body: Json = ["stream": true, "messages": messages]
        if !tools.isEmpty { body["tools"] = tools.map { $0.document } }
        if let schema = schema {
            let form: Json = ["name": "answer", "schema": schema, "strict": true]
            body["response_format"] = ["type": "json_schema", "json_schema": form]
        }
        if let adapters = adapters { body["lora"] = Model.loras(adapters) }
        body.merge(fields) { $1 }
        let asked = body
        return Answer(tools: tools) {
            tools.isEmpty ? try self.request("/v1/chat/completions", asked) : try self.chatTools(asked)
        }
    }

    /// Continues a text as it is. The fields are those of /v1/completions.
    public func complete(_ prompt: String, adapters: [Int: Double]? = nil, fields: Json = [:]) -> Answer {
        var body: Json = ["stream": true, "prompt": prompt]
        if let adapters = adapters { body["lora"] = Model.loras(adapters) }
        body.merge(fields) { $1 }
        let asked = body
        return Answer { try self.request("/v1/completions", asked) }
    }

    /// A vector of length 1 for each text.
    public func embed(_ texts: [String]) throws -> [[Float]] {
        let stream = try request("/v1/embeddings", ["input": texts, "encoding_format": "base64"])
        let data = try stream.next()?["data"] as? [Json] ?? []
        return data.map { one in
            let packed = Data(base64Encoded: one["embedding"] as? String ?? "") ?? Data()
            return packed.withUnsafeBytes { bytes in
                stride(from: 0, to: bytes.count, by: 4).map { place in
                    let bits = bytes.loadUnaligned32(at: place)
                    return Float(bitPattern: UInt32(littleEndian: bits))
                }
            }
        }
    }

    /// What is said in an audio file, with a model for speech. The fields are those of /v1/audio/transcriptions.
    public func transcribe(_ file: String, fields: Json = [:]) throws -> Json {
        let stream = try request("/v1/audio/transcriptions", fields.merging(["file": file]) { $1 })
        return try stream.next() ?? [:]
    }

    /// The tokens of a text, with those that the model wants around one.
    public func tokenize(_ text: String) throws -> [UInt32] {
        var count = 0
        let tokens = try checked(strata_tokenize(handle, text, text.utf8.count, &count))
        defer { strata_tokens_free(tokens, count) }
        return Array(UnsafeBufferPointer(start: tokens, count: count))
    }

    /// The text of tokens.
    public func detokenize(_ tokens: [UInt32]) throws -> String {
        try taken(strata_detokenize(handle, tokens, tokens.count))
    }

    /// What is known of the model.
    public func info() throws -> Json {
        try parsed(taken(strata_model_info(handle))) as? Json ?? [:]
    }

    /// The adapters that it was opened with: id, path and scale.
    public func adapters() throws -> [Json] {
        try parsed(taken(strata_adapters(handle))) as? [Json] ?? []
    }

    /// Sets the strength of adapters for requests that name none; those that are not listed are left out.
    public func setAdapters(_ scales: [Int: Double]) throws {
        try succeeded(strata_adapters_set(handle, try written(Model.loras(scales))))
    }

    /// An empty session.
    public func session() throws -> Session {
        Session(try checked(strata_session_new(handle)))
    }

    /// A session that was saved, perhaps by another process.
    public func restore(_ saved: [UInt8]) throws -> Session {
        Session(try checked(strata_session_restore(handle, saved, saved.count)))
    }

    static func loras(_ scales: [Int: Double]) -> [Json] {
        scales.map { ["id": $0.key, "scale": $0.value] }
    }
}

extension UnsafeRawBufferPointer {
    /// Four bytes as they lie, wherever they do.
    fileprivate func loadUnaligned32(at place: Int) -> UInt32 {
        var bits: UInt32 = 0
        withUnsafeMutableBytes(of: &bits) { $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: self[place..<place + 4])) }
        return bits
    }
}

/// A text that grows over many requests.
public final class Session: @unchecked Sendable {
    private let handle: OpaquePointer

    init(_ given: OpaquePointer) {
        handle = given
    }

    deinit {
        strata_session_free(handle)
    }

    /// Appends to the text. Control tokens in it are read as such.
    public func append(_ text: String) throws {
        try succeeded(strata_session_append(handle, text))
    }

    /// Holds all later runs, and those of forks, to constraints: deadline_ms, first_token_ms, token_ms, memory in bytes, a
    /// format (response_format, guided_regex, guided_choice, grammar), never_to_disk, never_off_machine.
    public func constrain(_ constraints: Json) throws {
        try succeeded(strata_session_constrain(handle, try written(constraints)))
    }

    /// Continues the text. The fields are those of /v1/completions.
    public func run(_ fields: Json = [:]) -> Answer {
        let body = fields.merging(["stream": true]) { given, _ in given }
        return Answer { try JsonStream(strata_session_run(self.handle, try written(body))) }
    }

    /// The text so far.
    public func text() throws -> String {
        try taken(strata_session_text(handle))
    }

    /// Another session with the same text; both share what was computed of it.
    public func fork() throws -> Session {
        Session(try checked(strata_session_fork(handle)))
    }

    /// The session as bytes, for `Model.restore`.
    public func save() throws -> [UInt8] {
        var count = 0
        let bytes = try checked(strata_session_save(handle, &count))
        defer { strata_bytes_free(bytes, count) }
        return Array(UnsafeBufferPointer(start: bytes, count: count))
    }
}
