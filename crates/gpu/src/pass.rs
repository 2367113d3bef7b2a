//! `forward` as a sequence of kernels: what crates/model's decoder does, with the same bits.

use crate::args::{self, Norm};
use crate::backend::{Address, Backend, Kernel, Shape};
use crate::batch::{BatchMemory, BatchShape};
use crate::buffers::Buffers;
use crate::error::DeviceError;
use crate::launch::launch;
use crate::multiplier::{Input, Multiplier, act_bytes};
use crate::pages::DevicePages;
use crate::weights::{Attention, Dense, Experts, FeedForward, Layer, Linear, Weights};
use strata_kernels::RopeKind;
use strata_model::{AttentionConfig, Config, KvType, Model};

/// Positions in a chunk of attention.
const CHUNK: usize = 256;

/// Tokens of a batch that may be of as many sequences, of which some are long.
const DECODED: usize = 64;

/// Queries that a block of the kernel for prompts has: see crates/cuda/kernels/prompt.cuh.
const PROMPT_TILE: usize = 64;

/// Kernels that every model needs.
pub(crate) struct Kernels {
    pub(crate) add_norm: Kernel,
    output_rows: Kernel,
    activate_rows: Kernel,
    activate_norm: Kernel,
    finish_logits: Kernel,
    project_heads: Kernel,
    /// For 1, 2 and 4 heads.
    attend: [Kernel; 3],
    /// For prompts, heads of 64 and 128.
    prompt: Option<[Kernel; 2]>,
    join_chunks: Kernel,
    finish_mixed: Kernel,
    pub(crate) choose_experts: Kernel,
    pub(crate) expert_inputs: Kernel,
    pub(crate) gather_experts: Kernel,
}

impl Kernels {
    pub(crate) fn load(backend: &mut dyn Backend, kind: KvType) -> Result<Self, DeviceError> {
        let prompts = kind != KvType::F32 && backend.prompts_from().is_some();
        let kind = match kind {
            KvType::F32 => "KV_F32",
            KvType::F16 => "KV_F16",
            KvType::Q8_0 => "KV_Q8_0",
        };
        let mut attend = |heads| backend.kernel("attention", &format!("attend_{kind}_{heads}"));
        let attend = [attend(1)?, attend(2)?, attend(4)?];
        let mut prompt = |size| backend.kernel("attention", &format!("prompt_{kind}_{size}"));
        let prompt = if prompts {
            Some([prompt(64)?, prompt(128)?])
        } else {
            None
        };
        Ok(Self {
            add_norm: backend.kernel("residual", "add_norm")?,
            output_rows: backend.kernel("residual", "output_rows")?,
            activate_rows: backend.kernel("ffn", "activate_rows")?,
            activate_norm: backend.kernel("ffn", "activate_norm")?,
            finish_logits: backend.kernel("ffn", "finish_logits")?,
            project_heads: backend.kernel("projection", "project_heads")?,
            attend,
            prompt,
            join_chunks: backend.kernel("attention", "join_chunks")?,
            finish_mixed: backend.kernel("attention", "finish_mixed")?,
            choose_experts: backend.kernel("experts", "choose_experts")?,
            expert_inputs: backend.kernel("experts", "expert_inputs")?,
            gather_experts: backend.kernel("experts", "gather_experts")?,
        })
    }
}

/// What a pass reads and writes.
pub(crate) struct Pass<'a> {
    pub(crate) backend: &'a dyn Backend,
    pub(crate) model: &'a Model,
    pub(crate) config: &'a Config,
    pub(crate) weights: &'a Weights,
    pub(crate) kernels: &'a Kernels,
    pub(crate) multiplier: &'a dyn Multiplier,
    pub(crate) buffers: &'a Buffers,
    pub(crate) batch: &'a BatchMemory,
    pub(crate) pages: &'a DevicePages,
    pub(crate) shape: BatchShape,
    pub(crate) rms: bool,
    /// Whether the launches are to be done again for other batches of this shape.
    pub(crate) recorded: bool,
}

/// A branch that ends: its last bias and the norm of its result.
#[derive(Copy, Clone, Default)]
struct BranchEnd {
    bias: Address,
    post: Norm,
    halve: bool,
}

/// A branch that begins: the norm of what it reads, and whether it reads what the one before it read.
#[derive(Copy, Clone, Default)]
struct BranchStart {
    pre: Norm,
    parallel: bool,
}

