//! Attention over a source: its keys and values are made once, when it is read, and stand in the pages of its positions.
//! What a decoder writes comes after them, so one layer's block holds those of the source and the decoder's own.

use super::branch::StoredRows;
use super::paged::{Attention, AttentionOut, Sees};
use crate::config::{AttentionConfig, Config};
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{NormWeights, Projections, block_linear, norm};
use crate::matrix::{Linear, Matrix};
use crate::pages::PagesMut;
use crate::residual::{AddNorm, BranchInput, BranchOrder, BranchOutput};
use crate::spec::Presence;
use crate::tensors::{Tensors, block_name};
use crate::workspace::Workspace;
use strata_kernels::act_format;

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct CrossAttention {
    /// Of its queries, which are all that it makes of a layer's input.
    config: AttentionConfig,
    norm: NormWeights,
    query: Projections,
    /// Keys and values, of the source's states.
    source: Projections,
    output: Linear,
}

impl CrossAttention {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        model: &Config,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let attention = model.layers[layer].attention();
        let attention = attention.expect("a layer that reads a source attends to itself too");
        let config = AttentionConfig {
            shares: Some(layer),
            buckets: None,
            ..*attention
        };
        // Files have it, though nothing reads it.
        tensors.skip(&block_name(layer, "cross_attn_rel_b", "weight"));
        let name = alloc::format!("blk.{layer}.cross_attn_norm");
        let norm = norm(tensors, model.spec.norm, &name, model.width)?;
        let (width, q, kv) = (model.width, config.q_width(), config.kv_width());
        let mut linear = |name, columns, rows| {
            block_linear(tensors, layer, name, columns, rows, Presence::Never)
        };
        Ok(Self {
            norm,
            source: Projections(
                [
                    linear("cross_attn_k", width, kv)?,
                    linear("cross_attn_v", width, kv)?,
                ]
                .into(),
            ),
            query: Projections([linear("cross_attn_q", width, q)?].into()),
            output: linear("cross_attn_o", q, width)?,
            config,
        })
    }

    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let linears = self.source.0.iter().chain(&self.query.0);
        linears.chain([&self.output]).map(|linear| &linear.matrix)
    }
}

impl Pass<'_> {
    /// Makes a source's keys and values of its states, which are in `x`, and stores them.
    pub(crate) fn store_source(
        &self,
        layer: usize,
        weights: &CrossAttention,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let config = &weights.config;
        let stride = 2 * config.kv_width();
        let rows = &mut work.projected[..self.tokens * stride];
        let states = &work.x[..self.tokens * self.config.width];
        self.project_rows(&weights.source, states, &mut work.acts, rows);
        let rows = StoredRows {
            config,
            floats: rows,
            stride,
            offset: 0,
        };
        self.store(layer, rows, &mut work.stores, pages);
    }

    /// Attention over the source: adds the branch before it, and leaves its own in `branch`.
    pub(crate) fn cross(
        &self,
        layer: usize,
        before: BranchOutput<'_>,
        weights: &CrossAttention,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let Self {
            compute, tokens, ..
        } = *self;
        let input = BranchInput {
            pre_norm: Some(&weights.norm),
            formats: weights.query.formats().collect(),
        };
        self.add_norm(
            &AddNorm::between(before, input, BranchOrder::Sequential),
            work,
        );
        let config = &weights.config;
        let width = config.q_width();
        let queries = &mut work.projected[..tokens * width];
        self.observe_all(&weights.query, &work.normed);
        self.project(&weights.query, &mut work.acts, queries);
        let format = act_format(weights.output.matrix.ty);
        Attention {
            compute,
            config,
            kv: pages.storage.layer(pages.table, layer),
            batch: self.batch,
            positions: &work.positions[..tokens],
            qkv: queries,
            sinks: None,
            slopes: &[],
            buckets: None,
            sees: Sees::Source,
        }
        .run(AttentionOut {
            floats: &mut work.mixed[..tokens * width],
            encoded: Some((work.acts.rows_mut(format, width, tokens), format)),
            partials: &mut work.partials,
        });
        self.mixer_output(&weights.output, work);
    }
}
