//! Mixtures of experts: from `normed` into `branch`.

use crate::adapters::{FloatRows, RowsOf};
use crate::args;
use crate::backend::Shape;
use crate::error::DeviceError;
use crate::launch::launch;
use crate::multiplier::{Input, act_bytes};
use crate::pass::Pass;
use crate::weights::Experts;
use strata_model::spec::{ExpertGate, Weighed};

/// Routes, computes the shared expert and those chosen, and adds them.
pub(crate) fn run(pass: &Pass<'_>, weights: &Experts) -> Result<(), DeviceError> {
    let (config, buffers) = (&weights.config, &pass.buffers.experts);
    let (tokens, width, ffn) = (pass.shape.tokens, pass.config.width, config.ffn);
    let slots = tokens * config.used;
    let router = [(weights.router.matrix, buffers.scores)];
    pass.multiplier
        .multiply(pass.backend, pass.input(), &router, config.count)?;
    let scores = FloatRows {
        at: buffers.scores,
        stride: config.count,
    };
    let tokens_of = RowsOf::Tokens;
    pass.adapt(weights.router.id, pass.input(), scores, tokens_of)?;
    let cap = config.routing.soft_cap;
    let (groups, groups_used) = config.groups.unwrap_or((0, 0));
    let choose = args::Choose {
        scores: buffers.scores,
        router_bias: weights.router.bias,
        choice_bias: weights.choice_bias,
        experts: buffers.chosen,
        weights: buffers.weights,
        count: config.count as u32,
        used: config.used as u32,
        groups: groups as u32,
        groups_used: groups_used as u32,
        gate: match config.routing.gate {
            ExpertGate::Softmax => 0,
            ExpertGate::Sigmoid => 1,
            ExpertGate::SoftmaxOfChosen => 2,
            ExpertGate::SparseMixer => 3,
        },
        renormalize: config.routing.renormalize.into(),
        cap: cap.unwrap_or(0.0),
        inverse_cap: cap.map_or(0.0, |cap| 1.0 / cap),
        scale: config.scale,
    };
    let shape = Shape {
        grid: [tokens as u32, 1, 1],
        threads: 32,
        shared: (4 * (config.count + config.used) + 64) as u32,
    };
    launch(pass.backend, pass.kernels.choose_experts, shape, &choose)?;
    if let Some(shared) = &weights.shared {
        pass.dense(shared)?;
    }
    let mut input = Input {
        tokens: slots,
        shared_by: config.used,
        ..pass.input()
    };
    if config.routing.weighed == Weighed::Input {
        let arguments = args::ExpertInput {
            normed: pass.buffers.normed,
            weights: buffers.weights,
            scaled: buffers.inputs,
            acts: buffers.input_acts,
            width: width as u32,
            act_stride: act_bytes(width) as u32,
            used: config.used as u32,
        };
        let shape = Shape {
            grid: [slots as u32, 1, 1],
            threads: 256,
            shared: 0,
        };
        launch(pass.backend, pass.kernels.expert_inputs, shape, &arguments)?;
        input = Input {
            floats: buffers.inputs,
            stride: width,
            acts: buffers.input_acts,
            tokens: slots,
            shared_by: 1,
        };
    }
    let stride = if weights.up.is_some() { 2 * ffn } else { ffn };
    let multiply = |input, matrices, out, stride| {
        let place = (matrices, out);
        pass.multiplier
            .multiply_experts(pass.backend, input, place, stride, buffers.chosen)
    };
    multiply(input, &weights.gate, buffers.hidden, stride)?;
    if let Some(up) = &weights.up {
        multiply(input, up, buffers.hidden + 4 * ffn as u64, stride)?;
    }
    let activate = args::Activate {
        hidden: buffers.hidden,
        gate_bias: weights.gate.biases,
        up_bias: weights.up.as_ref().map_or(0, |up| up.biases),
        experts: buffers.chosen,
        acts: if weights.down.first.takes_floats() {
            0
        } else {
            buffers.hidden_acts
        },
        inner: ffn as u32,
        stride: stride as u32,
        act_stride: act_bytes(ffn) as u32,
        gated: weights.up.is_some().into(),
        activation: weights.activation,
        epsilon: pass.config.epsilon,
        rms: pass.rms.into(),
        ..args::Activate::default()
    };
    pass.activate(slots, &activate)?;
    let hidden = Input {
        floats: buffers.hidden,
        stride,
        acts: buffers.hidden_acts,
        tokens: slots,
        shared_by: 1,
    };
    multiply(hidden, &weights.down, buffers.results, width)?;
    let gather = args::Gather {
        results: buffers.results,
        biases: weights.down.biases,
        experts: buffers.chosen,
        weights: match config.routing.weighed {
            Weighed::Output => buffers.weights,
            Weighed::Input => 0,
        },
        normed: pass.buffers.normed,
        shared_gate: weights.shared_gate,
        out: pass.buffers.branch,
        width: width as u32,
        used: config.used as u32,
        shared: weights.shared.is_some().into(),
        scale: weights.scale,
    };
    let shape = Shape {
        grid: [tokens as u32, width.div_ceil(1024) as u32, 1],
        threads: 256,
        shared: 64,
    };
    launch(pass.backend, pass.kernels.gather_experts, shape, &gather)
}
