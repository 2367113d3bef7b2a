//! Whisper's weights, asked for by name and shape, and packed into memory.

use super::config::WhisperConfig;
use super::encoder_weights::{EncoderNames, EncoderSizes, EncoderWeights};
use crate::blocks::{AttentionLayer, BlockReader, Network};
use crate::error::LoadError;
use crate::layer::NormWeights;
use crate::matrix::Matrix;
use crate::packed::PackedMatrices;
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

/// What Whisper's files call the encoder's tensors.
const ENCODER: EncoderNames = EncoderNames {
    convolutions: ["enc.conv1", "enc.conv2"],
    position: "enc.position_embd",
    block: "enc.blk",
    attention: ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_o"],
    network: ["ffn_norm", "ffn_up", "ffn_down"],
    output_norm: "enc.output_norm",
};

/// The names of a block's attention, `attn` or `cross_attn`.
fn attention(
    reader: &mut BlockReader<'_, '_, '_>,
    block: &str,
    name: &str,
) -> Result<AttentionLayer, LoadError> {
    let names = ["norm", "q", "k", "v", "o"].map(|part| format!("{block}.{name}_{part}"));
    reader.attention(names.each_ref().map(|name| &**name))
}

fn network(
    reader: &mut BlockReader<'_, '_, '_>,
    block: &str,
    inner: usize,
) -> Result<Network, LoadError> {
    let names = ["norm", "up", "down"].map(|part| format!("{block}.ffn_{part}"));
    reader.network(names.each_ref().map(|name| &**name), inner)
}

impl BlockReader<'_, '_, '_> {
    fn decoder(&mut self, config: &WhisperConfig) -> Result<DecoderWeights, LoadError> {
        let output = self
            .tensors
            .matrix(EMBEDDING, config.width, config.vocabulary)?;
        let layers = (0..config.decoder_layers).map(|index| {
            let block = format!("dec.blk.{index}");
            Ok(DecoderLayer {
                attention: attention(self, &block, "attn")?,
                cross: attention(self, &block, "cross_attn")?,
                network: network(self, &block, config.decoder_ffn)?,
            })
        });
        let layers = layers.collect::<Result<_, LoadError>>()?;
        Ok(DecoderWeights {
            output,
            embedding: (output.ty, Vec::new(), output.row_bytes()),
            position: self.position("dec.position_embd", config.text_positions)?,
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
    let mut reader = BlockReader {
        tensors,
        width: config.width,
    };
    let sizes = EncoderSizes {
        bands: config.bands,
        positions: config.audio_positions,
        layers: config.encoder_layers,
        ffn: config.encoder_ffn,
    };
    let encoder = reader.encoder(&ENCODER, sizes)?;
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
