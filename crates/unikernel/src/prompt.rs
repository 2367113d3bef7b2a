//! A prompt that is answered at boot, before there is a shell or a server to ask through.

use crate::boot::CommandLine;
use crate::model::{self, LoadSettings, ModelError, ModelFile, Platform};
use alloc::string::String;
use core::time::Duration;
use strata_chat::{Arrival, Event, Fault, Generate, RequestContext};
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
    /// The model could not answer.
    #[error("{}", .0.message)]
    Fault(Fault),
}

/// A prompt and how to answer it.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// What is asked.
    pub request: Generate,
    /// For a request that gives no seed.
    pub seed: u64,
    /// Positions of the sequence at most, if somebody says so.
    pub context: Option<usize>,
}

impl Prompt {
    /// `prompt="…"` with `n=`, `temp=`, `seed=` and `ctx=`; nothing if there is no `prompt`. What is not given is as it is
    /// for every other request.
    pub fn from_options(line: &CommandLine, seed: u64) -> Result<Option<Self>, PromptError> {
        let Some(text) = line.get("prompt") else {
            return Ok(None);
        };
        let mut request = Generate::new("", strata_chat::Prompt::text(text));
        request.sampling.temperature = number(line, "temp")?;
        request.sampling.seed = number(line, "seed")?;
        request.max_tokens = Some(number(line, "n")?.unwrap_or(64));
        Ok(Some(Self {
            request,
            seed,
            context: number(line, "ctx")?,
        }))
    }
}

fn number<T: core::str::FromStr>(
    line: &CommandLine,
    key: &'static str,
) -> Result<Option<T>, PromptError> {
    let not_a_number = |value: &str| PromptError::Option {
        key,
        value: value.into(),
    };
    line.get(key)
        .map(|value| value.parse().map_err(|_| not_a_number(value)))
        .transpose()
}

/// Loads the model in a file into `free` bytes of memory, and calls `emit` after each step with the text that is new.
pub fn answer(
    file: &dyn ModelFile,
    prompt: &Prompt,
    free: usize,
    platform: Platform<'_>,
    emit: &mut dyn FnMut(&str),
) -> Result<(), PromptError> {
    // A single sequence.
    let settings = LoadSettings {
        requests: 1,
        batch: 64,
        context: prompt.context,
        free,
    };
    let (mut model, _) = model::open(file, "", settings, platform)?;
    let context = RequestContext {
        now: None,
        seed: prompt.seed,
        id: "",
    };
    let prepared = model.prepare(&prompt.request, context);
    let started =
        prepared.and_then(|prepared| model.start(&prompt.request, prepared, Arrival::default()));
    let mut generation = started.map_err(PromptError::Fault)?;
    while !generation.has_ended() {
        let events = generation.step(&mut model.engine, &|| Duration::ZERO, &mut |_| {});
        emit(&text(&events).map_err(PromptError::Fault)?);
    }
    Ok(())
}

/// The text in events, or why there is none.
pub(crate) fn text(events: &[Event]) -> Result<String, Fault> {
    let mut joined = String::new();
    for event in events {
        match event {
            Event::Text { text, .. } => joined.push_str(text),
            Event::Failed(fault) => return Err(fault.clone()),
            _ => {}
        }
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::platform;

    #[test]
    fn the_prompt_is_read_from_the_command_line() {
        let read = |line: &str| Prompt::from_options(&CommandLine::copy(line.as_bytes()), 7);
        assert!(read("quiet").unwrap().is_none());
        let prompt = read("prompt=\"a b\" n=3 temp=0.5 seed=9").unwrap().unwrap();
        assert_eq!(prompt.request.prompts, [strata_chat::Prompt::text("a b")]);
        let (sampling, most) = (&prompt.request.sampling, prompt.request.max_tokens);
        assert_eq!(most, Some(3));
        assert_eq!((sampling.temperature, sampling.seed), (Some(0.5), Some(9)));
        let plain = read("prompt=x").unwrap().unwrap();
        assert_eq!(plain.request.sampling, strata_chat::Sampling::default());
        assert_eq!((plain.seed, plain.request.max_tokens), (7, Some(64)));
        for (line, key) in [("prompt=x n=-1", "n"), ("prompt=x temp=hot", "temp")] {
            assert!(matches!(read(line), Err(PromptError::Option { key: k, .. }) if k == key));
        }
    }

    #[test]
    fn what_is_no_model_is_an_error() {
        let line = CommandLine::copy(b"prompt=x n=1");
        let prompt = Prompt::from_options(&line, 0).unwrap().unwrap();
        for file in [&b""[..], b"GGUF", &[0xff; 4096]] {
            let result = platform(|platform| {
                answer(&file, &prompt, 1 << 30, platform, &mut |_| {
                    panic!("an answer")
                })
            });
            assert!(matches!(
                result,
                Err(PromptError::Model(ModelError::File(_)))
            ));
        }
    }
}
