//! A language model in one file: plain f32, one token at a time, nothing clever.
//!
//! It runs the `llama` architecture from a GGUF file: RMSNorm, rotary positions, grouped-query attention and a gated
//! feed-forward network, around a residual stream. Three structs hold everything: [`Config`] the sizes, [`Weights`]
//! the numbers that were learned, [`State`] what changes from token to token. [`Decoder::forward`] is the model; read
//! it from top to bottom. A shape in a comment is (rows, columns), and a matrix lies in memory row by row.
//!
//! The tensors' names and layout are those of llama.cpp; the architecture is that of "LLaMA: Open and Efficient
//! Foundation Language Models" (arXiv 2302.13971), the rotary positions those of "RoFormer" (arXiv 2104.09864).

use strata_weights::{Gguf, Metadata, Tensor};

use crate::checkpoint;
pub use crate::checkpoint::DecoderError;

// ANCHOR: config
/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Layers.
    pub n_layer: usize,
    /// Query heads.
    pub n_head: usize,
    /// Key and value heads; each serves `n_head / n_head_kv` query heads.
    pub n_head_kv: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the feed-forward network.
    pub n_ff: usize,
    /// Tokens that there are.
    pub n_vocab: usize,
    /// Keeps the norms from dividing by zero.
    pub norm_eps: f32,
    /// The rotary positions' base.
    pub rope_base: f32,
    /// Positions are divided by this (linear scaling of the context).
    pub rope_scale: f32,
}
// ANCHOR_END: config

// ANCHOR: weights
/// What the model learned.
#[derive(Clone, Debug)]
pub struct Weights {
    pub(crate) token_embd: Vec<f32>,     // (n_vocab, n_embd)
    pub(crate) layers: Vec<Layer>,       // n_layer of them
    pub(crate) output_norm: Vec<f32>,    // (n_embd)
    pub(crate) output: Option<Vec<f32>>, // (n_vocab, n_embd); `token_embd` serves when there is none
    pub(crate) rope_freqs: Vec<f64>,     // (head_dim / 2): how far a pair turns at each position
}

#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) attn_norm: Vec<f32>,   // (n_embd)
    pub(crate) attn_q: Vec<f32>,      // (n_head * head_dim, n_embd)
    pub(crate) attn_k: Vec<f32>,      // (n_head_kv * head_dim, n_embd)
    pub(crate) attn_v: Vec<f32>,      // (n_head_kv * head_dim, n_embd)
    pub(crate) attn_output: Vec<f32>, // (n_embd, n_head * head_dim)
    pub(crate) ffn_norm: Vec<f32>,    // (n_embd)
    pub(crate) ffn_gate: Vec<f32>,    // (n_ff, n_embd)
    pub(crate) ffn_up: Vec<f32>,      // (n_ff, n_embd)
    pub(crate) ffn_down: Vec<f32>,    // (n_embd, n_ff)
}
// ANCHOR_END: weights

// ANCHOR: state
/// What the model keeps from one token to the next.
#[derive(Clone, Debug)]
pub struct KvCache {
    /// For each layer: (positions so far, n_head_kv * head_dim).
    pub keys: Vec<Vec<f32>>,
    /// The same.
    pub values: Vec<Vec<f32>>,
}

/// What changes from token to token: the cache, and the model's scratch paper.
#[derive(Clone, Debug)]
pub struct State {
    cache: KvCache,
    x: Vec<f32>,      // (n_embd): the residual stream
    normed: Vec<f32>, // (n_embd)
    branch: Vec<f32>, // (n_embd): what a layer adds to x
    q: Vec<f32>,      // (n_head * head_dim)
    k: Vec<f32>,      // (n_head_kv * head_dim)
    v: Vec<f32>,      // (n_head_kv * head_dim)
    heads: Vec<f32>,  // (n_head * head_dim): what attention gathered
    scores: Vec<f32>, // (positions so far)
    gate: Vec<f32>,   // (n_ff)
    up: Vec<f32>,     // (n_ff)
    logits: Vec<f32>, // (n_vocab)
}
// ANCHOR_END: state

