//! `encode`: from whole sequences to states, through every layer.

use super::EncoderInput;
use super::weights::{Encoder, EncoderLayer, EncoderNorms, RankHead};
use crate::blueprint::Body;
use crate::compute::Compute;
use crate::config::Config;
use crate::decoder::Pass;
use crate::error::BatchError;
use crate::layer::{FfnWeights, NormWeights};
use crate::mixer::attention::Placed;
use crate::mixer::attention::whole::Attention;
use crate::model::Model;
use crate::workspace::{TokenPosition, Workspace};

impl Model {
    /// Computes the states of whole sequences: (tokens, width), one after the other.
    ///
    /// Nothing is allocated and nothing kept. A sequence's states do not depend on what else is in the batch.
    pub fn encode<'w>(
        &self,
        compute: &Compute<'_>,
        work: &'w mut Workspace,
        inputs: &[EncoderInput<'_>],
    ) -> Result<&'w [f32], BatchError> {
        let pass = self.encoder(compute, work, inputs)?;
        pass.run(work, inputs.iter().copied());
        self.check_file()?;
        Ok(&work.x[..pass.pass.tokens * pass.config.width])
    }

    /// Computes the scores of whole sequences by the model's classifier: (inputs, labels).
    pub fn rank<'w>(
        &self,
        compute: &Compute<'_>,
        work: &'w mut Workspace,
        inputs: &[EncoderInput<'_>],
    ) -> Result<&'w [f32], BatchError> {
        let pass = self.encoder(compute, work, inputs)?;
        if pass.encoder.rank.is_none() {
            return Err(BatchError::NoRankHead);
        }
        pass.run(work, inputs.iter().copied());
        self.check_file()?;
        Ok(pass.scores(work, inputs))
    }

    /// How many scores [`rank`](Self::rank) gives for an input, or [`classify`](Self::classify) for a state; 0 in models
    /// without a classifier.
    pub fn labels(&self) -> usize {
        let head = match &self.parts.body {
            Body::Encoder(encoder) => encoder.rank.as_ref(),
            Body::Decoder(decoder) => decoder.rank.as_deref(),
        };
        head.map_or(0, RankHead::labels)
    }

    /// Refuses what cannot be computed, before anything is.
    fn encoder<'a>(
        &'a self,
        compute: &'a Compute<'a>,
        work: &Workspace,
        inputs: &[EncoderInput<'_>],
    ) -> Result<EncoderPass<'a>, BatchError> {
        let Body::Encoder(encoder) = &self.parts.body else {
            return Err(BatchError::Decoder);
        };
        let config = &self.parts.config;
        let tokens = inputs.iter().map(|input| input.tokens.len()).sum();
        if tokens > work.limits.tokens {
            return Err(BatchError::TooManyTokens {
                tokens,
                room: work.limits.tokens,
            });
        }
        let positions = self.parts.position_embd.as_ref().map(|_| config.context);
        let vocabulary = config.vocabulary;
        for (index, input) in inputs.iter().enumerate() {
            let len = input.tokens.len();
            if len == 0 {
                return Err(BatchError::EmptyInput { input: index });
            }
            if let Some(positions) = positions.filter(|&positions| len > positions) {
                return Err(BatchError::Position {
                    position: len - 1,
                    positions,
                });
            }
            if let Some(&token) = input.tokens.iter().find(|&&t| t as usize >= vocabulary) {
                return Err(BatchError::Token { token, vocabulary });
            }
        }
        Ok(EncoderPass::new(self, (encoder, config), compute, tokens))
    }
}

/// Sequences on their way through an encoder.
pub(super) struct EncoderPass<'a> {
    encoder: &'a Encoder,
    config: &'a Config,
    compute: &'a Compute<'a>,
    /// For the matrices, which are a decoder's too.
    pub(super) pass: Pass<'a>,
}

impl<'a> EncoderPass<'a> {
    /// Sequences of so many tokens in all.
    pub(super) fn new(
        model: &'a Model,
        (encoder, config): (&'a Encoder, &'a Config),
        compute: &'a Compute<'a>,
        tokens: usize,
    ) -> Self {
        Self {
            encoder,
            config,
            compute,
            pass: Pass {
                model,
                config,
                compute,
                batch: &[],
                observer: None,
                tokens,
            },
        }
    }

