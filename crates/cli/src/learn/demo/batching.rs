//! `strata learn batching`: requests of several lengths, one after the other and then together, step by step.

use super::{Staging, tale};
use crate::failure::{Failure, Kind};
use crate::learn::show::Show;
use std::time::{Duration, Instant};
use strata::Model;
use strata::worker::{Heard, RequestHandle};
use strata_engine::sampling::SamplerSettings;
use strata_engine::{ClientId, EventKind, Request, RequestId, StepReport};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Requests side by side
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=8))]
    requests: u8,
    #[command(flatten)]
    staging: Staging,
}

const PROMPTS: [&str; 8] = [
    "Once upon a time",
    "The little fox looked at the moon and said that she would",
    "One day a boy named Tom found a big red ball in the park. He was so happy that he",
    "A cat",
    "It was raining, and",
    "Lily and her mother went to the market to buy some apples, and on the way they met",
    "The bird sang",
    "Deep in the forest there lived an old bear who",
];

/// Letters for the requests.
const NAMES: &[u8; 8] = b"ABCDEFGH";

/// A request, and what became of it.
struct Told {
    handle: RequestHandle,
    id: Option<RequestId>,
    tokens: Vec<u32>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = tale()?;
    let mut show = arguments.staging.show();
    let count = usize::from(arguments.requests);
    show.say(&format!(
        "{count} requests, whose answers are of several lengths. In a step each request that waits for a token has one \
         letter, and a prompt as many as it has tokens."
    ))?;
    // What one run leaves in the cache must not help the other.
    let apart = Instant::now();
    let mut alone = Vec::new();
    let steps = model.watch_steps(512);
    for (index, prompt) in PROMPTS.iter().take(count).enumerate() {
        let mut told = start(&model, index, prompt, 0);
        finish(&mut told)?;
        alone.push(told);
    }
    let apart = apart.elapsed();
    let apart_steps = steps.steps();
    drop(steps);
    show.line("")?;
    show.line("One after the other:")?;
    chart(&mut show, &apart_steps, &alone)?;
    let together = Instant::now();
    let steps = model.watch_steps(512);
    let prompts = PROMPTS.iter().take(count).enumerate();
    let mut beside: Vec<Told> = prompts
        .map(|(index, prompt)| start(&model, index, prompt, 1))
        .collect();
    for told in &mut beside {
        finish(told)?;
    }
    let together = together.elapsed();
    let beside_steps = steps.steps();
    show.line("")?;
    show.line("Together:")?;
    chart(&mut show, &beside_steps, &beside)?;
    show.line("")?;
    let tokens: usize = beside.iter().map(|told| told.tokens.len()).sum();
    let line = |name: &str, steps: usize, time: Duration| {
        let (ms, speed) = (time.as_millis(), tokens as f64 / time.as_secs_f64());
        format!("{name:<10} {steps:>5} {ms:>5} {speed:>9.0}")
    };
    show.line(format!(
        "{:<10} {:>5} {:>5} {:>9}",
        "", "steps", "ms", "tokens/s"
    ))?;
    show.line(line("apart", apart_steps.len(), apart))?;
    show.line(line("together", beside_steps.len(), together))?;
    show.line("")?;
    let same = alone.iter().zip(&beside);
    if !same.clone().all(|(a, b)| a.tokens == b.tokens) {
        let problem = "the answers differ, which is a bug";
        return Err(Failure::new(Kind::Failed, problem));
    }
    show.say(
        "Each step reads all weights once, however many letters it has. The answers are the same tokens both times.",
    )
}

/// Submits a request. Clients share nothing, so each run has its own.
fn start(model: &Model, index: usize, prompt: &str, client: u64) -> Told {
    let request = Request {
        prompt: model.tokenize(prompt),
        max_tokens: Some(6 + 5 * (index % 4)),
        sampling: SamplerSettings {
            temperature: 0.0,
            ..SamplerSettings::default()
        },
        ignore_end: true,
        client: ClientId(client),
        ..Request::default()
    };
    Told {
        handle: model.submit(request, &[]),
        id: None,
        tokens: Vec::new(),
    }
}

/// Waits for the end of a request.
fn finish(told: &mut Told) -> Result<(), Failure> {
    loop {
        let heard = told.handle.next_blocking();
        let event = match heard {
            None => return Ok(()),
            Some(Heard::Refused(error)) => return Err(strata::Error::from(error).into()),
            Some(Heard::Event(event)) => event,
        };
        told.id = Some(event.request);
        match event.kind {
            EventKind::Token { token, .. } => told.tokens.push(token),
            EventKind::Failed(error) => return Err(strata::Error::from(error).into()),
            EventKind::Finished { .. } => {
                told.handle.end();
                return Ok(());
            }
            _ => {}
        }
    }
}

/// The steps, a line for each.
fn chart(show: &mut Show, steps: &[StepReport], told: &[Told]) -> Result<(), Failure> {
    show.line("step    ms batch")?;
    for (at, step) in steps.iter().enumerate() {
        let mut batch = String::new();
        for sequence in &step.sequences {
            let index = told.iter().position(|one| one.id == Some(sequence.request));
            let letter = index.map_or('?', |index| char::from(NAMES[index]));
            let letter = if sequence.prefill {
                letter.to_ascii_lowercase()
            } else {
                letter
            };
            batch.extend(std::iter::repeat_n(letter, sequence.tokens));
        }
        let (at, ms) = (at + 1, step.time.as_secs_f64() * 1000.0);
        show.line(format!("{at:>4} {ms:>5.1} {batch}"))?;
    }
    show.line("(small letters: prompt)")
}
