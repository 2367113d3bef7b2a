//! How a model is opened.

use crate::device::{Device, DeviceLost, GpuLayers};
use crate::load::AdapterFile;
use crate::peers::Peers;
use crate::size::Size;
use std::path::PathBuf;
use strata_convert::Mix;
use strata_model::KvType;
use strata_model::spec::ArchSpec;

/// Whether weights may stay in the file.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// Those that do not fit in the memory that was allowed; without such a limit a model that does not fit is refused.
    #[default]
    Auto,
    /// None: a model that does not fit is refused.
    Never,
    /// All of them.
    Always,
}

/// What tokens are drafted from.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Drafts {
    /// The draft model if there is one, or else the text so far and other texts of its client.
    #[default]
    Given,
    /// The layer of the model that predicts the token after the next (multi-token prediction, MTP). A file without one is
    /// refused.
    Nextn,
    /// Texts, or the draft model or that layer where there is one: whichever promises more, by what came of earlier drafts.
    Auto,
}

/// How a model is opened. The defaults serve one program that asks a few things at once.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) memory: Option<Result<Size, String>>,
    pub(crate) stream: Stream,
    pub(crate) threads: Option<usize>,
    pub(crate) batch: usize,
    pub(crate) kv: KvType,
    pub(crate) context: Option<usize>,
    pub(crate) most_context: Option<usize>,
    pub(crate) requests: usize,
    pub(crate) quantize: Option<Mix>,
    pub(crate) untested: Option<&'static ArchSpec>,
    pub(crate) max_draft: usize,
    pub(crate) drafts: Drafts,
    pub(crate) draft: Option<PathBuf>,
    pub(crate) projector: Option<PathBuf>,
    pub(crate) adapters: Vec<AdapterFile>,
    pub(crate) cache: Option<(PathBuf, u64)>,
    pub(crate) sessions: bool,
    pub(crate) device: Device,
    pub(crate) gpu_layers: GpuLayers,
    pub(crate) device_lost: DeviceLost,
    pub(crate) peers: Option<Peers>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: None,
            stream: Stream::Auto,
            threads: None,
            batch: 512,
            kv: KvType::F16,
            context: None,
            most_context: None,
            requests: 8,
            quantize: None,
            untested: None,
            max_draft: 0,
            drafts: Drafts::Given,
            draft: None,
            projector: None,
            adapters: Vec::new(),
            cache: None,
            sessions: false,
            device: Device::Cpu,
            gpu_layers: GpuLayers::Auto,
            device_lost: DeviceLost::Stop,
            peers: None,
        }
    }
}

impl Options {
    /// The most memory that the process may use, as people write it: `512M`, `6G`, `6GiB`. A text that is no size is an error
    /// when the model is opened. [default: what the machine has left]
    #[must_use]
    pub fn memory(mut self, size: &str) -> Self {
        let parsed = size.parse::<Size>();
        self.memory = Some(parsed.map_err(|problem| format!("memory {size:?}: {problem}")));
        self
    }

    /// Whether weights may stay in the file and be read for each token.
    #[must_use]
    pub fn stream(mut self, stream: Stream) -> Self {
        self.stream = stream;
        self
    }

    /// Worker threads. [default: one for each processor]
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Tokens computed together. [default: 512]
    #[must_use]
    pub fn batch(mut self, tokens: usize) -> Self {
        self.batch = tokens;
        self
    }

    /// The file of the projector that lets the model see images or hear audio. [default: the one of the store, or `*mmproj*.gguf` beside
    /// the model's file]
    #[must_use]
    pub fn projector(mut self, path: impl Into<PathBuf>) -> Self {
        self.projector = Some(path.into());
        self
    }

    /// How keys and values are stored. [default: f16]
    #[must_use]
    pub fn kv(mut self, kind: KvType) -> Self {
        self.kv = kind;
        self
    }

    /// Tokens of prompt and answer together. [default: the model's context, at most 4096]
    #[must_use]
    pub fn context(mut self, tokens: usize) -> Self {
        self.context = Some(tokens);
        self
    }

    /// As many tokens of prompt and answer together as the model has, but no more than this. Counts where
    /// [`context`](Self::context) is not given.
    #[must_use]
    pub fn context_at_most(mut self, tokens: usize) -> Self {
        self.most_context = Some(tokens);
        self
    }

    /// Requests that run side by side; more wait. [default: 8]
    #[must_use]
    pub fn requests(mut self, requests: usize) -> Self {
        self.requests = requests;
        self
    }

    /// Quantizes the weights of a Hugging Face folder while they are loaded.
    #[must_use]
    pub fn quantize(mut self, mix: Mix) -> Self {
        self.quantize = Some(mix);
        self
    }

    /// Runs a model of this architecture though nothing was compared with what it computes; `None` of others.
    #[must_use]
    pub fn untested(mut self, name: &str) -> Self {
        self.untested = strata_model::arch::untested(name);
        self
    }

    /// Drafts up to so many tokens ahead of each answer, from the text so far or from what [`drafts`](Self::drafts) says. The
    /// answers stay the same. [default: 0, or 8 with a draft model or where something else than texts was asked for]
    #[must_use]
    pub fn max_draft(mut self, tokens: usize) -> Self {
        self.max_draft = tokens;
        self
    }

    /// What tokens are drafted from. [default: the draft model, or else texts]
    #[must_use]
    pub fn drafts(mut self, drafts: Drafts) -> Self {
        self.drafts = drafts;
        self
    }

    /// A smaller model of the same vocabulary to draft with.
    #[must_use]
    pub fn draft_model(mut self, model: impl Into<PathBuf>) -> Self {
        self.draft = Some(model.into());
        self
    }

    /// A LoRA adapter that requests can ask for by its number: the first added is 0. `scale` is its strength in requests
    /// that ask for none; 0 leaves it out.
    #[must_use]
    pub fn adapter(mut self, path: impl Into<PathBuf>, scale: f32) -> Self {
        self.adapters.push(AdapterFile {
            path: path.into(),
            scale,
        });
        self
    }

    /// What computes the model. [default: the processors]
    #[must_use]
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// How many of its layers are on GPUs, where these compute it. [default: as many as fit]
    #[must_use]
    pub fn gpu_layers(mut self, layers: GpuLayers) -> Self {
        self.gpu_layers = layers;
        self
    }

    /// What becomes of the model when a GPU fails. [default: its requests end with an error]
    #[must_use]
    pub fn device_lost(mut self, then: DeviceLost) -> Self {
        self.device_lost = then;
        self
    }

    /// Other machines that have some of the model's layers. The answers have the same bytes. [default: none]
    #[must_use]
    pub fn peers(mut self, peers: Peers) -> Self {
        self.peers = Some(peers);
        self
    }

    /// Whether other machines have some of the model's layers.
    pub fn has_peers(&self) -> bool {
        self.peers.is_some()
    }

    /// A folder in which computed prompts outlive the process, and the bytes that it may take.
    #[must_use]
    pub fn cache(mut self, folder: impl Into<PathBuf>, bytes: u64) -> Self {
        self.cache = Some((folder.into(), bytes));
        self
    }

    /// Lets sessions be saved with what was computed of them: the model's file is hashed, which takes a while.
    #[must_use]
    pub fn sessions(mut self, saved: bool) -> Self {
        self.sessions = saved;
        self
    }
}
