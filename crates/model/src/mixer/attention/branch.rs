//! A decoder's attention from a layer's input on: keys and values go into pages, and every token sees those before it.

use super::paged::{Attention, AttentionOut, Sees};
use super::{AttentionWeights, Placed};
use crate::config::AttentionConfig;
use crate::decoder::Pass;
use crate::mixer::scan::softplus;
use crate::pages::{Half, LayerLayout, PagesMut};
use crate::spec::{AttnGate, ImageLayers};
use crate::workspace::{Stores, Workspace};
use strata_kernels::{Activation, Kernels, KvType, act_format};
use strata_platform::{Chunks, Stretches};

impl Pass<'_> {
    /// Attention, from a layer's encoded input to the encoded input of its last matrix.
    pub(in crate::mixer) fn attend(
        &self,
        layer: usize,
        weights: &AttentionWeights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        self.keep_keys(layer, weights, pages, work);
        let Self {
            compute, tokens, ..
        } = *self;
        let config = &weights.config;
        let width = config.q_width();
        let format = act_format(weights.output.matrix.ty);
        let (floats, encoded) = if weights.latent.is_some() {
            // What heads find is not what the last matrix sees.
            let start = work.spare.len() - tokens * width;
            (&mut work.spare[start..], None)
        } else {
            let encoded = work.acts.rows_mut(format, width, tokens);
            (&mut work.mixed[..tokens * width], Some((encoded, format)))
        };
        let sees = match self.config.spec.image_layers {
            _ if layer == self.config.layers.len() => Sees::ButFirst,
            ImageLayers::Windowed if config.window.is_none() => Sees::NothingLater,
            _ => Sees::Itself,
        };
        let attention = Attention {
            compute,
            config,
            kv: pages
                .storage
                .layer(pages.table, config.shares.unwrap_or(layer)),
            batch: self.batch,
            positions: &work.positions[..tokens],
            qkv: &work.projected[..tokens * config.qkv_width()],
            sinks: weights.sinks.as_deref(),
            slopes: &weights.slopes,
            buckets: weights.buckets.as_ref(),
            sees,
        };
        attention.run(AttentionOut {
            floats,
            encoded,
            partials: &mut work.partials,
        });
        self.observe_attention(layer, &attention);
        if let Some(latent) = &weights.latent {
            return self.finish_latent((weights, latent), work);
        }
        if config.gate != AttnGate::Never || weights.sub_norm.is_some() {
            let (mixed, encoded) = (
                &mut work.mixed[..tokens * width],
                work.acts.rows_mut(format, width, tokens),
            );
            self.gate_and_norm(weights, &mut work.projected, mixed);
            compute.encode(format, mixed, width, width, encoded);
        }
    }

    /// Queries, keys and values from a layer's encoded input, and the latter two into their pages.
    pub(crate) fn keep_keys(
        &self,
        layer: usize,
        weights: &AttentionWeights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let (config, tokens) = (&weights.config, self.tokens);
        let qkv = &mut work.projected[..tokens * config.qkv_width()];
        let rotations = self.rotations(config, &work.rotations);
        let placed = Placed {
            rotations,
            positions: &work.positions[..tokens],
        };
        let buffers = (&mut work.acts, &mut work.spare[..]);
        match &weights.latent {
            None => self.queries_keys_values(weights, &work.normed, placed, buffers, qkv),
            Some(latent) => {
                self.latent_qkv((weights, latent), &work.normed, placed, buffers, qkv);
            }
        }
        if config.shares.is_none() {
            let stride = config.qkv_width();
            let rows = StoredRows {
                config,
                floats: qkv,
                stride,
                offset: config.q_width(),
            };
            self.store(layer, rows, &mut work.stores, pages);
        }
    }

    /// What comes between attention and its last matrix.
    fn gate_and_norm(&self, weights: &AttentionWeights, projected: &mut [f32], mixed: &mut [f32]) {
        let Self {
            compute, tokens, ..
        } = *self;
        let config = &weights.config;
        let (width, stride) = (config.q_width(), config.qkv_width());
        let projected = &mut projected[..tokens * stride];
        let pieces = (Chunks::new(mixed, width), Chunks::new(projected, stride));
        compute.each_piece(tokens * width, pieces, |_, (mixed, projected)| {
            let gate = &mut projected[stride - config.gate_width()..];
            match config.gate {
                AttnGate::Softplus | AttnGate::SoftplusHeads => {
                    gate.iter_mut().for_each(|gate| *gate = softplus(*gate));
                }
                _ => compute.kernels.activate(Activation::Sigmoid, gate),
            }
            if config.gate.by_head() {
                for (head, &gate) in mixed.chunks_exact_mut(config.head_size).zip(&*gate) {
                    compute.kernels.scale(head, gate);
                }
            } else if !gate.is_empty() {
                compute.kernels.mul(mixed, gate);
            }
            if let Some(norm) = &weights.sub_norm {
                let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
                compute.norm_in_place(kind, norm, epsilon, mixed);
            }
        });
    }

    /// Keys and values into their pages.
    pub(super) fn store(
        &self,
        layer: usize,
        rows: StoredRows<'_>,
        stores: &mut Stores,
        pages: &mut PagesMut<'_>,
    ) {
        let PagesMut { table, storage } = pages;
        let tokens = StoredTokens {
            kernels: self.compute.kernels,
            kind: storage.layout().kind(),
            layout: storage.layer_layout(layer),
            rows,
        };
        let bytes = tokens.layout.bytes();
        let (memory, starts) = storage.layer_mut(table, layer);
        stores.sort(starts);
        let stores = &*stores;
        match Stretches::new(memory, stores.starts(), bytes) {
            Some(blocks) => self
                .compute
                .each_piece(rows.floats.len(), blocks, |index, block| {
                    for (token, position) in stores.run(index) {
                        tokens.store(token, position, block);
                    }
                }),
            // Two spans write to one page: the later one stays, as in the order of the batch.
            None => {
                for (index, &start) in stores.starts().iter().enumerate() {
                    let block = &mut storage.layer_mut(table, layer).0[start..][..bytes];
                    for (token, position) in stores.run(index) {
                        tokens.store(token, position, block);
                    }
                }
            }
        }
    }
}

/// Keys and values in rows, one for each token.
#[derive(Copy, Clone)]
pub(super) struct StoredRows<'a> {
    pub(super) config: &'a AttentionConfig,
    pub(super) floats: &'a [f32],
    pub(super) stride: usize,
    /// Where in a row keys begin; values come after them.
    pub(super) offset: usize,
}

/// Keys and values to be stored in one layer.
struct StoredTokens<'a> {
    kernels: &'a Kernels,
    kind: KvType,
    layout: LayerLayout,
    rows: StoredRows<'a>,
}

impl StoredTokens<'_> {
    /// One token's keys and values, into its page's block.
    fn store(&self, token: usize, position: usize, block: &mut [u8]) {
        let StoredRows {
            config,
            floats,
            stride,
            offset,
        } = self.rows;
        let row = &floats[token * stride + offset..][..2 * config.kv_width()];
        let (keys, values) = row.split_at(config.kv_width());
        for (half, heads) in [(Half::Keys, keys), (Half::Values, values)] {
            if matches!(half, Half::Values) && self.layout.values_are_keys() {
                continue;
            }
            for (head, x) in heads.chunks_exact(config.head_size).enumerate() {
                let out = &mut block[self.layout.row(half, head, position)];
                self.kernels.kv_store(self.kind, x, out);
            }
        }
    }
}
