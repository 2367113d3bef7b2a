//! Whole decodings of a tiny random Whisper against transformers' `generate`: seeking, stamps, rules, prompts.
//! `tools/golden_speech.py` made the files.

use super::*;
use crate::Transcriber;
use crate::hearing::rules;
use serde_json::Value;
use std::path::PathBuf;

fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden_speech");
    folder.join(name)
}

fn base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for c in text.bytes() {
        let Some(number) = LETTERS.iter().position(|&letter| letter == c) else {
            continue;
        };
        (bits, count) = (bits << 6 | number as u32, count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

/// What `generate` was given, and what it found.
fn decoding() -> (Value, Spectrogram) {
    let file = std::fs::read(golden("decoding.json")).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    let bytes = base64(file["mel_f32_le_base64"].as_str().unwrap());
    let floats = bytes.chunks_exact(4);
    let mel = Spectrogram {
        values: floats
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
        bands: 8,
    };
    (file, mel)
}

/// A transcript, and the seconds that were read after each window.
fn read(
    ears: &WhisperEars,
    mel: &Spectrogram,
    asked: &Transcribe,
    how: How,
) -> (Transcript, Vec<f64>) {
    let size = (mel.frames(), mel.frames() as f64 * FRAME);
    let mut ends = Vec::new();
    let reading = Reading::new(ears, asked, how).unwrap();
    let found = ears.read_all(mel, size, reading, &mut |event| {
        if let Hearing::Progress(seconds, _) = event {
            ends.push(seconds);
        }
        ControlFlow::Continue(())
    });
    (found.unwrap(), ends)
}

/// Compares stamps and text; other special tokens are not compared.
fn assert_segments(ears: &WhisperEars, found: &[Segment], expected: &Value, what: &Value) {
    let expected = expected.as_array().unwrap();
    let shown: Vec<_> = found.iter().map(|s| (s.start, s.end)).collect();
    assert_eq!(found.len(), expected.len(), "{what}: {shown:?}");
    for (found, expected) in found.iter().zip(expected) {
        let text = found.tokens.iter().filter(|&&id| id < ears.tokens.end);
        let text: Vec<u64> = text.map(|&token| u64::from(token)).collect();
        let tokens = expected["tokens"].as_array().unwrap().iter();
        let tokens: Vec<u64> = tokens.map(|t| t.as_u64().unwrap()).collect();
        assert_eq!(text, tokens, "{what}");
        assert_near(what, &expected["start"], found.start, 1e-6);
        assert_near(what, &expected["end"], found.end, 1e-6);
    }
}

fn assert_near(what: &Value, expected: &Value, found: f64, most: f64) {
    let expected = expected.as_f64().unwrap();
    let apart = (found - expected).abs();
    assert!(apart < most, "{what}: {found}, expected {expected}");
}

#[test]
fn segments_are_those_of_transformers() {
    let opened = Transcriber::open(golden("whisper.gguf"), Some(2)).unwrap();
    let transcriber = opened.whisper().unwrap();
    let (file, mel) = decoding();
    let heard = transcriber.turn(|compute| transcriber.model.hear(compute, &mel.window(0, 100)));
    let language = transcriber.detect(&heard.unwrap()).unwrap();
    assert_eq!(u64::from(language.1), file["language"].as_u64().unwrap());
    let mut cut_at_stamps = 0;
    for case in file["cases"].as_array().unwrap() {
        let options = &case["options"];
        let request = Transcribe {
            language: options["language"].as_str().map(str::to_owned),
            translate: options["task"] == "translate",
            ..Transcribe::default()
        };
        let how = How {
            prompted: options["condition_on_prev_tokens"] == true,
            thresholds: None,
            most: Some(12),
        };
        let (found, ends) = read(transcriber, &mel, &request, how);
        let stamped = ends.iter().filter(|seconds| seconds.fract() != 0.0);
        cut_at_stamps += stamped.count();
        assert_segments(transcriber, &found.segments, &case["segments"], options);
    }
    assert!(
        cut_at_stamps > 3,
        "windows that begin at a stamp: {cut_at_stamps}"
    );
}

#[test]
fn windows_that_read_badly_are_tried_again_as_transformers_does() {
    let opened = Transcriber::open(golden("whisper.gguf"), Some(2)).unwrap();
    let transcriber = opened.whisper().unwrap();
    let (file, mel) = decoding();
    let asked = Transcribe {
        language: Some("en".into()),
        ..Transcribe::default()
    };
    let (mut tried, mut silent) = (Vec::new(), 0);
    for case in file["fallback"].as_array().unwrap() {
        let limits = &case["thresholds"];
        let limit = |name: &str| limits[format!("{name}_threshold")].as_f64().unwrap() as f32;
        let how = How {
            prompted: false,
            thresholds: Some(Thresholds {
                most_compression: limit("compression_ratio"),
                least_logprob: limit("logprob"),
                silence: limit("no_speech"),
            }),
            most: Some(12),
        };
        let (found, ends) = read(transcriber, &mel, &asked, how);
        assert_segments(transcriber, &found.segments, &case["segments"], limits);
        let windows = case["windows"].as_array().unwrap();
        assert_eq!(ends.len(), windows.len(), "{limits}");
        for (before, window) in [&0.0].into_iter().chain(&ends).zip(windows) {
            let seek = window["seek"].as_f64().unwrap();
            assert_near(window, &window["seek"], before / FRAME, 1e-6);
            let tries = window["tries"].as_array().unwrap();
            let last = tries.last().unwrap();
            tried.push(tries.len());
            let is_silent = window["silent"] == true;
            silent += usize::from(is_silent);
            let segments = found.segments.iter();
            for segment in segments.filter(|segment| segment.seek as f64 == seek) {
                assert!(!is_silent, "{window}");
                assert_near(window, &last[0], segment.temperature.into(), 1e-6);
                assert_near(window, &last[1], segment.mean_logprob.into(), 1e-4);
                assert_near(window, &last[2], segment.compression.into(), 1e-6);
                assert_near(window, &window["no_speech"], segment.no_speech.into(), 1e-6);
            }
        }
    }
    let some = |tries: core::ops::Range<usize>| tried.iter().any(|it| tries.contains(it));
    assert!(
        some(1..2) && some(2..6) && some(6..7) && silent > 0,
        "{tried:?} {silent}"
    );
}

#[test]
fn stamps_come_in_pairs_and_do_not_fall() {
    let opened = Transcriber::open(golden("whisper.gguf"), Some(1)).unwrap();
    let transcriber = opened.whisper().unwrap();
    let (tokens, kernels) = (&transcriber.tokens, transcriber.machine.kernels);
    let vocabulary = transcriber.config().vocabulary;
    let allowed = |written: &[u32]| -> Vec<bool> {
        // Text is likelier than all stamps together.
        let mut logits: Vec<f32> = vec![0.0; vocabulary];
        logits[tokens.first_stamp as usize..].fill(-20.0);
        rules::apply(kernels, tokens, written, true, &mut logits);
        logits
            .iter()
            .map(|&logit| logit > rules::FORBIDDEN)
            .collect()
    };
    let stamp = |n: usize| tokens.first_stamp + n as u32;
    let first = allowed(&[]);
    assert!(!first[65] && first[stamp(0) as usize] && first[stamp(25) as usize]);
    assert!(!first[stamp(26) as usize], "the first stamp is early");
    let text = allowed(&[stamp(3)]);
    assert!(
        text[65] && !text[stamp(5) as usize],
        "text follows the first stamp"
    );
    let open = allowed(&[stamp(3), 65]);
    assert!(open[65] && !open[stamp(3) as usize] && open[stamp(4) as usize]);
    let pair = allowed(&[stamp(3), 65, stamp(9)]);
    assert!(!pair[65] && pair[stamp(9) as usize] && !pair[stamp(8) as usize]);
    assert!(pair[tokens.end as usize], "the text may end after a stamp");
    assert!(!allowed(&[stamp(3), 65])[tokens.suppressed[0] as usize]);
    let mut logits: Vec<f32> = vec![0.0; vocabulary];
    rules::apply(kernels, tokens, &[stamp(3), 65], true, &mut logits);
    assert!(
        logits[65] <= rules::FORBIDDEN,
        "many stamps outweigh the best text"
    );
}

#[test]
fn a_window_is_cut_where_stamps_meet() {
    let opened = Transcriber::open(golden("whisper.gguf"), Some(1)).unwrap();
    let transcriber = opened.whisper().unwrap();
    let tokens = &transcriber.tokens;
    let stamp = |n: u32| tokens.first_stamp + n;
    let cut = |written: &[u32]| segments::cut(tokens, written, 100);
    let (pieces, next) = cut(&[
        stamp(0),
        65,
        stamp(10),
        stamp(12),
        66,
        stamp(20),
        stamp(20),
        67,
    ]);
    assert_eq!(pieces.len(), 2, "what is not finished is heard again");
    assert_eq!((pieces[1].start, pieces[1].end, next), (12, 20, 40));
    let (pieces, next) = cut(&[stamp(0), 65, stamp(10), stamp(12), 66, stamp(20)]);
    assert_eq!((pieces.len(), next), (2, 100));
    let (pieces, next) = cut(&[stamp(4), 65, stamp(10)]);
    assert_eq!((pieces[0].start, pieces[0].end, next), (0, 10, 100));
    let (pieces, next) = cut(&[]);
    assert_eq!((pieces[0].end, next), (50, 100));
}
