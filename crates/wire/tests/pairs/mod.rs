//! Recorded pairs: a request, what the engine is told to answer, and the bytes that the client gets.
//!
//! Each file under `tests/<dialect>/pairs` is one object: `method`, `path`, `request`, the name of a `script` of
//! events, and then `status` and either `response`, one document, or `stream`, the events. With `RECORD=1` the last are
//! written anew, to be read before they are committed.

pub(crate) mod mutants;

use std::path::Path;
use std::time::Duration;
use strata_chat::json::Json;
use strata_chat::{
    AdapterFacts, CallPart, Capability, Embeddings, Event, Fault, FaultKind, Finish, LoadedModel,
    ModelFacts, Progress, Ranking, RenderedPrompt, Slot, SlotOutcome, Timings, TokenLogprob,
    TokenLogprobs, TokenPiece, ToolCall, Usage,
};
use strata_wire::call::{Call, ProgressWriter, Step};
use strata_wire::{Framing, Reply, Stamp};

/// Opens a request in the dialect under test.
pub(crate) type Open = fn(&str, &str, &[u8], &Stamp) -> Option<Result<Call, Fault>>;

/// A dialect under test.
pub(crate) struct Dialect {
    /// Where its pairs are.
    pub(crate) name: &'static str,
    pub(crate) open: Open,
    pub(crate) fault: fn(&Fault) -> Reply,
}

pub(crate) fn stamp() -> Stamp {
    Stamp {
        id: "0123abcd".into(),
        unix_seconds: 1_760_000_000,
        nanoseconds: 500_000_000,
    }
}

/// What the client gets: the status, and the body's events or document.
#[derive(Debug, PartialEq)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) stream: bool,
}

impl Dialect {
    /// Runs a request against a script.
    pub(crate) fn run(&self, method: &str, path: &str, body: &[u8], script: &[Event]) -> Got {
        let opened = (self.open)(method, path, body, &stamp()).expect("a path of this dialect");
        let reply = match opened {
            Err(fault) => (self.fault)(&fault),
            Ok(Call::Generate(_, mut answer)) => {
                let mut body = Vec::new();
                for event in script {
                    match event {
                        Event::Failed(fault) if body.is_empty() => {
                            return got(answer.fault(fault));
                        }
                        event => answer.event(event, &mut body),
                    }
                }
                let stream = answer.framing() != Framing::Whole;
                return Got {
                    status: 200,
                    body,
                    stream,
                };
            }
            Ok(Call::Render(_, write)) => write(&RenderedPrompt {
                text: "<user>Hi".into(),
                tokens: [1, 2, 3].into(),
            }),
            Ok(Call::Embed(request, write)) => write(&Embeddings {
                rows: request
                    .inputs
                    .iter()
                    .map(|_| [[0.5, -0.1].into()].into())
                    .collect(),
                tokens: 7,
                timings: Timings::default(),
            }),
            Ok(Call::Rerank(_, write)) => write(&Ranking {
                scores: [0.25, 0.75, 0.5].into(),
                tokens: 12,
            }),
            Ok(Call::Models(write)) => write(&[facts("tale:latest")].into()),
            Ok(Call::Model(name, write)) => write(&facts(&name.unwrap_or("tale:latest".into()))),
            Ok(Call::ModelInFull(name, write)) => write(&facts(&name)),
            Ok(Call::Pull(_, report) | Call::Push(_, report) | Call::Create(_, report)) => {
                return reported(report);
            }
            Ok(call) => small(call),
        };
        got(reply)
    }

