//! Families whose checkpoints keep all experts of a layer in one tensor: GPT-OSS, Llama 4, DBRX.

use super::Literal::{Bool, Number};
use super::llama::{ATTENTION, LLAMA, OUTER, PRE_NORMS, RMS, SILU};
use super::mixtures::COUNTS;
use super::{
    Absent, Family, FfnWidth, HeadSize, Kind, Order, Rule, Share, Window, demand, exact, pair,
    same, whole,
};

/// Gates and ups alternate; floats are stored (in, out), 4-bit floats (out, in).
const GPT_OSS_EXPERTS: &[Rule] = &[
    same("layers.#.mlp.router", "blk.#.ffn_gate_inp"),
    whole(
        "layers.#.mlp.experts.gate_up_proj",
        "blk.#.ffn_gate_exps.weight",
        Order::Turned(Share::Even),
    ),
    whole(
        "layers.#.mlp.experts.gate_up_proj",
        "blk.#.ffn_up_exps.weight",
        Order::Turned(Share::Odd),
    ),
    whole(
        "layers.#.mlp.experts.gate_up_proj_bias",
        "blk.#.ffn_gate_exps.bias",
        Order::Columns(Share::Even),
    ),
    whole(
        "layers.#.mlp.experts.gate_up_proj_bias",
        "blk.#.ffn_up_exps.bias",
        Order::Columns(Share::Odd),
    ),
    whole(
        "layers.#.mlp.experts.down_proj",
        "blk.#.ffn_down_exps.weight",
        Order::Turned(Share::All),
    ),
    whole(
        "layers.#.mlp.experts.down_proj_bias",
        "blk.#.ffn_down_exps.bias",
        Order::Same,
    ),
    whole(
        "layers.#.mlp.experts.gate_up_proj_blocks",
        "blk.#.ffn_gate_exps.weight",
        Order::Blocks(Share::Even),
    ),
    whole(
        "layers.#.mlp.experts.gate_up_proj_blocks",
        "blk.#.ffn_up_exps.weight",
        Order::Blocks(Share::Odd),
    ),
    whole(
        "layers.#.mlp.experts.gate_up_proj_scales",
        "blk.#.ffn_gate_exps.weight",
        Order::Scales,
    ),
    whole(
        "layers.#.mlp.experts.gate_up_proj_scales",
        "blk.#.ffn_up_exps.weight",
        Order::Scales,
    ),
    whole(
        "layers.#.mlp.experts.down_proj_blocks",
        "blk.#.ffn_down_exps.weight",
        Order::Blocks(Share::All),
    ),
    whole(
        "layers.#.mlp.experts.down_proj_scales",
        "blk.#.ffn_down_exps.weight",
        Order::Scales,
    ),
];

pub(super) const GPT_OSS: Family = Family {
    classes: &["GptOssForCausalLM"],
    arch: "gpt-oss",
    rules: &[
        OUTER,
        &[
            same("layers.#.input_layernorm", "blk.#.attn_norm"),
            same(
                "layers.#.post_attention_layernorm",
                "blk.#.post_attention_norm",
            ),
            exact("layers.#.self_attn.sinks", "blk.#.attn_sinks.weight"),
        ],
        ATTENTION,
        GPT_OSS_EXPERTS,
    ],
    pairs: &[
        &[
            RMS,
            pair(
                &["intermediate_size"],
                "feed_forward_length",
                Kind::U32,
                Absent::Error,
            ),
        ],
        COUNTS,
    ],
    demands: &[SILU, demand("swiglu_limit", &[Number(7.0)])],
    head_size: HeadSize::Always,
    window: Window::Stated,
    ..LLAMA
};

