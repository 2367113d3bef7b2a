//! `forward` as a sequence of kernels: what crates/model's decoder does, with the same bits.

use crate::adapters::{Adapters, FloatRows, RowsOf};
use crate::args::{self, Norm};
use crate::backend::{Address, Backend, Kernel, Shape};
use crate::batch::{BatchMemory, BatchShape};
use crate::buffers::Buffers;
use crate::error::DeviceError;
use crate::launch::launch;
use crate::multiplier::{Input, Multiplier, act_bytes};
use crate::pages::DevicePages;
use crate::weights::{Dense, Experts, FeedForward, Layer, Linear, Weights};
use strata_model::{Config, KvType, Model};

/// Kernels that every model needs.
pub(crate) struct Kernels {
    pub(crate) add_norm: Kernel,
    output_rows: Kernel,
    activate_rows: Kernel,
    activate_norm: Kernel,
    finish_logits: Kernel,
    pub(crate) project_heads: Kernel,
    /// For 1, 2 and 4 heads.
    pub(crate) attend: [Kernel; 3],
    /// For prompts, heads of 64 and 128.
    pub(crate) prompt: Option<[Kernel; 2]>,
    pub(crate) join_chunks: Kernel,
    pub(crate) finish_mixed: Kernel,
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
    pub(crate) adapters: &'a Adapters,
    /// The number of the first layer.
    pub(crate) first: usize,
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
    /// Everything from the embeddings, or the stream of the layers before, which are in place, to logits and states.
    pub(crate) fn run(&self) -> Result<(), DeviceError> {
        let layers = &self.weights.layers;
        let begin = |layer: &Layer| BranchStart {
            pre: layer.input_norm,
            parallel: false,
        };
        self.add_norm(None, layers.first().map(begin))?;
        for (at, layer) in layers.iter().enumerate() {
            let index = self.first + at;
            let next = layers.get(at + 1).map(begin);
            self.attention(at, &layer.attention)?;
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
    pub(crate) fn row_blocks(&self, rows: usize, width: usize) -> Result<Shape, DeviceError> {
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

    /// Matrices over one input of all tokens, side by side in `out`.
    pub(crate) fn project(
        &self,
        input: Input,
        linears: &[Linear],
        out: Address,
    ) -> Result<(), DeviceError> {
        self.project_rows(input, linears, out, RowsOf::Tokens)
    }

    fn project_rows(
        &self,
        input: Input,
        linears: &[Linear],
        out: Address,
        of: RowsOf,
    ) -> Result<(), DeviceError> {
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
            .multiply(self.backend, input, &places, stride)?;
        for (linear, (_, at)) in linears.iter().zip(places) {
            self.adapt(linear.id, input, FloatRows { at, stride }, of)?;
        }
        Ok(())
    }

    /// What adapters add to a matrix's products, which are in place.
    pub(crate) fn adapt(
        &self,
        matrix: usize,
        input: Input,
        out: FloatRows,
        of: RowsOf,
    ) -> Result<(), DeviceError> {
        let x = FloatRows {
            at: input.floats,
            stride: input.stride,
        };
        self.adapters.add(self.backend, matrix, (x, out), of)
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
        let Some((norm, output)) = self.weights.output.as_ref().filter(|_| rows > 0) else {
            return Ok(());
        };
        let width = config.width;
        let arguments = args::OutputRows {
            x: buffers.x,
            tokens: self.batch.output_rows(),
            norm: *norm,
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
        let output_matrix = std::slice::from_ref(output);
        self.project_rows(input, output_matrix, buffers.logits, RowsOf::Logits)?;
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