impl Pass<'_> {
    /// Everything from the embeddings, which are in place, to logits and states.
    pub(crate) fn run(&self) -> Result<(), DeviceError> {
        let layers = &self.weights.layers;
        let begin = |layer: &Layer| BranchStart {
            pre: layer.input_norm,
            parallel: false,
        };
        self.add_norm(None, layers.first().map(begin))?;
        for (index, layer) in layers.iter().enumerate() {
            let next = layers.get(index + 1).map(begin);
            self.attention(index, &layer.attention)?;
            let end = BranchEnd {
                bias: layer.attention.output.bias,
                post: layer.post_attn_norm,
                halve: false,
            };
            if let FeedForward::Nothing = layer.ffn {
                self.add_norm(Some(end), next)?;
                continue;
            }
            let ffn = BranchStart {
                pre: layer.ffn_norm,
                parallel: layer.parallel,
            };
            match &layer.expert_branch {
                None => self.add_norm(Some(end), Some(ffn))?,
                Some((norm, experts)) => {
                    let parallel = true;
                    let start = BranchStart {
                        pre: *norm,
                        parallel,
                    };
                    self.add_norm(Some(end), Some(start))?;
                    self.experts(experts)?;
                    let ffn = BranchStart { parallel, ..ffn };
                    self.add_norm(Some(BranchEnd::default()), Some(ffn))?;
                }
            }
            let bias = match &layer.ffn {
                FeedForward::Nothing => 0,
                FeedForward::Dense(dense) => {
                    self.dense(dense)?;
                    dense.down.bias
                }
                FeedForward::Experts(experts) => {
                    self.experts(experts)?;
                    0
                }
            };
            let every = self.config.halve_every;
            let end = BranchEnd {
                bias,
                post: layer.post_ffn_norm,
                halve: every.is_some_and(|every| (index + 1).is_multiple_of(every)),
            };
            self.add_norm(Some(end), next)?;
        }
        self.outputs()
    }

    /// What matrices read that see `normed`.
    pub(crate) fn input(&self) -> Input {
        Input {
            floats: self.buffers.normed,
            stride: self.config.width,
            acts: self.buffers.acts,
            tokens: self.shape.tokens,
            shared_by: 1,
        }
    }

    /// A block of threads for each of `rows` rows of `width` floats, which it holds in shared memory.
    fn row_blocks(&self, rows: usize, width: usize) -> Result<Shape, DeviceError> {
        let shared = 4 * width + 64;
        if shared > self.backend.facts().shared as usize {
            return Err(DeviceError::Wide { width });
        }
        Ok(Shape {
            grid: [rows as u32, 1, 1],
            threads: match width {
                ..=1024 => 128,
                1025..=4096 => 512,
                _ => 1024,
            },
            shared: shared as u32,
        })
    }

    fn add_norm(
        &self,
        end: Option<BranchEnd>,
        start: Option<BranchStart>,
    ) -> Result<(), DeviceError> {
        let width = self.config.width;
        let (branch, next) = (end.unwrap_or_default(), start.unwrap_or_default());
        let arguments = args::AddNorm {
            x: self.buffers.x,
            branch: self.buffers.branch,
            branch_bias: branch.bias,
            post: branch.post,
            pre: next.pre,
            normed: self.buffers.normed,
            acts: self.buffers.acts,
            width: width as u32,
            act_stride: act_bytes(width) as u32,
            epsilon: self.config.epsilon,
            residual_scale: self.config.residual_scale,
            has_branch: end.is_some().into(),
            has_next: start.is_some().into(),
            parallel: next.parallel.into(),
            halve: branch.halve.into(),
            rms: self.rms.into(),
        };
        let shape = self.row_blocks(self.shape.tokens, width)?;
        launch(self.backend, self.kernels.add_norm, shape, &arguments)
    }

    fn attention(&self, index: usize, weights: &Attention) -> Result<(), DeviceError> {
        let (config, buffers, tokens) = (&weights.config, self.buffers, self.shape.tokens);
        let stride: usize = weights.qkv.iter().map(|linear| linear.matrix.rows).sum();
        let gates = stride - config.q_width() - 2 * config.kv_width();
        let query_stride = config.q_width() + gates;
        self.project(self.input(), &weights.qkv, buffers.projected)?;
        let kv = args::KvPlace {
            memory: self.pages.class(index),
            blocks: self.batch.blocks(),
            layer: index as u32,
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

    /// Matrices over one input, side by side in `out`.
    fn project(&self, input: Input, linears: &[Linear], out: Address) -> Result<(), DeviceError> {
        let stride = linears.iter().map(|linear| linear.matrix.rows).sum();
        let mut at = out;
        let places: Vec<_> = linears
            .iter()
            .map(|linear| {
                let here = at;
                at += 4 * linear.matrix.rows as u64;
                (linear.matrix, here)
            })
            .collect();
        self.multiplier
            .multiply(self.backend, input, &places, stride)
    }

    /// A feed-forward network, from `normed` into `branch`; without its last bias.
    pub(crate) fn dense(&self, weights: &Dense) -> Result<(), DeviceError> {
        let (buffers, tokens) = (self.buffers, self.shape.tokens);
        let stride: usize = weights.input.iter().map(|linear| linear.matrix.rows).sum();
        let inner = weights.down.matrix.columns;
        self.project(self.input(), &weights.input, buffers.hidden)?;
        let up_bias = match (&weights.input[..], weights.gated) {
            ([_, up], true) => up.bias,
            ([both], true) if both.bias != 0 => both.bias + 4 * inner as u64,
            _ => 0,
        };
        let arguments = args::Activate {
            hidden: buffers.hidden,
            gate_bias: weights.input[0].bias,
            up_bias,
            experts: 0,
            norm: weights.sub_norm,
            acts: if weights.down.matrix.takes_floats() {
                0
            } else {
                buffers.hidden_acts
            },
            inner: inner as u32,
            stride: stride as u32,
            act_stride: act_bytes(inner) as u32,
            gated: weights.gated.into(),
            activation: weights.activation,
            epsilon: self.config.epsilon,
            rms: self.rms.into(),
        };
        if weights.sub_norm.weight != 0 {
            let shape = self.row_blocks(tokens, inner)?;
            launch(self.backend, self.kernels.activate_norm, shape, &arguments)?;
        } else {
            self.activate(tokens, &arguments)?;
        }
        let input = Input {
            floats: buffers.hidden,
            stride,
            acts: buffers.hidden_acts,
            tokens,
            shared_by: 1,
        };
        let down = std::slice::from_ref(&weights.down);
        self.project(input, down, buffers.branch)
    }

    /// The activation of rows, whose groups of 32 are shared out among blocks.
    pub(crate) fn activate(
        &self,
        rows: usize,
        arguments: &args::Activate,
    ) -> Result<(), DeviceError> {
        let groups = (arguments.inner as usize).div_ceil(256);
        let shape = Shape {
            grid: [rows as u32, groups as u32, 1],
            threads: 256,
            shared: 0,
        };
        launch(self.backend, self.kernels.activate_rows, shape, arguments)
    }

    /// The rows asked for: last norm, matrix, bias, scale, cap; and states behind them.
    fn outputs(&self) -> Result<(), DeviceError> {
        let (config, buffers) = (self.config, self.buffers);
        let BatchShape { logits, states, .. } = self.shape;
        let rows = logits + states;
        if rows == 0 {
            return Ok(());
        }
        let width = config.width;
        let arguments = args::OutputRows {
            x: buffers.x,
            tokens: self.batch.output_rows(),
            norm: self.weights.output_norm,
            normed: buffers.rows,
            acts: buffers.row_acts,
            width: width as u32,
            act_stride: act_bytes(width) as u32,
            epsilon: config.epsilon,
            rms: self.rms.into(),
        };
        let shape = self.row_blocks(rows, width)?;
        launch(self.backend, self.kernels.output_rows, shape, &arguments)?;
        if logits == 0 {
            return Ok(());
        }
        let input = Input {
            floats: buffers.rows,
            stride: width,
            acts: buffers.row_acts,
            tokens: logits,
            shared_by: 1,
        };
        let output = &self.weights.output;
        self.project(input, std::slice::from_ref(output), buffers.logits)?;
        if output.bias == 0 && config.logit_scale == 1.0 && config.logit_soft_cap.is_none() {
            return Ok(());
        }
        let arguments = args::Logits {
            logits: buffers.logits,
            bias: output.bias,
            vocabulary: config.vocabulary as u32,
            scale: config.logit_scale,
            cap: config.logit_soft_cap.unwrap_or(0.0),
            inverse_cap: config.logit_soft_cap.map_or(0.0, |cap| 1.0 / cap),
        };
        let shape = Shape {
            grid: [64, logits as u32, 1],
            threads: 256,
            shared: 0,
        };
        launch(self.backend, self.kernels.finish_logits, shape, &arguments)
    }

    /// What experts' own file has.
    fn experts(&self, weights: &Experts) -> Result<(), DeviceError> {
        crate::experts::run(self, weights)
    }
}
