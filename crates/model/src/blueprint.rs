//! A file checked against its architecture: all of a model but its weights in memory.

use crate::altup::Streams;
use crate::arch;
use crate::batch::BatchLimits;
use crate::config::Config;
use crate::encoder::weights::{Encoder, RankHead};
use crate::error::LoadError;
use crate::layer::{self, Layer, NormWeights};
use crate::matrix::{Home, Matrix};
use crate::model::Model;
use crate::nextn::Nextn;
use crate::pages::PageLayout;
use crate::per_layer::LayerEmbeddings;
use crate::rope::Rope;
use crate::spec::{ArchSpec, Position, Presence, Role, Variant};
use crate::stretch::Stretch;
use crate::tensors::{NamedMatrices, Source, Tensors};
use crate::workspace::Workspace;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use strata_kernels::{self as kernels, KvType};
use strata_platform::{Backing, Memory, Pool, Region, for_each_chunk};
use strata_weights::GgufSet;

/// What a model is loaded for.
#[derive(Copy, Clone, Debug, Default)]
pub struct LoadOptions {
    /// Positions that a sequence will have at most; the model's own context if not given. Some models choose
    /// their rotary factors by it.
    pub context: Option<usize>,
    /// An architecture that nothing was compared with and that was asked for by its name.
    pub untested: Option<&'static ArchSpec>,
    /// The part of the model that this machine has; all of it if not given.
    pub stretch: Option<Stretch>,
    /// Whether the layer after the last is loaded too, which predicts the token after the next.
    pub nextn: NextnUse,
}

/// Whether the layer after the last is loaded, which predicts the token after the next.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum NextnUse {
    /// It is left out.
    #[default]
    Omit,
    /// It is loaded where the file has one that can be computed.
    IfPresent,
    /// A file without one, or with one that cannot be computed, is refused.
    Require,
}

/// Where weights are put.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All of them in memory.
    Packed,
    /// In memory as far as this many bytes go; the others stay in the file and are read each time.
    Within(usize),
    /// Those of so many layers, the first ones; the others stay in the file, where a device that has the other layers takes
    /// them from.
    FirstLayers(usize),
}

/// Everything about a model but its matrices' bytes.
pub(crate) struct Parts {
    pub(crate) config: Config,
    /// Which layers are loaded.
    pub(crate) stretch: Stretch,
    pub(crate) token_embd: Matrix,
    /// (positions, width).
    pub(crate) position_embd: Option<Vec<f32>>,
    pub(crate) body: Body,
    /// By the numbers that the config gives them.
    pub(crate) ropes: Vec<Rope>,
    /// The tensors that hold its matrices.
    pub(crate) names: Vec<NamedMatrices>,
    /// Of all their names and shapes.
    pub(crate) signature: u64,
}

/// What comes after the embedding, by the architecture's role.
pub(crate) enum Body {
    Decoder(Decoder),
    Encoder(Encoder),
}

/// A decoder's layers, and the way from them to logits.
pub(crate) struct Decoder {
    /// Of the embedding.
    pub(crate) embd_norm: Option<NormWeights>,
    /// What makes the embeddings of layers.
    pub(crate) layer_embeddings: Option<LayerEmbeddings>,
    /// What makes and joins several residual streams.
    pub(crate) streams: Option<Streams>,
    /// What reads a source, if there is one.
    pub(crate) source: Option<Box<Encoder>>,
    /// Those that are loaded.
    pub(crate) layers: Vec<Layer>,
    /// The number of the first of them.
    pub(crate) first: usize,
    pub(crate) output_norm: NormWeights,
    /// The embedding's own, where they are tied.
    pub(crate) output: Matrix,
    pub(crate) output_bias: Option<Vec<f32>>,
    /// What predicts the token after the next, if it is wanted.
    pub(crate) nextn: Option<Box<Nextn>>,
    /// What makes scores of a sequence's last state.
    pub(crate) rank: Option<Box<RankHead>>,
}

