//! Speech as text: what is asked for, and what was heard.

use crate::json::Json;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

/// A request for a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcribe {
    /// The model's name; empty for the one that is meant anyway.
    pub model: String,
    /// An audio file.
    pub audio: Arc<[u8]>,
    /// The language that is spoken, as `en`; heard where none is given.
    pub language: Option<String>,
    /// Whether the text is to be in English, whatever is spoken.
    pub translate: bool,
    /// Text that came before, or words to expect.
    pub prompt: Option<String>,
    /// How freely tokens are chosen. At 0, which is the default, a window that reads badly is tried again with more.
    pub temperature: Option<f32>,
    /// Whether each word gets its time.
    pub words: bool,
}

/// What was heard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// The language that is spoken, as `en`.
    pub language: String,
    /// Its name, as `english`.
    pub language_name: String,
    /// Whether it was translated into English.
    pub translated: bool,
    /// The sound's length in seconds.
    pub duration: f64,
    /// The text, piece by piece.
    pub segments: Vec<Segment>,
    /// Tokens that the model wrote.
    pub tokens: usize,
}

/// A piece of a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    /// Its number.
    pub id: usize,
    /// The frame, of 10 ms, at which its window begins.
    pub seek: usize,
    /// When it begins, in seconds.
    pub start: f64,
    /// When it ends.
    pub end: f64,
    /// Its text, which begins with a space where a word begins.
    pub text: String,
    /// Its tokens, with the stamps around them.
    pub tokens: Vec<u32>,
    /// How freely they were chosen.
    pub temperature: f32,
    /// The mean of their log-probabilities in its window.
    pub mean_logprob: f32,
    /// How much the window's text shrinks when it is compressed: text that repeats itself shrinks much.
    pub compression: f32,
    /// How likely the window has no speech.
    pub no_speech: f32,
    /// Its words with their times, where they were asked for.
    pub words: Vec<Word>,
}

/// A word and when it is spoken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Word {
    /// The word, with the space before it and the punctuation around it.
    pub text: String,
    /// When it begins, in seconds.
    pub start: f64,
    /// When it ends.
    pub end: f64,
}

/// A number with so many decimals.
fn rounded(value: f64, decimals: i32) -> Json {
    let text = format!("{value:.*}", decimals as usize);
    Json::from(text.parse::<f64>().unwrap_or(0.0))
}

/// `00:01:02,345`, with `point` before the milliseconds.
fn clock(seconds: f64, point: char) -> String {
    let all = (seconds.max(0.0) * 1000.0 + 0.5) as u64;
    let (hours, minutes) = (all / 3_600_000, all / 60_000 % 60);
    let (seconds, thousandths) = (all / 1000 % 60, all % 1000);
    format!("{hours:02}:{minutes:02}:{seconds:02}{point}{thousandths:03}")
}

impl Transcript {
    /// The whole text.
    pub fn text(&self) -> String {
        let all: String = self
            .segments
            .iter()
            .map(|part| part.text.as_str())
            .collect();
        all.trim().to_string()
    }

    /// Subtitles as SubRip has them.
    pub fn srt(&self) -> String {
        let mut out = String::new();
        for (number, part) in (1..).zip(&self.segments) {
            let (start, end) = (clock(part.start, ','), clock(part.end, ','));
            let text = part.text.trim().replace("-->", "->");
            let _ = writeln!(out, "{number}\n{start} --> {end}\n{text}\n");
        }
        out
    }

    /// Subtitles as WebVTT has them.
    pub fn vtt(&self) -> String {
        let mut out = String::from("WEBVTT\n\n");
        for part in &self.segments {
            let (start, end) = (clock(part.start, '.'), clock(part.end, '.'));
            let text = part.text.trim().replace("-->", "->");
            let _ = writeln!(out, "{start} --> {end}\n{text}\n");
        }
        out
    }

    /// Everything that is known of it, as `verbose_json` has it.
    pub fn json(&self) -> Json {
        let segments = self.segments.iter().map(Segment::json);
        let task = if self.translated {
            "translate"
        } else {
            "transcribe"
        };
        let mut out = Json::object([
            ("task", task.into()),
            ("language", self.language_name.as_str().into()),
            ("duration", rounded(self.duration, 2)),
            ("text", self.text().into()),
            ("segments", Json::Array(segments.collect())),
        ]);
        let words = self.segments.iter().flat_map(|part| &part.words);
        let words: Vec<Json> = words.map(Word::json).collect();
        if let (false, Json::Object(pairs)) = (words.is_empty(), &mut out) {
            pairs.push(("words".into(), Json::Array(words)));
        }
        out
    }
}

impl Segment {
    /// As `verbose_json` has it.
    pub fn json(&self) -> Json {
        let tokens = self.tokens.iter().map(|&token| Json::Int(token.into()));
        Json::object([
            ("id", Json::Int(self.id as i64)),
            ("seek", Json::Int(self.seek as i64)),
            ("start", rounded(self.start, 2)),
            ("end", rounded(self.end, 2)),
            ("text", self.text.as_str().into()),
            ("tokens", Json::Array(tokens.collect())),
            ("temperature", rounded(self.temperature.into(), 2)),
            ("avg_logprob", rounded(self.mean_logprob.into(), 6)),
            ("compression_ratio", rounded(self.compression.into(), 6)),
            ("no_speech_prob", rounded(self.no_speech.into(), 6)),
        ])
    }
}

impl Word {
    fn json(&self) -> Json {
        Json::object([
            ("word", self.text.trim().into()),
            ("start", rounded(self.start, 2)),
            ("end", rounded(self.end, 2)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtitles_have_numbers_and_clocks() {
        let segment = |start, end, text: &str| Segment {
            start,
            end,
            text: text.into(),
            ..Segment::default()
        };
        let transcript = Transcript {
            segments: [
                segment(0.0, 1.5, " One --> two"),
                segment(3661.0, 3662.25, " three."),
            ]
            .into(),
            ..Transcript::default()
        };
        assert_eq!(transcript.text(), "One --> two three.");
        assert_eq!(
            transcript.srt(),
            "1\n00:00:00,000 --> 00:00:01,500\nOne -> two\n\n2\n01:01:01,000 --> 01:01:02,250\nthree.\n\n"
        );
        assert_eq!(
            transcript.vtt(),
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nOne -> two\n\n01:01:01.000 --> 01:01:02.250\nthree.\n\n"
        );
    }
}
