//! Streams of documents: what they say is what the library says, and they end when they should.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::Duration;
use strata_bindings::{
    ErrorKind, Json, JsonStream, Model, Next, SharedSession, chat_with_tools, open, request,
};

fn tale() -> &'static Model {
    static TALE: OnceLock<Model> = OnceLock::new();
    TALE.get_or_init(|| open("tale", b"").unwrap())
}

fn ask(path: &str, body: &str) -> JsonStream {
    request(tale(), path, body.as_bytes()).unwrap()
}

fn documents(stream: &JsonStream) -> Vec<Json> {
    let mut all = Vec::new();
    loop {
        match stream.next(None) {
            Next::Document(text) => all.push(Json::parse(text.as_bytes()).unwrap()),
            Next::End => return all,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_of_every_dialect_is_answered() {
    let messages =
        r#""messages":[{"role":"user","content":"Hello"}],"max_tokens":4,"temperature":0"#;
    let all = [
        ("/v1/chat/completions", format!("{{{messages}}}")),
        ("/v1/messages", format!("{{\"model\":\"tale\",{messages}}}")),
        ("/api/chat", r#"{"model":"tale","messages":[{"role":"user","content":"Hello"}],"options":{"num_predict":4}}"#.into()),
        ("/v1/responses", r#"{"input":"Hello","max_output_tokens":4,"stream":true}"#.into()),
        ("/completion", r#"{"prompt":"Hello","n_predict":4}"#.into()),
        ("/v1/chat/completions/render", format!("{{{messages}}}")),
        ("/tokenize", r#"{"content":"Hello"}"#.into()),
    ];
    for (path, body) in all {
        assert!(!documents(&ask(path, &body)).is_empty(), "{path}");
    }
    let chat = documents(&ask(
        "/v1/chat/completions",
        &format!("{{{messages},\"stream\":true}}"),
    ));
    assert!(chat.len() > 3);
    let last = chat
        .last()
        .unwrap()
        .get("choices")
        .unwrap()
        .as_array()
        .unwrap();
    assert_eq!(
        last[0].get("finish_reason").and_then(Json::as_str),
        Some("length")
    );
}

#[test]
fn what_needs_a_server_is_refused() {
    for (path, body) in [
        ("/api/pull", r#"{"model":"x"}"#),
        (
            "/v1/responses",
            r#"{"input":"a","background":true,"store":true}"#,
        ),
    ] {
        match ask(path, body).next(None) {
            Next::Failed(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn a_session_says_what_its_text_would() {
    let session = SharedSession::new(tale()).unwrap();
    session.append("Once upon a time").unwrap();
    let body = br#"{"max_tokens":12,"temperature":0}"#;
    let said = documents(&session.run(body).unwrap());
    let said = said[0].get("choices").unwrap().as_array().unwrap()[0].get("text");
    let plain = r#"{"prompt":"Once upon a time","max_tokens":12,"temperature":0}"#;
    let plain = documents(&ask("/v1/completions", plain));
    let plain = plain[0].get("choices").unwrap().as_array().unwrap()[0].get("text");
    assert_eq!(said, plain);
    let mut other = tale().text().unwrap().session();
    other.append("Once upon a time");
    let sampling = strata::Sampling {
        temperature: Some(0.0),
        ..Default::default()
    };
    other.run(12, &sampling).unwrap();
    assert_eq!(
        (session.text(), session.tokens()),
        (other.text(), other.tokens().len())
    );
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_task_is_woken() {
    let stream = ask(
        "/v1/completions",
        r#"{"prompt":"Once","max_tokens":8,"stream":true}"#,
    );
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut seen = 0;
    loop {
        let next = std::future::poll_fn(|context| stream.poll_next(context));
        match pin!(next).poll(&mut context) {
            Poll::Pending => std::thread::park(),
            Poll::Ready(Next::Document(_)) => seen += 1,
            Poll::Ready(Next::End) => break,
            Poll::Ready(other) => panic!("{other:?}"),
        }
    }
    assert!(seen > 4, "{seen}");
}

#[test]
fn a_dropped_stream_cancels_and_a_wait_is_no_longer_than_asked() {
    let long = r#"{"prompt":"Once","max_tokens":4000,"ignore_eos":true,"stream":true}"#;
    let streams: Vec<JsonStream> = (0..12).map(|_| ask("/v1/completions", long)).collect();
    assert!(matches!(
        streams[0].next(Some(Duration::from_secs(60))),
        Next::Document(_)
    ));
    drop(streams);
    let stream = ask("/v1/completions", r#"{"prompt":"Once","max_tokens":2}"#);
    assert!(!matches!(
        stream.next(Some(Duration::from_micros(1))),
        Next::Failed(_)
    ));
    assert!(matches!(
        stream.next(Some(Duration::from_secs(60))),
        Next::Document(_)
    ));
}

const WEATHER: &str = r#"{"messages":[{"role":"user","content":"Is it warm in Oslo?"}],"temperature":0,"max_tokens":60,
    "tool_choice":"required","tools":[{"type":"function","function":{"name":"weather","strict":true,"parameters":{
    "type":"object","properties":{"city":{"enum":["Bern","Oslo"]}},"required":["city"],"additionalProperties":false}}}]}"#;

#[test]
fn a_conversation_goes_on_after_its_calls() {
    let stream = chat_with_tools(tale(), WEATHER.as_bytes()).unwrap();
    assert!(
        matches!(stream.next(None), Next::Document(_)),
        "the answer that calls"
    );
    let Next::Document(asks) = stream.next(None) else {
        panic!("no calls");
    };
    let asks = Json::parse(asks.as_bytes()).unwrap();
    let calls = asks.get("calls").unwrap().as_array().unwrap();
    assert_eq!(stream.try_next(), Next::Pending);
    assert!(stream.tool_result("no such call", "x").is_err());
    for call in calls {
        assert_eq!(call.get("name").and_then(Json::as_str), Some("weather"));
        assert!(call.get("arguments").unwrap().get("city").is_some());
        let id = call.get("id").and_then(Json::as_str).unwrap();
        stream.tool_result(id, "18 degrees").unwrap();
        assert!(stream.tool_result(id, "19 degrees").is_err());
    }
    let rest = documents(&stream);
    let last = rest
        .last()
        .unwrap()
        .get("choices")
        .unwrap()
        .as_array()
        .unwrap();
    let said = last[0]
        .get("message")
        .unwrap()
        .get("content")
        .and_then(Json::as_str);
    assert!(said.is_some_and(|said| !said.is_empty()), "{rest:?}");
    // The library's own functions say the same.
    let mut request = tale()
        .text()
        .unwrap()
        .chat([strata::user("Is it warm in Oslo?")]);
    request = request
        .temperature(0.0)
        .max_tokens(60)
        .tool_choice(strata::ToolChoice::Required);
    let body = Json::parse(WEATHER.as_bytes()).unwrap();
    let tool = body.get("tools").unwrap().as_array().unwrap()[0]
        .get("function")
        .unwrap();
    let tool = strata::Tool {
        name: "weather".into(),
        description: None,
        parameters: tool.get("parameters").unwrap().clone(),
        strict: true,
    };
    let answer = request
        .tool_function(tool, |_| Ok("18 degrees".into()))
        .run()
        .unwrap();
    assert_eq!(said, Some(answer.text.as_str()));
}

#[test]
fn a_conversation_that_waits_for_a_result_can_be_canceled() {
    let stream = chat_with_tools(tale(), WEATHER.as_bytes()).unwrap();
    while !matches!(stream.next(Some(Duration::from_millis(300))), Next::Pending) {}
    stream.cancel();
    assert!(
        matches!(stream.next(None), Next::Failed(error) if error.kind() == ErrorKind::Canceled)
    );
    assert!(stream.tool_result("x", "y").is_err());
}

fn repository(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

/// A form as OpenAI's clients send it is read as an object of the same fields is.
#[test]
fn speech_is_asked_about_in_a_form_or_an_object() {
    let file = repository("crates/model/tests/golden_speech/whisper.gguf");
    let model = open(&file, br#"{"threads":1}"#).unwrap();
    let sound = repository("crates/fuzz/seeds/wav/wav-16-bits.wav");
    let path = "/v1/audio/transcriptions";
    let object = format!(
        "{{\"file\":\"{sound}\",\"response_format\":\"verbose_json\",\"temperature\":0,\"timestamp_granularities[]\":[\"word\",\"segment\"]}}"
    );
    let told = documents(&request(&model, path, object.as_bytes()).unwrap());
    let mut form = Vec::new();
    for (name, value) in [
        ("response_format", &b"verbose_json"[..]),
        ("temperature", b"0"),
        ("timestamp_granularities[]", b"word"),
        ("file", &std::fs::read(&sound).unwrap()),
    ] {
        let head = format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        form.extend(head.bytes());
        form.extend(value);
        form.extend(b"\r\n");
    }
    form.extend(b"--x--\r\n");
    assert_eq!(documents(&request(&model, path, &form).unwrap()), told);
    assert!(told[0].get("words").is_some(), "{}", told[0].text());
    let translated = format!("{{\"file\":\"{sound}\",\"response_format\":\"text\"}}");
    let translated = request(&model, "/v1/audio/translations", translated.as_bytes()).unwrap();
    assert!(documents(&translated)[0].get("text").is_some());
    let other = chat_with_tools(&model, b"{}").unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Unsupported);
    let missing = open("nowhere.gguf", b"").err().map(|error| error.kind());
    assert_eq!(missing, Some(ErrorKind::NotFound));
}

fn first_text(stream: &JsonStream) -> String {
    let said = documents(stream);
    let choices = said[0].get("choices").unwrap().as_array().unwrap();
    choices[0]
        .get("text")
        .and_then(Json::as_str)
        .unwrap()
        .to_owned()
}

#[test]
fn constraints_hold_for_a_session_its_forks_and_what_is_restored() {
    let few = br#"{"max_tokens":6,"temperature":0}"#;
    let session = SharedSession::new(tale()).unwrap();
    session.append("Once upon a time").unwrap();
    let saved = session.save().unwrap();
    session
        .constrain(br#"{"guided_choice":["yes","no"],"deadline_ms":60000}"#)
        .unwrap();
    let fork = session.fork();
    for held in [&session, &fork] {
        let said = first_text(&held.run(few).unwrap());
        assert!(said == "yes" || said == "no", "{said}");
    }
    let restored = SharedSession::restore(tale(), &saved).unwrap();
    restored
        .constrain(br#"{"deadline_ms":1,"never_off_machine":true}"#)
        .unwrap();
    let late = restored.run(br#"{"max_tokens":400,"ignore_eos":true}"#);
    match late.unwrap().next(None) {
        Next::Failed(error) => assert_eq!(error.code(), "timed_out", "{error}"),
        Next::Document(text) => assert!(!text.contains("\"length\""), "{text}"),
        other => panic!("{other:?}"),
    }
    for (body, part) in [
        (&b"{}"[..], ""),
        (br#"{"memory":"4G"}"#, "memory"),
        (br#"{"model":"tale"}"#, "model"),
        (b"[]", "object"),
    ] {
        match (session.constrain(body), part) {
            (Ok(()), "") => {}
            (Err(error), part) => assert!(error.to_string().contains(part), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}

/// The layers of a model in two places: the same bytes, a plan and facts that tell of both, and no secrets kept here.
#[test]
fn a_model_over_several_machines_says_the_same() {
    let key = strata::PeerKey::new("a key for these tests").unwrap();
    let runtime = strata::Runtime::new(Some(1)).unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let host = strata::PeerHostOptions { listen, key };
    let options = strata::Options::default();
    let host = strata::PeerHost::open("tale", &options, &runtime, host).unwrap();
    let (address, stopper) = (host.address(), host.stopper());
    let serving = std::thread::spawn(move || host.run(&|_| {}));
    let peers = |key: &str| {
        format!("{{\"context\":512,\"peers\":{{\"addresses\":[\"{address}\"],\"key\":\"{key}\"}}}}")
    };
    let options = peers("a key for these tests");
    let plan = strata_bindings::plan("tale", options.as_bytes()).unwrap();
    assert_eq!(plan.get("peers").unwrap().as_array().unwrap().len(), 1);
    let model = open("tale", options.as_bytes()).unwrap();
    let info = strata_bindings::info(&model);
    let peer = &info.get("peers").unwrap().as_array().unwrap()[0];
    assert_eq!(
        peer.get("address").and_then(Json::as_str),
        Some(&*address.to_string())
    );
    let body = r#"{"prompt":"Once upon a time","max_tokens":12,"temperature":0}"#;
    let there = first_text(&request(&model, "/v1/completions", body.as_bytes()).unwrap());
    assert_eq!(there, first_text(&ask("/v1/completions", body)));
    let session = SharedSession::new(&model).unwrap();
    let refused = session.constrain(br#"{"never_off_machine":true}"#);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    drop((session, model));
    assert!(open("tale", peers("another key than that").as_bytes()).is_err());
    stopper.stop();
    serving.join().unwrap();
}

#[test]
fn images_elsewhere_are_refused_unless_the_model_was_opened_to_fetch_them() {
    let body = r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://127.0.0.1/a.png"}}]}]}"#;
    match ask("/v1/chat/completions", body).next(None) {
        Next::Failed(error) => {
            assert!(error.to_string().contains("image_url"), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("image_urls")));
        }
        other => panic!("{other:?}"),
    }
    let model = open("tale", br#"{"image_urls":true,"context":512}"#).unwrap();
    match request(&model, "/v1/chat/completions", body.as_bytes())
        .unwrap()
        .next(None)
    {
        Next::Failed(error) => assert!(error.to_string().contains("cannot be fetched"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_build_lacks_is_named() {
    assert!(strata_bindings::require("chat tools  constraints").is_ok());
    let missing = strata_bindings::require("chat telepathy").unwrap_err();
    assert!(missing.to_string().contains("telepathy") && !missing.to_string().contains("chat"));
}

/// Models that name letters hear as Whisper does, through the same door.
#[test]
fn letters_are_heard_too() {
    let file = repository("crates/model/tests/golden_speech/wav2vec2.gguf");
    let model = open(&file, br#"{"threads":1}"#).unwrap();
    let info = strata_bindings::info(&model);
    assert_eq!(info.get("family").and_then(Json::as_str), Some("wav2vec2"));
    let sound = repository("crates/fuzz/seeds/wav/wav-16-bits.wav");
    let body = format!("{{\"file\":\"{sound}\",\"response_format\":\"verbose_json\"}}");
    let told = documents(&request(&model, "/v1/audio/transcriptions", body.as_bytes()).unwrap());
    assert!(told[0].get("text").is_some() && told[0].get("duration").is_some());
    let body = format!("{{\"file\":\"{sound}\",\"language\":\"en\"}}");
    match request(&model, "/v1/audio/transcriptions", body.as_bytes())
        .unwrap()
        .next(None)
    {
        Next::Failed(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
        other => panic!("{other:?}"),
    }
}