impl Decoder {
    fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        stretch: Stretch,
        token_embd: Matrix,
    ) -> Result<Self, LoadError> {
        tensors.present = stretch.ends;
        let (spec, vocabulary) = (config.spec, config.vocabulary);
        let embd_norm = match spec.embd_norm {
            Presence::Never => None,
            _ => Some(layer::norm(
                tensors,
                spec.norm,
                "token_embd_norm",
                config.width,
            )?),
        };
        let layer_embeddings = LayerEmbeddings::load(tensors, config)?;
        let streams = Streams::load(tensors, config)?;
        let source = match &config.source {
            Some(source) => {
                tensors.part = source.encoder.spec.part;
                Some(Box::new(Encoder::load(tensors, &source.encoder)?))
            }
            None => None,
        };
        tensors.part = spec.part;
        let mut layers = Vec::new();
        for index in 0..config.layers.len() {
            tensors.present = stretch.layers().contains(&index);
            let layer = Layer::load(tensors, config, index)?;
            if tensors.present {
                layers.push(layer);
            }
        }
        tensors.present = stretch.ends;
        let output_norm = layer::norm(tensors, spec.norm, spec.output_norm, config.width)?;
        let output = if tensors.has("output.weight") {
            tensors.matrix("output.weight", config.width, vocabulary)?
        } else {
            token_embd
        };
        let output_bias =
            tensors.maybe_vector(spec.output_bias, "output.bias", &[vocabulary as u64])?;
        let nextn = Nextn::load(tensors, config, (&output_norm, output))?.map(Box::new);
        Ok(Self {
            embd_norm,
            layer_embeddings,
            streams,
            source,
            layers,
            first: stretch.first,
            output_norm,
            output,
            output_bias,
            nextn,
            rank: RankHead::load(tensors, config)?.map(Box::new),
        })
    }
}

/// The architecture of the family's models that this file is one of.
fn variant(spec: &'static ArchSpec, file: &GgufSet<'_>) -> &'static ArchSpec {
    match spec.variant {
        Some(Variant::RmsNorms(other)) => {
            let key = alloc::format!("{}.attention.layer_norm_rms_epsilon", spec.name);
            if file.metadata().get(&key).is_some() {
                return other;
            }
        }
        Some(Variant::WideGates(other)) => {
            let rows = |name| Some(*file.tensor(name)?.dims.get(1)?);
            let (gate, queries) = (rows("blk.0.attn_gate.weight"), rows("blk.0.attn_q.weight"));
            if gate.is_some() && gate == queries {
                return other;
            }
        }
        None => {}
    }
    spec
}

/// A file that is what its architecture says it should be. Nothing large has been allocated for it.
pub struct Blueprint<'f> {
    parts: Parts,
    sources: Vec<Source<'f>>,
}

impl<'f> Blueprint<'f> {
    /// Checks a file: every tensor that the architecture has, no other, all of the right shape.
    pub fn new(file: &GgufSet<'f>, options: LoadOptions) -> Result<Self, LoadError> {
        let metadata = file.metadata();
        let key = "general.architecture";
        let name = metadata
            .str(key)?
            .ok_or_else(|| LoadError::MissingKey { key: key.into() })?;
        let asked = options.untested.filter(|spec| spec.name == name);
        let spec = arch::find(name).or(asked).ok_or_else(|| {
            let missing = arch::missing(name);
            let name = name.into();
            match missing {
                Some(missing) => LoadError::KnownArchitecture { name, missing },
                None if arch::untested(&name).is_some() => LoadError::UntestedArchitecture { name },
                None => LoadError::Architecture { name },
            }
        })?;
        let spec = variant(spec, file);
        let embedding = "token_embd.weight";
        let vocabulary = file
            .tensor(embedding)
            .ok_or_else(|| LoadError::MissingTensor {
                name: embedding.into(),
            })?
            .dims
            .get(1)
            .map_or(1, |&rows| rows as usize);
        let tied = file.tensor("output.weight").is_none();
        let config = Config::new(spec, metadata, (vocabulary, tied), options.nextn)?;
        let stretch = Stretch::of(&config, options.stretch)?;

        let mut tensors = Tensors::new(file, spec.name, spec.part);
        if spec.indexer != Presence::Never {
            tensors.skip_all(".indexer.");
        }
        let loaded = config.layers.len() + usize::from(config.nextn.is_some());
        tensors.skip_layers(loaded..config.stored_layers);
        tensors.present = stretch.ends;
        let token_embd = tensors.matrix(embedding, config.width, vocabulary)?;
        let position_embd = tensors.maybe_vector(
            match spec.position {
                Position::Learned => Presence::Always,
                Position::AlibiOrLearned => Presence::IfPresent,
                _ => Presence::Never,
            },
            "position_embd.weight",
            &[config.width as u64, config.context as u64],
        )?;
        tensors.present = true;
        let ropes = ropes(&mut tensors, &config, options)?;
        let body = match spec.role {
            Role::Decoder => {
                let decoder = Decoder::load(&mut tensors, &config, stretch, token_embd)?;
                Body::Decoder(decoder)
            }
            Role::Encoder => Body::Encoder(Encoder::load(&mut tensors, &config)?),
        };
        tensors.finish()?;
        let signature = tensors.signature();
        let (names, sources) = tensors.loaded();
        Ok(Self {
            parts: Parts {
                config,
                stretch,
                token_embd,
                position_embd,
                body,
                ropes,
                signature,
                names,
            },
            sources,
        })
    }

