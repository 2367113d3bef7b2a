//! Whole decodings of a tiny random Whisper against transformers' `generate`: seeking, stamps, rules, prompts.
//!
//! `tools/golden_speech.py` made the files.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use strata::{ErrorKind, Hearing, Transcribe, Transcriber, Transcript};

fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden_speech");
    folder.join(name)
}

fn seed(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    std::fs::read(folder.join(name)).unwrap()
}

fn transcriber() -> Transcriber {
    Transcriber::open(golden("whisper.gguf"), Some(2)).unwrap()
}

fn transcribe(request: &Transcribe) -> Result<Transcript, strata::Error> {
    let limits = strata::AudioLimits::default();
    transcriber().transcribe(request, limits, &mut |_| ControlFlow::Continue(()))
}

fn noise() -> Transcribe {
    Transcribe {
        audio: seed("wav/wav-16-bits.wav").into(),
        ..Transcribe::default()
    }
}

#[test]
fn a_file_becomes_a_transcript_the_same_each_time() {
    let heard = transcribe(&noise()).unwrap();
    assert!((heard.duration - 3000.0 / 16000.0).abs() < 1e-9);
    assert!(!heard.language.is_empty());
    assert_eq!(transcribe(&noise()).unwrap(), heard);
    let audio = seed("flac/flac-16-bits.flac").into();
    let other = transcribe(&Transcribe { audio, ..noise() }).unwrap();
    assert_eq!(other, heard);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../convert/tests/ears/whisper");
    let folder = Transcriber::open(folder, Some(1)).unwrap();
    let limits = strata::AudioLimits::default();
    let other = folder.transcribe(&noise(), limits, &mut |_| ControlFlow::Continue(()));
    assert_eq!(other.unwrap(), heard);
}

#[test]
fn words_lie_in_order_within_the_sound() {
    let words = Transcribe {
        words: true,
        ..noise()
    };
    let heard = transcribe(&words).unwrap();
    for segment in &heard.segments {
        let text: String = segment.words.iter().map(|word| &*word.text).collect();
        assert_eq!(text, segment.text);
        let times: Vec<f64> = segment
            .words
            .iter()
            .flat_map(|w| [w.start, w.end])
            .collect();
        assert!(times.is_sorted(), "{times:?}");
    }
}

#[test]
fn what_cannot_be_heard_is_refused_by_name() {
    let refused = |request: Transcribe| transcribe(&request).unwrap_err();
    let error = refused(Transcribe {
        language: Some("xx".into()),
        ..noise()
    });
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"xx\""), "{error}");
    let error = refused(Transcribe {
        audio: (*b"no sound").into(),
        ..noise()
    });
    assert!(error.to_string().contains("not audio"), "{error}");
    let error = Transcriber::open("tale", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_transcription_can_be_canceled() {
    let limits = strata::AudioLimits::default();
    let ended = transcriber().transcribe(&noise(), limits, &mut |event| {
        assert!(matches!(event, Hearing::Segment(_) | Hearing::Progress(..)));
        ControlFlow::Break(())
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Canceled);
}
