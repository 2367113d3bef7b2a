//! Wav2Vec2 and HuBERT with CTC: from samples to a transcript.
//!
//! Sound is read in chunks of 30 seconds, as `transformers`' pipeline reads it with `chunk_length_s=30`: a chunk knows five
//! seconds before and after what it is asked about, so that no letter is read without what is around it.

use super::ctc_text::{Letters, Reader};
use super::{Hearing, SpeechFacts, canceled};
use crate::error::{Error, ErrorKind};
use crate::load::{Machine, bad_model};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use strata_chat::{Segment, Transcribe, Transcript};
use strata_model::{Compute, Ctc};
use strata_platform::SystemMemory;
use strata_speech::RATE;
use strata_weights::GgufSet;

/// Seconds of a chunk.
const CHUNK: usize = 30;
/// The share of a chunk that it only knows, on either side.
const SHARE: usize = 6;

/// Wav2Vec2 or HuBERT, ready to transcribe.
pub(super) struct CtcEars {
    model: Ctc,
    letters: Letters,
    machine: Arc<Machine>,
}

/// Refuses what a model that only names letters cannot do.
pub(super) fn check(request: &Transcribe, name: &str) -> Result<(), Error> {
    let fields = [
        ("language", request.language.is_some()),
        ("translate", request.translate),
        ("prompt", request.prompt.is_some()),
        (
            "temperature",
            request.temperature.is_some_and(|degree| degree > 0.0),
        ),
    ];
    let Some((field, _)) = fields.into_iter().find(|(_, asked)| *asked) else {
        return Ok(());
    };
    let sentence = format_args!(
        "{field:?} is not supported by {name:?}, which writes the letters that it hears and nothing else"
    );
    let error = Error::new(ErrorKind::Unsupported, sentence);
    Err(error.with_hint("Whisper models can do that"))
}

impl CtcEars {
    /// Reads a model's file; `path` is what errors name.
    pub(super) fn new(
        set: &GgufSet<'_>,
        path: &Path,
        machine: &Arc<Machine>,
    ) -> Result<Self, Error> {
        let model = Ctc::load(set, &SystemMemory, &*machine.pool)
            .map_err(|error| bad_model(path, error))?;
        let letters =
            Letters::new(set.metadata(), model.config()).map_err(|error| bad_model(path, error))?;
        Ok(Self {
            model,
            letters,
            machine: Arc::clone(machine),
        })
    }

    /// What the model is.
    pub(super) fn facts(&self) -> SpeechFacts {
        let config = self.model.config();
        SpeechFacts {
            family: config.arch,
            context: CHUNK * RATE / config.step(),
            width: config.width,
            vocabulary: config.vocabulary,
        }
    }

    /// The logits of a chunk: a turn of its own.
    fn read(&self, samples: &[f32]) -> Result<Vec<f32>, Error> {
        let machine = &self.machine;
        let compute = Compute {
            kernels: machine.kernels,
            pool: &*machine.pool,
        };
        let made = machine.turns().take(|| self.model.read(&compute, samples));
        made.map_err(|error| Error::new(ErrorKind::Internal, error))
    }

    /// Transcribes samples.
    pub(super) fn transcribe(
        &self,
        samples: &[f32],
        words: bool,
        hear: &mut dyn FnMut(Hearing<'_>) -> ControlFlow<()>,
    ) -> Result<Transcript, Error> {
        let config = self.model.config();
        let step = config.step();
        let (chunk, margin) = (CHUNK * RATE / step, CHUNK * RATE / SHARE / step);
        let duration = samples.len() as f64 / RATE as f64;
        let mut transcript = Transcript {
            duration,
            ..Transcript::default()
        };
        let mut reader = Reader::new(&self.letters, step as f64 / RATE as f64, words);
        let mut first = 0;
        loop {
            let start = first * step;
            let end = samples.len().min(start + chunk * step);
            let last = end == samples.len();
            let sound = &samples[start..end];
            // A sound that is too short for one row has no letters.
            if sound.len() >= config.least() {
                let logits = self.read(sound)?;
                let rows = logits.len() / config.vocabulary;
                let from = if first == 0 { 0 } else { margin };
                let to = if last { rows } else { rows.min(chunk - margin) };
                for row in logits.chunks_exact(config.vocabulary).take(to).skip(from) {
                    let letter = self.machine.kernels.argmax(row);
                    let sum = super::rules::log_sum(self.machine.kernels, row);
                    reader.push(letter as u32, row[letter] - sum);
                }
            }
            if last {
                reader.end();
            }
            for segment in reader.segments() {
                let id = transcript.segments.len();
                transcript.tokens += segment.tokens.len();
                transcript.segments.push(Segment { id, ..segment });
                let Some(segment) = transcript.segments.last() else {
                    continue;
                };
                if hear(Hearing::Segment(segment)).is_break() {
                    return Err(canceled());
                }
            }
            let done = (end as f64 / RATE as f64).min(duration);
            if hear(Hearing::Progress(done, duration)).is_break() {
                return Err(canceled());
            }
            if last {
                return Ok(transcript);
            }
            first += chunk - 2 * margin;
        }
    }
}