// ANCHOR: decoder
/// A model that is ready to run.
#[derive(Clone, Debug)]
pub struct Decoder {
    config: Config,
    weights: Weights,
    state: State,
}
// ANCHOR_END: decoder

// ANCHOR: forward
impl Decoder {
    /// Feeds the token at a position and gives the logits (n_vocab) of the token that follows.
    ///
    /// Positions come in order from 0. An earlier one may be fed again: what came after it is then forgotten.
    ///
    /// # Panics
    /// If the token is not in the vocabulary or a position was left out.
    pub fn forward(&mut self, token: u32, position: usize) -> &[f32] {
        let (c, w, s) = (&self.config, &self.weights, &mut self.state);
        let kv_dim = c.n_head_kv * c.head_dim;
        let token = token as usize;
        assert!(token < c.n_vocab, "there is no token {token}");
        assert!(
            position * kv_dim <= s.cache.keys[0].len(),
            "a position before {position} was left out"
        );

        // A token is a row of the embedding table.
        s.x.copy_from_slice(&w.token_embd[token * c.n_embd..][..c.n_embd]);

        for (i, layer) in w.layers.iter().enumerate() {
            // ANCHOR: qkv
            // What the token asks (q), what it can be found by (k) and what it has to say (v).
            rms_norm(&mut s.normed, &s.x, &layer.attn_norm, c.norm_eps);
            matmul(&mut s.q, &layer.attn_q, &s.normed);
            matmul(&mut s.k, &layer.attn_k, &s.normed);
            matmul(&mut s.v, &layer.attn_v, &s.normed);
            rope(&mut s.q, &w.rope_freqs, position);
            rope(&mut s.k, &w.rope_freqs, position);
            // ANCHOR_END: qkv

            // ANCHOR: cache
            // Keys and values stay for the tokens to come.
            let (keys, values) = (&mut s.cache.keys[i], &mut s.cache.values[i]);
            keys.truncate(position * kv_dim);
            keys.extend_from_slice(&s.k);
            values.truncate(position * kv_dim);
            values.extend_from_slice(&s.v);
            // ANCHOR_END: cache

            // ANCHOR: attention
            // Each head looks at all positions so far, and takes the more of a value the better its key answers q.
            for (head, out) in s.heads.chunks_exact_mut(c.head_dim).enumerate() {
                let q = &s.q[head * c.head_dim..][..c.head_dim];
                let kv = head / (c.n_head / c.n_head_kv) * c.head_dim;
                s.scores.clear();
                for key in keys.chunks_exact(kv_dim) {
                    let similarity = dot(q, &key[kv..][..c.head_dim]);
                    s.scores.push(similarity / (c.head_dim as f32).sqrt());
                }
                softmax(&mut s.scores);
                out.fill(0.0);
                for (score, value) in s.scores.iter().zip(values.chunks_exact(kv_dim)) {
                    for (out, value) in out.iter_mut().zip(&value[kv..][..c.head_dim]) {
                        *out += score * value;
                    }
                }
            }
            matmul(&mut s.branch, &layer.attn_output, &s.heads);
            add(&mut s.x, &s.branch);
            // ANCHOR_END: attention

            // ANCHOR: feed_forward
            // The feed-forward network: down(silu(gate(x)) * up(x)).
            rms_norm(&mut s.normed, &s.x, &layer.ffn_norm, c.norm_eps);
            matmul(&mut s.gate, &layer.ffn_gate, &s.normed);
            matmul(&mut s.up, &layer.ffn_up, &s.normed);
            for (gate, up) in s.gate.iter_mut().zip(&s.up) {
                *gate = *gate / (1.0 + (-*gate).exp()) * up;
            }
            matmul(&mut s.branch, &layer.ffn_down, &s.gate);
            add(&mut s.x, &s.branch);
            // ANCHOR_END: feed_forward
        }

        // ANCHOR: output
        // A token is the likelier the more its row looks like x.
        rms_norm(&mut s.normed, &s.x, &w.output_norm, c.norm_eps);
        let output = w.output.as_ref().unwrap_or(&w.token_embd);
        matmul(&mut s.logits, output, &s.normed);
        // ANCHOR_END: output
        &s.logits
    }
}
// ANCHOR_END: forward