    /// The model's sizes and scales.
    pub fn config(&self) -> &Config {
        &self.parts.config
    }

    /// Which layers it has, and what a page and a state of these are made of.
    pub fn layout(&self, kind: KvType) -> PageLayout {
        PageLayout::of_layers(self.config(), kind, self.parts.stretch.layers())
    }

    /// Bytes that all its matrices take in memory.
    pub fn packed_bytes(&self) -> usize {
        let matrices = self.sources.iter().map(|source| &source.matrix);
        matrices.map(Matrix::packed_bytes).sum()
    }

    /// Bytes that each layer takes: its matrices, and keys and values of so many positions and so many recurrent states.
    pub fn layer_bytes(&self, kind: KvType, positions: usize, states: usize) -> Vec<u64> {
        let matrices = |layer: usize| {
            let prefix = alloc::format!("blk.{layer}.");
            let named = self.parts.names.iter();
            let own = named.filter(|named| named.name.starts_with(&prefix));
            own.map(|named| named.matrices * named.matrix.packed_bytes())
                .sum::<usize>()
        };
        let kept = |layer: usize| {
            let layout = PageLayout::of_layers(self.config(), kind, layer..layer + 1);
            let states = states.saturating_mul(layout.state_bytes());
            layout.bytes(positions).saturating_add(states)
        };
        let layers = 0..self.config().layers.len();
        layers
            .map(|layer| matrices(layer).saturating_add(kept(layer)) as u64)
            .collect()
    }

    /// Bytes that keys and values of so many positions take, and so many recurrent states where the model has any: none
    /// in an encoder, which keeps nothing.
    pub fn kv_bytes(&self, kind: KvType, positions: usize, states: usize) -> usize {
        match self.parts.body {
            Body::Decoder(_) => {
                let layout = self.layout(kind);
                let states = states.saturating_mul(layout.state_bytes());
                layout.bytes(positions).saturating_add(states)
            }
            Body::Encoder(_) => 0,
        }
    }

    /// Bytes of a sequence's recurrent state; 0 in models without.
    pub fn state_bytes(&self) -> usize {
        // How keys and values are stored does not matter to it.
        self.layout(KvType::F32).state_bytes()
    }

    /// Bytes that a workspace takes for batches within `limits` on so many workers.
    pub fn workspace_bytes(
        &self,
        limits: BatchLimits,
        workers: usize,
        placement: Placement,
    ) -> usize {
        let streams = match placement {
            Placement::Packed => false,
            Placement::FirstLayers(_) => true,
            Placement::Within(bytes) => bytes < self.packed_bytes(),
        };
        Workspace::bytes(&self.parts, limits, if streams { workers } else { 0 })
    }

    /// Which matrices, by number, are of the first so many layers.
    fn of_layers(&self, layers: usize) -> Vec<bool> {
        let mut first = alloc::vec![false; self.sources.len()];
        for named in &self.parts.names {
            let number = named.name.strip_prefix("blk.");
            let number = number.and_then(|rest| rest.split_once('.')?.0.parse::<usize>().ok());
            if number.is_some_and(|number| number < layers) {
                first[named.matrix.id..][..named.matrices].fill(true);
            }
        }
        first
    }

