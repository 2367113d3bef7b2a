//! Whisper's weights, asked for by name and shape, and packed into memory.

use super::config::WhisperConfig;
use crate::error::LoadError;
use crate::layer::{self, NormWeights};
use crate::matrix::{Linear, Matrix};
use crate::packed::PackedMatrices;
use crate::spec::{Norm, Presence};
use crate::tensors::Tensors;
use alloc::format;
use alloc::vec::Vec;
use strata_platform::{Memory, Pool};
use strata_quant::GgmlType;
use strata_weights::GgufSet;

/// The tensor of the embedding.
const EMBEDDING: &str = "token_embd.weight";

/// Whisper, ready to run.
pub struct Whisper {
    pub(super) config: WhisperConfig,
    pub(super) encoder: EncoderWeights,
    pub(super) decoder: DecoderWeights,
    pub(super) packed: PackedMatrices,
}

pub(super) struct EncoderWeights {
    /// Over three frames of all bands, and over three states.
    pub(super) convolutions: [Linear; 2],
    /// (positions, width).
    pub(super) position: Vec<f32>,
    pub(super) layers: Vec<EncoderLayer>,
    pub(super) output_norm: NormWeights,
}

pub(super) struct EncoderLayer {
    pub(super) attention: AttentionLayer,
    pub(super) network: Network,
}

/// Attention after a norm.
pub(super) struct AttentionLayer {
    pub(super) norm: NormWeights,
    pub(super) query: Linear,
    /// Keys have no bias.
    pub(super) key: Linear,
    pub(super) value: Linear,
    pub(super) output: Linear,
}

/// A feed-forward network after a norm.
pub(super) struct Network {
    pub(super) norm: NormWeights,
    pub(super) up: Linear,
    pub(super) down: Linear,
}

pub(super) struct DecoderWeights {
    /// The embedding, which is the output too.
    pub(super) output: Matrix,
    /// The embedding's rows as the file has them, and how long one is.
    pub(super) embedding: (GgmlType, Vec<u8>, usize),
    /// (positions, width).
    pub(super) position: Vec<f32>,
    pub(super) layers: Vec<DecoderLayer>,
    pub(super) output_norm: NormWeights,
}

pub(super) struct DecoderLayer {
    pub(super) attention: AttentionLayer,
    /// To the window.
    pub(super) cross: AttentionLayer,
    pub(super) network: Network,
}

struct Reader<'t, 'a, 'f> {
    tensors: &'t mut Tensors<'a, 'f>,
    width: usize,
}

