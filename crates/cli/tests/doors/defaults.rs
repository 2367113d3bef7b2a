//! A request that leaves sampling open gets the same bytes through every door: by the model's own settings, else by ours.

use crate::program::server::{Server, TestFolder};
use crate::program::{Edit, tale};
use serde_json::{Value, json};
use std::path::Path;
use strata::{Model, Options, user};
use strata_weights::Value as Metadata;

const QUESTION: &str = "Tell me a story about a fox.";
const TOKENS: usize = 24;
const SEED: u64 = 42;

/// A model and the doors to it.
struct Doors<'p> {
    folder: &'p TestFolder,
    server: &'p Server,
    model: &'p str,
    /// What `strata run` and the library open.
    path: &'p str,
    /// Given with each request, where the model does not bring one of its own.
    seed: Option<u64>,
}

impl Doors<'_> {
    /// The fields of an object, with the seed where there is one.
    fn seeded(&self, mut fields: Value) -> Value {
        if let Some(seed) = self.seed {
            fields["seed"] = seed.into();
        }
        fields
    }

    fn run(&self) -> String {
        let (tokens, seed) = (TOKENS.to_string(), self.seed.map(|seed| seed.to_string()));
        let mut words = vec!["run", self.path, QUESTION, "-n", &tokens, "--ctx", "512"];
        words.extend(seed.iter().flat_map(|seed| ["--seed", seed]));
        let printed = self.folder.strata(&words, "").text();
        printed.trim_end_matches('\n').to_owned()
    }

    fn library(&self) -> String {
        let options = Options::default().context(512).threads(2);
        let model = Model::open(self.path, options).expect("the model opens");
        let mut request = model.chat([user(QUESTION)]).max_tokens(TOKENS);
        if let Some(seed) = self.seed {
            request = request.seed(seed);
        }
        request.text().expect("an answer")
    }

    fn post(&self, path: &str, fields: Value) -> Value {
        let mut body = json!({"model": self.model, "stream": false});
        for (name, value) in fields.as_object().expect("an object") {
            body[name] = value.clone();
        }
        self.server.post(path, &body)
    }

    /// The page streams; its parameters are empty fields, which it leaves out, but for what a person filled in.
    fn page(&self, messages: &Value) -> String {
        let body = self.seeded(json!({
            "model": self.model, "messages": messages, "max_tokens": TOKENS,
            "stream": true, "stream_options": {"include_usage": true},
        }));
        let (status, answer) =
            self.server
                .ask("POST", "/v1/chat/completions", body.to_string().as_bytes());
        assert_eq!(status, 200);
        let answer = String::from_utf8(answer).expect("a text");
        let chunks = answer
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        let chunks = chunks.filter_map(|chunk| serde_json::from_str::<Value>(chunk).ok());
        chunks
            .filter_map(|chunk| Some(chunk["choices"][0]["delta"]["content"].as_str()?.to_owned()))
            .collect()
    }

    /// What each door says.
    fn answers(&self) -> Vec<(&'static str, String)> {
        let messages = json!([{"role": "user", "content": QUESTION}]);
        let chat = self.seeded(json!({"messages": messages, "max_tokens": TOKENS}));
        let options = self.seeded(json!({"num_predict": TOKENS}));
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let openai = self.post("/v1/chat/completions", chat);
        let ollama = self.post(
            "/api/chat",
            json!({"messages": messages, "options": options}),
        );
        let generate = self.post(
            "/api/generate",
            json!({"prompt": QUESTION, "options": options}),
        );
        let mut answers = vec![
            ("run", self.run()),
            (
                "/v1/chat/completions",
                text(&openai["choices"][0]["message"]["content"]),
            ),
            ("/api/chat", text(&ollama["message"]["content"])),
            ("/api/generate", text(&generate["response"])),
            ("page", self.page(&messages)),
        ];
        if self.seed.is_some() {
            answers.push(("library", self.library()));
        } else {
            // These dialects have no seed.
            let fields = json!({"messages": messages, "max_tokens": TOKENS});
            let anthropic = self.post("/v1/messages", fields);
            answers.push(("/v1/messages", text(&anthropic["content"][0]["text"])));
            let fields = json!({"input": QUESTION, "max_output_tokens": TOKENS});
            let responses = self.post("/v1/responses", fields);
            let said = text(&responses["output"][0]["content"][0]["text"]);
            answers.push(("/v1/responses", said));
        }
        answers
    }

    /// What all doors say.
    #[track_caller]
    fn answer(&self) -> String {
        let mut answers = self.answers().into_iter();
        let (_, expected) = answers.next().expect("a door");
        for (door, answer) in answers {
            assert_eq!(answer, expected, "{}: {door}", self.model);
        }
        expected
    }
}

