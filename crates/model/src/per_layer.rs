//! Embeddings for each layer (Gemma 3n and 4): beside the one that goes into the first layer, a token has a short one for
//! every layer. A layer gates it by its own result, and what comes out is added to the residual stream.

use crate::blueprint::Decoder;
use crate::config::Config;
use crate::decoder::Pass;
use crate::embedded::run_at;
use crate::error::LoadError;
use crate::layer::{Layer, NormWeights, Projections, norm, projection};
use crate::matrix::{Linear, Matrix};
use crate::residual::AddNorm;
use crate::spec::Activation;
use crate::tensors::Tensors;
use crate::workspace::Workspace;
use alloc::format;
use alloc::vec;
use strata_platform::Chunks;

/// What makes the embeddings of all layers: a table, and a matrix over the first layer's.
pub(crate) struct LayerEmbeddings {
    /// (vocabulary, layers · size).
    pub(crate) table: Matrix,
    pub(crate) projection: Projections,
    norm: NormWeights,
}

impl LayerEmbeddings {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
    ) -> Result<Option<Self>, LoadError> {
        let Some(size) = config.layer_input else {
            return Ok(None);
        };
        let all = size * config.layers.len();
        Ok(Some(Self {
            table: tensors.matrix("per_layer_token_embd.weight", all, config.vocabulary)?,
            projection: Projections(vec![Linear {
                matrix: tensors.matrix("per_layer_model_proj.weight", config.width, all)?,
                bias: None,
            }]),
            norm: norm(tensors, config.spec.norm, "per_layer_proj_norm", size)?,
        }))
    }
}

/// What a layer does with its embedding.
#[derive(Clone, Debug)]
pub(crate) struct LayerInput {
    pub(crate) gate: Projections,
    pub(crate) projection: Projections,
    norm: NormWeights,
}

impl LayerInput {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        layer: usize,
    ) -> Result<Option<Self>, LoadError> {
        let Some(size) = config.layer_input else {
            return Ok(None);
        };
        let width = config.width;
        let gate = projection(tensors, layer, "inp_gate", (width, size))?;
        let projection = projection(tensors, layer, "proj", (size, width))?;
        let name = format!("blk.{layer}.post_norm");
        Ok(Some(Self {
            gate,
            projection,
            norm: norm(tensors, config.spec.norm, &name, width)?,
        }))
    }
}

impl Pass<'_> {
    /// The embeddings of all layers, from `x`, into `layer_inputs` (tokens, layers, size).
    pub(crate) fn embed_layers(&self, decoder: &Decoder, work: &mut Workspace) {
        let Some(embeddings) = &decoder.layer_embeddings else {
            return;
        };
        let (config, kernels) = (self.config, self.compute.kernels);
        let (width, size) = (config.width, config.layer_input.unwrap_or(1));
        let all = size * config.layers.len();
        let out = &mut work.layer_inputs[..self.tokens * all];
        let x = &work.x[..self.tokens * width];
        self.project_rows(&embeddings.projection, x, &mut work.acts, out);
        let (shrink, grow) = (1.0 / libm::sqrtf(width as f32), libm::sqrtf(size as f32));
        // An image's positions have the row of padding, which is the first.
        let tokens = self.batch.iter().flat_map(|span| {
            span.tokens.iter().enumerate().map(|(i, &token)| {
                let seen = run_at(span.embedded, span.sequence.len + i);
                if seen.is_some() { 0 } else { token }
            })
        });
        // Rows of the table come one by one, since they pass through one buffer.
        for (token, row) in tokens.zip(out.chunks_exact_mut(all)) {
            let (bytes, own) = (&mut work.layer_row, &mut work.layer_floats[..all]);
            self.model.table_row(&embeddings.table, token, bytes, own);
            kernels.scale(row, shrink);
            kernels.scale(own, grow);
            for part in row.chunks_exact_mut(size) {
                let (kind, epsilon) = (config.spec.norm, config.epsilon);
                self.compute
                    .norm_in_place(kind, &embeddings.norm, epsilon, part);
            }
            kernels.add(row, own);
            kernels.scale(row, core::f32::consts::FRAC_1_SQRT_2);
        }
    }

    /// What a layer makes of its embedding and of `from` (tokens, width), normed, into `branch`.
    pub(crate) fn layer_input(
        &self,
        index: usize,
        input: &LayerInput,
        from: &[f32],
        work: &mut LayerInputBuffers<'_>,
    ) {
        let (config, compute) = (self.config, self.compute);
        let (size, width) = (input.gate.rows(), config.width);
        let gate = &mut work.gate[..self.tokens * size];
        self.project_rows(&input.gate, from, work.acts, gate);
        let all = size * config.layers.len();
        let inputs = work.inputs;
        compute.each_row(gate, size, |token, row| {
            compute.kernels.activate(Activation::GeluTanh, row);
            let own = &inputs[token * all + index * size..][..size];
            compute.kernels.mul(row, own);
        });
        let branch = &mut work.branch[..self.tokens * width];
        self.project_rows(&input.projection, gate, work.acts, branch);
        compute.each_row(branch, width, |_, row| {
            let (kind, epsilon) = (config.spec.norm, config.epsilon);
            compute.norm_in_place(kind, &input.norm, epsilon, row);
        });
    }

    /// Ends a layer that has more than a mixer and a network, and prepares the next one's input.
    pub(crate) fn end_layer(
        &self,
        index: usize,
        layer: &Layer,
        next: Option<&Layer>,
        work: &mut Workspace,
    ) {
        let (width, floats) = (self.config.width, self.tokens * self.config.width);
        if let Some(altup) = &layer.altup {
            self.correct(altup, work);
        }
        if let Some(input) = &layer.input_embedding {
            let (from, mut buffers) = work.layer_input_buffers(layer.altup.is_some());
            self.layer_input(index, input, &from[..floats], &mut buffers);
            if layer.altup.is_some() {
                self.add_to_idle(work);
            } else {
                let (x, branch) = (&mut work.x[..floats], &work.branch[..floats]);
                self.compute.add(x, branch, width);
            }
        }
        if let Some(scale) = layer.output_scale {
            let x = Chunks::new(&mut work.x[..floats], width);
            self.compute
                .each_piece(floats, x, |_, x| self.compute.kernels.scale(x, scale));
        }
        if let Some(next) = next.filter(|next| next.altup.is_none()) {
            let next = Some(next.input());
            let begin = AddNorm {
                next,
                ..AddNorm::default()
            };
            self.add_norm(&begin, work);
        }
    }
}

/// What [`Pass::layer_input`] works with.
pub(crate) struct LayerInputBuffers<'w> {
    pub(crate) acts: &'w mut crate::workspace::Acts,
    /// (tokens, layers, size).
    pub(crate) inputs: &'w [f32],
    pub(crate) gate: &'w mut [f32],
    pub(crate) branch: &'w mut [f32],
}

impl Workspace {
    /// What a layer's embedding is gated by, `normed` or `x`, and the other buffers.
    fn layer_input_buffers(&mut self, normed: bool) -> (&[f32], LayerInputBuffers<'_>) {
        let from = if normed { &self.normed } else { &self.x };
        let buffers = LayerInputBuffers {
            acts: &mut self.acts,
            inputs: &self.layer_inputs,
            gate: &mut self.spare,
            branch: &mut self.branch,
        };
        (from, buffers)
    }
}
