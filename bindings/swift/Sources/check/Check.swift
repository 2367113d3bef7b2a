// What every binding must do, in Swift. Says `feature NAME` for each thing that it has seen work.
// What is expected is in the environment: see bindings/README.md.
import Foundation
import Strata

let environment = ProcessInfo.processInfo.environment
let asked = "Tell me a story about a fox."
let greedy: Json = ["temperature": 0, "max_tokens": 32]
let endless: Json = ["max_tokens": 2000, "ignore_eos": true]

func feature(_ name: String) {
    print("feature \(name)")
    fflush(stdout)
}

func check(_ holds: Bool, _ what: Any = "it does not hold") {
    if !holds { fatalError("\(what)") }
}

func fails(_ code: String, _ act: () async throws -> Void) async {
    do {
        try await act()
    } catch let error as StrataError {
        return check(error.code == code, error)
    } catch {
        fatalError("\(error)")
    }
    fatalError("no error \(code)")
}

struct Hero: Decodable {
    let animal: String
    let age: Int
}

func object(_ properties: Json) -> Json {
    ["type": "object", "properties": properties, "required": Array(properties.keys), "additionalProperties": false]
}

func answers(_ model: Model) async throws {
    let story = environment["STRATA_STORY"]!
    check(try await model.chat(asked, fields: greedy).text() == story)
    feature("greedy")
    var pieces: [String] = []
    for try await event in model.chat(asked, fields: greedy) { pieces.append(event.text) }
    check(pieces.joined() == story && pieces.count > 5, pieces)
    feature("stream")
}

func cancels(_ model: Model) async throws {
    let answer = model.complete("Once", fields: endless)
    DispatchQueue.global().asyncAfter(deadline: .now() + 0.05) { answer.cancel() }
    await fails("canceled") { _ = try await answer.text() }
    let prompt = String(repeating: "fox owl ", count: 900)
    for other in [model.complete("Once", fields: endless), model.complete(prompt, fields: ["max_tokens": 1])] {
        let task = Task { try await other.text() }
        try await Task.sleep(nanoseconds: 5_000_000)
        task.cancel()
        await fails("canceled") { _ = try await task.value }
    }
    feature("cancel")
}

func forms(_ model: Model) async throws {
    let schema = object(["animal": ["enum": ["fox", "owl"]], "age": ["type": "integer", "minimum": 1, "maximum": 9]])
    let hero = try await model.chat("Who?", schema: schema, fields: ["temperature": 0]).parsed(Hero.self)
    check(["fox", "owl"].contains(hero.animal) && (1...9).contains(hero.age), hero)
    feature("schema")
    var cities: [String] = []
    let weather = Tool("weather", "Tells the weather.", parameters: object(["city": ["enum": ["Bern", "Oslo"]]])) { arguments in
        cities.append(arguments["city"] as? String ?? "")
        return ["degrees": 18]
    }
    let fields: Json = ["tool_choice": "required", "temperature": 0, "max_tokens": 60]
    let told = try await model.chat("Is it warm?", tools: [weather], fields: fields).text()
    check(!told.isEmpty && ["Bern", "Oslo"].contains(cities.first ?? ""), cities)
    feature("tools")
}

func others(_ model: Model) async throws {
    let numbers = try JSONDecoder().decode([Float].self, from: Data(environment["STRATA_EMBEDDING"]!.utf8))
    check(try model.embed(["a fox and an owl", "an owl"])[0] == numbers)
    feature("embeddings")
    let session = try model.session()
    try session.append("Once upon a time")
    let fork = try session.fork()
    let few: Json = ["max_tokens": 6, "temperature": 0]
    let said = try await session.run(few).text()
    check(try session.text() == "Once upon a time" + said)
    check(try model.restore(session.save()).text() == session.text())
    check(try await fork.run(few).text() == said)
    feature("sessions")
    let held = try model.session()
    try held.append("Once upon a time")
    try held.constrain(["guided_regex": "(yes|no)", "never_to_disk": true])
    let answer = try await held.run(["temperature": 0, "max_tokens": 6]).text()
    check(answer == "yes" || answer == "no", answer)
    await fails("invalid_argument") { _ = try held.save() }
    await fails("invalid_argument") { try held.constrain(["colour": "red"]) }
    feature("constraints")
    check(try model.detokenize(model.tokenize("Once upon a time")).contains("upon a time"))
    feature("tokenize")
    check(try Model.plan("tale", options: ["context": 512])["fits"] as? Bool == true)
    feature("plan")
    await fails("not_found") { _ = try Model("nowhere.gguf") }
    await fails("out_of_memory") { _ = try Model("tale", options: ["memory": "1k"]) }
    await fails("invalid_argument") { _ = try await model.chat("a", fields: ["tempreature": 1]).text() }
    check(try model.info()["name"] as? String == "tale")
    feature("errors")
}

