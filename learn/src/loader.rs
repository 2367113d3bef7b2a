//! The decoder's sizes and weights, from a file that [`crate::gguf`] read.

use crate::blocks::values;
use crate::bytes::ReadError;
use crate::decoder::{Config, Decoder, Layer, Weights};
use crate::gguf::ModelFile;

// ANCHOR: loader
/// A file that this program cannot run.
fn refusal(what: String) -> ReadError {
    ReadError { at: 0, what }
}

/// A size of the model.
fn size(file: &ModelFile<'_>, key: &str) -> Result<usize, ReadError> {
    match file.number(&format!("llama.{key}")) {
        Some(number) if number >= 1.0 => Ok(number as usize),
        _ => Err(refusal(format!("no llama.{key}"))),
    }
}

/// A tensor as f32, if it has the shape that the sizes ask for.
fn weight(file: &ModelFile<'_>, name: &str, dims: &[usize]) -> Result<Vec<f32>, ReadError> {
    let tensor = file.tensors.get(name);
    let tensor = tensor.ok_or_else(|| refusal(format!("no tensor {name}")))?;
    let fits = tensor.dims.len() == dims.len()
        && tensor.dims.iter().zip(dims).all(|(a, b)| *a == *b as u64);
    if !fits {
        return Err(refusal(format!("{name} is {:?}", tensor.dims)));
    }
    values(tensor)
}

impl Decoder {
    /// A llama model from a file.
    pub fn load(file: &ModelFile<'_>) -> Result<Decoder, ReadError> {
        let n_embd = size(file, "embedding_length")?;
        let n_head = size(file, "attention.head_count")?;
        let norm_eps = file.number("llama.attention.layer_norm_rms_epsilon");
        let c = Config {
            n_embd,
            n_layer: size(file, "block_count")?,
            n_head,
            n_head_kv: size(file, "attention.head_count_kv").unwrap_or(n_head),
            head_dim: size(file, "attention.key_length").unwrap_or(n_embd / n_head),
            n_ff: size(file, "feed_forward_length")?,
            n_vocab: size(file, "vocab_size")?,
            norm_eps: norm_eps.ok_or_else(|| refusal("no epsilon".into()))? as f32,
            rope_base: file.number("llama.rope.freq_base").unwrap_or(10_000.0) as f32,
            rope_scale: 1.0,
        };
        let (q_dim, kv_dim) = (c.n_head * c.head_dim, c.n_head_kv * c.head_dim);
        let mut layers = Vec::new();
        for i in 0..c.n_layer {
            let get =
                |name: &str, dims: &[usize]| weight(file, &format!("blk.{i}.{name}.weight"), dims);
            layers.push(Layer {
                attn_norm: get("attn_norm", &[c.n_embd])?,
                attn_q: get("attn_q", &[c.n_embd, q_dim])?,
                attn_k: get("attn_k", &[c.n_embd, kv_dim])?,
                attn_v: get("attn_v", &[c.n_embd, kv_dim])?,
                attn_output: get("attn_output", &[q_dim, c.n_embd])?,
                ffn_norm: get("ffn_norm", &[c.n_embd])?,
                ffn_gate: get("ffn_gate", &[c.n_embd, c.n_ff])?,
                ffn_up: get("ffn_up", &[c.n_embd, c.n_ff])?,
                ffn_down: get("ffn_down", &[c.n_ff, c.n_embd])?,
            });
        }
        let turn =
            |i: usize| -> f64 { f64::from(c.rope_base).powf(-2.0 * i as f64 / c.head_dim as f64) };
        let weights = Weights {
            token_embd: weight(file, "token_embd.weight", &[c.n_embd, c.n_vocab])?,
            layers,
            output_norm: weight(file, "output_norm.weight", &[c.n_embd])?,
            output: weight(file, "output.weight", &[c.n_embd, c.n_vocab]).ok(),
            rope_freqs: (0..c.head_dim / 2).map(turn).collect(),
        };
        Ok(Decoder::new(c, weights))
    }
}
// ANCHOR_END: loader
