//! `strata learn sampling`: the candidates for the next token, one sampler after the other, and a hundred draws.

use super::{Staging, bytes, tale};
use crate::failure::{Failure, Kind};
use crate::learn::show::{Show, bar, clip, visible};
use std::collections::HashMap;
use strata::{Look, Model};
use strata_engine::sampling::{Sampler, SamplerSettings, Stage, Workspace};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The prompt
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "Once upon a time there was a little"
    )]
    prompt: String,
    /// Temperature
    #[arg(long = "temp", value_name = "T", default_value_t = 0.8)]
    temperature: f32,
    /// Keep so many of the likeliest tokens; 0 keeps all
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: u32,
    /// Keep the likeliest tokens up to this total probability
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    top_p: f32,
    /// Keep tokens at least this likely relative to the likeliest
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    min_p: f32,
    #[command(flatten)]
    staging: Staging,
}

/// Candidates that are shown.
const SHOWN: usize = 8;

/// Draws at the end.
const DRAWS: u64 = 100;

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = tale()?;
    let mut show = arguments.staging.show();
    let tokens = model.tokenize(&arguments.prompt);
    let seen = model.look(Look {
        prompt: tokens.clone(),
        ..Look::default()
    })?;
    let settings = SamplerSettings {
        temperature: arguments.temperature,
        top_k: arguments.top_k,
        top_p: arguments.top_p,
        min_p: arguments.min_p,
        ..SamplerSettings::default()
    };
    let wrong = |error: &dyn std::fmt::Display| Failure::new(Kind::Usage, error);
    let mut sampler = Sampler::new(settings, seen.logits.len()).map_err(|error| wrong(&error))?;
    sampler.prime(&tokens);
    let (stages, choice) = sampler
        .stages(&seen.logits)
        .map_err(|error| wrong(&error))?;
    show.say(&format!(
        "“{}”: what comes next? The model has a logit for each of its {} tokens. Each sampler takes some away or changes \
         their shares:",
        arguments.prompt,
        seen.logits.len()
    ))?;
    for stage in &stages {
        show.line("")?;
        frames(&mut show, &model, stage, arguments)?;
    }
    show.line("")?;
    let drawn = bytes(&model, choice.token);
    show.say(&format!(
        "The draw with seed 0 is “{}”, whose share is {:.1} %. With {DRAWS} other seeds:",
        visible(&drawn),
        100.0 * choice.probability
    ))?;
    show.line("")?;
    draws(&mut show, &model, &mut sampler, &seen.logits)
}

/// What a sampler left, its bars growing.
fn frames(
    show: &mut Show,
    model: &Model,
    stage: &Stage,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let setting = match stage.name {
        "top_k" => format!(" {}", arguments.top_k),
        "top_p" => format!(" {}", arguments.top_p),
        "min_p" => format!(" {}", arguments.min_p),
        "temperature" => format!(" {}", arguments.temperature),
        _ => String::new(),
    };
    let left = stage.candidates.len();
    show.line(format!("{}{setting}: {left} left", stage.name))?;
    let room = show.columns().saturating_sub(20).min(40);
    const STEPS: usize = 3;
    for step in 1..=STEPS {
        let grown = step as f64 / STEPS as f64;
        let lines = stage.candidates.iter().take(SHOWN).map(|candidate| {
            let piece = clip(&visible(&bytes(model, candidate.token)), 9);
            let share = f64::from(candidate.probability);
            let bar = bar(share * grown, room);
            format!("  {piece:<9} {bar} {share:.3}")
        });
        show.frame(&lines.collect::<Vec<_>>(), step == STEPS)?;
    }
    Ok(())
}

/// How often each token is drawn.
fn draws(
    show: &mut Show,
    model: &Model,
    sampler: &mut Sampler,
    logits: &[f32],
) -> Result<(), Failure> {
    let mut workspace = Workspace::new();
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for seed in 1..=DRAWS {
        sampler.reseed(seed);
        let choice = sampler.sample(logits, &mut workspace);
        let choice = choice.map_err(|error| Failure::new(Kind::Failed, error))?;
        *counts.entry(choice.token).or_default() += 1;
        if seed % 20 != 0 {
            continue;
        }
        let mut ranked: Vec<(u32, usize)> = counts.iter().map(|(&id, &n)| (id, n)).collect();
        ranked.sort_by_key(|&(id, n)| (usize::MAX - n, id));
        let room = show.columns().saturating_sub(20).min(40);
        let lines = ranked.iter().take(SHOWN).map(|&(id, n)| {
            let piece = clip(&visible(&bytes(model, id)), 9);
            let bar = bar(n as f64 / DRAWS as f64, room);
            format!("  {piece:<9} {bar} {n:>3}×")
        });
        show.frame(&lines.collect::<Vec<_>>(), seed == DRAWS)?;
    }
    Ok(())
}