/// How a text goes on through the doors that take one as it is.
#[track_caller]
fn continued(folder: &TestFolder, server: &Server) -> String {
    let prompt = "Once upon a time";
    let (tokens, seed) = (TOKENS.to_string(), SEED.to_string());
    let words = [
        "run", "tale", "--raw", prompt, "-n", &tokens, "--seed", &seed,
    ];
    let expected = folder.strata(&words, "").text();
    let expected = expected.trim_end_matches('\n').to_owned();
    let ask = |path: &str, fields: Value| {
        let body = json!({"model": "tale", "prompt": prompt, "stream": false, "seed": SEED});
        let mut body = body;
        for (name, value) in fields.as_object().expect("an object") {
            body[name] = value.clone();
        }
        server.post(path, &body)
    };
    let openai = ask("/v1/completions", json!({"max_tokens": TOKENS}));
    assert_eq!(openai["choices"][0]["text"], expected, "/v1/completions");
    let native = ask("/completion", json!({"n_predict": TOKENS}));
    assert_eq!(native["content"], expected, "/completion");
    let body = json!({
        "model": "tale", "prompt": prompt, "raw": true, "stream": false,
        "options": {"seed": SEED, "num_predict": TOKENS},
    });
    assert_eq!(
        server.post("/api/generate", &body)["response"],
        expected,
        "/api/generate"
    );
    expected
}

/// The built-in model with these sampling settings in its metadata instead of its own.
fn recommending(
    folder: &Path,
    name: &str,
    settings: &[(&'static str, Metadata<'static>)],
) -> String {
    let bytes = std::fs::read(tale()).expect("the built-in model is here");
    let mut edited = Edit::new(&bytes);
    let own = |key: &str| key.starts_with("general.sampling.");
    edited.metadata.retain(|(key, _)| !own(key));
    edited.metadata.extend_from_slice(settings);
    let path = folder.join(format!("{name}.gguf"));
    std::fs::write(&path, edited.write()).expect("the file can be written");
    path.to_str().expect("paths of tests are text").to_owned()
}

#[test]
fn what_a_request_leaves_open_is_the_same_through_every_door() {
    let folder = TestFolder::new("defaults");
    let settings = [
        ("general.sampling.temp", Metadata::F32(1.7)),
        ("general.sampling.top_k", Metadata::I32(7)),
        ("general.sampling.min_p", Metadata::F32(0.0)),
    ];
    let plain = recommending(folder.path(), "plain", &[]);
    let recommending = recommending(folder.path(), "recommending", &settings);
    let modelfile = format!("FROM {plain}\nPARAMETER seed {SEED}\nPARAMETER temperature 1.2\n");
    folder.create("seeded", &modelfile);
    let server = Server::start(&folder.store(), &["tale", &plain, &recommending]);
    let doors = |model, path, seed| Doors {
        folder: &folder,
        server: &server,
        model,
        path,
        seed,
    };
    let ours = doors("plain", &plain, Some(SEED)).answer();
    // The built-in model has settings of its own.
    assert_ne!(ours, doors("tale", "tale", Some(SEED)).answer());
    let of_file = doors("recommending", &recommending, Some(SEED)).answer();
    let of_modelfile = doors("seeded", "seeded", None).answer();
    assert_ne!(ours, of_file);
    assert_ne!(ours, of_modelfile);
    assert!(continued(&folder, &server).len() > 20);

    let props = |model: &str| {
        let (_, body) = server.ask("GET", &format!("/props?model={model}"), b"");
        let props: Value = serde_json::from_slice(&body).expect("JSON");
        props["default_generation_settings"]["params"].clone()
    };
    let near = |value: &Value, want: f64| (value.as_f64().expect("a number") - want).abs() < 1e-6;
    let (plain, own) = (props("plain"), props("recommending"));
    assert!(
        near(&plain["temperature"], 0.8) && near(&plain["min_p"], 0.05),
        "{plain}"
    );
    assert!(
        near(&own["temperature"], 1.7) && near(&own["top_p"], 0.95),
        "{own}"
    );
    assert_eq!((&plain["top_k"], &own["top_k"]), (&json!(40), &json!(7)));
}
