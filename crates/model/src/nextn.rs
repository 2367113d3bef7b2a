//! The layer after the last, which predicts the token after the next: multi-token prediction, as DeepSeek-V3
//! (arXiv 2412.19437, section 2.2), GLM-4.5 and Qwen3-Next have it.
//!
//! At position p it reads the token there and the state h of the position before:
//!
//! ```text
//! u_p  = W [norm(embedding of t_p) | norm(h_(p-1))]
//! h'_p = norm(layer(u_1 … u_p))
//! ```
//!
//! and the output matrix makes of h'_p the logits of the token at p + 1. There is no u_0, and no position sees it.
//!
//! What is kept of a position depends on no token after it, so it is in the pages, beside the model's keys and values, and is
//! shared, copied, stored and overwritten with them: the layer's keys and values, and h in f16. `forward` leaves both for
//! each token that it computes, of the layer only as much as that takes. [`Model::predict`] goes on from there without the
//! model: it leaves h' where h would be, so that it can go on from itself, until `forward` computes those positions.

use crate::batch::{self, Outputs, Span};
use crate::blueprint::{Body, Decoder, Parts};
use crate::compute::Compute;
use crate::config::Config;
use crate::decoder::Pass;
use crate::embedded::run_at;
use crate::error::{BatchError, LoadError};
use crate::layer::{self, Layer, NormWeights};
use crate::matrix::Matrix;
use crate::mixer::Mixer;
use crate::model::Model;
use crate::pages::{HIDDEN, Half, PAGE, PagesMut};
use crate::residual::AddNorm;
use crate::tensors::{NamedMatrices, Tensors};
use crate::workspace::Workspace;
use alloc::format;
use strata_kernels::act_format;
use strata_quant::GgmlType;

/// Its weights.
pub(crate) struct Nextn {
    /// A table of embeddings of its own.
    pub(crate) embedding: Option<Matrix>,
    embedding_norm: NormWeights,
    hidden_norm: NormWeights,
    /// What makes one vector of the two.
    pub(crate) join: Matrix,
    pub(crate) layer: Layer,
    /// Of its states.
    norm: NormWeights,
    /// The model's, unless it has its own.
    pub(crate) output: Matrix,
}

impl Nextn {
    /// The layer, if it is wanted. `head` is the model's last norm and the matrix of its logits.
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        head: (&NormWeights, Matrix),
    ) -> Result<Option<Self>, LoadError> {
        let Some(own) = &config.nextn else {
            return Ok(None);
        };
        let (width, vocabulary, index) = (config.width, config.vocabulary, config.layers.len());
        let name = |name: &str| format!("blk.{index}.nextn.{name}");
        let embedding = name("embed_tokens.weight");
        let embedding = match tensors.has(&embedding) {
            true => Some(tensors.matrix(&embedding, width, vocabulary)?),
            false => None,
        };
        let mut norm = |which: &str| layer::norm(tensors, config.spec.norm, &name(which), width);
        let (embedding_norm, hidden_norm) = (norm("enorm")?, norm("hnorm")?);
        let join = tensors.matrix(&name("eh_proj.weight"), 2 * width, width)?;
        let mut all = config.clone();
        all.layers.push(own.clone());
        let layer = Layer::load(tensors, &all, index)?;
        let norm = match tensors.has(&name("shared_head_norm.weight")) {
            true => layer::norm(tensors, config.spec.norm, &name("shared_head_norm"), width)?,
            false => head.0.clone(),
        };
        let output = name("shared_head_head.weight");
        let output = match tensors.has(&output) {
            true => tensors.matrix(&output, width, vocabulary)?,
            false => head.1,
        };
        Ok(Some(Self {
            embedding,
            embedding_norm,
            hidden_norm,
            join,
            layer,
            norm,
            output,
        }))
    }
}

impl Model {
    /// What a prediction takes, in parts of a pass over the model for one token: the share of the weights that are read.
    /// None without the layer for it.
    pub(crate) fn predicting_share(&self) -> Option<f32> {
        let Body::Decoder(decoder) = &self.parts.body else {
            return None;
        };
        let nextn = decoder.nextn.as_ref()?;
        let prefix = format!("blk.{}.", self.parts.config.layers.len());
        let (mut own, mut model) = (0.0, 0.0);
        for named in self.tensors() {
            let bytes = read_bytes(&self.parts, named);
            if named.matrix.id == nextn.output.id {
                own += bytes;
            }
            if named.name.starts_with(&prefix) {
                own += bytes;
            } else {
                model += bytes;
            }
        }
        Some(own / model)
    }

    /// Computes the token after the next for the last token of each span, as [`Executor::predict`] says.
    ///
    /// [`Executor::predict`]: crate::Executor::predict
    pub(crate) fn predict<'w>(
        &self,
        compute: &Compute<'_>,
        mut pages: PagesMut<'_>,
        work: &'w mut Workspace,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'w>, BatchError> {
        let Body::Decoder(decoder) = &self.parts.body else {
            return Err(BatchError::Encoder);
        };
        let nextn = decoder.nextn.as_ref().ok_or(BatchError::NoNextn)?;
        batch::check(batch, work.limits, self, None, pages.table.layout())?;
        let pass = Pass {
            model: self,
            config: &self.parts.config,
            compute,
            batch,
            observer: None,
            tokens: batch.iter().map(Span::written).sum(),
        };
        pass.locate(work);
        pass.read_nextn(decoder, nextn, &mut pages, work);
        let index = self.parts.config.layers.len();
        if let Some(mixer) = &nextn.layer.mixer {
            pass.mix(index, mixer, &mut pages, work);
            pass.after_mixer(&nextn.layer, mixer, None, work);
        }
        pass.ffn_branch(index, &nextn.layer, None, &mut pages, work);
        pass.keep_hidden(&nextn.norm, &mut pages, work);
        let rows = pass.logits_of(decoder, (&nextn.norm, &nextn.output), work);
        self.check_file()?;
        for span in batch {
            span.sequence.advance(span.tokens.len());
        }
        Ok(Outputs {
            logits: &work.logits[..rows * self.parts.config.vocabulary],
            states: &[],
        })
    }
}

