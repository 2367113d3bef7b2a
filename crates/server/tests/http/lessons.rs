//! The lessons: what they tell is what the engine computes, and they are bounded.

use crate::support::TestServer;
use strata_chat::json::Json;
use strata_server::{Access, Key};

fn numbers(list: &Json) -> Vec<f64> {
    let list = list.as_array().unwrap();
    list.iter()
        .map(|one| match one {
            Json::Float(x) => *x,
            Json::Int(x) => *x as f64,
            other => panic!("{other}"),
        })
        .collect()
}

fn get<'j>(json: &'j Json, path: &[&str]) -> &'j Json {
    path.iter().fold(json, |json, key| {
        json.get(key)
            .unwrap_or_else(|| panic!("no {key} in {json}"))
    })
}

fn list<'j>(json: &'j Json, path: &[&str]) -> &'j [Json] {
    get(json, path).as_array().unwrap()
}

const PROMPT: &str = r#""prompt":"Once upon a time""#;

#[test]
fn a_prompt_is_seen_from_inside() {
    let server = TestServer::start();
    let body = format!(
        "{{{PROMPT},\"layer\":7,\"head\":2,\"tensor\":\"blk.0.ffn_down.weight\",\"row\":3,\"temperature\":0.5,\"top_k\":5}}"
    );
    let answer = server.post("/lessons/prompt", &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let lesson = answer.json();
    let ids: Vec<f64> = list(&lesson, &["tokens"])
        .iter()
        .map(|token| match token.get("id") {
            Some(Json::Int(id)) => *id as f64,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, [2050.0, 693.0, 261.0, 550.0]);
    let rows = list(&lesson, &["attention", "rows"]);
    assert_eq!(rows.len(), 4);
    for (position, row) in rows.iter().enumerate() {
        let shares = numbers(get(row, &["shares"]));
        assert_eq!(shares.len(), position + 1);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-3);
    }
    assert_eq!(numbers(get(&lesson, &["attention", "heads"])), [8.0; 8]);
    let stages = list(&lesson, &["samplers"]);
    let names: Vec<_> = stages
        .iter()
        .map(|stage| get(stage, &["name"]).as_str().unwrap())
        .collect();
    assert_eq!(names.first(), Some(&"logits"));
    assert_eq!(names.last(), Some(&"temperature"));
    let top_k = names.iter().position(|name| *name == "top_k").unwrap();
    assert_eq!(get(&stages[top_k], &["left"]), &Json::Int(5));
    // The likeliest token is the one that is written.
    let top = get(&list(&stages[0], &["top"])[0], &["piece"]).clone();
    let said = format!("{{{PROMPT},\"n_predict\":1,\"temperature\":0}}");
    let said = server.post("/completion", &said).json();
    assert_eq!(get(&said, &["content"]), &top);
    assert_eq!(get(&lesson, &["row", "columns"]), &Json::Int(1536));
    let formats = list(&lesson, &["row", "formats"]);
    let error = |name: &str| {
        let mut formats = formats.iter();
        let found = formats.find(|one| get(one, &["type"]).as_str() == Some(name));
        numbers(&Json::array([get(found.unwrap(), &["error"]).clone()]))[0]
    };
    assert!(error("Q8_0") < error("Q4_0") && error("Q4_0") < error("Q2_K"));
}

#[test]
fn two_chats_share_their_pages() {
    let server = TestServer::start();
    let shared = "Once upon a time there was a little girl. ".repeat(8);
    let body = format!("{{\"texts\":[\"{shared}One day\",\"{shared}But then\"],\"max_tokens\":6}}");
    let answer = server.post("/lessons/pages", &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let lesson = answer.json();
    let texts = list(&lesson, &["texts"]);
    assert_eq!(get(&texts[0], &["cached_tokens"]), &Json::Int(0));
    assert!(
        matches!(get(&texts[1], &["cached_tokens"]), Json::Int(64..)),
        "{}",
        answer.body
    );
    let steps = list(&lesson, &["steps"]);
    let both = steps
        .iter()
        .find(|step| list(step, &["sequences"]).len() == 2);
    let sequences = list(
        both.unwrap_or_else(|| panic!("{}", answer.body)),
        &["sequences"],
    );
    let page = |at: usize| get(&list(&sequences[at], &["pages"])[0], &["page"]);
    assert_eq!(page(0), page(1));
    // What was written is what is written otherwise.
    let said = format!(
        "{{\"prompt\":\"{shared}One day\",\"n_predict\":6,\"temperature\":0,\"ignore_eos\":true}}"
    );
    let said = server.post("/completion", &said).json();
    assert_eq!(get(&said, &["content"]), get(&texts[0], &["answer"]));
}

#[test]
fn lessons_are_bounded_and_need_what_other_requests_need() {
    let server = TestServer::start();
    let refused = |path: &str, body: &str| {
        let answer = server.post(path, body);
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        answer.body
    };
    let long = "word ".repeat(65);
    assert!(refused("/lessons/prompt", &format!("{{\"prompt\":\"{long}\"}}")).contains("64"));
    assert!(
        refused("/lessons/prompt", "{\"prompt\":\"\",\"add_special\":false}").contains("no tokens")
    );
    let layer = format!("{{{PROMPT},\"layer\":8}}");
    assert!(refused("/lessons/prompt", &layer).contains("layer 8"));
    let head = format!("{{{PROMPT},\"head\":8}}");
    assert!(refused("/lessons/prompt", &head).contains("head 8"));
    let tensor = format!("{{{PROMPT},\"tensor\":\"nothing\"}}");
    assert!(refused("/lessons/prompt", &tensor).contains("nothing"));
    let row = format!("{{{PROMPT},\"tensor\":\"output.weight\",\"row\":99999999}}");
    refused("/lessons/prompt", &row);
    let texts = format!("{{\"texts\":[\"{}\"]}}", "word ".repeat(600));
    assert!(refused("/lessons/pages", &texts).contains("512"));
    assert_eq!(server.get("/lessons/prompt").status, 405);
    // A key's requests a minute count lessons too.
    let key = Key {
        name: "ada".into(),
        secret: "open-sesame".into(),
        per_minute: Some(2),
        models: Vec::new(),
        administers: false,
    };
    let server = TestServer::with(Access::new(vec![key]), &["tale"], u64::MAX);
    let ask = || {
        let header = "authorization: Bearer open-sesame\r\n";
        let body = format!("{{{PROMPT}}}");
        server.ask("POST", "/lessons/prompt", header, &body).status
    };
    assert_eq!((ask(), ask(), ask()), (200, 200, 429));
}

#[test]
fn lessons_among_requests_change_no_answer() {
    let server = TestServer::start();
    let ask = || {
        let body = format!("{{{PROMPT},\"n_predict\":40,\"temperature\":0,\"ignore_eos\":true}}");
        get(&server.post("/completion", &body).json(), &["content"]).clone()
    };
    let alone = ask();
    std::thread::scope(|scope| {
        let lessons = scope.spawn(|| {
            for _ in 0..6 {
                let body = format!("{{{PROMPT}}}");
                assert_eq!(server.post("/lessons/prompt", &body).status, 200);
            }
        });
        for _ in 0..2 {
            assert_eq!(ask(), alone);
        }
        lessons.join().unwrap();
    });
}