pub(super) const LLAMA4: Family = Family {
    classes: &["Llama4ForCausalLM", "Llama4ForConditionalGeneration"],
    arch: "llama4",
    rules: &[
        OUTER,
        PRE_NORMS,
        ATTENTION,
        &[
            same("layers.#.feed_forward.gate_proj", "blk.#.ffn_gate"),
            same("layers.#.feed_forward.up_proj", "blk.#.ffn_up"),
            same("layers.#.feed_forward.down_proj", "blk.#.ffn_down"),
            same("layers.#.feed_forward.router", "blk.#.ffn_gate_inp"),
            same(
                "layers.#.feed_forward.shared_expert.gate_proj",
                "blk.#.ffn_gate_shexp",
            ),
            same(
                "layers.#.feed_forward.shared_expert.up_proj",
                "blk.#.ffn_up_shexp",
            ),
            same(
                "layers.#.feed_forward.shared_expert.down_proj",
                "blk.#.ffn_down_shexp",
            ),
            whole(
                "layers.#.feed_forward.experts.gate_up_proj",
                "blk.#.ffn_gate_exps.weight",
                Order::Turned(Share::FirstHalf),
            ),
            whole(
                "layers.#.feed_forward.experts.gate_up_proj",
                "blk.#.ffn_up_exps.weight",
                Order::Turned(Share::SecondHalf),
            ),
            whole(
                "layers.#.feed_forward.experts.down_proj",
                "blk.#.ffn_down_exps.weight",
                Order::Turned(Share::All),
            ),
        ],
    ],
    pairs: &[
        &[
            RMS,
            pair(
                &["intermediate_size_mlp"],
                "feed_forward_length",
                Kind::U32,
                Absent::Error,
            ),
            pair(
                &["interleave_moe_layer_step"],
                "interleave_moe_layer_step",
                Kind::U32,
                Absent::Default(1.0),
            ),
            pair(
                &["attention_chunk_size"],
                "attention.sliding_window",
                Kind::U32,
                Absent::Skip,
            ),
        ],
        COUNTS,
    ],
    demands: &[
        SILU,
        demand("attn_temperature_tuning", &[Bool(true), Number(4.0)]),
        demand("floor_scale", &[Number(8192.0)]),
        demand("attn_scale", &[Number(0.1)]),
    ],
    ffn: FfnWidth::Paired,
    window: Window::Never,
    ..LLAMA
};

pub(super) const DBRX: Family = Family {
    classes: &["DbrxForCausalLM"],
    arch: "dbrx",
    rules: &[&[
        same("wte", "token_embd"),
        same("norm_f", "output_norm"),
        same("lm_head", "output"),
        same("blocks.#.norm_attn_norm.norm_1", "blk.#.attn_norm"),
        same("blocks.#.norm_attn_norm.norm_2", "blk.#.attn_output_norm"),
        same("blocks.#.norm_attn_norm.attn.Wqkv", "blk.#.attn_qkv"),
        same("blocks.#.norm_attn_norm.attn.out_proj", "blk.#.attn_output"),
        same("blocks.#.ffn.router.layer", "blk.#.ffn_gate_inp"),
        whole(
            "blocks.#.ffn.experts.mlp.w1",
            "blk.#.ffn_gate_exps.weight",
            Order::Experts,
        ),
        whole(
            "blocks.#.ffn.experts.mlp.v1",
            "blk.#.ffn_up_exps.weight",
            Order::Experts,
        ),
        whole(
            "blocks.#.ffn.experts.mlp.w2",
            "blk.#.ffn_down_exps.weight",
            Order::ExpertsTurned,
        ),
    ]],
    pairs: &[&[
        pair(
            &["ffn_hidden_size"],
            "feed_forward_length",
            Kind::U32,
            Absent::Error,
        ),
        pair(
            &[],
            "attention.layer_norm_epsilon",
            Kind::F32,
            Absent::Default(1e-5),
        ),
        pair(
            &["clip_qkv"],
            "attention.clamp_kqv",
            Kind::F32,
            Absent::Skip,
        ),
        pair(
            &["moe_num_experts"],
            "expert_count",
            Kind::U32,
            Absent::Error,
        ),
        pair(
            &["moe_top_k"],
            "expert_used_count",
            Kind::U32,
            Absent::Error,
        ),
    ]],
    demands: &[demand("moe_normalize_expert_weights", &[Number(1.0)])],
    ffn: FfnWidth::Paired,
    window: Window::Never,
    ..LLAMA
};
