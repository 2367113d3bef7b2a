//! Families with the gated delta rule: Qwen3-Next and Qwen3.5.

use super::Literal::Bool;
use super::llama::{ATTENTION, EXPERTS, GATED, LLAMA, RMS, SHARED_EXPERT, SILU};
use super::mixtures::COUNTS;
use super::nextn::SHIFTED_NEXTN;
use super::{
    Absent, Family, FfnWidth, HeadSize, Kind, Order, Pair, Rotary, Rule, Share, States, Window,
    decay, demand, exact, ordered, pair, same, shifted, whole,
};

const DELTA_NORMS: &[Rule] = &[
    same("embed_tokens", "token_embd"),
    shifted("norm", "output_norm"),
    same("lm_head", "output"),
    shifted("layers.#.input_layernorm", "blk.#.attn_norm"),
    shifted(
        "layers.#.post_attention_layernorm",
        "blk.#.post_attention_norm",
    ),
    shifted("layers.#.self_attn.q_norm", "blk.#.attn_q_norm"),
    shifted("layers.#.self_attn.k_norm", "blk.#.attn_k_norm"),
    same("layers.#.linear_attn.norm", "blk.#.ssm_norm"),
];
const DELTA_FFN: &[Pair] = &[
    RMS,
    pair(
        &["intermediate_size", "moe_intermediate_size"],
        "feed_forward_length",
        Kind::U32,
        Absent::Error,
    ),
];
const DELTA_EXPERTS: &[Pair] = &[pair(
    &["shared_expert_intermediate_size"],
    "expert_shared_feed_forward_length",
    Kind::U32,
    Absent::Error,
)];
/// Experts that newer checkpoints keep in one tensor.
pub(super) const FUSED_EXPERTS: &[Rule] = &[
    whole(
        "layers.#.mlp.experts.gate_up_proj",
        "blk.#.ffn_gate_exps.weight",
        Order::Rows(Share::FirstHalf),
    ),
    whole(
        "layers.#.mlp.experts.gate_up_proj",
        "blk.#.ffn_up_exps.weight",
        Order::Rows(Share::SecondHalf),
    ),
    whole(
        "layers.#.mlp.experts.down_proj",
        "blk.#.ffn_down_exps.weight",
        Order::Same,
    ),
];

pub(super) const QWEN3_NEXT: Family = Family {
    classes: &["Qwen3NextForCausalLM"],
    arch: "qwen3next",
    rules: &[
        DELTA_NORMS,
        ATTENTION,
        EXPERTS,
        FUSED_EXPERTS,
        SHARED_EXPERT,
        SHIFTED_NEXTN,
        &[
            ordered(
                "layers.#.linear_attn.in_proj_qkvz",
                "blk.#.attn_qkv",
                Order::StateQkv,
            ),
            ordered(
                "layers.#.linear_attn.in_proj_qkvz",
                "blk.#.attn_gate",
                Order::StateGates,
            ),
            same("layers.#.linear_attn.in_proj_ba", "blk.#.ssm_ba"),
            ordered(
                "layers.#.linear_attn.conv1d",
                "blk.#.ssm_conv1d",
                Order::Squeezed,
            ),
            decay("layers.#.linear_attn.A_log", "blk.#.ssm_a", Order::Same),
            exact("layers.#.linear_attn.dt_bias", "blk.#.ssm_dt.bias"),
            same("layers.#.linear_attn.out_proj", "blk.#.ssm_out"),
        ],
    ],
    pairs: &[DELTA_FFN, COUNTS, DELTA_EXPERTS],
    demands: &[
        SILU,
        demand("norm_topk_prob", &[Bool(true)]),
        demand("attention_bias", &[Bool(false)]),
    ],
    head_size: HeadSize::Always,
    ffn: FfnWidth::Paired,
    rotary: Rotary::Share(0.25),
    window: Window::Never,
    states: States::DeltaNet,
    ..LLAMA
};

const STRIDING: &[Rule] = &[
    ordered(
        "layers.#.linear_attn.in_proj_qkv",
        "blk.#.attn_qkv",
        Order::StridingBehindKeys,
    ),
    ordered(
        "layers.#.linear_attn.conv1d",
        "blk.#.ssm_conv1d",
        Order::StridingBehindKeys,
    ),
    ordered(
        "layers.#.linear_attn.in_proj_z",
        "blk.#.attn_gate",
        Order::Striding,
    ),
    ordered(
        "layers.#.linear_attn.in_proj_b",
        "blk.#.ssm_beta",
        Order::Striding,
    ),
    ordered(
        "layers.#.linear_attn.in_proj_a",
        "blk.#.ssm_alpha",
        Order::Striding,
    ),
    decay("layers.#.linear_attn.A_log", "blk.#.ssm_a", Order::Striding),
    whole(
        "layers.#.linear_attn.dt_bias",
        "blk.#.ssm_dt.bias",
        Order::Striding,
    ),
    ordered(
        "layers.#.linear_attn.out_proj",
        "blk.#.ssm_out",
        Order::StridingColumns,
    ),
];

pub(super) const QWEN35: Family = Family {
    classes: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"],
    arch: "qwen35",
    rules: &[DELTA_NORMS, ATTENTION, GATED, STRIDING, SHIFTED_NEXTN],
    pairs: &[DELTA_FFN],
    ..QWEN3_NEXT
};

pub(super) const QWEN35_MOE: Family = Family {
    classes: &[
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
    ],
    arch: "qwen35moe",
    rules: &[
        DELTA_NORMS,
        ATTENTION,
        EXPERTS,
        FUSED_EXPERTS,
        SHARED_EXPERT,
        STRIDING,
        SHIFTED_NEXTN,
    ],
    pairs: &[DELTA_FFN, COUNTS, DELTA_EXPERTS],
    ..QWEN3_NEXT
};
