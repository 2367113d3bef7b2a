//! One request gives the same bytes through the library, `strata run` and the dialects of `strata serve`.

mod asked;
mod defaults;
mod door;
#[path = "../program/mod.rs"]
mod program;

use asked::{Asked, Input, Said};
use door::Doors;
use program::server::{Server, TestFolder};
use program::{Edit, Scratch, strata, tale};
use serde_json::{Value, json};
use strata::{Model, Options};
use strata_weights::Value as Metadata;

/// Positions of each model's context.
const CONTEXT: usize = 512;

/// Opens a thinking block where the request asks for one.
const THINKER: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                       <|im_start|>assistant\n{% if enable_thinking %}<think>\n{% endif %}";

fn rows() -> Vec<Asked> {
    let tale = || Asked::new("tale", Input::chat(None, "Tell me a story about a fox."));
    let thinker = |thinks| Asked {
        thinks: Some(thinks),
        ..Asked::new("thinker", Input::chat(None, "Who are you?"))
    };
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": false,
    });
    let tool = json!({
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 8}},
            "required": ["city"],
            "additionalProperties": false,
        },
    });
    let history: Vec<(&'static str, String)> = (0..24)
        .flat_map(|i| {
            let question = format!("Tell me story number {i} about a fox and a hill.");
            let answer = format!("Story {i}: the fox ran up the hill and came back home.");
            [("user", question), ("assistant", answer)]
        })
        .chain([("user", "Tell me one more.".into())])
        .collect();
    vec![
        tale(),
        Asked {
            seed: Some(7),
            ..tale()
        },
        Asked::new("tale", Input::raw("Once upon a time")),
        // A story's opening, which the template lets the answer continue.
        Asked::new("tale", Input::chat(None, "Once upon a time")),
        Asked {
            seed: Some(11),
            ..Asked::new("tale", Input::raw("<|im_start|>user\nHello<|im_end|>\n"))
        },
        Asked::new(
            "tale",
            Input::chat(Some("Answer in one word."), "What color is the sky?"),
        ),
        Asked {
            schema: Some(schema.clone()),
            max_tokens: 48,
            ..tale()
        },
        thinker(false),
        thinker(true),
        Asked {
            // A form does not begin within what the model thinks.
            schema: Some(schema),
            max_tokens: 48,
            ..thinker(true)
        },
        Asked {
            tool: Some(tool.clone()),
            ..tale()
        },
        Asked {
            tool: Some(tool),
            must_call: true,
            max_tokens: 64,
            ..tale()
        },
        Asked {
            truncates: true,
            ..Asked::new("tale", Input::Chat(history))
        },
    ]
}

#[test]
fn a_request_gets_the_same_answer_through_every_door() {
    let folder = TestFolder::new("doors");
    let bytes = std::fs::read(tale()).expect("the built-in model is here");
    let thinker = Edit::new(&bytes).set("tokenizer.chat_template", Metadata::Str(THINKER));
    let path = folder.path().join("thinker.gguf");
    std::fs::write(&path, thinker.write()).expect("the file can be written");
    let path = path.to_str().expect("paths of tests are text");
    let doors = Doors::new(&folder, &[("tale", "tale"), ("thinker", path)]);
    let mut called = 0;
    for asked in rows() {
        let expected = doors.library(&asked);
        called += usize::from(!expected.calls.is_empty());
        let others = doors.others(&asked);
        assert!(others.len() >= 2, "{asked:?}");
        for (door, said) in others {
            let expected = Said {
                // The terminal is shown thinking in a way of its own, and was told not to.
                thinking: match door {
                    "run" => String::new(),
                    _ => expected.thinking.clone(),
                },
                ..expected.clone()
            };
            assert_eq!(said, expected, "{door}: {asked:?}");
        }
    }
    assert!(called > 0, "no tool was called");
}

/// The numbers of JSON as they were before they were printed.
fn numbers(value: &Value) -> Vec<f32> {
    let numbers = value.as_array().expect("a list").iter();
    numbers
        .map(|x| x.to_string().parse().expect("a number"))
        .collect()
}

#[test]
fn a_text_has_the_same_vector_through_every_door() {
    const TEXTS: [&str; 3] = ["the cat sat", "x", "and then it slept a while"];
    let bert = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../model/tests/golden_states/nomic-bert.gguf"
    );
    let folder = TestFolder::new("vectors");
    let server = Server::start(&folder.store(), &["tale", bert]);
    for (name, path) in [("tale", "tale"), ("nomic-bert", bert)] {
        let model = Model::open(path, Options::default()).expect("it opens");
        let expected = model.embed(TEXTS).expect("it embeds");
        let printed = strata(&[&["embed", path], &TEXTS[..]].concat()).text();
        let printed: Vec<Vec<f32>> = printed
            .lines()
            .map(|line| line.split(' ').map(|x| x.parse().unwrap()).collect())
            .collect();
        assert_eq!(printed, expected, "{name}");
        let request = json!({"model": name, "input": TEXTS});
        let openai = server.post("/v1/embeddings", &request);
        let rows = openai["data"].as_array().expect("a list").iter();
        let rows: Vec<Vec<f32>> = rows.map(|row| numbers(&row["embedding"])).collect();
        assert_eq!(rows, expected, "{name}");
        let ollama = server.post("/api/embed", &request);
        let rows = ollama["embeddings"].as_array().expect("a list").iter();
        let rows: Vec<Vec<f32>> = rows.map(numbers).collect();
        assert_eq!(rows, expected, "{name}");
    }
}

/// A file of a schema for the command line.
fn schema_file(schema: &Value) -> Scratch {
    Scratch::new("schema.json", schema.to_string().as_bytes())
}