    /// Checks all pairs, or records them.
    pub(crate) fn check_pairs(&self) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests")
            .join(self.name);
        let mut files: Vec<_> = std::fs::read_dir(folder.join("pairs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty());
        for file in files {
            self.check_pair(&file);
        }
    }

    fn check_pair(&self, file: &Path) {
        let pair = Json::parse(&std::fs::read(file).unwrap()).unwrap();
        let word = |key: &str| pair.get(key).and_then(Json::as_str).unwrap_or("");
        let request = match pair.get("request") {
            Some(request) => request.text().into_bytes(),
            None => Vec::new(),
        };
        let got = self.run(
            word("method"),
            word("path"),
            &request,
            &script(word("script")),
        );
        let mut seen = Json::Object(Vec::new());
        for key in ["method", "path", "request", "script"] {
            if let Some(value) = pair.get(key) {
                seen.push(key, value.clone());
            }
        }
        seen.push("status", u32::from(got.status));
        match got.stream {
            true => seen.push("stream", Json::array(events(&got.body))),
            false if got.body.is_empty() => seen.push("response", Json::Null),
            false => seen.push("response", Json::parse(&got.body).unwrap()),
        }
        // A new version changes nothing else.
        let version = concat!("strata-", env!("CARGO_PKG_VERSION"));
        let seen = lines(&seen).replace(version, "strata-VERSION");
        if std::env::var_os("RECORD").is_some() {
            return std::fs::write(file, seen).unwrap();
        }
        assert_eq!(seen, lines(&pair), "{}", file.display());
    }
}

fn got(reply: Reply) -> Got {
    Got {
        status: reply.status,
        body: reply.body,
        stream: false,
    }
}

/// Work of the store, as it goes on.
fn reported(mut report: Box<dyn ProgressWriter>) -> Got {
    let mut body = Vec::new();
    for step in [
        Step::Progress(Progress {
            status: "pulling manifest".into(),
            ..Progress::default()
        }),
        Step::Progress(Progress {
            status: "pulling 0123".into(),
            digest: Some("sha256:0123".into()),
            total: Some(1000),
            completed: Some(500),
        }),
        Step::Done,
    ] {
        report.step(&step, &mut body);
    }
    Got {
        status: 200,
        body,
        stream: report.framing() != Framing::Whole,
    }
}

/// Calls that are answered with little.
fn small(call: Call) -> Reply {
    let (time, timings) = (Duration::from_millis(5), Timings::default());
    match call {
        Call::Load(_, write) => write(&timings),
        Call::Loaded(write) => write(
            &[Some(1_760_000_300), None]
                .map(|expires| LoadedModel {
                    facts: facts("tale:latest"),
                    bytes: 2000,
                    expires,
                })
                .into(),
        ),
        Call::Copy(_, write) => write(&()),
        Call::Delete(_, write) => write(&()),
        Call::BlobExists(_, write) => write(&true),
        Call::BlobUpload(_, write) => write(&()),
        Call::Tokenize(_, write) => write(
            &[(5, &b"Hi"[..]), (6, &[0xf0, 0x9f])]
                .map(|(token, bytes)| TokenPiece {
                    token,
                    bytes: bytes.into(),
                })
                .into(),
        ),
        Call::Detokenize(_, write) => write(&"Hi 😀".into()),
        Call::Slots(write) => write(
            &[Slot {
                id: 0,
                busy: true,
                prompt_tokens: 10,
                generated_tokens: 5,
                context: 2048,
            }]
            .into(),
        ),
        Call::SlotAction(_, write) => write(&SlotOutcome {
            tokens: 15,
            bytes: 4096,
            timings: Timings {
                total: time,
                ..timings
            },
        }),
        Call::Adapters(write) => write(
            &[AdapterFacts {
                id: 0,
                path: "a.gguf".into(),
                scale: 0.5,
            }]
            .into(),
        ),
        Call::ScaleAdapters(_, write) => write(&()),
        Call::Reply(reply) => reply,
        _ => panic!("a call that no script answers"),
    }
}

/// A field a line, and an item a line where there are many.
fn lines(pair: &Json) -> String {
    let fields = pair.as_object().unwrap().iter().map(|(key, value)| {
        let value = match value {
            Json::Array(items) => {
                let items: Vec<_> = items.iter().map(Json::text).collect();
                format!("[\n  {}\n ]", items.join(",\n  "))
            }
            other => other.text(),
        };
        format!(" {}: {value}", Json::from(key.as_str()))
    });
    format!("{{\n{}\n}}\n", fields.collect::<Vec<_>>().join(",\n"))
}

/// The events of a stream: `{"event", "data"}`, or the text of data that is not JSON; or the documents of its lines.
pub(crate) fn events(body: &[u8]) -> Vec<Json> {
    let text = std::str::from_utf8(body).unwrap();
    if text.starts_with('{') {
        assert!(text.ends_with('\n'), "the last line is complete");
        let lines = text.lines().map(|line| Json::parse(line.as_bytes()));
        return lines.collect::<Result<_, _>>().unwrap();
    }
    assert!(text.ends_with("\n\n"), "the last event is complete");
    let blocks = text.trim_end_matches('\n').split("\n\n");
    blocks
        .map(|block| {
            let (name, data) = match block.strip_prefix("event: ") {
                Some(rest) => rest.split_once('\n').unwrap(),
                None => ("", block),
            };
            let data = data.strip_prefix("data: ").unwrap();
            assert!(!data.contains('\n'));
            let data = Json::parse(data.as_bytes()).unwrap_or_else(|_| data.into());
            match name {
                "" => data,
                name => Json::object([("event", name.into()), ("data", data)]),
            }
        })
        .collect()
}

fn facts(name: &str) -> ModelFacts {
    ModelFacts {
        name: name.into(),
        bytes: 1000,
        modified: 1_750_000_000,
        digest: "00ff".into(),
        family: "llama".into(),
        quantization: "Q8_0".into(),
        parameters: 42,
        trained_context: 4096,
        context: 2048,
        embedding: 64,
        vocabulary: 512,
        template: Some("{{ messages }}".into()),
        system: Some("Be brief.".into()),
        messages: Vec::new(),
        settings: [
            ("temperature".into(), 0.6.into()),
            ("stop".into(), Json::array(["a".into(), "b".into()])),
        ]
        .into(),
        licenses: ["MIT".into(), "Apache-2.0".into()].into(),
        modelfile: "FROM tale".into(),
        capabilities: [Capability::Completion, Capability::Tools].into(),
        metadata: [
            ("general.architecture".into(), "llama".into()),
            ("tokenizer.ggml.tokens".into(), Json::Null),
        ]
        .into(),
        tensors: [("output.weight".into(), "Q8_0".into(), [64, 512].into())].into(),
        path: Some("tale.gguf".into()),
        slots: 4,
    }
}

pub(crate) fn text(choice: usize, text: &str) -> Event {
    let text = text.into();
    Event::Text { choice, text }
}

fn finished(choice: usize, reason: Finish) -> Event {
    Event::Finished { choice, reason }
}

fn done() -> Event {
    Event::Done {
        usage: Usage {
            prompt_tokens: 10,
            cached_tokens: 4,
            generated_tokens: 5,
            thinking_tokens: 2,
            drafted_tokens: 3,
            accepted_tokens: 1,
        },
        timings: Timings {
            total: Duration::from_millis(300),
            load: Duration::ZERO,
            prompt: Duration::from_millis(100),
            generate: Duration::from_millis(200),
        },
    }
}

fn call(index: usize, part: CallPart) -> Event {
    let choice = 0;
    Event::Call {
        choice,
        index,
        part,
    }
}

fn token(choice: usize, token: u32, bytes: &[u8], logprob: f32) -> Event {
    let one = |token, bytes: &[u8], logprob| TokenLogprob {
        token,
        bytes: bytes.into(),
        logprob,
    };
    Event::Token {
        choice,
        token,
        logprobs: Some(TokenLogprobs {
            chosen: one(token, bytes, logprob),
            top: [one(token, bytes, logprob), one(9, b"x", f32::NEG_INFINITY)].into(),
        }),
    }
}

fn told_prompt(prompt: usize, text: &str, tokens: u32) -> Event {
    Event::Prompt {
        prompt,
        text: text.into(),
        tokens: (1..=tokens).collect(),
    }
}

fn plain_token(choice: usize, token: u32) -> Event {
    Event::Token {
        choice,
        token,
        logprobs: None,
    }
}

fn tool_calls() -> Vec<Event> {
    let whole = |id: &str, arguments: &[u8]| ToolCall {
        id: id.into(),
        name: "weather".into(),
        arguments: Json::parse(arguments).unwrap(),
    };
    let begin = |id: &str| CallPart::Begin {
        id: id.into(),
        name: "weather".into(),
    };
    let piece = |text: &str| CallPart::Arguments(text.into());
    let first = whole("call_1", "{\"city\": \"東京\"}".as_bytes());
    [
        text(0, "Let me look. "),
        call(0, begin("call_1")),
        call(0, piece("{\"city\": ")),
        call(0, piece("\"東京\"}")),
        call(0, CallPart::End(first)),
        call(1, begin("call_2")),
        call(1, CallPart::End(whole("call_2", b"{}"))),
        finished(0, Finish::ToolCalls),
        done(),
    ]
    .into()
}

/// What the engine answers.
pub(crate) fn script(name: &str) -> Vec<Event> {
    let started = Event::Started {
        prompt_tokens: 10,
        cached_tokens: 4,
    };
    let thought = |text: &str| Event::Thinking {
        choice: 0,
        text: text.into(),
    };
    let overloaded = Fault::new(
        FaultKind::Overloaded {
            retry_after: Duration::from_millis(1500),
        },
        "too many requests wait",
    );
    let mut events = match name {
        "" => return Vec::new(),
        "plain" => vec![
            text(0, "Grüße"),
            text(0, ", 世界"),
            text(0, " 👩‍🚀!\n"),
            finished(0, Finish::Stop),
            done(),
        ],
        "length" => vec![text(0, "Once upon"), finished(0, Finish::Length), done()],
        "stop_text" => vec![
            text(0, "one, two"),
            finished(0, Finish::StopText("three".into())),
            done(),
        ],
        "thinking" => vec![
            thought("The user "),
            thought("says 你好."),
            text(0, "Hello"),
            text(0, "!"),
            finished(0, Finish::Stop),
            done(),
        ],
        "choices" => vec![
            text(0, "a"),
            text(1, "b"),
            text(1, "b"),
            finished(1, Finish::Length),
            text(0, "a"),
            finished(0, Finish::Stop),
            done(),
        ],
        "logprobs" => vec![
            token(0, 5, b"Hi", -0.5),
            text(0, "Hi"),
            token(0, 6, &[0xf0, 0x9f], -1.0),
            token(0, 7, &[0x98, 0x80], -0.25),
            text(0, "😀"),
            token(0, 2, b"", -0.125),
            finished(0, Finish::Stop),
            done(),
        ],
        "tokens" => vec![
            told_prompt(0, "<user>Hi", 3),
            plain_token(0, 5),
            text(0, "Grüß"),
            plain_token(0, 6),
            text(0, "e\n"),
            plain_token(0, 2),
            finished(0, Finish::Stop),
            done(),
        ],
        "prompts" => vec![
            told_prompt(0, "Hi", 2),
            told_prompt(1, "你好", 3),
            plain_token(1, 7),
            text(1, "再见"),
            plain_token(0, 5),
            text(0, "Bye"),
            finished(0, Finish::Length),
            finished(1, Finish::StopText("。".into())),
            done(),
        ],
        "tools" => tool_calls(),
        "failed" => vec![text(0, "Half an"), Event::Failed(overloaded)],
        "refused" => return vec![Event::Failed(overloaded)],
        other => panic!("there is no script {other:?}"),
    };
    events.insert(0, started);
    events
}