    /// Packs the matrices into memory, in the order of their use; each part of the file is read once and let go.
    ///
    /// `progress` is told the bytes packed so far and those in all.
    pub fn build(
        self,
        placement: Placement,
        memory: &dyn Memory,
        backing: Arc<dyn Backing>,
        pool: &dyn Pool,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Model, LoadError> {
        let progress = &mut |done, all| {
            progress(done, all);
            ControlFlow::Continue(())
        };
        self.build_unless_stopped(placement, memory, backing, pool, progress)
    }

    /// The same, until `progress` breaks: then what was packed is given back.
    pub fn build_unless_stopped(
        self,
        placement: Placement,
        memory: &dyn Memory,
        backing: Arc<dyn Backing>,
        pool: &dyn Pool,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Model, LoadError> {
        let mut room = match placement {
            Placement::Packed | Placement::FirstLayers(_) => usize::MAX,
            Placement::Within(bytes) => bytes,
        };
        let first = match placement {
            Placement::FirstLayers(layers) => Some(self.of_layers(layers)),
            _ => None,
        };
        let elsewhere = |index: usize| first.as_ref().is_some_and(|first| !first[index]);
        let mut used = 0;
        let homes = self
            .sources
            .iter()
            .enumerate()
            .map(|(index, source)| {
                let bytes = source.matrix.packed_bytes();
                if elsewhere(index) {
                    return locate(&*backing, source.bytes);
                }
                if bytes > room {
                    // What comes after is read from the file too: the disk then delivers it in one go.
                    room = 0;
                    return locate(&*backing, source.bytes);
                }
                room -= bytes;
                used += bytes;
                Ok(Home::Packed(used - bytes))
            })
            .collect::<Result<Vec<Home>, LoadError>>()?;
        let mut packed: Box<dyn Region> = memory.region(used)?;
        let mut done = 0;
        for (index, (source, home)) in self.sources.iter().zip(&homes).enumerate() {
            if let Home::Packed(offset) = *home {
                let next = self.sources.get(index + 1).map(|source| source.bytes);
                let out = &mut packed[offset..][..source.matrix.packed_bytes()];
                pack(source, next, out, &*backing, pool);
                done += source.matrix.packed_bytes();
                if progress(done, used).is_break() {
                    return Err(LoadError::Stopped);
                }
            }
        }
        if !backing.is_intact() {
            return Err(LoadError::Damaged);
        }
        Ok(Model::new(self.parts, packed, homes, backing))
    }
}

/// Where bytes lie in what stands behind them.
fn locate(backing: &dyn Backing, bytes: &[u8]) -> Result<Home, LoadError> {
    let mut parts = (0..).map_while(|part| Some((part, backing.part(part)?)));
    parts
        .find_map(|(part, whole)| {
            let start = bytes.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
            let range = start..start.checked_add(bytes.len())?;
            (range.end <= whole.len()).then_some(Home::File { part, range })
        })
        .ok_or(LoadError::NotStored)
}

/// Bytes of a file that are asked for and let go together.
const STEP: usize = 8 << 20;

/// Packs one matrix, panels shared out among the workers; asks for `next` before the last step.
pub(crate) fn pack(
    source: &Source<'_>,
    next: Option<&[u8]>,
    out: &mut [u8],
    backing: &dyn Backing,
    pool: &dyn Pool,
) {
    let Source { matrix, bytes } = source;
    let panel = kernels::panel_bytes(matrix.ty, matrix.columns);
    let panel_rows = matrix.row_bytes() * kernels::PANEL_ROWS;
    let panels = (STEP / panel_rows).max(1);
    let mut steps = bytes.chunks(panels * panel_rows).peekable();
    let mut outs = out.chunks_mut(panels * panel);
    while let (Some(rows), Some(out)) = (steps.next(), outs.next()) {
        let ahead = steps.peek().copied().or(next);
        if let Some(ahead) = ahead {
            backing.will_need(&ahead[..ahead.len().min(STEP)]);
        }
        for_each_chunk(pool, out, panel, |index, out| {
            let rows = &rows[(index * panel_rows).min(rows.len())..];
            let rows = &rows[..panel_rows.min(rows.len())];
            // The last chunk may be no panel but what aligns the next matrix.
            if !rows.is_empty() {
                kernels::pack_panel(matrix.ty, matrix.columns, rows, out);
            }
        });
        backing.done_with(rows);
    }
}

/// The model's RoPEs, with the factors that the file has for them.
fn ropes(
    tensors: &mut Tensors<'_, '_>,
    config: &Config,
    options: LoadOptions,
) -> Result<Vec<Rope>, LoadError> {
    let context = options.context.unwrap_or(config.context);
    let ropes = config.ropes.iter().map(|rope| {
        if !rope.factors {
            return Ok(Rope::new(rope, None));
        }
        let shape = &[rope.dimensions as u64 / 2];
        let mut factors = |name| tensors.maybe_vector(Presence::IfPresent, name, shape);
        let plain = factors("rope_freqs.weight")?;
        let long = factors("rope_factors_long.weight")?;
        let short = factors("rope_factors_short.weight")?;
        let by_length = if context > rope.original_context {
            long
        } else {
            short
        };
        Ok(Rope::new(rope, plain.or(by_length).as_deref()))
    });
    ropes.collect()
}
