//! Forms with audio files.

use super::OPENAI;
use strata_chat::{Fault, Segment, Transcribe, Transcript};
use strata_wire::call::{Call, TranscriptWriter};
use strata_wire::{Framing, Reply};

const TRANSCRIBE: &str = "/v1/audio/transcriptions";
const TRANSLATE: &str = "/v1/audio/translations";

fn form(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut body = String::new();
    for (name, value) in fields {
        let file = if *name == "file" {
            "; filename=\"a.wav\""
        } else {
            ""
        };
        body += &format!(
            "--B\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{value}\r\n"
        );
    }
    (body + "--B--\r\n").into_bytes()
}

fn open(
    path: &str,
    fields: &[(&str, &str)],
) -> Result<(Transcribe, Box<dyn TranscriptWriter>), Fault> {
    match OPENAI.open("POST", path, &form(fields)).unwrap()? {
        Call::Transcribe(request, writer) => Ok((*request, writer)),
        _ => panic!("{path} asks for something else"),
    }
}

fn transcript() -> Transcript {
    let segment = |start, end, text: &str| Segment {
        start,
        end,
        text: text.into(),
        tokens: vec![7, 8],
        ..Segment::default()
    };
    Transcript {
        language: "de".into(),
        language_name: "german".into(),
        duration: 2.5,
        segments: vec![segment(0.0, 1.0, " Guten"), segment(1.0, 2.5, " Tag.")],
        ..Transcript::default()
    }
}

#[test]
fn every_field_is_read() {
    let (request, writer) = open(
        TRANSCRIBE,
        &[
            ("file", "RIFF"),
            ("model", "whisper-1"),
            ("language", "de"),
            ("prompt", "Moin"),
            ("temperature", "0.4"),
            ("response_format", "verbose_json"),
            ("timestamp_granularities[]", "word"),
            ("timestamp_granularities[]", "segment"),
        ],
    )
    .unwrap();
    assert_eq!(
        request,
        Transcribe {
            model: "whisper-1".into(),
            audio: (*b"RIFF").into(),
            language: Some("de".into()),
            translate: false,
            prompt: Some("Moin".into()),
            temperature: Some(0.4),
            words: true,
        }
    );
    assert_eq!(writer.framing(), Framing::Whole);
    assert!(open(TRANSLATE, &[("file", "x")]).unwrap().0.translate);
}

#[test]
fn what_cannot_be_honoured_is_refused_by_name() {
    let file = ("file", "x");
    for (path, fields, name) in [
        (TRANSCRIBE, &[("model", "m")][..], "file"),
        (TRANSCRIBE, &[("file", "")], "file"),
        (TRANSCRIBE, &[file, ("temperature", "2")], "temperature"),
        (
            TRANSCRIBE,
            &[file, ("response_format", "ass")],
            "response_format",
        ),
        (TRANSCRIBE, &[file, ("stream", "maybe")], "stream"),
        (
            TRANSCRIBE,
            &[file, ("stream", "true"), ("response_format", "srt")],
            "stream",
        ),
        (TRANSCRIBE, &[file, ("include[]", "logprobs")], "include[]"),
        (
            TRANSCRIBE,
            &[file, ("timestamp_granularities[]", "word")],
            "timestamp_granularities",
        ),
        (TRANSLATE, &[file, ("language", "de")], "language"),
    ] {
        let fault = open(path, fields).err().unwrap();
        assert_eq!(
            fault.field.as_deref(),
            Some(name),
            "{fields:?}: {}",
            fault.message
        );
    }
}

#[test]
fn transcripts_are_written_as_asked() {
    let reply = |format: &str| -> Reply {
        let (_, writer) = open(TRANSCRIBE, &[("file", "x"), ("response_format", format)]).unwrap();
        writer.reply(&transcript())
    };
    let text = |format| String::from_utf8(reply(format).body).unwrap();
    assert_eq!(text("text"), "Guten Tag.\n");
    assert!(text("srt").starts_with("1\n00:00:00,000 --> 00:00:01,000\nGuten\n\n2\n"));
    assert!(text("vtt").starts_with("WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nGuten\n\n"));
    assert!(reply("vtt").content_type.starts_with("text/vtt"));
    let json = text("json");
    assert!(
        json.contains(r#""text":"Guten Tag.""#) && json.contains(r#""seconds":3"#),
        "{json}"
    );
    let verbose = text("verbose_json");
    for part in [
        r#""task":"transcribe""#,
        r#""language":"german""#,
        r#""duration":2.5"#,
        r#""start":1"#,
        r#""tokens":[7,8]"#,
        r#""avg_logprob":"#,
        r#""no_speech_prob":"#,
        r#""compression_ratio":"#,
    ] {
        assert!(verbose.contains(part), "{part}: {verbose}");
    }
}

#[test]
fn events_have_a_delta_for_each_segment_and_the_whole_at_the_end() {
    let (_, mut writer) = open(TRANSCRIBE, &[("file", "x"), ("stream", "true")]).unwrap();
    assert_eq!(writer.framing(), Framing::Events);
    let mut out = Vec::new();
    for segment in &transcript().segments {
        writer.segment(segment, &mut out);
    }
    writer.done(&transcript(), &mut out);
    let text = String::from_utf8(out).unwrap();
    let events: Vec<&str> = text.split_terminator("\n\n").collect();
    assert_eq!(events.len(), 3, "{text}");
    assert!(events[0].contains(r#""delta":"Guten""#) && events[1].contains(r#""delta":" Tag.""#));
    assert!(events[2].contains("transcript.text.done") && events[2].contains("Guten Tag."));
}
