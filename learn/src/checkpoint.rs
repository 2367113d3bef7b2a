//! The sizes and weights of a model, read from a GGUF file as f32.

use std::collections::BTreeMap;

use strata_quant::{QuantError, dequantize};
use strata_weights::{GgufError, Metadata, Tensor};

use crate::decoder::{Config, Layer, Weights};

pub(crate) fn read(
    metadata: &Metadata<'_>,
    tensors: &[Tensor<'_>],
) -> Result<(Config, Weights), DecoderError> {
    let mut tensors = Tensors(tensors.iter().map(|tensor| (tensor.name, tensor)).collect());
    let config = Config::read(metadata, &tensors)?;
    let weights = Weights::read(&config, &mut tensors)?;
    // A bias, an expert or a norm left over would make the result wrong without a word.
    match tensors.0.first_key_value() {
        Some((&name, _)) => Err(DecoderError::SurplusTensor(name.into())),
        None => Ok((config, weights)),
    }
}

impl Config {
    fn read(metadata: &Metadata<'_>, tensors: &Tensors<'_>) -> Result<Config, DecoderError> {
        let architecture = metadata.str("general.architecture")?.unwrap_or_default();
        if architecture != "llama" {
            return Err(DecoderError::Architecture(architecture.into()));
        }
        let optional = |key: &'static str| -> Result<Option<usize>, DecoderError> {
            Ok(metadata.u32(key)?.map(|number| number as usize))
        };
        let size = |key: &'static str| match optional(key)? {
            None => Err(DecoderError::MissingKey(key)),
            Some(0) => Err(DecoderError::Unsupported(key)),
            Some(number) => Ok(number),
        };
        let number = |key: &'static str| match metadata.f32(key)? {
            None => Err(DecoderError::MissingKey(key)),
            Some(number) if number > 0.0 && number.is_finite() => Ok(number),
            Some(_) => Err(DecoderError::Unsupported(key)),
        };
        let n_embd = size("llama.embedding_length")?;
        let n_head = size("llama.attention.head_count")?;
        let n_head_kv = optional("llama.attention.head_count_kv")?.unwrap_or(n_head);
        if n_head_kv == 0 || n_head % n_head_kv != 0 {
            return Err(DecoderError::Unsupported("llama.attention.head_count_kv"));
        }
        let head_dim = optional("llama.attention.key_length")?.unwrap_or(n_embd / n_head);
        if head_dim == 0 || head_dim % 2 != 0 {
            return Err(DecoderError::Unsupported("llama.attention.key_length"));
        }
        for key in ["llama.attention.value_length", "llama.rope.dimension_count"] {
            if optional(key)?.is_some_and(|dim| dim != head_dim) {
                return Err(DecoderError::Unsupported(key));
            }
        }
        for key in ["llama.attention.sliding_window", "llama.expert_count"] {
            if optional(key)?.is_some_and(|number| number != 0) {
                return Err(DecoderError::Unsupported(key));
            }
        }
        let rope_scale = match metadata.str("llama.rope.scaling.type")? {
            None | Some("none") => 1.0,
            Some("linear") => number("llama.rope.scaling.factor")?,
            Some(_) => return Err(DecoderError::Unsupported("llama.rope.scaling.type")),
        };
        Ok(Config {
            n_embd,
            n_layer: size("llama.block_count")?,
            n_head,
            n_head_kv,
            head_dim,
            n_ff: size("llama.feed_forward_length")?,
            n_vocab: tensors.rows("token_embd.weight")?,
            norm_eps: number("llama.attention.layer_norm_rms_epsilon")?,
            rope_base: metadata.f32("llama.rope.freq_base")?.unwrap_or(10_000.0),
            rope_scale,
        })
    }
}

impl Weights {
    fn read(c: &Config, tensors: &mut Tensors<'_>) -> Result<Weights, DecoderError> {
        let token_embd = tensors.take("token_embd.weight", &[c.n_embd, c.n_vocab])?;
        let output_norm = tensors.take("output_norm.weight", &[c.n_embd])?;
        let output = tensors.take_optional("output.weight", &[c.n_embd, c.n_vocab])?;
        let divisors = tensors.take_optional("rope_freqs.weight", &[c.head_dim / 2])?;
        let mut layers = Vec::new();
        for i in 0..c.n_layer {
            layers.push(Layer::read(c, i, tensors)?);
        }
        // Pair i turns base^(-2i / head_dim) radians a position; llama 3 slows the slow ones down with `rope_freqs`.
        let rope_freqs = (0..c.head_dim / 2)
            .map(|i| {
                let exponent = -2.0 * i as f64 / c.head_dim as f64;
                let divisor = divisors
                    .as_ref()
                    .map_or(1.0, |divisors| f64::from(divisors[i]));
                f64::from(c.rope_base).powf(exponent) / divisor / f64::from(c.rope_scale)
            })
            .collect();
        Ok(Weights {
            token_embd,
            layers,
            output_norm,
            output,
            rope_freqs,
        })
    }
}

