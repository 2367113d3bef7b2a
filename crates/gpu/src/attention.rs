//! Attention on a device: projections, rotations, keys and values into their pages, scores, the last matrix.

use crate::args;
use crate::backend::{Kernel, Shape};
use crate::error::DeviceError;
use crate::launch::launch;
use crate::multiplier::{Input, act_bytes};
use crate::pass::Pass;
use crate::weights::Attention;
use strata_kernels::RopeKind;
use strata_model::AttentionConfig;

/// Positions in a chunk of attention.
const CHUNK: usize = 256;

/// Tokens of a batch that may be of as many sequences, of which some are long.
const DECODED: usize = 64;

/// Queries that a block of the kernel for prompts has: see crates/cuda/kernels/prompt.cuh.
const PROMPT_TILE: usize = 64;

impl Pass<'_> {
    /// A layer's attention, from `normed` into `branch`; without its last bias.
    pub(crate) fn attention(&self, at: usize, weights: &Attention) -> Result<(), DeviceError> {
        let (config, buffers, tokens) = (&weights.config, self.buffers, self.shape.tokens);
        let stride: usize = weights.qkv.iter().map(|linear| linear.matrix.rows).sum();
        let gates = stride - config.q_width() - 2 * config.kv_width();
        let query_stride = config.q_width() + gates;
        self.project(self.input(), &weights.qkv, buffers.projected)?;
        let kv = args::KvPlace {
            memory: self.pages.class(self.first + at),
            blocks: self.batch.blocks(),
            layer: at as u32,
            kind: self.pages.layout().kind() as u32,
            kv_heads: config.kv_heads as u32,
            row_bytes: self.pages.layout().kind().row_bytes(config.head_size) as u32,
        };
        let rope = config.rope.filter(|_| self.model.rope_kind().is_some());
        let mut projection = args::Projection {
            projected: buffers.projected,
            queries: buffers.queries,
            q_norm: weights.q_norm,
            k_norm: weights.k_norm,
            rotations: rope.map_or(0, |rope| self.batch.rope(rope)),
            temperatures: config.temperature.map_or(0, |_| self.batch.temperatures()),
            batch: self.batch.place(),
            kv,
            heads: config.heads as u32,
            kv_heads: config.kv_heads as u32,
            head_size: config.head_size as u32,
            stride: stride as u32,
            query_stride: query_stride as u32,
            pairs: rope.map_or(0, |rope| self.model.rope_pairs(rope)) as u32,
            interleaved: (self.model.rope_kind() == Some(RopeKind::Interleaved)).into(),
            whole_norm: weights.whole_norm.into(),
            own_norm: weights.own_norm.into(),
            norm_after: weights.norm_after.into(),
            rms: self.rms.into(),
            clamp: config.clamp.unwrap_or(0.0),
            epsilon: self.config.epsilon,
            ..args::Projection::default()
        };
        for (i, linear) in weights.qkv.iter().enumerate() {
            projection.biases[i] = linear.bias;
            projection.bias_rows[i] = linear.matrix.rows as u32;
        }
        let shape = Shape {
            grid: [tokens as u32, (stride / config.head_size) as u32, 1],
            threads: 64,
            shared: (4 * config.head_size + 64) as u32,
        };
        launch(self.backend, self.kernels.project_heads, shape, &projection)?;
        // Where nothing comes between, attention quantizes its results itself.
        let (width, head) = (config.q_width(), config.head_size);
        let plain = gates == 0 && weights.sub_norm.weight == 0 && head.is_multiple_of(32);
        let encoded = weights.output.matrix.takes_floats() || width.is_multiple_of(256);
        let finished = plain && encoded;
        self.attend(weights, kv, query_stride, finished)?;
        let input = Input {
            floats: buffers.mixed,
            stride: width,
            acts: buffers.mixed_acts,
            tokens,
            shared_by: 1,
        };
        let output = std::slice::from_ref(&weights.output);
        if finished {
            return self.project(input, output, buffers.branch);
        }
        let mixed = args::Mixed {
            mixed: buffers.mixed,
            gates: if gates > 0 {
                buffers.queries + 4 * config.q_width() as u64
            } else {
                0
            },
            norm: weights.sub_norm,
            acts: if weights.output.matrix.takes_floats() {
                0
            } else {
                buffers.mixed_acts
            },
            width: width as u32,
            gate_stride: query_stride as u32,
            act_stride: act_bytes(width) as u32,
            epsilon: self.config.epsilon,
            rms: self.rms.into(),
        };
        let shape = self.row_blocks(tokens, width)?;
        launch(self.backend, self.kernels.finish_mixed, shape, &mixed)?;
        self.project(input, output, buffers.branch)
    }

    fn attend(
        &self,
        weights: &Attention,
        kv: args::KvPlace,
        query_stride: usize,
        finished: bool,
    ) -> Result<(), DeviceError> {
        let (config, buffers) = (&weights.config, self.buffers);
        let arguments = args::Attention {
            queries: buffers.queries,
            out: buffers.mixed,
            partials: buffers.partials,
            sinks: weights.sinks,
            slopes: weights.slopes,
            batch: self.batch.place(),
            kv,
            heads: config.heads as u32,
            kv_heads: config.kv_heads as u32,
            head_size: config.head_size as u32,
            query_stride: query_stride as u32,
            window: config.window.unwrap_or(0) as u32,
            chunked: config.chunked.into(),
            most_chunks: 0,
            scale: config.scale,
            cap: config.soft_cap.unwrap_or(0.0),
            inverse_cap: config.soft_cap.map_or(0.0, |cap| 1.0 / cap),
            act_stride: act_bytes(config.q_width()) as u32,
            acts: if finished && !weights.output.matrix.takes_floats() {
                buffers.mixed_acts
            } else {
                0
            },
            first: 0,
            tokens: self.shape.tokens as u32,
        };
        let prompt = self.prompt_kernel(config).filter(|_| !self.recorded);
        let Some((kernel, shared)) = prompt else {
            return self.attend_tokens(config, arguments);
        };
        for segment in self.batch.segments() {
            let arguments = args::Attention {
                first: segment.first as u32,
                tokens: segment.tokens as u32,
                ..arguments
            };
            if !segment.prompt {
                self.attend_tokens(config, arguments)?;
                continue;
            }
            let together = PROMPT_TILE / (config.heads / config.kv_heads);
            let tiles = segment.tokens.div_ceil(together);
            let shape = Shape {
                grid: [tiles as u32, config.kv_heads as u32, 1],
                threads: 256,
                shared: shared as u32,
            };
            launch(self.backend, kernel, shape, &arguments)?;
        }
        Ok(())
    }

    /// The kernel for prompts and its shared memory, where there is one: nobody's window is over yet, and a tile has room.
    fn prompt_kernel(&self, config: &AttentionConfig) -> Option<(Kernel, usize)> {
        let kernel = match config.head_size {
            64 => self.kernels.prompt?[0],
            128 => self.kernels.prompt?[1],
            _ => return None,
        };
        let seen = self.shape.longest > self.backend.prompts_from()?
            && config
                .window
                .is_none_or(|window| window >= self.shape.longest);
        let rows = 2 * PROMPT_TILE * (config.head_size + 4) + PROMPT_TILE * (CHUNK + 4);
        let shared = 4 * rows + 16 * PROMPT_TILE;
        let fits = shared <= self.backend.facts().shared as usize;
        (seen && fits && config.heads / config.kv_heads <= PROMPT_TILE).then_some((kernel, shared))
    }

    /// Attention of single tokens.
    fn attend_tokens(
        &self,
        config: &AttentionConfig,
        mut arguments: args::Attention,
    ) -> Result<(), DeviceError> {
        let tokens = arguments.tokens as usize;
        let sharing = config.heads / config.kv_heads;
        let (which, heads) = [(2, 4), (1, 2), (0, 1)]
            .into_iter()
            .find(|(_, heads)| sharing.is_multiple_of(*heads))
            .unwrap_or((0, 1));
        let groups = config.heads / heads;
        let sees = config.window.unwrap_or(usize::MAX).min(self.shape.longest);
        // A window may begin in the middle of a chunk.
        let chunks = sees.div_ceil(CHUNK) + usize::from(config.window.is_some());
        let chunks = chunks.min(self.shape.longest.div_ceil(CHUNK)).max(1);
        // With few tokens, chunks are shared out; recordings last while these stay a power of two.
        let processors = self.backend.facts().processors as usize;
        let room = chunks.next_power_of_two();
        let floats = tokens * config.heads * room * (config.head_size + 2);
        let few = tokens * groups < 2 * processors || tokens <= DECODED;
        let split = chunks > 1 && few && floats <= self.buffers.partial_room;
        let splits = if split { room } else { 1 };
        arguments.most_chunks = if split { room as u32 } else { 0 };
        let padded = config.head_size.next_multiple_of(32);
        let shared = 4 * heads * (padded + CHUNK + 8 + 8) + 8 * 8 + 64;
        let shape = Shape {
            grid: [tokens as u32, groups as u32, splits as u32],
            threads: 256,
            shared: shared as u32,
        };
        launch(self.backend, self.kernels.attend[which], shape, &arguments)?;
        if split {
            let shape = Shape {
                grid: [tokens as u32, config.heads as u32, 1],
                threads: padded as u32,
                shared: 0,
            };
            launch(self.backend, self.kernels.join_chunks, shape, &arguments)?;
        }
        Ok(())
    }
}
