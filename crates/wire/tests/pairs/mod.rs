//! Recorded pairs: a request, what the engine is told to answer, and the bytes that the client gets.
//!
//! Each file under `tests/<dialect>/pairs` is one object: `method`, `path`, `request`, the name of a `script` of
//! events, and then `status` and either `response`, one document, or `stream`, the events. With `RECORD=1` the last are
//! written anew, to be read before they are committed.

pub(crate) mod mutants;
mod scripts;

pub(crate) use scripts::script;

use std::path::Path;
use std::time::Duration;
use strata_chat::json::Json;
use strata_chat::{
    AdapterFacts, Capability, Embeddings, Event, Fault, LoadedModel, ModelFacts, Progress, Ranking,
    RenderedPrompt, Slot, SlotOutcome, Timings, TokenPiece, Tokenized, TokenizerFacts,
};
use strata_wire::call::{Call, ProgressWriter, Recall, Step};
use strata_wire::dialect::HttpRequest;
use strata_wire::{Dialect, Framing, Reply, Stamp};

/// A dialect under test.
pub(crate) struct Tested {
    /// Where its pairs are.
    pub(crate) folder: &'static str,
    pub(crate) dialect: &'static Dialect,
}

fn stamp() -> Stamp {
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

impl Tested {
    /// Reads a request; `None` if the path is not one of the dialect's.
    pub(crate) fn open(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Option<Result<Call, Fault>> {
        self.recall(method, target, body, &mut ())
    }

    /// The same where answers are kept.
    pub(crate) fn recall(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
        recall: &mut dyn Recall,
    ) -> Option<Result<Call, Fault>> {
        let request = HttpRequest {
            method,
            target,
            body,
            anthropic: false,
        };
        self.dialect.open(&request, &stamp(), recall)
    }

    /// A fault as clients get it.
    pub(crate) fn fault(&self, fault: &Fault) -> Reply {
        self.dialect.fault(fault, &stamp())
    }

    /// Runs a request against a script.
    pub(crate) fn run(&self, method: &str, path: &str, body: &[u8], script: &[Event]) -> Got {
        let opened = self
            .open(method, path, body)
            .expect("a path of this dialect");
        let reply = match opened {
            Err(fault) => self.fault(&fault),
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
                context: 512,
                ..RenderedPrompt::default()
            }),
            Ok(Call::RenderEach(request, write)) => {
                let prompts = request.prompts.iter().map(|_| RenderedPrompt {
                    text: "Hi".into(),
                    tokens: [1, 2].into(),
                    context: 512,
                    ..RenderedPrompt::default()
                });
                write(&prompts.collect())
            }
            Ok(Call::Embed(request, write)) => write(&Embeddings {
                rows: request
                    .inputs
                    .iter()
                    .map(|_| [[0.5, -0.1].into()].into())
                    .collect(),
                model: request.model.clone(),
                tokens: 7,
                timings: Timings::default(),
            }),
            Ok(Call::Rerank(request, write)) => write(&Ranking {
                scores: [0.25, 0.75, 0.5].into(),
                model: request.model.clone(),
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
            .join(self.folder);
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
        if got.stream {
            seen.push("stream", Json::array(events(&got.body)));
        } else if got.body.is_empty() {
            seen.push("response", Json::Null);
        } else {
            seen.push("response", Json::parse(&got.body).unwrap());
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
        Call::Tokenize(_, write) => write(&Tokenized {
            pieces: [(5, &b"Hi"[..]), (6, &[0xf0, 0x9f])]
                .map(|(token, bytes)| TokenPiece {
                    token,
                    bytes: bytes.into(),
                })
                .into(),
            context: 2048,
        }),
        Call::Tokenizer(write) => write(&TokenizerFacts {
            bos: Some("<s>".into()),
            eos: Some("</s>".into()),
            adds_bos: true,
            vocabulary: 512,
            context: 2048,
            ..TokenizerFacts::default()
        }),
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
