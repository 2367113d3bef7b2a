//! Where a request stands before its first token, told in comments.

use crate::support::{Answer, TestServer};
use strata_server::Access;

const COMMENTS: &str = "strata-progress: comments\r\n";

fn ask(server: &TestServer, model: &str, headers: &str, tokens: usize) -> Answer {
    let body = format!(
        r#"{{"model":"{model}","messages":[{{"role":"user","content":"Hello"}}],"stream":true,"temperature":0,"max_tokens":{tokens}}}"#
    );
    server.ask("POST", "/v1/chat/completions", headers, &body)
}

/// What each piece of an answer adds, without what differs from answer to answer.
fn deltas(answer: &Answer) -> Vec<&str> {
    let lines = answer.body.lines();
    let data = lines.filter(|line| line.starts_with("data:"));
    data.filter_map(|line| line.split_once("\"delta\":"))
        .map(|(_, delta)| delta)
        .collect()
}

fn comments(answer: &Answer) -> Vec<&str> {
    let lines = answer.body.lines();
    lines.filter_map(|line| line.strip_prefix(": ")).collect()
}

#[test]
fn a_model_that_loads_and_then_fails_or_answers() {
    let names = &["slow", "slow-broken", "broken"];
    let server = TestServer::with(Access::default(), names, u64::MAX);
    let told = ask(&server, "slow", COMMENTS, 8);
    assert_eq!(told.status, 200);
    let first = comments(&told)[0];
    assert_eq!(first, r#"{"state":"loading","done":1,"total":4}"#);
    assert!(told.body.starts_with(": "), "{}", told.body);
    let plain = ask(&server, "slow", "", 8);
    assert_eq!(comments(&plain), [""; 0]);
    assert_eq!(deltas(&told), deltas(&plain));
    assert!(deltas(&plain).len() > 1 && plain.body.contains("[DONE]"));
    // Faults that come soon have their status; later ones end the stream.
    assert_eq!(ask(&server, "broken", COMMENTS, 8).status, 500);
    assert_eq!(ask(&server, "unknown", COMMENTS, 8).status, 404);
    let late = ask(&server, "slow-broken", COMMENTS, 8);
    assert_eq!(late.status, 200);
    assert!(late.body.contains("\"error\""), "{}", late.body);
}

#[test]
fn requests_in_the_queue_are_told_how_many_are_ahead() {
    let server = TestServer::start();
    ask(&server, "tale", "", 1);
    std::thread::scope(|scope| {
        // The engine runs eight at a time.
        let long = r#"{"prompt":"Once upon a time","n_predict":480,"ignore_eos":true}"#;
        for _ in 0..8 {
            scope.spawn(|| server.post("/completion", long));
        }
        while server.metric("vllm:num_requests_running") < 8.0 {
            std::thread::yield_now();
        }
        let waiting: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| ask(&server, "tale", COMMENTS, 4)))
            .collect();
        let answers: Vec<_> = waiting.into_iter().map(|one| one.join().unwrap()).collect();
        for answer in &answers {
            assert!(answer.status == 200 && answer.body.contains("[DONE]"));
        }
        let told: Vec<_> = answers.iter().flat_map(comments).collect();
        for ahead in [0, 1, 3] {
            let comment = format!(r#"{{"state":"queued","ahead":{ahead}}}"#);
            assert!(told.contains(&comment.as_str()), "{comment} {told:?}");
        }
    });
}
