//! Whisper's ears: from samples to a transcript.
//!
//! Sound is read window by window. Each begins where the last stamp of the one before says, and the text before is its
//! prompt. A window that reads badly, because it repeats itself or is a guess, is decoded again more freely; one without
//! speech is left out. The rules are those of Whisper's authors (<https://arxiv.org/abs/2212.04356>, part 4.5).

use super::segments::{self, STAMP_FRAMES};
use super::tokens::SpeechTokens;
use super::window::{Thresholds, WindowRequest, bad_input};
use super::{Hearing, SpeechFacts, languages, words};
use crate::error::Error;
use crate::load::{Machine, bad_model};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use strata_chat::{Segment, Transcribe, Transcript};
use strata_model::{Heard, Whisper, WhisperConfig};
use strata_platform::SystemMemory;
use strata_speech::{HOP, LogMel, RATE, Spectrogram};
use strata_tokenizer::{EncodeOptions, Tokenizer};
use strata_weights::GgufSet;

/// Seconds of a frame.
pub(super) const FRAME: f64 = HOP as f64 / RATE as f64;
/// A transcript that was written more freely is no prompt.
const FREE: f32 = 0.5;

/// Whisper, ready to transcribe.
pub(super) struct WhisperEars {
    pub(super) model: Whisper,
    pub(super) tokenizer: Tokenizer,
    pub(super) tokens: SpeechTokens,
    mel: LogMel,
    /// Layers and heads that follow what is spoken.
    pub(super) alignment: Vec<(usize, usize)>,
    pub(super) machine: Arc<Machine>,
}

impl WhisperEars {
    /// Reads a model's file; `path` is what errors name.
    pub(super) fn new(
        set: &GgufSet<'_>,
        path: &Path,
        machine: &Arc<Machine>,
    ) -> Result<Self, Error> {
        let metadata = set.metadata();
        let tokenizer = Tokenizer::from_gguf(metadata).map_err(|error| bad_model(path, error))?;
        let model = Whisper::load(set, &SystemMemory, &*machine.pool)
            .map_err(|error| bad_model(path, error))?;
        let config = model.config();
        Ok(Self {
            mel: LogMel::new(config.bands),
            alignment: words::heads(metadata, config),
            tokens: SpeechTokens::new(metadata, &tokenizer, config.vocabulary)?,
            tokenizer,
            machine: Arc::clone(machine),
            model,
        })
    }

    /// Its sizes.
    pub(super) fn config(&self) -> &WhisperConfig {
        self.model.config()
    }

    /// What the model is.
    pub(super) fn facts(&self) -> SpeechFacts {
        let config = self.config();
        SpeechFacts {
            family: "whisper",
            context: config.text_positions,
            width: config.width,
            vocabulary: config.vocabulary,
        }
    }

    /// Refuses what the model cannot do.
    pub(super) fn check(&self, request: &Transcribe) -> Result<(), Error> {
        let language = request.language.as_deref();
        language.map_or(Ok(None), |asked| self.tokens.language(asked))?;
        Ok(())
    }

