//! Audio files over HTTP.

use crate::support::TestServer;
use strata_server::{Access, Key};

/// A quarter of a second at 8 kHz, in bytes that are text too.
fn wav() -> String {
    let mut file = String::from(
        "RIFF\0\x10\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0",
    );
    file += "data\0\x08\0\0";
    let noise = (0..2048u32).map(|i| char::from((i * i % 97 + 16) as u8));
    file.extend(noise);
    file
}

fn form(fields: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (name, value) in fields {
        body +=
            &format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    body + "--B--\r\n"
}

const KIND: &str = "content-type: multipart/form-data; boundary=B\r\n";

#[test]
fn a_file_is_transcribed_in_every_format() {
    let server = TestServer::with(Access::default(), &["tale", "hears"], u64::MAX);
    let wav = wav();
    let ask = |path: &str, more: &[(&str, &str)]| {
        let mut fields = vec![("file", wav.as_str()), ("model", "whisper-1")];
        fields.extend(more);
        server.ask("POST", path, KIND, &form(&fields))
    };
    let path = "/v1/audio/transcriptions";
    let json = ask(path, &[]);
    assert_eq!(json.status, 200, "{}", json.body);
    assert!(json.body.contains("\"text\""), "{}", json.body);
    for (format, begins) in [
        ("text", ""),
        ("srt", ""),
        ("vtt", "WEBVTT"),
        ("verbose_json", "{\"task\":\"transcribe\""),
    ] {
        let answer = ask(path, &[("response_format", format)]);
        assert_eq!(answer.status, 200, "{format}: {}", answer.body);
        assert!(answer.body.starts_with(begins), "{format}: {}", answer.body);
    }
    let answer = ask(
        "/v1/audio/translations",
        &[("response_format", "verbose_json")],
    );
    assert!(
        answer.body.contains("\"task\":\"translate\""),
        "{}",
        answer.body
    );
    let events = ask(path, &[("stream", "true")]);
    assert_eq!(events.status, 200);
    assert!(
        events.body.contains("transcript.text.done"),
        "{}",
        events.body
    );
}

#[test]
fn letters_are_transcribed_and_fields_that_they_lack_refused() {
    let server = TestServer::with(Access::default(), &["tale", "spells"], u64::MAX);
    let wav = wav();
    let path = "/v1/audio/transcriptions";
    let ask = |more: &[(&str, &str)]| {
        let mut fields = vec![("file", wav.as_str()), ("model", "hubert")];
        fields.extend(more);
        server.ask("POST", path, KIND, &form(&fields))
    };
    let words = ("timestamp_granularities[]", "word");
    let answer = ask(&[("response_format", "verbose_json"), words]);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(
        answer.body.contains("\"words\":[{\"word\":"),
        "{}",
        answer.body
    );
    assert!(
        answer.body.contains("\"task\":\"transcribe\""),
        "{}",
        answer.body
    );
    for (field, value) in [
        ("language", "en"),
        ("prompt", "names"),
        ("temperature", "0.5"),
    ] {
        let answer = ask(&[(field, value)]);
        assert!((400..=501).contains(&answer.status), "{}", answer.body);
        assert!(answer.body.contains(field), "{}", answer.body);
    }
}

#[test]
fn what_is_wrong_has_a_status_and_a_name() {
    let server = TestServer::with(Access::default(), &["tale", "hears"], u64::MAX);
    let path = "/v1/audio/transcriptions";
    let wav = wav();
    for (fields, status, says) in [
        (vec![("file", "no sound at all")], 400, "not audio"),
        (vec![("file", wav.as_str()), ("language", "xx")], 400, "xx"),
        (vec![("file", wav.as_str()), ("top_k", "4")], 400, "top_k"),
        (vec![("model", "whisper-1")], 400, "file"),
        (
            vec![("file", wav.as_str()), ("model", "nobody")],
            404,
            "nobody",
        ),
    ] {
        let answer = server.ask("POST", path, KIND, &form(&fields));
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(answer.body.contains(says), "{}", answer.body);
    }
    let deaf = TestServer::start();
    let answer = deaf.ask("POST", path, KIND, &form(&[("file", wav.as_str())]));
    assert!(
        answer.status >= 400 && answer.body.contains("--speech"),
        "{}",
        answer.body
    );
}

#[test]
fn a_key_for_other_models_does_not_transcribe() {
    let key = |secret: &str, model: &str| Key {
        name: secret.into(),
        secret: secret.into(),
        per_minute: None,
        models: vec![model.into()],
        administers: false,
    };
    let access = Access::new(vec![
        key("first-secret", "whisper"),
        key("other-secret", "tale"),
    ]);
    let server = TestServer::with(access, &["tale", "hears"], u64::MAX);
    let body = form(&[("file", &wav())]);
    let ask = |secret: &str| {
        let headers = format!("{KIND}authorization: Bearer {secret}\r\n");
        server.ask("POST", "/v1/audio/transcriptions", &headers, &body)
    };
    assert_eq!(ask("first-secret").status, 200);
    assert!([403, 404].contains(&ask("other-secret").status));
    assert_eq!(ask("nobodys-secret").status, 401);
}