impl Layer {
    fn read(c: &Config, i: usize, tensors: &mut Tensors<'_>) -> Result<Layer, DecoderError> {
        let q_dim = c.n_head.saturating_mul(c.head_dim);
        let kv_dim = c.n_head_kv.saturating_mul(c.head_dim);
        let mut take =
            |name: &str, dims: &[usize]| tensors.take(&format!("blk.{i}.{name}.weight"), dims);
        Ok(Layer {
            attn_norm: take("attn_norm", &[c.n_embd])?,
            attn_q: take("attn_q", &[c.n_embd, q_dim])?,
            attn_k: take("attn_k", &[c.n_embd, kv_dim])?,
            attn_v: take("attn_v", &[c.n_embd, kv_dim])?,
            attn_output: take("attn_output", &[q_dim, c.n_embd])?,
            ffn_norm: take("ffn_norm", &[c.n_embd])?,
            ffn_gate: take("ffn_gate", &[c.n_embd, c.n_ff])?,
            ffn_up: take("ffn_up", &[c.n_embd, c.n_ff])?,
            ffn_down: take("ffn_down", &[c.n_ff, c.n_embd])?,
        })
    }
}

/// The file's tensors that are not read yet. GGUF gives the columns of a matrix before its rows.
struct Tensors<'t>(BTreeMap<&'t str, &'t Tensor<'t>>);

impl Tensors<'_> {
    fn rows(&self, name: &str) -> Result<usize, DecoderError> {
        let tensor = self
            .0
            .get(name)
            .ok_or_else(|| DecoderError::MissingTensor(name.into()))?;
        Ok(tensor.dims.get(1).map_or(1, |&rows| rows as usize))
    }

    fn take(&mut self, name: &str, dims: &[usize]) -> Result<Vec<f32>, DecoderError> {
        self.take_optional(name, dims)?
            .ok_or_else(|| DecoderError::MissingTensor(name.into()))
    }

    fn take_optional(
        &mut self,
        name: &str,
        dims: &[usize],
    ) -> Result<Option<Vec<f32>>, DecoderError> {
        let Some(tensor) = self.0.remove(name) else {
            return Ok(None);
        };
        if !tensor
            .dims
            .iter()
            .copied()
            .eq(dims.iter().map(|&dim| dim as u64))
        {
            return Err(DecoderError::Shape {
                name: name.into(),
                expected: dims.into(),
                found: tensor.dims.to_vec(),
            });
        }
        // The data is there, so this is no larger than the file times a small factor.
        let mut values = vec![0.0; dims.iter().product()];
        dequantize(tensor.ty, tensor.data, &mut values).map_err(|source| DecoderError::Data {
            name: name.into(),
            source,
        })?;
        Ok(Some(values))
    }
}

/// Why a file cannot be run by this decoder.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecoderError {
    /// Another architecture.
    #[error("the architecture is {0:?}; this decoder runs \"llama\" only")]
    Architecture(String),
    /// A metadata value of the wrong type.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// A size that every model has is not stated.
    #[error("the metadata lacks {0}")]
    MissingKey(&'static str),
    /// A key asks for something that this decoder does not do, or makes no sense.
    #[error("the value of {0} is not one that this decoder can run")]
    Unsupported(&'static str),
    /// A tensor is not in the file.
    #[error("tensor {0} is missing")]
    MissingTensor(String),
    /// A tensor has no place in this decoder.
    #[error("tensor {0} is not one that this decoder uses")]
    SurplusTensor(String),
    /// A tensor is not as the metadata says.
    #[error("tensor {name} has the shape {found:?} instead of {expected:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// By the metadata, columns first.
        expected: Vec<usize>,
        /// In the file.
        found: Vec<u64>,
    },
    /// A tensor's blocks cannot be read.
    #[error("tensor {name} cannot be read: {source}")]
    Data {
        /// The tensor.
        name: String,
        /// What is wrong.
        source: QuantError,
    },
}
