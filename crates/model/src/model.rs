//! A loaded model: configuration, packed matrices, norms.

use crate::arch;
use crate::config::{Config, RopeScaling};
use crate::error::LoadError;
use crate::layer::{self, Layer, NormWeights};
use crate::matrix::Matrix;
use crate::rope::Rope;
use crate::spec::Position;
use crate::tensors::{Source, Tensors};
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_kernels as kernels;
use strata_platform::{Memory, Pool, Region, for_each_chunk};
use strata_weights::GgufSet;

/// A model, ready to run.
pub struct Model {
    pub(crate) config: Config,
    pub(crate) packed: Box<dyn Region>,
    pub(crate) token_embd: Matrix,
    /// (positions, width).
    pub(crate) position_embd: Option<Vec<f32>>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) output_norm: NormWeights,
    /// The embedding's own, where they are tied.
    pub(crate) output: Matrix,
    pub(crate) output_bias: Option<Vec<f32>>,
    pub(crate) rope: Option<Rope>,
    /// Of sliding layers, where it differs.
    pub(crate) window_rope: Option<Rope>,
}

/// What a model is loaded for.
#[derive(Copy, Clone, Debug, Default)]
pub struct LoadOptions {
    /// Positions that a sequence will have at most; the model's own context if not given. Some models choose
    /// their rotary factors by it.
    pub context: Option<usize>,
}

impl Model {
    /// Checks a file against its architecture and packs its matrices into memory.
    ///
    /// Nothing large is allocated before everything has been checked. `progress` hears of bytes packed and
    /// bytes in all.
    pub fn load(
        file: &GgufSet<'_>,
        options: LoadOptions,
        memory: &dyn Memory,
        pool: &dyn Pool,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, LoadError> {
        let metadata = file.metadata();
        let key = "general.architecture";
        let name = metadata
            .str(key)?
            .ok_or_else(|| LoadError::MissingKey { key: key.into() })?;
        let spec = arch::find(name).ok_or_else(|| LoadError::Architecture { name: name.into() })?;
        let embedding = "token_embd.weight";
        let vocabulary = file
            .tensor(embedding)
            .ok_or_else(|| LoadError::MissingTensor {
                name: embedding.into(),
            })?
            .dims
            .get(1)
            .map_or(1, |&rows| rows as usize);
        let config = Config::new(spec, metadata, vocabulary)?;

        let mut tensors = Tensors::new(file, spec);
        let token_embd = tensors.matrix(embedding, config.width, vocabulary)?;
        let position_embd = match spec.position {
            Position::Learned => Some(tensors.vector(
                "position_embd.weight",
                &[config.width as u64, config.context as u64],
            )?),
            _ => None,
        };
        let (rope, window_rope) = ropes(&mut tensors, &config, options)?;
        let layers = (0..config.layers)
            .map(|index| Layer::load(&mut tensors, &config, index))
            .collect::<Result<_, _>>()?;
        let output_norm = layer::norm(&mut tensors, spec.norm, "output_norm", config.width)?;
        let output = if tensors.has("output.weight") {
            tensors.matrix("output.weight", config.width, vocabulary)?
        } else {
            token_embd
        };
        let output_bias =
            tensors.maybe_vector(spec.output_bias, "output.bias", &[vocabulary as u64])?;
        tensors.finish()?;

        let mut packed = memory.region(tensors.packed_bytes)?;
        pack(&tensors.sources, &mut packed, pool, progress);
        Ok(Self {
            config,
            packed,
            token_embd,
            position_embd,
            layers,
            output_norm,
            output,
            output_bias,
            rope,
            window_rope,
        })
    }

    /// Its sizes and scales.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A token's row of the embedding, through `bytes`, which is as long as a row in the file.
    pub(crate) fn embedding(&self, token: u32, bytes: &mut [u8], out: &mut [f32]) {
        let panels = self.token_embd.panels(&self.packed);
        panels.read_row(token as usize, bytes);
        strata_quant::dequantize(self.token_embd.ty, bytes, out)
            .expect("the row's length was checked when the model was loaded");
    }

    /// Bytes of its packed matrices.
    pub fn packed_bytes(&self) -> usize {
        self.packed.len()
    }
}

fn ropes(
    tensors: &mut Tensors<'_, '_>,
    config: &Config,
    options: LoadOptions,
) -> Result<(Option<Rope>, Option<Rope>), LoadError> {
    if config.spec.position == Position::Learned {
        return Ok((None, None));
    }
    let rope = &config.rope;
    let pairs = &[rope.dimensions as u64 / 2];
    let mut factors = |name: &str| -> Result<Option<Vec<f32>>, LoadError> {
        if tensors.has(name) {
            tensors.vector(name, pairs).map(Some)
        } else {
            Ok(None)
        }
    };
    let plain = factors("rope_freqs.weight")?;
    let long = factors("rope_factors_long.weight")?;
    let short = factors("rope_factors_short.weight")?;
    let context = options.context.unwrap_or(config.context);
    let by_length = if context > rope.original_context {
        long
    } else {
        short
    };
    let factors = plain.or(by_length);
    Ok((
        Some(Rope::new(rope, rope.base, rope.scaling, factors.as_deref())),
        rope.window_base
            .map(|base| Rope::new(rope, base, RopeScaling::None, None)),
    ))
}

/// Packs every matrix, panels shared out among the workers.
fn pack(
    sources: &[Source<'_>],
    packed: &mut [u8],
    pool: &dyn Pool,
    progress: &mut dyn FnMut(usize, usize),
) {
    let total = sources.iter().map(|source| source.bytes.len()).sum();
    let mut done = 0;
    for source in sources {
        let bytes = source.bytes.len() / source.matrices.len();
        for (matrix, rows) in source.matrices.iter().zip(source.bytes.chunks_exact(bytes)) {
            let out = &mut packed[matrix.offset..][..matrix.bytes()];
            let panel = kernels::panel_bytes(matrix.ty, matrix.columns);
            let panel_rows = bytes / matrix.rows * kernels::PANEL_ROWS;
            for_each_chunk(pool, out, panel, |index, out| {
                let rows = &rows[index * panel_rows..];
                let rows = &rows[..panel_rows.min(rows.len())];
                kernels::pack_panel(matrix.ty, matrix.columns, rows, out);
            });
        }
        done += source.bytes.len();
        progress(done, total);
    }
}
