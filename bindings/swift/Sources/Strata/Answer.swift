import Foundation

/// A tool that a function answers.
public struct Tool {
    /// Its name.
    public let name: String
    let document: Json
    let function: (Json) throws -> Any

    /// A tool with a JSON schema of its arguments. The result is told as text, or as JSON.
    public init(_ name: String, _ description: String, parameters: Json, function: @escaping (Json) throws -> Any) {
        self.name = name
        self.function = function
        let spelt: Json = ["name": name, "description": description, "parameters": parameters, "strict": true]
        document = ["type": "function", "function": spelt]
    }

    /// Calls the function. The model is told of errors.
    func call(_ arguments: Json) -> String {
        do {
            let result = try function(arguments)
            return try result as? String ?? written(result)
        } catch {
            return "error: \(error)"
        }
    }
}

/// A call that the model makes.
public struct ToolCall {
    /// Names the call.
    public let id: String
    /// Names the tool.
    public let name: String
    /// What it is called with.
    public let arguments: Json
}

/// A piece of an answer.
public struct Event {
    /// What the model says.
    public var text = ""
    /// What it thinks.
    public var thinking = ""
    /// Tool calls, complete.
    public var calls: [ToolCall] = []
    /// The document that it came with, in OpenAI's shape.
    public var raw: Json = [:]
}

/// An answer that comes while you read it: `for try await event in answer`, or whole with `text()`. Canceling the task cancels
/// the request.
public final class Answer: AsyncSequence, @unchecked Sendable {
    public typealias Element = Event

    private let start: () throws -> JsonStream
    private let functions: [String: Tool]
    private let lock = NSLock()
    private var stream: JsonStream?
    private var canceled = false
    private var over = false
    private var said = ""
    private var open: [(id: String, name: String, arguments: String)] = []
    /// Why it ended, once it has.
    public private(set) var finishReason: String?

    init(tools: [Tool] = [], start: @escaping () throws -> JsonStream) {
        self.start = start
        functions = Dictionary(uniqueKeysWithValues: tools.map { ($0.name, $0) })
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        let answer: Answer

        public func next() async throws -> Event? {
            try await answer.read()
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(answer: self)
    }

    private func opened() throws -> JsonStream {
        lock.lock()
        defer { lock.unlock() }
        if let stream = stream { return stream }
        let begun = try start()
        if canceled { begun.cancel() }
        stream = begun
        return begun
    }

    /// The next piece that says something; nil after the last.
    private func read() async throws -> Event? {
        while !over {
            let stream = try opened()
            guard let document = try await stream.nextAsync() else {
                over = true
                return nil
            }
            if document["object"] as? String == "tool.calls" {
                return try answer(document, stream)
            }
            let event = hear(document)
            if !event.text.isEmpty || !event.thinking.isEmpty { return event }
        }
        return nil
    }

    /// Answers calls, if there are functions for all of them; else the answer is over.
    private func answer(_ document: Json, _ stream: JsonStream) throws -> Event {
        let calls = (document["calls"] as? [Json] ?? []).map { call in
            ToolCall(
                id: call["id"] as? String ?? "", name: call["name"] as? String ?? "",
                arguments: call["arguments"] as? Json ?? [:])
        }
        guard calls.allSatisfy({ functions[$0.name] != nil }) else {
            over = true
            stream.cancel()
            return Event(calls: calls, raw: document)
        }
        // What was said before its calls is no part of the answer.
        open.removeAll()
        said = ""
        for call in calls {
            try stream.toolResult(call.id, functions[call.name]!.call(call.arguments))
        }
        return Event(calls: calls, raw: document)
    }

    private func hear(_ document: Json) -> Event {
        var event = Event(raw: document)
        for choice in document["choices"] as? [Json] ?? [] where choice["index"] as? Int == 0 {
            let delta = choice["delta"] as? Json ?? [:]
            event.text += delta["content"] as? String ?? choice["text"] as? String ?? ""
            event.thinking += delta["reasoning_content"] as? String ?? ""
            for part in delta["tool_calls"] as? [Json] ?? [] {
                let function = part["function"] as? Json ?? [:]
                if let id = part["id"] as? String {
                    open.append((id, function["name"] as? String ?? "", ""))
                }
                if !open.isEmpty { open[open.count - 1].arguments += function["arguments"] as? String ?? "" }
            }
            finishReason = choice["finish_reason"] as? String ?? finishReason
        }
        said += event.text
        return event
    }

    /// The whole text.
    public func text() async throws -> String {
        while try await read() != nil {}
        return said
    }

    /// The answer as a value of a type, to whose schema it was held.
    public func parsed<T: Decodable>(_ type: T.Type) async throws -> T {
        try JSONDecoder().decode(type, from: Data(try await text().utf8))
    }

    /// The tool calls that no function has answered.
    public func calls() async throws -> [ToolCall] {
        _ = try await text()
        return try open.map { call in
            ToolCall(id: call.id, name: call.name, arguments: try Strata.parsed(call.arguments) as? Json ?? [:])
        }
    }

    /// Cancels the request, from any thread, at any time.
    public func cancel() {
        lock.lock()
        defer { lock.unlock() }
        canceled = true
        stream?.cancel()
    }
}