impl Decoder {
    /// Loads a model, all weights as f32.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Decoder, DecoderError> {
        Decoder::from_tensors(gguf.metadata(), gguf.tensors())
    }

    /// Loads a model from the metadata and the tensors of one file or of a split set.
    pub fn from_tensors(
        metadata: &Metadata<'_>,
        tensors: &[Tensor<'_>],
    ) -> Result<Decoder, DecoderError> {
        let (config, weights) = checkpoint::read(metadata, tensors)?;
        Ok(Decoder::new(config, weights))
    }

    /// The sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How the last token shared its attention among the positions, for each head of the last layer.
    pub fn last_attention(&self) -> Vec<Vec<f32>> {
        let (c, s) = (&self.config, &self.state);
        let kv_dim = c.n_head_kv * c.head_dim;
        let Some(keys) = s.cache.keys.last() else {
            return Vec::new();
        };
        let heads = s.q.chunks_exact(c.head_dim).enumerate();
        heads
            .map(|(head, q)| {
                let kv = head / (c.n_head / c.n_head_kv) * c.head_dim;
                let mut scores: Vec<f32> = keys
                    .chunks_exact(kv_dim)
                    .map(|key| dot(q, &key[kv..][..c.head_dim]) / (c.head_dim as f32).sqrt())
                    .collect();
                softmax(&mut scores);
                scores
            })
            .collect()
    }

    /// What is kept of the tokens so far. Another sequence's can be put in its place.
    pub fn cache_mut(&mut self) -> &mut KvCache {
        &mut self.state.cache
    }
}

// ANCHOR: state_new
impl Decoder {
    /// A model before its first token.
    pub(crate) fn new(config: Config, weights: Weights) -> Decoder {
        let state = State::new(&config);
        Decoder {
            config,
            weights,
            state,
        }
    }
}

impl State {
    fn new(c: &Config) -> State {
        let zeros = |len: usize| vec![0.0; len];
        State {
            cache: KvCache {
                keys: vec![Vec::new(); c.n_layer],
                values: vec![Vec::new(); c.n_layer],
            },
            x: zeros(c.n_embd),
            normed: zeros(c.n_embd),
            branch: zeros(c.n_embd),
            q: zeros(c.n_head * c.head_dim),
            k: zeros(c.n_head_kv * c.head_dim),
            v: zeros(c.n_head_kv * c.head_dim),
            heads: zeros(c.n_head * c.head_dim),
            scores: Vec::new(),
            gate: zeros(c.n_ff),
            up: zeros(c.n_ff),
            logits: zeros(c.n_vocab),
        }
    }
}
// ANCHOR_END: state_new

// ANCHOR: rms_norm
/// Scales x to a mean square of 1, then each element by its weight.
fn rms_norm(out: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
    let scale = 1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}
// ANCHOR_END: rms_norm

// ANCHOR: matmul
/// out = matrix · x, with the matrix (out.len(), x.len()).
fn matmul(out: &mut [f32], matrix: &[f32], x: &[f32]) {
    for (out, row) in out.iter_mut().zip(matrix.chunks_exact(x.len())) {
        *out = dot(row, x);
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
// ANCHOR_END: matmul

// ANCHOR: add
fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}
// ANCHOR_END: add

// ANCHOR: softmax
/// Makes positive shares of 1 out of scores. The largest is taken off first, so that `exp` cannot overflow.
fn softmax(x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for x in x.iter_mut() {
        *x = (*x - max).exp();
        sum += *x;
    }
    for x in x.iter_mut() {
        *x /= sum;
    }
}
// ANCHOR_END: softmax

// ANCHOR: rope
/// Turns each pair of neighbours by an angle that grows with the position, in every head. The dot product of a q and a
/// k then knows how far apart they are.
fn rope(heads: &mut [f32], freqs: &[f64], position: usize) {
    for head in heads.chunks_exact_mut(2 * freqs.len()) {
        for (pair, freq) in head.chunks_exact_mut(2).zip(freqs) {
            let (sin, cos) = (position as f64 * freq).sin_cos();
            let (sin, cos) = (sin as f32, cos as f32);
            (pair[0], pair[1]) = (pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos);
        }
    }
}
// ANCHOR_END: rope
