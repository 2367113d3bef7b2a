//! `strata pull` and `strata push`.

use super::{built_in, checkpoint, failure, open};
use crate::failure::Failure;
use crate::progress;
use indicatif::{MultiProgress, ProgressBar};
use serde_json::{Map, Value};
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use strata::load::BUILT_IN;
use strata_store::{Name, Network, Progress};

/// What a model is fetched from or sent to.
#[derive(clap::Args)]
pub(crate) struct TransferArguments {
    /// The model: llama3.2:1b or host/namespace/model:tag; `pull` also takes hf.co/user/repo:quant and https URLs
    model: String,
    /// Allow a registry without TLS
    #[arg(long)]
    insecure: bool,
    /// Print progress as lines of JSON
    #[arg(long)]
    json: bool,
}

impl TransferArguments {
    fn network(&self) -> Network {
        Network {
            insecure: self.insecure,
            ..Network::from_env()
        }
    }
}

pub(crate) fn pull(arguments: &TransferArguments) -> Result<(), Failure> {
    let steps = Steps::new(arguments.json);
    pull_with(&arguments.model, &arguments.network(), steps).map(drop)
}

/// Fetches a model for another command.
pub(crate) fn fetch(model: &str, network: &Network) -> Result<Name, Failure> {
    pull_with(model, network, Steps::new(false))
}

fn pull_with(model: &str, network: &Network, mut steps: Steps) -> Result<Name, Failure> {
    if let Some(name) = model.parse().ok().filter(built_in::is_built_in) {
        eprintln!("{BUILT_IN} is built in: there is nothing to pull");
        return Ok(name);
    }
    checkpoint::pull(&open()?, model, network, &mut |step| steps.show(step))
}

pub(crate) fn push(arguments: &TransferArguments) -> Result<(), Failure> {
    let mut steps = Steps::new(arguments.json);
    open()?
        .push(&arguments.model, &arguments.network(), &mut |step| {
            steps.show(step)
        })
        .map_err(|error| failure(&error))?;
    Ok(())
}

/// Layers below this size are there before a bar could be looked at.
const WORTH_A_BAR: u64 = 1_000_000;

/// Shows the steps of a long piece of work: a bar a layer on a terminal, lines of JSON if asked for, changes of status
/// otherwise.
pub(crate) struct Steps {
    json: bool,
    bars: MultiProgress,
    /// Those of layers that are on their way, by their status.
    layers: Vec<(String, ProgressBar)>,
    last: String,
}

impl Steps {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            bars: MultiProgress::new(),
            layers: Vec::new(),
            last: String::new(),
        }
    }

    pub(crate) fn show(&mut self, step: &Progress) -> ControlFlow<()> {
        if self.json {
            let mut out = std::io::stdout().lock();
            // Nobody reads any more: nothing is worth fetching either.
            return match writeln!(out, "{}", as_json(step)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
        }
        match (step.total, std::io::stderr().is_terminal()) {
            (Some(total), true) if total < WORTH_A_BAR => {}
            (Some(total), true) => self.advance(step, total),
            _ => self.say(&step.status),
        }
        ControlFlow::Continue(())
    }

    fn advance(&mut self, step: &Progress, total: u64) {
        let known = self
            .layers
            .iter()
            .position(|(name, _)| *name == step.status);
        let index = known.unwrap_or_else(|| {
            let style = "{msg} {wide_bar} {decimal_bytes}/{decimal_total_bytes} \
                         {decimal_bytes_per_sec} {eta}";
            let bar = self.bars.add(progress::bar(total, style));
            bar.set_message(step.status.clone());
            self.layers.push((step.status.clone(), bar));
            self.layers.len() - 1
        });
        let (_, bar) = &self.layers[index];
        bar.set_position(step.completed.unwrap_or(0));
        if step.completed == Some(total) {
            bar.abandon();
        }
    }

    fn say(&mut self, status: &str) {
        self.finish();
        if self.last != status {
            eprintln!("{status}");
            self.last = status.into();
        }
    }

    /// Leaves the bars as they are.
    fn finish(&mut self) {
        for (_, bar) in self.layers.drain(..) {
            bar.abandon();
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.finish();
    }
}

fn as_json(step: &Progress) -> Value {
    let mut object = Map::new();
    object.insert("status".into(), step.status.clone().into());
    if let Some(digest) = &step.digest {
        object.insert("digest".into(), digest.clone().into());
    }
    if let Some(total) = step.total {
        object.insert("total".into(), total.into());
    }
    if let Some(completed) = step.completed {
        object.insert("completed".into(), completed.into());
    }
    Value::Object(object)
}
