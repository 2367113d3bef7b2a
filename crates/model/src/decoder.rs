//! `forward`: from tokens to logits, through every layer.

use crate::attention::Attention;
use crate::batch::{self, Logits, Span};
use crate::compute::Compute;
use crate::error::BatchError;
use crate::ffn::FfnContext;
use crate::kv_pages::{Half, KvPages, PAGE};
use crate::layer::{FfnWeights, Layer, NormWeights};
use crate::model::Model;
use crate::rope::Rope;
use crate::spec::{Norm, Position, QkNorm};
use crate::workspace::{Place, Workspace};
use strata_kernels::{RopeKind, act_format};

impl Model {
    /// Computes a batch: any mix of prompt chunks and single tokens of different sequences.
    ///
    /// Stores their keys and values, lengthens their sequences, and returns the rows of logits that were asked
    /// for, in the order of the spans. A token's results do not depend on what else is in the batch.
    pub fn forward<'w>(
        &self,
        compute: &Compute<'_>,
        kv: &mut KvPages,
        work: &'w mut Workspace,
        batch: &mut [Span<'_>],
    ) -> Result<&'w [f32], BatchError> {
        let positions = self
            .position_embd
            .as_ref()
            .map(|p| p.len() / self.config.width);
        batch::check(batch, work.limits, &self.config, positions)?;
        let tokens = self.embed(compute, work, batch);
        for (index, layer) in self.layers.iter().enumerate() {
            self.attend(compute, kv, work, batch, index, layer, tokens);
            self.feed_forward(compute, work, layer, tokens);
        }
        let rows = self.logits(compute, work, batch);
        for span in batch {
            span.sequence.len += span.tokens.len();
        }
        Ok(&work.logits[..rows * self.config.vocabulary])
    }

    /// Embeddings into `x`, places, and rotations.
    fn embed(&self, compute: &Compute<'_>, work: &mut Workspace, batch: &[Span<'_>]) -> usize {
        let width = self.config.width;
        let mut tokens = 0;
        for (span_index, span) in batch.iter().enumerate() {
            for (i, &token) in span.tokens.iter().enumerate() {
                let position = span.sequence.len + i;
                let row = &mut work.x[tokens * width..][..width];
                self.embedding(token, &mut work.row, row);
                if self.config.embedding_scale != 1.0 {
                    compute.kernels.scale(row, self.config.embedding_scale);
                }
                if let Some(embeddings) = &self.position_embd {
                    compute
                        .kernels
                        .add(row, &embeddings[position * width..][..width]);
                }
                let rotations = [
                    (&self.rope, &mut work.rotations),
                    (&self.window_rope, &mut work.window_rotations),
                ];
                for (rope, out) in rotations {
                    if let Some(rope) = rope {
                        let size = 2 * rope.pairs();
                        rope.write(position, &mut out[tokens * size..][..size]);
                    }
                }
                work.places[tokens] = Place {
                    span: span_index as u32,
                    position: position as u32,
                };
                tokens += 1;
            }
        }
        tokens
    }

    /// A token's row of the embedding.
    fn embedding(&self, token: u32, bytes: &mut [u8], out: &mut [f32]) {
        let panels = self.token_embd.panels(&self.packed);
        panels.read_row(token as usize, bytes);
        strata_quant::dequantize(self.token_embd.ty, bytes, out)
            .expect("the row's length was checked when the model was loaded");
    }

    #[allow(clippy::too_many_arguments)]
    fn attend(
        &self,
        compute: &Compute<'_>,
        kv: &mut KvPages,
        work: &mut Workspace,
        batch: &[Span<'_>],
        index: usize,
        layer: &Layer,
        tokens: usize,
    ) {
        let config = &self.config;
        let width = config.width;
        let x = &work.x[..tokens * width];
        let normed = &mut work.normed[..tokens * width];
        let input = match layer.attn_norm_2.as_ref().or(layer.attn_norm.as_ref()) {
            Some(norm) => {
                compute.norm(config.spec.norm, norm, config.epsilon, x, normed);
                &*normed
            }
            None => x,
        };
        let ffn = FfnContext {
            compute,
            config,
            packed: &self.packed,
            tokens,
        };
        let qkv = &mut work.qkv[..tokens * config.qkv_width()];
        ffn.project(&layer.qkv, input, &mut work.acts, qkv);

        let (rope, rotations) = match (&self.window_rope, config.windows[index]) {
            (Some(rope), Some(_)) => (Some(rope), &work.window_rotations),
            _ => (self.rope.as_ref(), &work.rotations),
        };
        compute.each_row(qkv, config.qkv_width(), |token, row| {
            let (q, rest) = row.split_at_mut(config.q_width());
            let k = &mut rest[..config.kv_width()];
            for (heads, norm) in [(q, &layer.q_norm), (k, &layer.k_norm)] {
                if let Some(weights) = norm {
                    self.norm_heads(compute, weights, heads);
                }
                if let Some(rope) = rope {
                    let size = 2 * rope.pairs();
                    self.rotate(compute, rope, &rotations[token * size..][..size], heads);
                }
            }
        });
        self.store(compute, kv, qkv, batch, &work.places[..tokens], index);

        let attention = &mut work.attention[..tokens * config.q_width()];
        Attention {
            compute,
            config,
            kv,
            layer: index,
            batch,
            places: &work.places,
            qkv,
        }
        .run(attention);

        let output = &layer.attn_output;
        let format = act_format(output.matrix.ty);
        let q_width = config.q_width();
        let rows = work.acts.rows_mut(format, q_width, tokens);
        compute.encode(format, attention, q_width, q_width, rows);
        let branch = &mut work.branch[..tokens * width];
        let encoded = work.acts.rows(format, q_width, tokens);
        compute.multiply_one(&output.matrix, &self.packed, encoded, branch);
        if let Some(bias) = &output.bias {
            compute.each_row(branch, width, |_, row| compute.kernels.add(row, bias));
        }
    }

    /// Queries or keys of one token, each head or all together.
    fn norm_heads(&self, compute: &Compute<'_>, weights: &[f32], heads: &mut [f32]) {
        let size = match self.config.spec.qk_norm {
            QkNorm::Whole => heads.len(),
            _ => self.config.head_size,
        };
        let epsilon = self.config.epsilon;
        for (i, head) in heads.chunks_exact_mut(size).enumerate() {
            let weights = match self.config.spec.qk_norm {
                QkNorm::PerHeadOwnIfPresent => &weights[i * size..][..size],
                _ => weights,
            };
            match self.config.spec.norm {
                Norm::Rms => compute
                    .kernels
                    .rms_norm_in_place(head, Some(weights), epsilon),
                Norm::Layer | Norm::LayerBias => {
                    compute
                        .kernels
                        .layer_norm_in_place(head, Some(weights), None, epsilon);
                }
            }
        }
    }

    fn rotate(&self, compute: &Compute<'_>, rope: &Rope, rotations: &[f32], heads: &mut [f32]) {
        let layout = match self.config.spec.position {
            Position::RopeInterleaved => RopeKind::Interleaved,
            Position::RopeHalfSplit => RopeKind::HalfSplit,
            Position::Learned => return,
        };
        let (cosines, sines) = rotations.split_at(rope.pairs());
        for head in heads.chunks_exact_mut(self.config.head_size) {
            let turned = &mut head[..2 * rope.pairs()];
            compute.kernels.rope(turned, cosines, sines, layout);
        }
    }

    /// Keys and values into their pages.
    fn store(
        &self,
        compute: &Compute<'_>,
        kv: &mut KvPages,
        qkv: &[f32],
        batch: &[Span<'_>],
        places: &[Place],
        layer: usize,
    ) {
        let config = &self.config;
        let kind = kv.shape().kind;
        for (row, place) in qkv.chunks_exact(config.qkv_width()).zip(places) {
            let position = place.position as usize;
            let page = batch[place.span as usize].sequence.pages[position / PAGE];
            let (keys, values) = row[config.q_width()..].split_at(config.kv_width());
            for (half, heads) in [(Half::Keys, keys), (Half::Values, values)] {
                for (head, x) in heads.chunks_exact(config.head_size).enumerate() {
                    let out = kv.row_mut(page, layer, half, head, position);
                    compute.kernels.kv_store(kind, x, out);
                }
            }
        }
    }

    /// Adds attention's branch, computes the other one, adds it.
    fn feed_forward(
        &self,
        compute: &Compute<'_>,
        work: &mut Workspace,
        layer: &Layer,
        tokens: usize,
    ) {
        let config = &self.config;
        let (width, epsilon, kind) = (config.width, config.epsilon, config.spec.norm);
        let Workspace {
            x,
            normed,
            branch,
            ffn,
            acts,
            experts,
            ..
        } = work;
        let x = &mut x[..tokens * width];
        let normed = &mut normed[..tokens * width];
        let branch = &mut branch[..tokens * width];
        let post = |norm: &Option<NormWeights>, branch: &mut [f32]| {
            if let Some(norm) = norm {
                compute.each_row(branch, width, |_, row| {
                    compute
                        .kernels
                        .rms_norm_in_place(row, Some(&norm.weight), epsilon);
                });
            }
        };
        let input_norm = |x: &[f32], normed: &mut [f32]| {
            // Parallel branches without a norm of their own share attention's.
            match layer.ffn_norm.as_ref().or(layer.attn_norm.as_ref()) {
                Some(norm) => compute.norm(kind, norm, epsilon, x, normed),
                None => normed.copy_from_slice(x),
            }
        };
        post(&layer.post_attn_norm, branch);
        if layer.parallel {
            input_norm(x, normed);
            compute.add_scaled(x, branch, config.residual_scale, width);
        } else {
            compute.add_scaled(x, branch, config.residual_scale, width);
            input_norm(x, normed);
        }
        let context = FfnContext {
            compute,
            config,
            packed: &self.packed,
            tokens,
        };
        match (&layer.ffn, &config.experts) {
            (FfnWeights::Experts(weights), Some(sizes)) => {
                context.experts(weights, sizes, normed, acts, ffn, experts, branch);
            }
            (FfnWeights::Dense(weights), _) => context.dense(weights, normed, acts, ffn, branch),
            (FfnWeights::Experts(_), None) => unreachable!("experts are loaded as configured"),
        }
        post(&layer.post_ffn_norm, branch);
        compute.add_scaled(x, branch, config.residual_scale, width);
    }

    /// The rows asked for: last norm, output matrix, scale, cap. Returns how many there are.
    fn logits(&self, compute: &Compute<'_>, work: &mut Workspace, batch: &[Span<'_>]) -> usize {
        let config = &self.config;
        let width = config.width;
        let (mut rows, mut token) = (0, 0);
        for span in batch {
            let count = span.tokens.len();
            let wanted = match span.logits {
                Logits::None => token + count..token + count,
                Logits::Last => token + count - span.rows()..token + count,
                Logits::All => token..token + count,
            };
            for from in wanted {
                work.last[rows * width..][..width]
                    .copy_from_slice(&work.x[from * width..][..width]);
                rows += 1;
            }
            token += count;
        }
        if rows == 0 {
            return 0;
        }
        let normed = &mut work.normed[..rows * width];
        compute.norm(
            config.spec.norm,
            &self.output_norm,
            config.epsilon,
            &work.last[..rows * width],
            normed,
        );
        let format = act_format(self.output.ty);
        let encoded = work.acts.rows_mut(format, width, rows);
        compute.encode(format, normed, width, width, encoded);
        let logits = &mut work.logits[..rows * config.vocabulary];
        let x = work.acts.rows(format, width, rows);
        compute.multiply_one(&self.output, &self.packed, x, logits);
        compute.each_row(logits, config.vocabulary, |_, row| {
            if let Some(bias) = &self.output_bias {
                compute.kernels.add(row, bias);
            }
            if config.logit_scale != 1.0 {
                compute.kernels.scale(row, config.logit_scale);
            }
            if let Some(cap) = config.logit_soft_cap {
                compute.kernels.soft_cap(row, cap);
            }
        });
        rows
    }
}