    /// All states, into `x`.
    pub(super) fn run<'i>(
        &self,
        work: &mut Workspace,
        inputs: impl Iterator<Item = EncoderInput<'i>>,
    ) {
        if self.pass.tokens == 0 {
            return;
        }
        self.embed(work, inputs);
        for layer in &self.encoder.layers {
            self.layer(layer, work);
        }
        self.finish(work);
    }

    /// Embeddings into `x`, positions and rotations.
    fn embed<'i>(&self, work: &mut Workspace, inputs: impl Iterator<Item = EncoderInput<'i>>) {
        let (model, kernels, width) = (self.pass.model, self.compute.kernels, self.config.width);
        let types = &self.encoder.types;
        let second_type = if types.len() >= 2 * width { width } else { 0 };
        let mut index = 0;
        work.encoder.starts.clear();
        for (span, input) in inputs.enumerate() {
            work.encoder.starts.push(index as u32);
            for (position, &token) in input.tokens.iter().enumerate() {
                let row = &mut work.branch[index * width..][..width];
                model.embedding(token, &mut work.row, row);
                if self.config.embedding_scale != 1.0 {
                    kernels.scale(row, self.config.embedding_scale);
                }
                if !types.is_empty() {
                    let from = if position < input.second {
                        0
                    } else {
                        second_type
                    };
                    kernels.add(row, &types[from..][..width]);
                }
                if let Some(embeddings) = &model.parts.position_embd {
                    kernels.add(row, &embeddings[position * width..][..width]);
                }
                model.rotate(position, index, &mut work.rotations);
                work.positions[index] = TokenPosition {
                    span: span as u32,
                    position: position as u32,
                    end: input.tokens.len() as u32,
                };
                index += 1;
            }
        }
        work.encoder.starts.push(index as u32);
        let rows = index * width;
        let (embedded, x) = (&work.branch[..rows], &mut work.x[..rows]);
        match &self.encoder.norm {
            Some(norm) => self.norm(norm, embedded, x),
            None => x.copy_from_slice(embedded),
        }
    }

    fn norm(&self, weights: &NormWeights, x: &[f32], out: &mut [f32]) {
        let Config { spec, epsilon, .. } = self.config;
        self.compute.norm(spec.norm, weights, *epsilon, x, out);
    }

    /// A layer, from `x` into `x`.
    fn layer(&self, layer: &EncoderLayer, work: &mut Workspace) {
        let (width, compute) = (self.config.width, self.compute);
        let rows = self.pass.tokens * width;
        match &layer.norms {
            EncoderNorms::After { attn, attn_2, ffn } => {
                work.normed[..rows].copy_from_slice(&work.x[..rows]);
                self.attention(layer, work);
                let (x, branch) = (&mut work.x[..rows], &mut work.branch[..rows]);
                let normed = &mut work.normed[..rows];
                compute.add(branch, x, width);
                self.norm(attn, branch, normed);
                if let Some(norm) = attn_2 {
                    branch.copy_from_slice(normed);
                    compute.add(branch, x, width);
                    self.norm(norm, branch, normed);
                }
                self.network(layer, work);
                let (normed, branch) = (&work.normed[..rows], &mut work.branch[..rows]);
                compute.add(branch, normed, width);
                self.norm(ffn, branch, &mut work.x[..rows]);
            }
            EncoderNorms::Before {
                attn,
                post_attn,
                ffn,
                post_ffn,
            } => {
                self.before(attn.as_ref(), work);
                self.attention(layer, work);
                self.after(post_attn.as_ref(), work);
                self.before(ffn.as_ref(), work);
                self.network(layer, work);
                self.after(post_ffn.as_ref(), work);
            }
        }
    }

    /// What a branch sees, from `x` into `normed`.
    fn before(&self, norm: Option<&NormWeights>, work: &mut Workspace) {
        let rows = self.pass.tokens * self.config.width;
        let (x, normed) = (&work.x[..rows], &mut work.normed[..rows]);
        match norm {
            Some(norm) => self.norm(norm, x, normed),
            None => normed.copy_from_slice(x),
        }
    }

    /// Adds `branch` to `x`, normed if there is a norm.
    fn after(&self, norm: Option<&NormWeights>, work: &mut Workspace) {
        let width = self.config.width;
        let rows = self.pass.tokens * width;
        let branch = match norm {
            Some(norm) => {
                let normed = &mut work.normed[..rows];
                self.norm(norm, &work.branch[..rows], normed);
                normed
            }
            None => &mut work.branch[..rows],
        };
        self.compute.add(&mut work.x[..rows], branch, width);
    }

    /// Attention, from `normed` into `branch`.
    fn attention(&self, layer: &EncoderLayer, work: &mut Workspace) {
        let Self {
            config,
            compute,
            pass,
            ..
        } = self;
        let sizes = &layer.attention.config;
        let (tokens, width, q_width) = (pass.tokens, config.width, sizes.q_width());
        let x = &work.normed[..tokens * width];
        let qkv = &mut work.projected[..tokens * sizes.qkv_width()];
        pass.encode_input(&layer.attention.qkv, x, &mut work.acts);
        let rotations = pass.rotations(sizes, &work.rotations);
        let placed = Placed {
            rotations,
            positions: &work.positions[..tokens],
        };
        pass.queries_keys_values(&layer.attention, x, placed, (&mut work.acts, &mut []), qkv);
        let attention = &mut work.mixed[..tokens * q_width];
        let starts = core::mem::take(&mut work.encoder.starts);
        Attention {
            compute,
            config: sizes,
            positions: &work.positions[..tokens],
            starts: &starts,
            qkv,
            slopes: &layer.attention.slopes,
            buckets: layer.attention.buckets.as_ref(),
        }
        .run(&mut work.encoder.whole, attention);
        work.encoder.starts = starts;
        let branch = &mut work.branch[..tokens * width];
        self.pass
            .linear(&layer.attention.output, attention, &mut work.acts, branch);
    }

    /// The feed-forward network, from `normed` into `branch`.
    fn network(&self, layer: &EncoderLayer, work: &mut Workspace) {
        let width = self.config.width;
        let rows = self.pass.tokens * width;
        for format in layer.ffn.formats().iter() {
            let encoded = work.acts.rows_mut(format, width, self.pass.tokens);
            let normed = &work.normed[..rows];
            self.compute.encode(format, normed, width, width, encoded);
        }
        let ffn = match &layer.ffn {
            FfnWeights::Nothing | FfnWeights::ChannelMix(_) => {
                unreachable!("an encoder has a network in every layer")
            }
            FfnWeights::Experts(experts) => return self.pass.experts(experts, work),
            FfnWeights::Dense(ffn) => ffn,
        };
        let (normed, branch) = (&work.normed[..rows], &mut work.branch[..rows]);
        self.pass
            .dense(ffn, normed, &mut work.acts, &mut work.ffn, branch);
        if let Some(bias) = &ffn.down.bias {
            self.compute.each_row(branch, width, |_, row| {
                self.compute.kernels.add(row, bias);
            });
        }
    }

    /// What comes after the last layer, in `x`.
    fn finish(&self, work: &mut Workspace) {
        let width = self.config.width;
        let rows = self.pass.tokens * width;
        if let Some(norm) = &self.encoder.output_norm {
            self.before(Some(norm), work);
            work.x[..rows].copy_from_slice(&work.normed[..rows]);
        }
        if let [up, down] = &self.encoder.dense[..] {
            let hidden = &mut work.ffn[..self.pass.tokens * up.matrix.rows];
            self.pass
                .linear(up, &work.x[..rows], &mut work.acts, hidden);
            self.pass
                .linear(down, hidden, &mut work.acts, &mut work.x[..rows]);
        }
    }

    /// The classifier's scores of each sequence's first state.
    fn scores<'w>(&self, work: &'w mut Workspace, inputs: &[EncoderInput<'_>]) -> &'w [f32] {
        let (width, count) = (self.config.width, inputs.len());
        if count == 0 {
            return &[];
        }
        let mut first = 0;
        for (input, row) in inputs.iter().zip(work.normed.chunks_exact_mut(width)) {
            row.copy_from_slice(&work.x[first * width..][..width]);
            first += input.tokens.len();
        }
        match &self.encoder.rank {
            Some(head) => head.scores(&self.pass, count, work),
            None => &[],
        }
    }
}
