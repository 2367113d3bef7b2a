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

/// What `sound` of `tools/golden_ctc.py` makes, as a WAV file.
fn made_sound(seed: u32, count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut state = seed;
    for n in 0..count {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let loud = (n / 4000 % 8 + 1) as i32;
        let sample = (((state >> 16) as i32 - 32_768) * loud).div_euclid(8);
        out.extend((sample as i16).to_le_bytes());
    }
    let mut wav = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    for number in [16_000u32, 32_000, 0x0010_0002] {
        wav.extend(number.to_le_bytes());
    }
    wav.extend(b"data");
    wav.extend((out.len() as u32).to_le_bytes());
    wav.extend(out);
    wav
}

fn with_ctc(name: &str, request: &Transcribe) -> Result<Transcript, strata::Error> {
    let model = Transcriber::open(golden(name), Some(2)).unwrap();
    let limits = strata::AudioLimits::default();
    model.transcribe(request, limits, &mut |_| ControlFlow::Continue(()))
}

fn words_of(transcript: &Transcript) -> Vec<(String, f64, f64)> {
    let words = transcript.segments.iter().flat_map(|part| &part.words);
    words
        .map(|word| (word.text.trim().to_owned(), word.start, word.end))
        .collect()
}

fn same_words(found: &[(String, f64, f64)], expected: Vec<(String, f64, f64)>) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.0, expected.0);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(
            near(found.1, expected.1) && near(found.2, expected.2),
            "{found:?} {expected:?}"
        );
    }
}

#[test]
fn letters_words_and_times_are_those_of_transformers() {
    for name in ["wav2vec2", "wav2vec2-layer", "hubert"] {
        let file = std::fs::read(golden(&format!("{name}.json"))).unwrap();
        let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
        let heard = |seed, count| {
            let request = Transcribe {
                audio: made_sound(seed, count).into(),
                words: true,
                ..Transcribe::default()
            };
            with_ctc(&format!("{name}.gguf"), &request).unwrap()
        };
        // transformers leaves words as they are where it writes the text in lower case.
        let cased = |word: &serde_json::Value| {
            let text = word[0].as_str().unwrap();
            if name == "wav2vec2-layer" {
                text.to_lowercase()
            } else {
                text.to_owned()
            }
        };
        let short = heard(1, 8000);
        assert_eq!(short.text(), file["text"].as_str().unwrap(), "{name}");
        let words = file["words"].as_array().unwrap().iter().map(|word| {
            let time = |at: usize| word[at].as_f64().unwrap() * 0.02;
            (cased(word), time(1), time(2))
        });
        same_words(&words_of(&short), words.collect());
        // Longer than a chunk: twice, with what is left.
        let long = heard(2, 16_000 * 62 + 777);
        assert_eq!(long.text(), file["long_text"].as_str().unwrap(), "{name}");
        let words = file["long_words"].as_array().unwrap().iter().map(|word| {
            let time = |at: usize| word[at].as_f64().unwrap();
            (cased(word), time(1), time(2))
        });
        same_words(&words_of(&long), words.collect());
        assert!(long.segments.len() > 3);
        assert!(long.segments.iter().all(|part| part.start < part.end));
    }
}

#[test]
fn folders_with_letters_transcribe_as_their_files_do() {
    let request = Transcribe {
        audio: made_sound(3, 12_000).into(),
        ..Transcribe::default()
    };
    for name in ["wav2vec2", "wav2vec2-layer", "hubert"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../convert/tests/ears");
        let folder = Transcriber::open(folder.join(name), Some(1)).unwrap();
        let limits = strata::AudioLimits::default();
        let found = folder.transcribe(&request, limits, &mut |_| ControlFlow::Continue(()));
        let expected = with_ctc(&format!("{name}.gguf"), &request).unwrap();
        assert_eq!(found.unwrap().text(), expected.text(), "{name}");
    }
}

#[test]
fn what_letters_cannot_do_is_refused_by_name() {
    let audio = made_sound(1, 300);
    let short = Transcribe {
        audio: audio.into(),
        ..Transcribe::default()
    };
    let heard = with_ctc("hubert.gguf", &short).unwrap();
    assert_eq!((heard.text(), heard.segments.len()), (String::new(), 0));
    let requests = [
        (
            "language",
            Transcribe {
                language: Some("en".into()),
                ..short.clone()
            },
        ),
        (
            "translate",
            Transcribe {
                translate: true,
                ..short.clone()
            },
        ),
        (
            "prompt",
            Transcribe {
                prompt: Some("names".into()),
                ..short.clone()
            },
        ),
        (
            "temperature",
            Transcribe {
                temperature: Some(0.4),
                ..short.clone()
            },
        ),
    ];
    for (field, request) in requests {
        let error = with_ctc("hubert.gguf", &request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(field), "{error}");
    }
}