    /// Transcribes samples.
    pub(super) fn transcribe(
        &self,
        samples: &[f32],
        request: &Transcribe,
        hear: &mut dyn FnMut(Hearing<'_>) -> ControlFlow<()>,
    ) -> Result<Transcript, Error> {
        // A window of silence follows, so that the last is as long as others.
        let window = self.config().frames() * HOP;
        let mel = self.mel.spectrogram(samples, samples.len() + window);
        let duration = samples.len() as f64 / RATE as f64;
        let frames = samples.len().div_ceil(HOP);
        let reading = Reading::new(self, request, How::default())?;
        self.read_all(&mel, (frames, duration), reading, hear)
    }

    fn read_all(
        &self,
        mel: &Spectrogram,
        (frames, duration): (usize, f64),
        mut reading: Reading<'_>,
        hear: &mut dyn FnMut(Hearing<'_>) -> ControlFlow<()>,
    ) -> Result<Transcript, Error> {
        let config = self.config();
        let mut transcript = Transcript {
            duration,
            translated: reading.request.translate,
            ..Transcript::default()
        };
        let (mut seek, whole) = (0, config.frames());
        while seek < frames {
            let size = whole.min(frames - seek);
            let sound = mel.window(seek, whole);
            let heard = self.turn(|compute| self.model.hear(compute, &sound));
            let heard = heard.map_err(|error| bad_input(&error))?;
            if reading.language.is_none() {
                reading.language = Some(self.detect(&heard)?);
            }
            let at = transcript.segments.len();
            seek += reading.window(&heard, (seek, size), &mut transcript)?;
            let new = transcript.segments[at..].iter().map(Hearing::Segment);
            let done = seek.min(frames) as f64 * FRAME;
            let progress = Hearing::Progress(done.min(duration), duration);
            for event in new.chain([progress]) {
                if hear(event).is_break() {
                    return Err(super::canceled());
                }
            }
        }
        let code = reading.language.map_or("en".to_owned(), |(code, _)| code);
        transcript.language_name = languages::name(&code).into();
        transcript.language = code;
        Ok(transcript)
    }

    /// The language of a window: its code and its token.
    fn detect(&self, heard: &Heard) -> Result<(String, u32), Error> {
        if self.tokens.languages.is_empty() {
            return Ok(("en".into(), self.tokens.start));
        }
        let logits = self.write(heard, &mut self.model.state(), &[self.tokens.start], 1)?;
        let score = |id: u32| logits[id as usize];
        let mut best = &self.tokens.languages[0];
        for language in &self.tokens.languages {
            if score(language.1) > score(best.1) {
                best = language;
            }
        }
        Ok(best.clone())
    }
}

/// A transcript that is being written.
struct Reading<'a> {
    transcriber: &'a WhisperEars,
    request: &'a Transcribe,
    /// Its code and its token.
    language: Option<(String, u32)>,
    /// What was written, which the next window has as its prompt.
    before: Vec<u32>,
    how: How,
}

/// How a transcript is written. Only tests against others differ from the default.
#[derive(Copy, Clone, Debug)]
struct How {
    /// Whether the text before a window is its prompt.
    prompted: bool,
    /// What windows are tried again, and which are left out because they are silent; none where neither is done.
    thresholds: Option<Thresholds>,
    /// The most tokens of a window; half of the positions where none is given.
    most: Option<usize>,
}

impl Default for How {
    fn default() -> Self {
        Self {
            prompted: true,
            thresholds: Some(Thresholds::AUTHORS),
            most: None,
        }
    }
}

impl<'a> Reading<'a> {
    fn new(transcriber: &'a WhisperEars, request: &'a Transcribe, how: How) -> Result<Self, Error> {
        let tokens = &transcriber.tokens;
        let language = match request.language.as_deref() {
            Some(asked) => tokens.language(asked)?,
            None => None,
        };
        let prompt = request.prompt.as_deref().map(str::trim);
        let prompt = prompt.filter(|prompt| !prompt.is_empty());
        let before = prompt.map(|prompt| {
            let text = format!(" {prompt}");
            transcriber
                .tokenizer
                .encode(&text, EncodeOptions::default())
        });
        Ok(Self {
            transcriber,
            request,
            language: language.map(|(code, id)| (code.to_owned(), id)),
            before: before.unwrap_or_default(),
            how,
        })
    }

    /// What the model reads before it writes.
    fn prompt(&self) -> Vec<u32> {
        let (tokens, config) = (&self.transcriber.tokens, self.transcriber.config());
        let mut prompt = Vec::new();
        // Half of the positions are for what is written.
        let room = (config.text_positions / 2).saturating_sub(1);
        if !self.before.is_empty() {
            let from = self.before.len().saturating_sub(room);
            prompt.push(tokens.previous);
            prompt.extend_from_slice(&self.before[from..]);
        }
        prompt.push(tokens.start);
        if let (false, Some((_, language))) = (tokens.languages.is_empty(), &self.language) {
            prompt.push(*language);
            prompt.push(if self.request.translate {
                tokens.translate
            } else {
                tokens.transcribe
            });
        }
        prompt
    }

    /// Adds a window's segments; gives how far the next one is.
    fn window(
        &mut self,
        heard: &Heard,
        (seek, size): (usize, usize),
        transcript: &mut Transcript,
    ) -> Result<usize, Error> {
        let transcriber = self.transcriber;
        let (tokens, config) = (&transcriber.tokens, transcriber.config());
        let prompt = self.prompt();
        let room = config.text_positions.saturating_sub(prompt.len());
        let found = transcriber.window_text(
            heard,
            &WindowRequest {
                prompt: &prompt,
                stamps: true,
                temperature: self.request.temperature,
                most: self.how.most.unwrap_or(config.text_positions / 2).min(room),
                thresholds: self.how.thresholds,
                seed: seek as u64,
            },
        )?;
        transcript.tokens += found.tokens.len();
        let thresholds = self.how.thresholds;
        if thresholds.is_some_and(|it| it.is_silent(&found)) {
            return Ok(size);
        }
        let (pieces, next) = segments::cut(tokens, &found.tokens, size);
        let offset = seek as f64 * FRAME;
        let time = |stamp: usize| offset + (stamp * STAMP_FRAMES) as f64 * FRAME;
        let first = transcript.segments.len();
        for piece in pieces {
            let written = &found.tokens[piece.tokens.clone()];
            let text = transcriber.text(written);
            if text.trim().is_empty() || piece.start == piece.end {
                continue;
            }
            self.before.extend_from_slice(written);
            transcript.segments.push(Segment {
                id: transcript.segments.len(),
                seek,
                start: time(piece.start),
                end: time(piece.end),
                text,
                tokens: written.to_vec(),
                temperature: found.temperature,
                mean_logprob: found.mean_logprob,
                compression: found.compression,
                no_speech: found.no_speech,
                words: Vec::new(),
            });
        }
        if self.request.words {
            let new = &mut transcript.segments[first..];
            transcriber.add_words(heard, &prompt, (offset, size), new)?;
        }
        if found.temperature > FREE || !self.how.prompted {
            self.before.clear();
        }
        // Never stuck, whatever the stamps say.
        Ok(next.clamp(1, size.max(1)))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
