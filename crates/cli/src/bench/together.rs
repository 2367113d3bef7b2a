//! Decoding through the engine: texts side by side, or one whose tokens are guessed ahead.

use super::recital::Recital;
use super::report::Report;
use super::{Arguments, random_tokens};
use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use std::time::Instant;
use strata::load::LoadedModel;
use strata::load::Machine;
use strata::load::Needs;
use strata_engine::sampling::SamplerSettings;
use strata_engine::{Engine, EngineOptions, EventKind, Request, Speculation, Usage};
use strata_host::HugePages;
use strata_model::{PAGE, PageLayout, PageStorage};

/// Tokens of the prompt of each of several texts.
const SHORT: usize = 32;

/// What is measured through an engine.
pub(super) struct Together {
    texts: usize,
    prompt: usize,
    tokens: usize,
    /// Guesses at a time, of a text that repeats its prompt.
    guesses: Option<usize>,
}

/// What a run of the engine took.
struct Run {
    /// Tokens a second, in the steps in which every text got some.
    speed: f64,
    usage: Usage,
}

impl Together {
    /// So many texts at once, each with a short prompt of its own.
    pub(super) fn sequences(texts: u16, tokens: usize) -> Self {
        Self {
            texts: texts.into(),
            prompt: SHORT,
            // The first token comes with the prompt, and the last step is not everybody's.
            tokens: tokens + 2,
            guesses: None,
        }
    }

    /// A text that repeats its prompt.
    pub(super) fn reciting(guesses: u8, prompt: usize, tokens: usize) -> Self {
        Self {
            texts: 1,
            prompt,
            tokens: tokens + 2,
            guesses: Some(guesses.into()),
        }
    }

    fn text(&self) -> usize {
        (self.prompt + self.tokens).next_multiple_of(PAGE)
    }

    /// Positions of all texts.
    pub(super) fn positions(&self) -> usize {
        self.texts * self.text()
    }

    fn options(&self, compute: &ComputeArguments) -> EngineOptions {
        EngineOptions {
            context: self.text(),
            batch: compute.batch.into(),
            requests: self.texts,
            queue: self.texts,
            max_draft: self.guesses.unwrap_or(0),
            ..EngineOptions::default()
        }
    }

    /// What it takes, where `alone` says how keys and values are stored and who computes.
    pub(super) fn needs(&self, alone: Needs, compute: &ComputeArguments) -> Needs {
        let options = self.options(compute);
        Needs {
            positions: self.positions(),
            limits: options.limits(),
            states: options.states(),
            ..alone
        }
    }

    /// Adds what it finds to the report.
    pub(super) fn measure(
        &self,
        loaded: &LoadedModel,
        alone: Needs,
        arguments: &Arguments,
        machine: &Machine,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let model = &loaded.model;
        let options = self.options(&arguments.compute);
        let layout = PageLayout::new(model.config(), alone.kv);
        let memory = HugePages::default();
        let storage = PageStorage::new(layout, self.positions(), options.states(), &memory)
            .map_err(|error| Failure::new(Kind::OutOfMemory, error))?;
        let executor = machine.executor(model, storage, options.limits());
        let tokenizer = loaded.shared_tokenizer()?;
        let mut engine = Engine::new(Box::new(executor), tokenizer, options);
        let Some(max_draft) = self.guesses else {
            for _ in 0..arguments.repeat {
                let run = self.run(&mut engine, model.config().vocabulary, Speculation::Off)?;
                report.aggregate.push(run.speed);
            }
            return Ok(());
        };
        for _ in 0..arguments.repeat {
            let lookup = Speculation::PromptLookup { max_draft };
            let run = self.run(&mut engine, model.config().vocabulary, lookup)?;
            report.speculated.push(run.speed);
            report.usage = run.usage;
            let plain = self.run(&mut engine, model.config().vocabulary, Speculation::Off)?;
            report.unspeculated.push(plain.speed);
        }
        Ok(())
    }

    fn run(
        &self,
        engine: &mut Engine,
        vocabulary: usize,
        speculation: Speculation,
    ) -> Result<Run, Failure> {
        for text in 0..self.texts {
            let prompt = random_tokens(2 + text as u64, self.prompt, vocabulary);
            let recital = self
                .guesses
                .map(|_| Recital::new(&prompt, self.tokens, vocabulary));
            let request = Request {
                prompt,
                sampling: SamplerSettings::greedy(),
                max_tokens: Some(self.tokens),
                ignore_end: true,
                speculation,
                constraint: recital.map(|recital| Box::new(recital) as _),
                cache: false,
                ..Request::default()
            };
            let refused = |error| Failure::new(Kind::Failed, error);
            engine.submit(request).map_err(refused)?;
        }
        let (mut begun, mut ended) = (0, 0);
        let (mut tokens, mut seconds) = (0, 0.0);
        let (mut usage, mut failed) = (Usage::default(), None);
        while !engine.is_idle() {
            // Only steps that serve every text count: before, prompts are computed, and after, some have ended.
            let all = begun >= self.texts && ended == 0;
            let (start, mut now) = (Instant::now(), 0);
            engine.step(&mut |event| match event.kind {
                EventKind::Token { .. } => now += 1,
                EventKind::Finished { usage: took, .. } => {
                    usage = took;
                    ended += 1;
                }
                EventKind::Failed(error) => failed = Some(error),
                _ => {}
            });
            if let Some(error) = failed {
                return Err(Failure::new(Kind::Failed, error));
            }
            if all {
                tokens += now;
                seconds += start.elapsed().as_secs_f64();
            } else if ended == 0 {
                begun = begun.max(now);
            }
        }
        Ok(Run {
            speed: tokens as f64 / seconds,
            usage,
        })
    }
}
