//! Small models on several threads that know of each other only by TCP.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use strata_kernels::Kernels;
use strata_model::{
    BatchLimits, Blueprint, CpuExecutor, CpuStretch, Executor, KvType, LoadOptions, Model, Output,
    PAGE, PageLayout, PageStorage, PageTable, Placement, Sequence, Span, Stretch,
};
use strata_peers::{
    Assignment, Facts, Layers, Link, Listener, Overlap, PeerError, PeerKey, PeerStates,
    PeeredExecutor, Stopper, Taken, Told,
};
use strata_platform::{Inline, Resident, SystemMemory};
use strata_weights::{Gguf, GgufSet};

pub(crate) const PAGES: usize = 12;
pub(crate) const STATES: usize = 4;
pub(crate) const LIMITS: BatchLimits = BatchLimits {
    tokens: 200,
    logits: 200,
};

pub(crate) fn key() -> PeerKey {
    PeerKey::new("a key for tests").unwrap()
}

pub(crate) fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden");
    std::fs::read(folder.join(format!("{name}.gguf"))).unwrap()
}

fn build(bytes: &[u8], stretch: Option<Stretch>) -> Result<(Arc<Model>, PageStorage), String> {
    let set = GgufSet::new(vec![Gguf::parse(bytes).unwrap()]).unwrap();
    let options = LoadOptions {
        stretch,
        ..LoadOptions::default()
    };
    let blueprint = Blueprint::new(&set, options).map_err(|error| error.to_string())?;
    let layout = blueprint.layout(KvType::F16);
    let storage = PageStorage::new(layout, PAGES * PAGE, STATES, &SystemMemory).unwrap();
    let nothing = Arc::new(Resident(&[]));
    let placement = Placement::Packed;
    let model = blueprint.build(placement, &SystemMemory, nothing, &Inline, &mut |_, _| {});
    Ok((Arc::new(model.unwrap()), storage))
}

fn stretch(bytes: &[u8], stretch: Stretch) -> Result<CpuStretch, String> {
    let (model, storage) = build(bytes, Some(stretch))?;
    let kernels = Kernels::detect();
    Ok(CpuStretch::new(
        model,
        kernels,
        Arc::new(Inline),
        storage,
        LIMITS,
    ))
}

/// All layers on one machine.
pub(crate) fn alone(bytes: &[u8]) -> CpuExecutor {
    let (model, storage) = build(bytes, None).unwrap();
    CpuExecutor::new(model, Kernels::detect(), Arc::new(Inline), storage, LIMITS)
}

/// Loads layers of one small model.
struct Small(Vec<u8>);

impl Layers for Small {
    fn facts(&self) -> Facts {
        Facts {
            outline: [1; 32],
            room: 1 << 30,
            workers: 1,
        }
    }

    fn load(
        &self,
        assignment: &Assignment,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(CpuStretch, Taken), String> {
        if assignment.samples != [2; 32] {
            return Err("it has another model".into());
        }
        assert!(progress(1, 2) && progress(2, 2));
        let stretch = stretch(
            &self.0,
            Stretch {
                first: assignment.first as usize,
                end: assignment.end as usize,
                ends: false,
            },
        )?;
        let memory = stretch.memory();
        let taken = Taken {
            weights: memory.weights as u64,
            pages: memory.pages as u64,
            activations: 0,
            token: stretch.token_bytes() as u32,
        };
        Ok((stretch, taken))
    }

    fn rest(&self) {}
}

/// A peer on a thread.
pub(crate) struct Peer {
    pub(crate) address: String,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Peer {
    pub(crate) fn start(bytes: &[u8]) -> Self {
        Self::start_at(bytes, "127.0.0.1:0")
    }

    /// At the address of one that was stopped, for example.
    pub(crate) fn start_at(bytes: &[u8], address: &str) -> Self {
        let listener = Listener::bind(address.parse().unwrap(), key()).unwrap();
        let (address, stopper) = (listener.address().to_string(), listener.stopper());
        let told = Arc::<Mutex<Vec<Told>>>::default();
        let (tell, small) = (Arc::clone(&told), Small(bytes.to_vec()));
        let thread = std::thread::spawn(move || {
            listener.run(&small, &|what| tell.lock().unwrap().push(what));
        });
        Self {
            address,
            stopper,
            thread: Some(thread),
            told,
        }
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

pub(crate) fn assignment(first: usize, end: usize) -> Assignment {
    Assignment {
        first: first as u32,
        end: end as u32,
        kv: KvType::F16,
        context: 64,
        positions: (PAGES * PAGE) as u64,
        states: STATES as u32,
        tokens: LIMITS.tokens as u32,
        samples: [2; 32],
    }
}

/// A model whose layers from each of `starts` on are on one of the peers.
pub(crate) fn spread(
    bytes: &[u8],
    peers: &[&Peer],
    starts: &[usize],
    overlap: Overlap,
) -> Result<(PeeredExecutor, PeerStates), PeerError> {
    let set = GgufSet::new(vec![Gguf::parse(bytes).unwrap()]).unwrap();
    let blueprint = Blueprint::new(&set, LoadOptions::default()).unwrap();
    let config = blueprint.config();
    let layout = PageLayout::new(config, KvType::F16);
    let states = PeerStates::default();
    let ends = starts[1..].iter().copied().chain([config.layers.len()]);
    let mut links = Vec::new();
    for ((peer, &first), end) in peers.iter().zip(starts).zip(ends) {
        let attention = (first..end)
            .filter(|&l| layout.blocks(l).is_some())
            .collect();
        let assignment = assignment(first, end);
        let proceed = &mut |_, _| true;
        links.push(Link::open(
            &peer.address,
            &key(),
            assignment,
            attention,
            (&states, proceed),
        )?);
    }
    let head = Stretch {
        first: 0,
        end: starts[0],
        ends: true,
    };
    let local = stretch(bytes, head).unwrap();
    let kept = (KvType::F16, STATES);
    let executor = PeeredExecutor::new(local, links, kept, overlap, Box::new(|| {}));
    Ok((executor, states))
}

/// An executor with the bookkeeping for its sequences.
pub(crate) struct Runner {
    pub(crate) executor: Box<dyn Executor>,
    pub(crate) table: PageTable,
}

impl Runner {
    pub(crate) fn new(executor: impl Executor + 'static) -> Self {
        Self {
            table: executor.page_table(),
            executor: Box::new(executor),
        }
    }

    /// The logits of all tokens of some sequences, as bits.
    pub(crate) fn feed(
        &mut self,
        batch: &mut [(&mut Sequence, &[u32])],
    ) -> Result<Vec<u32>, String> {
        for (sequence, tokens) in &mut *batch {
            self.table.reserve(sequence, tokens.len()).unwrap();
        }
        let spans = batch.iter_mut().map(|(sequence, tokens)| Span {
            sequence,
            tokens,
            output: Output::AllLogits,
            adapter: None,
            embedded: &[],
        });
        let mut spans: Vec<Span<'_>> = spans.collect();
        let outputs = self.executor.forward(&self.table, &mut spans);
        let outputs = outputs.map_err(|error| error.to_string())?;
        Ok(outputs.logits.iter().map(|logit| logit.to_bits()).collect())
    }
}

pub(crate) fn tokens(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * 17 + seed) % 40).collect()
}
