//! A prompt that is answered at boot, before there is a shell or a server to ask through.

use crate::boot::CommandLine;
use crate::model::{self, Load, Means, ModelError, ModelFile};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_engine::sampling::SamplerSettings;
use strata_engine::{Engine, EventKind, Request, RequestError, SubmitError};
use strata_tokenizer::{EncodeOptions, Tokenizer};
use thiserror::Error;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum PromptError {
    /// An option is not a number.
    #[error("{key}={value} is not a number")]
    Option {
        /// The option.
        key: &'static str,
        /// What it says.
        value: String,
    },
    /// There is no model to answer with.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The engine does not take the prompt.
    #[error(transparent)]
    Refused(#[from] SubmitError),
    /// The engine could not finish.
    #[error(transparent)]
    Failed(#[from] RequestError),
}

/// A prompt and how to answer it.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// What the answer continues.
    pub text: String,
    /// How many tokens to add.
    pub tokens: usize,
    /// How they are chosen.
    pub sampling: SamplerSettings,
    /// Positions of the text at most, if somebody says so.
    pub context: Option<usize>,
}

impl Prompt {
    /// `prompt="…"` with `n=`, `temp=`, `seed=` and `ctx=`; nothing if there is no `prompt`.
    pub fn from_options(line: &CommandLine) -> Result<Option<Self>, PromptError> {
        let Some(text) = line.get("prompt") else {
            return Ok(None);
        };
        let mut sampling = SamplerSettings::llama_cpp();
        sampling.temperature = number(line, "temp", 0.0)?;
        sampling.seed = number(line, "seed", 0)?;
        Ok(Some(Self {
            text: text.into(),
            tokens: number(line, "n", 64)?,
            sampling,
            context: line
                .get("ctx")
                .map(|_| number(line, "ctx", 0))
                .transpose()?,
        }))
    }
}

fn number<T: core::str::FromStr>(
    line: &CommandLine,
    key: &'static str,
    otherwise: T,
) -> Result<T, PromptError> {
    line.get(key).map_or(Ok(otherwise), |value| {
        value.parse().map_err(|_| PromptError::Option {
            key,
            value: value.into(),
        })
    })
}

/// Loads the model in a file into `free` bytes of memory, and calls `tell` with each piece of the answer as it comes.
pub fn answer(
    file: &dyn ModelFile,
    prompt: &Prompt,
    free: usize,
    means: Means<'_>,
    tell: &mut dyn FnMut(&str),
) -> Result<(), PromptError> {
    // A single text.
    let load = Load {
        requests: 1,
        batch: 64,
        context: prompt.context,
        free,
    };
    let progress = means.progress;
    model::open(file, load, means, |opened| {
        let tokenizer = Arc::clone(&opened.tokenizer);
        let mut engine = Engine::new(opened.executor, opened.tokenizer, opened.options);
        engine.submit(Request {
            prompt: tokens(&tokenizer, &prompt.text),
            sampling: prompt.sampling.clone(),
            max_tokens: Some(prompt.tokens),
            ..Request::default()
        })?;
        let mut failure = None;
        while !engine.is_idle() {
            engine.step(&mut |event| match event.kind {
                EventKind::Token { text, .. } | EventKind::Finished { text, .. } => tell(&text),
                EventKind::Failed(error) => failure = Some(error),
                _ => {}
            });
            progress(0, 0);
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    })?
}

/// The prompt as it is, after the beginning that the model wants.
fn tokens(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let options = EncodeOptions {
        add_special: false,
        parse_special: true,
    };
    let mut tokens = tokenizer.encode(text, options);
    let bos = tokenizer
        .special()
        .bos
        .filter(|_| tokenizer.added().bos)
        .filter(|bos| tokens.first() != Some(bos));
    tokens.splice(0..0, bos);
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::heap::HugePages;
    use strata_platform::Inline;

    #[test]
    fn the_prompt_is_read_from_the_command_line() {
        let read = |line: &str| Prompt::from_options(&CommandLine::copy(line.as_bytes()));
        assert!(read("quiet").unwrap().is_none());
        let prompt = read("prompt=\"a b\" n=3 temp=0.5 seed=9").unwrap().unwrap();
        assert_eq!((prompt.text.as_str(), prompt.tokens), ("a b", 3));
        assert_eq!(
            (prompt.sampling.temperature, prompt.sampling.seed),
            (0.5, 9)
        );
        for (line, key) in [("prompt=x n=-1", "n"), ("prompt=x temp=hot", "temp")] {
            assert!(matches!(read(line), Err(PromptError::Option { key: k, .. }) if k == key));
        }
    }

    #[test]
    fn what_is_no_model_is_an_error() {
        let prompt = Prompt {
            text: "x".into(),
            tokens: 1,
            sampling: SamplerSettings::greedy(),
            context: None,
        };
        let means = Means {
            pool: Arc::new(Inline),
            memory: &HugePages,
            progress: &|_, _| {},
        };
        for file in [&b""[..], b"GGUF", &[0xff; 4096]] {
            let result = answer(&file, &prompt, 1 << 30, means.clone(), &mut |_| {
                panic!("an answer")
            });
            assert!(matches!(
                result,
                Err(PromptError::Model(ModelError::File(_)))
            ));
        }
    }
}
