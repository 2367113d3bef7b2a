//! A model's ears: from an audio file to a transcript, with Whisper, or with Wav2Vec2 or HuBERT and CTC.

mod ctc;
mod ctc_text;
mod languages;
mod rules;
mod segments;
mod tokens;
mod whisper;
mod window;
mod words;

use crate::error::{Error, ErrorKind};
use crate::load::{Machine, ModelFile};
use crate::open::Runtime;
use ctc::CtcEars;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use strata_chat::{Segment, Transcribe, Transcript};
use strata_model::CtcConfig;
use strata_speech::{DecodeError, Limits};
use whisper::WhisperEars;

/// What happens while a file is transcribed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Hearing<'a> {
    /// Seconds that were heard, and seconds in all.
    Progress(f64, f64),
    /// A piece of text.
    Segment(&'a Segment),
}

/// A model that transcribes. Clones lead to the same model.
#[derive(Clone)]
pub struct Transcriber(Arc<Inner>);

/// What a model that transcribes is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SpeechFacts {
    /// `whisper`, `wav2vec2` or `hubert`.
    pub family: &'static str,
    /// Tokens that a window's text may have, with its prompt; rows of a chunk for models with CTC.
    pub context: usize,
    /// The width of states.
    pub width: usize,
    /// Tokens.
    pub vocabulary: usize,
}

struct Inner {
    name: String,
    ears: Ears,
}

enum Ears {
    Whisper(Box<WhisperEars>),
    Ctc(Box<CtcEars>),
}

impl std::fmt::Debug for Transcriber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.0.name;
        f.debug_tuple("Transcriber").field(name).finish()
    }
}

impl Transcriber {
    /// Opens a model: a GGUF file, a Hugging Face folder, or a model of the store.
    pub fn open(path: impl AsRef<Path>, threads: Option<usize>) -> Result<Self, Error> {
        Self::open_on(path.as_ref(), &Arc::new(Machine::new(threads)?))
    }

    /// The same beside other models, with which it takes turns.
    pub fn open_beside(path: &Path, runtime: &Runtime) -> Result<Self, Error> {
        Self::open_on(path, &runtime.machine)
    }

    fn open_on(path: &Path, machine: &Arc<Machine>) -> Result<Self, Error> {
        let file = ModelFile::open(path)?;
        let set = file.parse()?;
        let arch = set.metadata().str("general.architecture");
        let arch = arch.ok().flatten().unwrap_or_default();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = name.into_owned();
        let ears = if arch == "whisper" {
            Ears::Whisper(Box::new(WhisperEars::new(&set, path, machine)?))
        } else if CtcConfig::is_named(arch) {
            Ears::Ctc(Box::new(CtcEars::new(&set, path, machine)?))
        } else {
            let sentence = format_args!(
                "{} is a model of the architecture {arch:?}, which cannot transcribe",
                path.display()
            );
            let error = Error::new(ErrorKind::Unsupported, sentence);
            let hint = "speech is transcribed by Whisper, and by Wav2Vec2 and HuBERT with CTC";
            return Err(error.with_hint(hint));
        };
        Ok(Self(Arc::new(Inner { name, ears })))
    }

    /// Its name: that of its file.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is.
    pub fn facts(&self) -> SpeechFacts {
        match &self.0.ears {
            Ears::Whisper(ears) => ears.facts(),
            Ears::Ctc(ears) => ears.facts(),
        }
    }

    /// Transcribes an audio file within limits. `hear` is told of every segment, and may end it.
    pub fn transcribe(
        &self,
        request: &Transcribe,
        limits: Limits,
        hear: &mut dyn FnMut(Hearing<'_>) -> ControlFlow<()>,
    ) -> Result<Transcript, Error> {
        match &self.0.ears {
            Ears::Whisper(ears) => ears.check(request)?,
            Ears::Ctc(_) => ctc::check(request, self.name())?,
        }
        let samples = strata_speech::decode(&request.audio, limits);
        let samples = samples.map_err(|error| bad_audio(&error))?;
        match &self.0.ears {
            Ears::Whisper(ears) => ears.transcribe(&samples, request, hear),
            Ears::Ctc(ears) => ears.transcribe(&samples, request.words, hear),
        }
    }

    #[cfg(test)]
    fn whisper(&self) -> Option<&WhisperEars> {
        match &self.0.ears {
            Ears::Whisper(ears) => Some(ears),
            Ears::Ctc(_) => None,
        }
    }
}

/// A failure that blames the audio file.
fn bad_audio(error: &DecodeError) -> Error {
    Error::new(ErrorKind::InvalidArgument, error)
}

/// What is said when whoever hears ends it.
fn canceled() -> Error {
    Error::new(ErrorKind::Canceled, "the transcription was canceled")
}
