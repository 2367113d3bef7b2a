//! `forward`: from tokens to logits, through every layer.

use crate::adapter::{Rows, RowsMut};
use crate::batch::{self, Output, Outputs, Span};
use crate::blueprint::{Body, Decoder};
use crate::compute::Compute;
use crate::config::Config;
use crate::embedded::run_at;
use crate::error::BatchError;
use crate::kv_pages::KvPages;
use crate::layer::{FfnWeights, Layer, NormWeights};
use crate::matrix::Matrix;
use crate::mixer::Mixer;
use crate::model::Model;
use crate::observer::Observer;
use crate::pages::{PAGE, PagesMut};
use crate::residual::{AddNorm, BranchInput, BranchOrder, BranchOutput};
use crate::spec::RouterInput;
use crate::workspace::{TokenPosition, Workspace};
use core::ops::Range;
use strata_kernels::act_format;

impl Model {
    /// Computes a batch: any mix of prompt chunks and single tokens of different sequences.
    ///
    /// Stores their keys and values, lengthens their sequences, and returns the logits and states that were asked
    /// for, in the order of the spans. A token's results do not depend on what else is in the batch.
    pub fn forward<'w>(
        &self,
        compute: &Compute<'_>,
        kv: &mut KvPages,
        work: &'w mut Workspace,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'w>, BatchError> {
        self.pass(compute, kv.parts_mut(), work, batch, None)
    }

    /// The same, with someone who is shown what happens inside.
    pub fn forward_observed<'w>(
        &self,
        compute: &Compute<'_>,
        kv: &mut KvPages,
        work: &'w mut Workspace,
        batch: &mut [Span<'_>],
        observer: &dyn Observer,
    ) -> Result<Outputs<'w>, BatchError> {
        self.pass(compute, kv.parts_mut(), work, batch, Some(observer))
    }

    pub(crate) fn pass<'w>(
        &self,
        compute: &Compute<'_>,
        mut kv: PagesMut<'_>,
        work: &'w mut Workspace,
        batch: &mut [Span<'_>],
        observer: Option<&dyn Observer>,
    ) -> Result<Outputs<'w>, BatchError> {
        let Body::Decoder(decoder) = &self.parts.body else {
            return Err(BatchError::Encoder);
        };
        let config = &self.parts.config;
        let positions = self
            .parts
            .position_embd
            .as_ref()
            .map(|embeddings| embeddings.len() / config.width);
        batch::check(batch, work.limits, self, positions, kv.table.layout())?;
        let pass = Pass {
            model: self,
            config,
            compute,
            batch,
            observer,
            tokens: batch.iter().map(Span::written).sum(),
        };
        if let Some(encoder) = &decoder.source {
            pass.read_sources(encoder, decoder, &mut kv, work);
        }
        if pass.tokens > 0 || decoder.source.is_none() {
            pass.locate(work);
            pass.embed(decoder, work);
            pass.layers(decoder, self.parts.stretch.layers(), &mut kv, work);
            pass.join(decoder, work);
        }
        let rows = pass.logits(decoder, work);
        let states = pass.states(decoder, rows, work);
        if let Some(nextn) = &decoder.nextn {
            pass.feed_nextn(decoder, nextn, &mut kv, work);
        }
        self.check_file()?;
        for span in batch {
            span.sequence.advance(span.tokens.len());
        }
        Ok(Outputs {
            logits: &work.logits[..rows * config.vocabulary],
            states: &work.normed[rows * config.width..][..states * config.width],
        })
    }
}

/// One batch on its way through the model.
pub(crate) struct Pass<'a> {
    pub(crate) model: &'a Model,
    pub(crate) config: &'a Config,
    pub(crate) compute: &'a Compute<'a>,
    pub(crate) batch: &'a [Span<'a>],
    /// Who looks on.
    pub(crate) observer: Option<&'a dyn Observer>,
    pub(crate) tokens: usize,
}