impl Reader<'_, '_, '_> {
    fn linear(&mut self, name: &str, columns: usize, rows: usize) -> Result<Linear, LoadError> {
        let matrix = self
            .tensors
            .matrix(&format!("{name}.weight"), columns, rows)?;
        self.with_bias(name, matrix)
    }

    fn with_bias(&mut self, name: &str, matrix: Matrix) -> Result<Linear, LoadError> {
        let rows = matrix.rows as u64;
        let bias =
            self.tensors
                .maybe_vector(Presence::IfPresent, &format!("{name}.bias"), &[rows])?;
        Ok(Linear { matrix, bias })
    }

    fn convolution(&mut self, name: &str, channels: usize) -> Result<Linear, LoadError> {
        let kernel = [3, channels as u64];
        let matrix = self
            .tensors
            .patch_matrix(&format!("{name}.weight"), &kernel, self.width)?;
        self.with_bias(name, matrix)
    }

    fn norm(&mut self, name: &str) -> Result<NormWeights, LoadError> {
        layer::norm(self.tensors, Norm::LayerBias, name, self.width)
    }

    /// Attention of a block; `name` is `attn` or `cross_attn`.
    fn attention(&mut self, block: &str, name: &str) -> Result<AttentionLayer, LoadError> {
        let (width, prefix) = (self.width, format!("{block}.{name}"));
        let norm = self.norm(&format!("{prefix}_norm"))?;
        let mut linear = |part: &str| self.linear(&format!("{prefix}_{part}"), width, width);
        Ok(AttentionLayer {
            norm,
            query: linear("q")?,
            key: linear("k")?,
            value: linear("v")?,
            output: linear("o")?,
        })
    }

    fn network(&mut self, block: &str, inner: usize) -> Result<Network, LoadError> {
        let width = self.width;
        Ok(Network {
            norm: self.norm(&format!("{block}.ffn_norm"))?,
            up: self.linear(&format!("{block}.ffn_up"), width, inner)?,
            down: self.linear(&format!("{block}.ffn_down"), inner, width)?,
        })
    }

    fn position(&mut self, part: &str, positions: usize) -> Result<Vec<f32>, LoadError> {
        let shape = [self.width as u64, positions as u64];
        self.tensors
            .vector(&format!("{part}.position_embd.weight"), &shape)
    }

    fn encoder(&mut self, config: &WhisperConfig) -> Result<EncoderWeights, LoadError> {
        let convolutions = [
            self.convolution("enc.conv1", config.bands)?,
            self.convolution("enc.conv2", config.width)?,
        ];
        let layers = (0..config.encoder_layers).map(|index| {
            let block = format!("enc.blk.{index}");
            Ok(EncoderLayer {
                attention: self.attention(&block, "attn")?,
                network: self.network(&block, config.encoder_ffn)?,
            })
        });
        let layers = layers.collect::<Result<_, LoadError>>()?;
        Ok(EncoderWeights {
            convolutions,
            position: self.position("enc", config.audio_positions)?,
            layers,
            output_norm: self.norm("enc.output_norm")?,
        })
    }

    fn decoder(&mut self, config: &WhisperConfig) -> Result<DecoderWeights, LoadError> {
        let output = self
            .tensors
            .matrix(EMBEDDING, config.width, config.vocabulary)?;
        let layers = (0..config.decoder_layers).map(|index| {
            let block = format!("dec.blk.{index}");
            Ok(DecoderLayer {
                attention: self.attention(&block, "attn")?,
                cross: self.attention(&block, "cross_attn")?,
                network: self.network(&block, config.decoder_ffn)?,
            })
        });
        let layers = layers.collect::<Result<_, LoadError>>()?;
        Ok(DecoderWeights {
            output,
            embedding: (output.ty, Vec::new(), output.row_bytes()),
            position: self.position("dec", config.text_positions)?,
            layers,
            output_norm: self.norm("dec.output_norm")?,
        })
    }
}

/// Asks for every tensor of a file.
fn read(
    file: &GgufSet<'_>,
    tensors: &mut Tensors<'_, '_>,
) -> Result<(WhisperConfig, EncoderWeights, DecoderWeights), LoadError> {
    let vocabulary = tensors.rows(EMBEDDING).unwrap_or(0);
    let config = WhisperConfig::new(file.metadata(), vocabulary)?;
    let mut reader = Reader {
        tensors,
        width: config.width,
    };
    let encoder = reader.encoder(&config)?;
    let decoder = reader.decoder(&config)?;
    tensors.finish()?;
    Ok((config, encoder, decoder))
}

impl Whisper {
    /// Checks a file and packs its matrices into memory; the file is not needed any more.
    pub fn load(
        file: &GgufSet<'_>,
        memory: &dyn Memory,
        pool: &dyn Pool,
    ) -> Result<Self, LoadError> {
        let mut tensors = Tensors::new(file, "whisper", "");
        let (config, encoder, mut decoder) = read(file, &mut tensors)?;
        let rows = file.tensor(EMBEDDING).map_or(&[][..], |tensor| tensor.data);
        decoder.embedding.1 = rows.to_vec();
        let packed = PackedMatrices::new(&tensors.sources, memory, pool)?;
        Ok(Self {
            config,
            encoder,
            decoder,
            packed,
        })
    }

    /// Looks at a file without taking memory for it: whether it could be loaded, and its sizes.
    pub fn check(file: &GgufSet<'_>) -> Result<WhisperConfig, LoadError> {
        let mut tensors = Tensors::new(file, "whisper", "");
        Ok(read(file, &mut tensors)?.0)
    }

    /// Its sizes.
    pub fn config(&self) -> &WhisperConfig {
        &self.config
    }

    /// Bytes of its matrices, with the embedding's rows.
    pub fn packed_bytes(&self) -> usize {
        self.packed.len() + self.decoder.embedding.1.len()
    }
}