/// Bytes of a tensor that are read for a token: of experts those that are chosen, of a table that is no output a row.
fn read_bytes(parts: &Parts, named: &NamedMatrices) -> f32 {
    let bytes = (named.matrices * named.matrix.packed_bytes()) as f32;
    let tied =
        matches!(&parts.body, Body::Decoder(decoder) if decoder.output.id == named.matrix.id);
    if !tied && named.matrix.rows == parts.config.vocabulary && named.name.contains("embd") {
        return 0.0;
    }
    match &parts.config.experts {
        Some(experts) if named.matrices > 1 => bytes * experts.used as f32 / experts.count as f32,
        _ => bytes,
    }
}

impl Pass<'_> {
    /// Leaves what [`Model::predict`] goes on from of a batch whose residual stream has been through all layers. What was
    /// asked for of it stays.
    pub(crate) fn feed_nextn(
        &self,
        decoder: &Decoder,
        nextn: &Nextn,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        // The states that were asked for are in `normed`.
        core::mem::swap(&mut work.normed, &mut work.nextn.normed);
        self.keep_hidden(&decoder.output_norm, pages, work);
        self.read_nextn(decoder, nextn, pages, work);
        if let Some(Mixer::Attention(weights)) = &nextn.layer.mixer {
            self.keep_keys(self.config.layers.len(), weights, pages, work);
        }
        core::mem::swap(&mut work.normed, &mut work.nextn.normed);
    }

    /// The states after a norm into the pages.
    fn keep_hidden(&self, norm: &NormWeights, pages: &mut PagesMut<'_>, work: &mut Workspace) {
        let (width, kind) = (self.config.width, self.config.spec.norm);
        let floats = self.tokens * width;
        let (x, normed) = (&work.x[..floats], &mut work.normed[..floats]);
        self.compute
            .norm(kind, norm, self.config.epsilon, x, normed);
        let PagesMut { table, storage } = pages;
        let Some(hidden) = storage.layout().hidden() else {
            return;
        };
        let layout = storage.layer_layout(hidden);
        let (memory, starts) = storage.layer_mut(table, hidden);
        for (token, row) in normed.chunks_exact(width).enumerate() {
            let place = work.positions[token];
            let position = place.position as usize;
            let page = self.batch[place.span as usize].sequence.pages[position / PAGE];
            let block = &mut memory[starts.of(page)..];
            let out = &mut block[layout.row(Half::Keys, 0, position)];
            self.compute.kernels.kv_store(HIDDEN, row, out);
        }
    }

    /// The layer's input, from the batch's tokens and the states before them, into `x`, normed and encoded.
    fn read_nextn(
        &self,
        decoder: &Decoder,
        nextn: &Nextn,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        self.embed(decoder, work);
        if let Some(table) = &nextn.embedding {
            self.embed_from(table, work);
        }
        let (width, compute) = (self.config.width, self.compute);
        let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
        let PagesMut { table, storage } = pages;
        let Some(hidden) = storage.layout().hidden() else {
            return;
        };
        let layout = storage.layer_layout(hidden);
        let (memory, starts) = storage.layer_mut(table, hidden);
        let (memory, positions, x) = (&*memory, &work.positions, &work.x);
        let joined = &mut work.nextn.joined[..self.tokens * 2 * width];
        compute.each_row(joined, 2 * width, |token, row| {
            let (embedding, state) = row.split_at_mut(width);
            let x = &x[token * width..][..width];
            compute.norm_row(kind, &nextn.embedding_norm, epsilon, x, embedding);
            let place = positions[token];
            let Some(before) = (place.position as usize).checked_sub(1) else {
                return state.fill(0.0);
            };
            let page = self.batch[place.span as usize].sequence.pages[before / PAGE];
            let kept = &memory[starts.of(page)..][layout.row(Half::Keys, 0, before)];
            strata_quant::dequantize(GgmlType::F16, kept, state)
                .expect("a row of the pages is as wide as the model");
            compute.norm_in_place(kind, &nextn.hidden_norm, epsilon, state);
        });
        let format = act_format(nextn.join.ty);
        let encoded = work.acts.rows_mut(format, 2 * width, self.tokens);
        compute.encode(format, joined, 2 * width, 2 * width, encoded);
        let x = &mut work.x[..self.tokens * width];
        self.multiply_one(&nextn.join, &mut work.acts, x);
        let begin = AddNorm {
            next: Some(nextn.layer.input()),
            ..AddNorm::default()
        };
        self.add_norm(&begin, work);
    }

    /// Embeddings of tokens from another table than the model's, into `x`.
    fn embed_from(&self, table: &Matrix, work: &mut Workspace) {
        let mut index = 0;
        for span in self.batch {
            for (i, &token) in span.tokens.iter().enumerate() {
                let row = &mut work.x[index * self.config.width..][..self.config.width];
                index += 1;
                if run_at(span.embedded, span.sequence.len() + i).is_none() {
                    self.model.table_row(table, token, &mut work.nextn.row, row);
                    self.compute.kernels.scale(row, self.config.embedding_scale);
                }
            }
        }
    }
}