impl Pass<'_> {
    /// These layers, which are here: from the residual stream before the first of them to that after the last, in `x`.
    pub(crate) fn layers(
        &self,
        decoder: &Decoder,
        range: Range<usize>,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let layers = &decoder.layers[range.start - decoder.first..range.end - decoder.first];
        let first = layers.first();
        if let Some(first) = first.filter(|layer| layer.altup.is_none()) {
            let begin = AddNorm {
                next: Some(first.input()),
                ..AddNorm::default()
            };
            self.add_norm(&begin, work);
        }
        for (at, layer) in layers.iter().enumerate() {
            let index = range.start + at;
            let after = layers.get(at + 1);
            let seen = index < self.config.deepstack && self.sees();
            let next = after.filter(|_| !layer.has_end() && !seen);
            if let Some(altup) = &layer.altup {
                self.predict(altup, layer.input(), work);
                self.laurel(&altup.laurel, layer, work);
            }
            if let Some(mixer) = &layer.mixer {
                self.keep_for_router(layer, work);
                self.mix(index, mixer, pages, work);
                if let Some(cross) = &layer.cross {
                    let mixer = BranchOutput {
                        bias: mixer.bias(),
                        post_norm: None,
                    };
                    self.cross(index, mixer, cross, pages, work);
                }
                self.after_mixer(layer, mixer, next, work);
            }
            self.ffn_branch(index, layer, next, pages, work);
            if seen {
                self.add_seen(index, layer, after, work);
            }
            if layer.has_end() {
                self.end_layer(index, layer, after, work);
            }
        }
    }

    /// Makes one residual stream of several.
    pub(crate) fn join(&self, decoder: &Decoder, work: &mut Workspace) {
        if let Some(streams) = &decoder.streams {
            self.join_streams(streams, work);
        }
    }

    /// A copy of the residual stream, where it is what the layer's router sees.
    fn keep_for_router(&self, layer: &Layer, work: &mut Workspace) {
        if let FfnWeights::Experts(experts) = &layer.ffn
            && experts.config.routing.sees == RouterInput::Layer
        {
            let floats = self.tokens * self.config.width;
            work.second[..floats].copy_from_slice(&work.x[..floats]);
        }
    }

    /// Positions, rotations, and what is to be stored where.
    pub(crate) fn locate(&self, work: &mut Workspace) {
        let mut index = 0;
        work.stores.clear();
        for (span_index, span) in self.batch.iter().enumerate() {
            for i in span.read()..span.tokens.len() {
                let position = span.sequence.len + i;
                let run = run_at(span.embedded, position);
                let rotations = &mut work.rotations;
                self.model
                    .rotate_axes(span.embedded, position, index, rotations);
                work.positions[index] = TokenPosition {
                    span: span_index as u32,
                    position: position as u32,
                    end: run
                        .filter(|run| run.mutual)
                        .map_or(position + 1, |run| run.range().end)
                        as u32,
                };
                let page = span.sequence.pages[position / PAGE];
                work.stores.add(page, index, position);
                index += 1;
            }
        }
    }

    /// Embeddings into `x`, and whatever else layers are given of tokens.
    pub(crate) fn embed(&self, decoder: &Decoder, work: &mut Workspace) {
        let (model, kernels, width) = (self.model, self.compute.kernels, self.config.width);
        let mut index = 0;
        for span in self.batch {
            for (i, &token) in span.tokens.iter().enumerate().skip(span.read()) {
                let position = span.sequence.len + i;
                let row = &mut work.x[index * width..][..width];
                match run_at(span.embedded, position) {
                    Some(run) => row.copy_from_slice(&run.row(position)[..width]),
                    None => {
                        model.embedding(token, &mut work.row, row);
                        if self.config.embedding_scale != 1.0 {
                            kernels.scale(row, self.config.embedding_scale);
                        }
                    }
                }
                if let Some(embeddings) = &model.parts.position_embd {
                    kernels.add(row, &embeddings[position * width..][..width]);
                }
                if let Some(norm) = &decoder.embd_norm {
                    let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
                    self.compute.norm_in_place(kind, norm, epsilon, row);
                }
                index += 1;
            }
        }
        self.embed_layers(decoder, work);
        if let Some(streams) = &decoder.streams {
            self.part_streams(streams, work);
        }
    }

    /// Adds the mixer's branch to `x`, and prepares the input of what comes next: the feed-forward network, or the next
    /// layer.
    pub(crate) fn after_mixer(
        &self,
        layer: &Layer,
        mixer: &Mixer,
        next: Option<&Layer>,
        work: &mut Workspace,
    ) {
        let mixer = BranchOutput {
            // Attention over a source comes between, and has none.
            bias: mixer.bias().filter(|_| layer.cross.is_none()),
            post_norm: layer.post_attn_norm.as_ref(),
        };
        if let FfnWeights::Nothing = layer.ffn {
            let between = AddNorm {
                branch: Some(mixer),
                next: next.map(Layer::input),
                ..AddNorm::default()
            };
            return self.add_norm(&between, work);
        }
        let ffn_input = BranchInput {
            // A branch without a norm of its own shares the mixer's.
            pre_norm: layer.ffn_norm.as_ref().or(layer.attn_norm.as_ref()),
            formats: layer.ffn.formats(),
        };
        let order = if layer.parallel {
            BranchOrder::Parallel
        } else {
            BranchOrder::Sequential
        };
        if layer.altup.is_some() {
            let added = AddNorm {
                branch: Some(mixer),
                ..AddNorm::default()
            };
            self.add_norm(&added, work);
            self.add_laurel(work);
            let begin = AddNorm {
                next: Some(ffn_input),
                ..AddNorm::default()
            };
            return self.add_norm(&begin, work);
        }
        match &layer.expert_branch {
            None => self.add_norm(&AddNorm::between(mixer, ffn_input, order), work),
            Some(branch) => {
                // Experts do not see the mixer's result, nor the feed-forward network theirs.
                let input = BranchInput {
                    pre_norm: Some(&branch.norm),
                    formats: branch.experts.formats(),
                };
                let parallel = BranchOrder::Parallel;
                self.add_norm(&AddNorm::between(mixer, input, parallel), work);
                self.experts(&branch.experts, work);
                let experts = BranchOutput {
                    bias: None,
                    post_norm: None,
                };
                self.add_norm(&AddNorm::between(experts, ffn_input, parallel), work);
            }
        }
    }

    /// Computes the feed-forward network, adds it to `x`, and prepares the next layer's input.
    pub(crate) fn ffn_branch(
        &self,
        index: usize,
        layer: &Layer,
        next: Option<&Layer>,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let bias = match &layer.ffn {
            FfnWeights::Nothing => return,
            FfnWeights::ChannelMix(weights) => {
                self.channel_mix(index, weights, pages, work);
                None
            }
            FfnWeights::Dense(weights) => {
                let floats = self.tokens * self.config.width;
                let (normed, branch) = (&work.normed[..floats], &mut work.branch[..floats]);
                self.dense(weights, normed, &mut work.acts, &mut work.ffn, branch);
                weights.down.bias.as_deref()
            }
            FfnWeights::Experts(weights) => {
                self.experts(weights, work);
                None
            }
        };
        let every = self.config.halve_every;
        let ffn = AddNorm {
            branch: Some(BranchOutput {
                bias,
                post_norm: layer.post_ffn_norm.as_ref(),
            }),
            next: next.map(Layer::input),
            order: BranchOrder::Sequential,
            halve: every.is_some_and(|every| (index + 1).is_multiple_of(every)),
        };
        self.add_norm(&ffn, work);
    }

    /// The rows asked for: last norm, output matrix, scale, cap. Returns how many there are.
    pub(crate) fn logits(&self, decoder: &Decoder, work: &mut Workspace) -> usize {
        self.logits_of(decoder, (&decoder.output_norm, &decoder.output), work)
    }

    /// The same with another last norm and output matrix.
    pub(crate) fn logits_of(
        &self,
        decoder: &Decoder,
        (norm, output): (&NormWeights, &Matrix),
        work: &mut Workspace,
    ) -> usize {
        let Self {
            config, compute, ..
        } = *self;
        let width = config.width;
        let (mut rows, mut end) = (0, 0);
        for span in self.batch {
            end += span.written();
            for from in end - span.rows()..end {
                work.last[rows * width..][..width]
                    .copy_from_slice(&work.x[from * width..][..width]);
                rows += 1;
            }
        }
        if rows == 0 {
            return 0;
        }
        // `normed` has room for every token; rows that need logits are no more than those.
        let normed = &mut work.normed[..rows * width];
        let last = &work.last[..rows * width];
        compute.norm(config.spec.norm, norm, config.epsilon, last, normed);
        let format = act_format(output.ty);
        let encoded = work.acts.rows_mut(format, width, rows);
        compute.encode(format, normed, width, width, encoded);
        let logits = &mut work.logits[..rows * config.vocabulary];
        self.multiply_one(output, &mut work.acts, logits);
        let x = Rows {
            floats: normed,
            stride: width,
        };
        self.observe(output, x, rows);
        let out = RowsMut {
            floats: &mut *logits,
            stride: config.vocabulary,
            offset: 0,
        };
        self.adapt(output, x, out, |span| span.rows());
        compute.each_row(logits, config.vocabulary, |_, row| {
            if let Some(bias) = &decoder.output_bias {
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

    /// The states asked for, after the last norm, into `normed` behind `rows` rows. Returns how many there are.
    pub(crate) fn states(&self, decoder: &Decoder, rows: usize, work: &mut Workspace) -> usize {
        let width = self.config.width;
        let (mut first, mut states) = (0, 0);
        for span in self.batch {
            let tokens = span.written();
            if span.output == Output::States {
                self.compute.norm(
                    self.config.spec.norm,
                    &decoder.output_norm,
                    self.config.epsilon,
                    &work.x[first * width..][..tokens * width],
                    &mut work.normed[(rows + states) * width..][..tokens * width],
                );
                states += tokens;
            }
            first += tokens;
        }
        states
    }
}
