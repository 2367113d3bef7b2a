//! An audio tower's weights, asked for by name and shape, and packed into memory.

use super::config::AudioTowerConfig;
use super::spec::{AudioMerge, AudioStep};
use crate::blocks::BlockReader;
use crate::error::LoadError;
use crate::layer::{self, NormWeights};
use crate::matrix::Linear;
use crate::packed::PackedMatrices;
use crate::spec::Norm;
use crate::tensors::Tensors;
use crate::whisper::encoder_weights::{EncoderNames, EncoderSizes, EncoderWeights};
use alloc::format;
use alloc::vec::Vec;
use strata_platform::{Memory, Pool};
use strata_weights::GgufSet;

/// What files call the encoder's tensors.
const ENCODER: EncoderNames = EncoderNames {
    convolutions: ["a.conv1d.1", "a.conv1d.2"],
    position: "a.position_embd",
    block: "a.blk",
    attention: ["ln1", "attn_q", "attn_k", "attn_v", "attn_out"],
    network: ["ln2", "ffn_up", "ffn_down"],
    output_norm: "a.post_ln",
};

/// Whisper's encoder and a projector, ready to run.
pub struct AudioTower {
    pub(super) config: AudioTowerConfig,
    pub(super) encoder: EncoderWeights,
    pub(super) steps: Vec<Step>,
    pub(super) packed: PackedMatrices,
}

/// A step of the projector.
pub(super) enum Step {
    Rms(NormWeights, f32),
    Linear(Linear),
    Gelu,
    SwiGlu,
}

/// A step over vectors of `columns`; gives the width of its results too.
fn step(
    reader: &mut BlockReader<'_, '_, '_>,
    step: AudioStep,
    columns: usize,
) -> Result<(Step, usize), LoadError> {
    Ok(match step {
        AudioStep::Rms(name, epsilon) => {
            let norm = layer::norm(reader.tensors, Norm::Rms, name, columns)?;
            (Step::Rms(norm, epsilon), columns)
        }
        AudioStep::Linear(name) => {
            let matrix = format!("{name}.weight");
            let rows = reader.tensors.rows(&matrix);
            let rows = rows.ok_or(LoadError::MissingTensor { name: matrix })?;
            (Step::Linear(reader.linear(name, columns, rows)?), rows)
        }
        AudioStep::Gelu => (Step::Gelu, columns),
        AudioStep::SwiGlu => (Step::SwiGlu, columns / 2),
    })
}

/// Asks for every tensor of a file.
fn read(
    file: &GgufSet<'_>,
    tensors: &mut Tensors<'_, '_>,
) -> Result<(AudioTowerConfig, EncoderWeights, Vec<Step>), LoadError> {
    let positions = tensors.rows("a.position_embd.weight").unwrap_or(0);
    let mut config = AudioTowerConfig::new(file.metadata(), positions)?;
    let mut reader = BlockReader {
        tensors,
        width: config.width,
    };
    let sizes = EncoderSizes {
        bands: config.bands,
        positions,
        layers: config.layers,
        ffn: config.ffn,
    };
    let encoder = reader.encoder(&ENCODER, sizes)?;
    let mut columns = match config.spec.merge {
        AudioMerge::Mean(_) => config.width,
        AudioMerge::Stack => config.width * config.merge,
    };
    let mut steps = Vec::new();
    for &asked in config.spec.projector {
        let (step, width) = step(&mut reader, asked, columns)?;
        steps.push(step);
        columns = width;
    }
    config.text_width = columns;
    if matches!(
        file.metadata().bool("clip.has_vision_encoder"),
        Ok(Some(true))
    ) {
        // What sees in files that have both.
        tensors.skip_family(&["v.", "mm.", "model.", "resampler."]);
    }
    tensors.finish()?;
    Ok((config, encoder, steps))
}

impl AudioTower {
    /// Checks a file against its family and packs its matrices into memory; the file is not needed any more.
    pub fn load(
        file: &GgufSet<'_>,
        memory: &dyn Memory,
        pool: &dyn Pool,
    ) -> Result<Self, LoadError> {
        let mut tensors = Tensors::new(file, "clip", "");
        let (config, encoder, steps) = read(file, &mut tensors)?;
        let packed = PackedMatrices::new(&tensors.sources, memory, pool)?;
        Ok(Self {
            config,
            encoder,
            steps,
            packed,
        })
    }

    /// Its sizes.
    pub fn config(&self) -> &AudioTowerConfig {
        &self.config
    }

    /// Bytes of its matrices.
    pub fn packed_bytes(&self) -> usize {
        self.packed.len()
    }
}