func adapters() async throws {
    let files = [environment["STRATA_ADAPTER_ONE"]!, environment["STRATA_ADAPTER_TWO"]!]
    let model = try Model("tale", options: ["adapters": files])
    @Sendable func ask(_ scales: [Int: Double]?) async throws -> String {
        try await model.complete("Once upon a time", adapters: scales, fields: ["temperature": 0, "max_tokens": 16]).text()
    }
    let alone = [try await ask(nil), try await ask([0: 1]), try await ask([1: 1])]
    check(Set(alone).count == 3, alone)
    async let plain = ask(nil)
    async let one = ask([0: 1])
    async let two = ask([1: 1])
    let together = [try await plain, try await one, try await two]
    check(together == alone, together)
    try model.setAdapters([1: 1])
    check(try await ask(nil) == alone[2] && model.adapters().count == 2)
    feature("adapters")
}

func written(_ value: Any?) throws -> Data {
    try JSONSerialization.data(withJSONObject: value ?? [:], options: [.sortedKeys])
}

func parsed(_ name: String) throws -> Json {
    try JSONSerialization.jsonObject(with: Data(environment[name]!.utf8)) as! Json
}

func senses() async throws {
    let sees = try Model(environment["STRATA_SEEING_MODEL"]!, options: ["projector": environment["STRATA_EYES"]!])
    let answer = try sees.request("/v1/chat/completions", parsed("STRATA_QUESTION")).next()
    let choice = (answer?["choices"] as? [Json])?.first
    check(try written(choice?["logprobs"]) == written(parsed("STRATA_SEEN")), answer as Any)
    feature("images")
    check(Model.features.contains("transcriptions"), Model.features)
    let hears = try Model(environment["STRATA_HEARING_MODEL"]!)
    let told = try hears.transcribe(environment["STRATA_SOUND"]!, fields: ["response_format": "verbose_json"])
    for (name, value) in try parsed("STRATA_HEARD") {
        check(try written([told[name]]) == written([value]), told)
    }
    check(told["text"] as? String != "", told)
    await fails("not_found") { _ = try hears.transcribe("/nowhere.wav") }
    await fails("unsupported") { _ = try await hears.chat("a").text() }
    feature("speech")
}

func resident() -> Int {
    let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? "0 0"
    return Int(text.split(separator: " ")[1])! * 4
}

/// What 64 threads share.
final class Shared: @unchecked Sendable {
    private let lock = NSLock()
    private var streams = [JsonStream?](repeating: nil, count: 64)
    private(set) var ended = 0
    private(set) var canceled = 0

    func keep(_ stream: JsonStream) {
        lock.lock()
        streams[Int.random(in: 0..<64)] = stream
        lock.unlock()
    }

    func cancelAny() {
        lock.lock()
        let stream = streams[Int.random(in: 0..<64)]
        lock.unlock()
        stream?.cancel()
    }

    func count(canceled isCanceled: Bool) {
        lock.lock()
        if isCanceled { canceled += 1 } else { ended += 1 }
        lock.unlock()
    }
}

/// 64 threads, which cancel each other's streams.
func stress() throws {
    let seconds = Double(environment["STRATA_STRESS_SECONDS"] ?? "3")!
    let model = try Model("tale", options: ["context": 64, "requests": 16])
    let end = Date().addingTimeInterval(seconds)
    let shared = Shared()
    let group = DispatchGroup()
    for _ in 0..<64 {
        group.enter()
        Thread.detachNewThread {
            while Date() < end {
                let prompt = "Once upon a time \(Int.random(in: 0..<50))"
                do {
                    let body: Json = ["prompt": prompt, "stream": true, "max_tokens": Int.random(in: 1...24)]
                    let stream = try model.request("/v1/completions", body)
                    shared.keep(stream)
                    while try stream.next() != nil {
                        if Int.random(in: 0..<16) == 0 { shared.cancelAny() }
                    }
                    shared.count(canceled: false)
                } catch {
                    check((error as? StrataError)?.code == "canceled", error)
                    shared.count(canceled: true)
                }
            }
            group.leave()
        }
    }
    Thread.sleep(forTimeInterval: seconds / 3)
    let early = resident()
    group.wait()
    let late = resident()
    let told = "\(shared.ended) ended, \(shared.canceled) canceled; \(early) kB, then \(late) kB\n"
    check(shared.ended > 0 && shared.canceled > 0 && late < early + (seconds < 10 ? 131_072 : 65_536), told)
    FileHandle.standardError.write(Data(told.utf8))
    feature("stress")
}

@main
struct Check {
    static func main() async throws {
        let model = try Model("tale")
        try await answers(model)
        try await cancels(model)
        try await forms(model)
        try await others(model)
        try await adapters()
        try await senses()
        try stress()
    }
}
