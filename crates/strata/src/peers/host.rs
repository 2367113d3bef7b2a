//! A machine that has some of a model's layers, for a head elsewhere.

use super::PeerKey;
use super::samples::samples;
use crate::error::{Error, ErrorKind};
use crate::load::{
    self, CheckedModel, Limit, Machine, ModelFile, Needs, TokenizerUse, WeightChoice,
};
use crate::open::Runtime;
use crate::options::Options;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strata_model::{BatchLimits, CpuStretch, NextnUse, Stretch};
use strata_peers::{Assignment, Facts, Layers, Listener, Stopper, Taken, Told};
use strata_platform::Pool;

/// Tokens of a batch, and positions of all pages, that a head may ask for at most.
const MOST_TOKENS: u32 = 1 << 17;
const MOST_POSITIONS: u64 = 1 << 32;

/// Where a peer listens and for whom.
#[derive(Clone, Debug)]
pub struct PeerHostOptions {
    /// Where.
    pub listen: SocketAddr,
    /// What heads must know.
    pub key: PeerKey,
}

/// A peer: loads the layers that a head gives to it, and computes them.
pub struct PeerHost {
    listener: Listener,
    loader: Loader,
}

impl PeerHost {
    /// Looks at a model's file, loads nothing, and listens.
    pub fn open(
        model: impl AsRef<Path>,
        options: &Options,
        runtime: &Runtime,
        host: PeerHostOptions,
    ) -> Result<Self, Error> {
        let path = model.as_ref();
        let file = ModelFile::open_as(path, options.quantize, &mut |_, _| {})?;
        let file = file.allowing(options.untested);
        // What is wrong with the file is said now, not to the head.
        options.check(&file, TokenizerUse::Optional)?;
        let loader = Loader {
            outline: load::outline(&file.parse()?),
            file,
            path: path.to_owned(),
            choice: options.weight_choice()?,
            machine: Arc::clone(&runtime.machine),
        };
        let listener = Listener::bind(host.listen, host.key).map_err(|error| {
            let said = error.to_string();
            let said = said
                .split(" (os error")
                .next()
                .unwrap_or(&said)
                .to_lowercase();
            let address = host.listen;
            let sentence = format_args!("cannot listen on {address}: {said}");
            Error::new(ErrorKind::Io, sentence)
                .with_hint("another program may be using the port; choose another with --listen")
        })?;
        Ok(Self { listener, loader })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Bytes that it has for weights, pages and activations.
    pub fn room(&self) -> u64 {
        self.loader.facts().room
    }

    /// What ends [`run`](Self::run), from another thread.
    pub fn stopper(&self) -> Stopper {
        self.listener.stopper()
    }

    /// Serves heads until it is stopped. `tell` hears what happens.
    pub fn run(&self, tell: &(dyn Fn(Told) + Send + Sync)) {
        self.listener.run(&self.loader, tell);
    }
}

struct Loader {
    file: ModelFile,
    path: PathBuf,
    outline: [u8; 32],
    choice: WeightChoice,
    machine: Arc<Machine>,
}

impl Loader {
    fn limit(&self) -> Limit {
        self.choice.limit()
    }

    fn load(
        &self,
        assignment: &Assignment,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(CpuStretch, Taken), Error> {
        let Assignment {
            first,
            end,
            positions,
            tokens,
            ..
        } = *assignment;
        let too_much = positions > MOST_POSITIONS || !(1..=MOST_TOKENS).contains(&tokens);
        let stretch = Stretch {
            first: first as usize,
            end: end as usize,
            ends: false,
        };
        if too_much || stretch.first >= stretch.end {
            let sentence = "it is asked for more than a peer does, or for nothing";
            return Err(Error::new(ErrorKind::InvalidArgument, sentence));
        }
        if samples(&self.file.parse()?, stretch.layers()) != assignment.samples {
            let path = self.path.display();
            let sentence = format_args!("{path} there has other weights in these layers");
            return Err(Error::new(ErrorKind::InvalidArgument, sentence));
        }
        let context = Some(assignment.context as usize);
        let part = Some(stretch);
        let checked = CheckedModel::of_part(
            &self.file,
            context,
            TokenizerUse::Optional,
            (part, NextnUse::Omit),
        )?;
        let needs = Needs {
            positions: positions as usize,
            kv: assignment.kv,
            limits: BatchLimits {
                tokens: tokens as usize,
                logits: 0,
            },
            workers: self.machine.pool.workers(),
            states: assignment.states as usize,
            beside: 0,
        };
        let planned = needs.workspace_bytes(&checked.blueprint, strata_model::Placement::Packed);
        let (loaded, storage) = checked.load_any(needs, self.choice, &self.machine, progress)?;
        let stretch = self.machine.stretch(&loaded.model, storage, needs.limits);
        let memory = stretch.memory();
        let taken = Taken {
            weights: memory.weights as u64,
            pages: memory.pages as u64,
            activations: planned,
            token: stretch.token_bytes() as u32,
        };
        Ok((stretch, taken))
    }
}

impl Layers for Loader {
    fn facts(&self) -> Facts {
        let workers = self.machine.pool.workers();
        Facts {
            outline: self.outline,
            room: self
                .limit()
                .bytes
                .saturating_sub(load::program_bytes(workers)),
            workers: workers as u32,
        }
    }

    fn load(
        &self,
        assignment: &Assignment,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(CpuStretch, Taken), String> {
        let progress = &mut |done, all| {
            if progress(done as u64, all as u64) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        Self::load(self, assignment, progress).map_err(|error| match error.hint() {
            Some(hint) => format!("{error} ({hint})"),
            None => error.to_string(),
        })
    }

    fn settle(&self) {
        self.machine.settle();
    }

    fn rest(&self) {
        self.machine.pool.rest();
    }
}
