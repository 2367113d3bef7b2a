//! A model opened on several machines, of which this one runs the engine.

use super::Peers;
use super::samples::samples;
use super::shares::{Shares, peer_error};
use crate::error::{Error, ErrorKind};
use crate::load::{
    CheckedModel, LoadedModel, Machine, ModelFile, Needs, TokenizerUse, WeightChoice,
};
use crate::options::Options;
use crate::size::Size;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use strata_model::{Executor, PageLayout};
use strata_peers::{Assignment, Link, Overlap, PeerError, PeerStates, PeeredExecutor};

/// A model that was opened so: this machine's weights, who computes it, what was loaded, in words, and how the others
/// stand.
pub(crate) struct Opened {
    pub(crate) loaded: LoadedModel,
    pub(crate) executor: Box<dyn Executor>,
    pub(crate) description: String,
    pub(crate) states: PeerStates,
}

/// Opens a model whose layers are on this machine and on others. `checked` is the whole model.
pub(crate) fn open(
    (file, checked): (&ModelFile, &CheckedModel<'_>),
    (options, peers): (&Options, &Peers),
    (needs, choice): (Needs, WeightChoice),
    machine: &Machine,
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Opened, Error> {
    let shares = Shares::new(file, checked, peers, (needs, choice))?;
    let part = options.check_part(file, TokenizerUse::Required, Some(shares.own()))?;
    let states = PeerStates::default();
    let assignments = assignments(file, checked, needs, &shares)?;
    let canceled = AtomicBool::new(false);
    let layout = PageLayout::new(checked.blueprint.config(), needs.kv);
    let (links, loaded) = std::thread::scope(|scope| {
        let links: Vec<_> = peers
            .addresses
            .iter()
            .zip(assignments)
            .map(|(address, assignment)| {
                let layers = assignment.first as usize..assignment.end as usize;
                let attention = layers.filter(|&l| layout.blocks(l).is_some()).collect();
                let (states, canceled) = (&states, &canceled);
                scope.spawn(move || {
                    let proceed = &mut |_, _| !canceled.load(Ordering::Relaxed);
                    Link::open(
                        address,
                        &peers.key,
                        assignment,
                        attention,
                        (states, proceed),
                    )
                    .map_err(|error| peer_error(address, &error))
                })
            })
            .collect();
        let loaded = part.load_any(needs, choice, machine, progress);
        // The others need not go on with what this one cannot.
        canceled.store(loaded.is_err(), Ordering::Relaxed);
        let joined = links.into_iter().map(|link| {
            let lost = || PeerError::Connection("its thread ended".into());
            link.join().map_err(|_| peer_error("", &lost()))?
        });
        (joined.collect::<Result<Vec<Link>, Error>>(), loaded)
    });
    let (loaded, storage) = loaded?;
    let links = links?;
    let mut description = loaded.description("weights", &storage);
    let tuning = machine.tune(&loaded.model).to_string();
    if !tuning.is_empty() {
        description += &format!("\n{tuning}");
    }
    let local = machine.stretch(&loaded.model, storage, needs.limits);
    description += &format!("\n{} here", in_words(shares.own().layers()));
    for (link, address) in links.iter().zip(&peers.addresses) {
        let taken = link.taken();
        if taken.token as usize != local.token_bytes() {
            let sentence = format_args!("the peer {address} passes on other values between layers");
            return Err(Error::new(ErrorKind::Unsupported, sentence)
                .with_hint("run the same version of strata on all machines"));
        }
        description += &format!(
            "\n{} on {address}: weights {}, keys and values {}",
            in_words(link.layers()),
            Size(taken.weights),
            Size(taken.pages),
        );
    }
    let pool = Arc::clone(&machine.pool);
    let rest = Box::new(move || pool.rest());
    let kept = (needs.kv, needs.states);
    let executor = PeeredExecutor::new(local, links, kept, Overlap::Auto, rest);
    Ok(Opened {
        loaded,
        executor: Box::new(executor),
        description,
        states,
    })
}

fn assignments(
    file: &ModelFile,
    checked: &CheckedModel<'_>,
    needs: Needs,
    shares: &Shares,
) -> Result<Vec<Assignment>, Error> {
    let set = file.parse()?;
    let assignments = shares.others().map(|layers| Assignment {
        first: layers.start as u32,
        end: layers.end as u32,
        kv: needs.kv,
        context: checked.context as u32,
        positions: needs.positions as u64,
        states: needs.states as u32,
        tokens: needs.limits.tokens as u32,
        samples: samples(&set, layers),
    });
    Ok(assignments.collect())
}

/// Layers, for people.
pub(crate) fn in_words(layers: std::ops::Range<usize>) -> String {
    match layers.len() {
        0 => "no layers".into(),
        1 => format!("layer {}", layers.start),
        _ => format!("layers {} to {}", layers.start, layers.end - 1),
    }
}
