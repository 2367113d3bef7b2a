//! What requests mean.

use super::OLLAMA;
use std::time::Duration;
use strata_chat::json::Json;
use strata_chat::{
    ContentPart, Effort, Embed, Fault, Format, Generate, KeepAlive, Prompt, Role, Thinking,
};
use strata_wire::call::{Call, Load};

fn open(path: &str, body: &str) -> Result<Call, Fault> {
    OLLAMA.open("POST", path, body.as_bytes()).unwrap()
}

/// A request for an answer to a prompt, with these fields besides.
fn generate(fields: &str) -> Result<Generate, Fault> {
    let body = format!(r#"{{"model":"m","prompt":"p"{fields}}}"#);
    match open("/api/generate", &body)? {
        Call::Generate(request, _) => Ok(*request),
        _ => panic!("it asks for text"),
    }
}

fn load(body: &str) -> Load {
    match open("/api/generate", body).unwrap() {
        Call::Load(load, _) => load,
        _ => panic!("it asks for no text"),
    }
}

#[test]
fn silence_leaves_sampling_to_the_model_and_the_limit_to_the_context() {
    let request = generate("").unwrap();
    assert!(request.stream && request.truncate && request.keep == Some(4));
    assert_eq!(request.sampling, Default::default());
    assert_eq!(request.max_tokens, None);
    for none in [-2, -1, 0] {
        let fields = format!(r#","options":{{"num_predict":{none}}}"#);
        assert_eq!(generate(&fields).unwrap().max_tokens, None);
    }
    let some = generate(r#","options":{"num_predict":3,"seed":-1}"#).unwrap();
    assert_eq!((some.max_tokens, some.sampling.seed), (Some(3), None));
}

#[test]
fn prompts_go_through_the_template_unless_they_are_raw() {
    let request = generate(r#","system":"s","images":["aGk="],"context":[7,8]"#).unwrap();
    let Prompt::Chat(messages) = &request.prompts[0] else {
        panic!("a conversation");
    };
    assert_eq!(messages[0].role, Role::System);
    assert_eq!(messages[1].joined(), "p");
    assert!(matches!(&messages[1].parts[1], ContentPart::Image(image) if image.bytes == b"hi"));
    // Ollama's clients send audio there too.
    let heard = generate(r#","images":["UklGRgAAAABXQVZF","aGk="]"#).unwrap();
    let Prompt::Chat(said) = &heard.prompts[0] else {
        panic!("a conversation");
    };
    let parts = &said[0].parts;
    assert!(matches!(&parts[1], ContentPart::Audio(audio) if audio.bytes.starts_with(b"RIFF")));
    assert!(matches!(&parts[2], ContentPart::Image(_)));
    assert_eq!(request.before, [7, 8]);
    assert!(request.tokens, "they are told as context");
    let raw = generate(r#","raw":true"#).unwrap();
    assert_eq!(raw.prompts, [Prompt::text("p")]);
    assert!(!raw.tokens);
    let gap = generate(r#","suffix":"s""#).unwrap();
    assert!(matches!(&gap.prompts[0], Prompt::Infill { suffix, .. } if suffix == "s"));
    for (fields, place) in [
        (r#","raw":true,"system":"s""#, "system"),
        (r#","raw":true,"suffix":"s""#, "suffix"),
        (r#","suffix":"s","images":["aGk="]"#, "images"),
        (r#","template":5"#, "template"),
        (r#","context":[-1]"#, "context[0]"),
        (r#","images":["?"]"#, "images[0]"),
        (r#","shift":"yes""#, "shift"),
        (r#","options":{"num_ctx":"many"}"#, "options.num_ctx"),
    ] {
        let fault = generate(fields).err().unwrap();
        assert_eq!(fault.field.as_deref(), Some(place), "{fields}");
    }
}

#[test]
fn every_form_of_format_and_think_is_understood() {
    let format = |text: &str| generate(&format!(r#","format":{text}"#)).map(|r| r.format);
    assert_eq!(format(r#""""#), Ok(Format::Text));
    assert_eq!(format(r#""json""#), Ok(Format::JsonObject));
    let schema = Json::object([("type", "object".into())]);
    assert_eq!(
        format(r#"{"type":"object"}"#),
        Ok(Format::JsonSchema(schema))
    );
    assert!(format(r#""yaml""#).is_err());
    let think = |text: &str| generate(&format!(r#","think":{text}"#)).map(|r| r.thinking);
    assert_eq!(think("null"), Ok(Thinking::Default));
    assert_eq!(think("true"), Ok(Thinking::On { budget: None }));
    assert_eq!(think("false"), Ok(Thinking::Off));
    assert_eq!(think(r#""low""#), Ok(Thinking::Effort(Effort::Low)));
    assert!(think(r#""much""#).is_err());
    assert!(think("3").is_err());
}

#[test]
fn every_form_of_keep_alive_is_understood() {
    let seconds = |seconds| Some(KeepAlive::For(Duration::from_secs(seconds)));
    for (text, keep_alive) in [
        ("null", None),
        ("0", seconds(0)),
        ("\"0\"", seconds(0)),
        ("90", seconds(90)),
        ("\"5m\"", seconds(300)),
        ("-1", Some(KeepAlive::Forever)),
        ("\"-1\"", Some(KeepAlive::Forever)),
        ("\"-1m\"", Some(KeepAlive::Forever)),
        ("1e300", Some(KeepAlive::Forever)),
    ] {
        let request = generate(&format!(r#","keep_alive":{text}"#)).unwrap();
        assert_eq!(request.keep_alive, keep_alive, "{text}");
        let load = load(&format!(r#"{{"model":"m","keep_alive":{text}}}"#));
        assert_eq!(load.keep_alive, keep_alive, "{text}");
    }
    assert!(generate(r#","keep_alive":"soon""#).is_err());
    assert!(generate(r#","keep_alive":true"#).is_err());
}

#[test]
fn a_begun_answer_is_gone_on_with() {
    let begun = |content: &str| {
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"u"}},{{"role":"assistant","content":"{content}"}}]}}"#
        );
        match open("/api/chat", &body).unwrap() {
            Call::Generate(request, _) => request.continues,
            _ => panic!("it asks for text"),
        }
    };
    assert!(begun("Once"));
    assert!(!begun(""));
}

#[test]
fn embeddings_have_length_one_only_where_the_api_says_so() {
    let embed = |path: &str, body: &str| -> Embed {
        match open(path, body).unwrap() {
            Call::Embed(request, _) => request,
            _ => panic!("it asks for embeddings"),
        }
    };
    let new = embed("/api/embed", r#"{"model":"m","input":"a"}"#);
    assert!(new.normalize && new.truncate);
    let old = embed("/api/embeddings", r#"{"model":"m","prompt":"a"}"#);
    assert!(!old.normalize && !old.truncate);
}

#[test]
fn blobs_have_digests_and_nothing_else() {
    let digits = "0a".repeat(32);
    for name in [
        format!("sha256:{digits}"),
        format!("sha256-{digits}"),
        format!("sha256%3A{digits}"),
    ] {
        match OLLAMA
            .open("HEAD", &format!("/api/blobs/{name}"), b"")
            .unwrap()
        {
            Ok(Call::BlobExists(digest, _)) => assert_eq!(digest, digits),
            _ => panic!("{name}"),
        }
    }
    for name in [
        digits.clone(),
        format!("sha256:{}", &digits[1..]),
        format!("sha256:{}", digits.to_uppercase()),
        "sha256:..%2F..".into(),
        "%ff".into(),
    ] {
        let opened = open(&format!("/api/blobs/{name}"), "");
        assert!(opened.is_err(), "{name}");
    }
}

#[test]
fn options_that_nobody_knows_change_nothing() {
    let plain = generate("").unwrap();
    for options in [
        r#"{"tfs_z":1.0,"penalize_newline":true,"f16_kv":true,"vocab_only":false}"#,
        r#"{"num_gpu":99,"num_thread":2,"numa":false,"low_vram":true,"use_mlock":true}"#,
        r#"{"no_such_option":[1,{"a":2}]}"#,
    ] {
        let request = generate(&format!(r#","options":{options},"shift":true"#));
        assert_eq!(request, Ok(plain.clone()), "{options}");
    }
    let kept = generate(r#","options":{"num_keep":7,"num_ctx":9000}"#).unwrap();
    assert_eq!((kept.keep, kept.context), (Some(7), Some(9000)));
    let whole = generate(r#","options":{"num_keep":7},"truncate":false"#).unwrap();
    assert!(!whole.truncate && whole.keep.is_none());
    let own = generate(r#","template":"{{ .Prompt }}=""#).unwrap();
    assert_eq!(own.template.as_deref(), Some("{{ .Prompt }}="));
    let raw = generate(r#","template":"x","raw":true"#).unwrap();
    assert_eq!(raw.template, None);
    let load = load(r#"{"model":"m","options":{"num_ctx":9000}}"#);
    assert_eq!(load.context, Some(9000));
}

#[test]
fn the_version_is_one_that_clients_compare() {
    let Ok(Call::Reply(reply)) = OLLAMA.open("GET", "/api/version", b"").unwrap() else {
        panic!("a version");
    };
    let document = Json::parse(&reply.body).unwrap();
    let version = document.get("version").and_then(Json::as_str).unwrap();
    let numbers: Vec<u32> = version.split('.').map(|n| n.parse().unwrap()).collect();
    assert!(numbers.len() == 3 && numbers > vec![0, 20, 0], "{version}");
    let own = document.get("strata").and_then(Json::as_str);
    assert_eq!(own, Some(env!("CARGO_PKG_VERSION")));
}
