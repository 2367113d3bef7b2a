//! Families with linear attention of other kinds: Kimi Linear, MiniMax-01, RecurrentGemma, RWKV 4.

use super::Literal::{Bool, Number, Text};
use super::latent::{APART, DEEPSEEK_V3, QUERIES};
use super::llama::{ATTENTION, FFN, GATED, LLAMA, MIXTRAL, OUTER, PRE_NORMS, RMS, SILU};
use super::mixtures::{COUNTS, ROUTING, SIGMOID};
use super::recurrent::NO_ATTENTION;
use super::{
    Absent, Change, Family, FfnWidth, HeadSize, Kind, KvHeads, Order, Rotary, Rule, Share, States,
    Window, decay, demand, exact, ordered, pair, same, shifted, whole,
};

const KIMI: &[Rule] = &[
    // Some checkpoints have dense networks under the name of experts.
    same("layers.#.block_sparse_moe.gate_proj", "blk.#.ffn_gate"),
    same("layers.#.block_sparse_moe.up_proj", "blk.#.ffn_up"),
    same("layers.#.block_sparse_moe.down_proj", "blk.#.ffn_down"),
    same("layers.#.self_attn.k_proj", "blk.#.attn_k"),
    same("layers.#.self_attn.v_proj", "blk.#.attn_v"),
    ordered(
        "layers.#.self_attn.q_conv1d",
        "blk.#.ssm_conv1d_q",
        Order::Same,
    ),
    ordered(
        "layers.#.self_attn.k_conv1d",
        "blk.#.ssm_conv1d_k",
        Order::Same,
    ),
    ordered(
        "layers.#.self_attn.v_conv1d",
        "blk.#.ssm_conv1d_v",
        Order::Same,
    ),
    same("layers.#.self_attn.f_a_proj", "blk.#.ssm_f_a"),
    same("layers.#.self_attn.f_b_proj", "blk.#.ssm_f_b"),
    same("layers.#.self_attn.g_a_proj", "blk.#.ssm_g_a"),
    same("layers.#.self_attn.g_b_proj", "blk.#.ssm_g_b"),
    same("layers.#.self_attn.b_proj", "blk.#.ssm_beta"),
    same("layers.#.self_attn.o_norm", "blk.#.ssm_norm"),
    exact("layers.#.self_attn.dt_bias", "blk.#.ssm_dt.bias"),
    decay("layers.#.self_attn.A_log", "blk.#.ssm_a", Order::Column),
    same(
        "layers.#.block_sparse_moe.shared_experts.gate_proj",
        "blk.#.ffn_gate_shexp",
    ),
    same(
        "layers.#.block_sparse_moe.shared_experts.up_proj",
        "blk.#.ffn_up_shexp",
    ),
    same(
        "layers.#.block_sparse_moe.shared_experts.down_proj",
        "blk.#.ffn_down_shexp",
    ),
    exact(
        "layers.#.block_sparse_moe.gate.e_score_correction_bias",
        "blk.#.exp_probs_b.bias",
    ),
];

pub(super) const KIMI_LINEAR: Family = Family {
    classes: &["KimiLinearForCausalLM"],
    arch: "kimi-linear",
    rules: &[OUTER, PRE_NORMS, QUERIES, APART, KIMI, GATED, MIXTRAL],
    pairs: &[
        &[
            FFN,
            RMS,
            pair(
                &["model_max_length", "max_position_embeddings"],
                "context_length",
                Kind::U32,
                Absent::Error,
            ),
            pair(
                &["qk_rope_head_dim"],
                "rope.dimension_count",
                Kind::U32,
                Absent::Error,
            ),
        ],
        COUNTS,
        ROUTING,
        SIGMOID,
    ],
    demands: &[SILU],
    kv_heads: KvHeads::AttentionLayers,
    rotary: Rotary::None,
    states: States::KimiDelta,
    ..DEEPSEEK_V3
};

pub(super) const MINIMAX_01: Family = Family {
    classes: &[
        "MiniMaxForCausalLM",
        "MiniMaxText01ForCausalLM",
        "MiniMaxM1ForCausalLM",
    ],
    arch: "minimax-01",
    rules: &[
        OUTER,
        PRE_NORMS,
        ATTENTION,
        MIXTRAL,
        &[
            same("layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"),
            same("layers.#.self_attn.output_gate", "blk.#.attn_gate"),
            same("layers.#.self_attn.out_proj", "blk.#.attn_output"),
            same("layers.#.self_attn.norm", "blk.#.attn_norm_2"),
        ],
    ],
    pairs: &[&[FFN, RMS], COUNTS],
    demands: &[
        SILU,
        demand("linear_attn_beta_factor", &[Number(1.0)]),
        demand("full_attn_beta_factor", &[Number(1.0)]),
        demand("mlp_beta_factor", &[Number(1.0)]),
        demand("layernorm_linear_attention_beta", &[Number(1.0)]),
        demand("layernorm_full_attention_beta", &[Number(1.0)]),
        demand("layernorm_mlp_beta", &[Number(1.0)]),
        demand("shared_intermediate_size", &[Number(0.0)]),
        demand("postnorm", &[Bool(true)]),
    ],
    head_size: HeadSize::Always,
    window: Window::Never,
    states: States::Lightning,
    ..LLAMA
};

pub(super) const RECURRENT_GEMMA: Family = Family {
    classes: &["RecurrentGemmaForCausalLM"],
    arch: "recurrent-gemma",
    rules: &[&[
        same("embed_tokens", "token_embd"),
        shifted("final_norm", "output_norm"),
        same("lm_head", "output"),
        shifted("layers.#.temporal_pre_norm", "blk.#.attn_norm"),
        shifted("layers.#.channel_pre_norm", "blk.#.ffn_norm"),
        same("layers.#.mlp_block.gate_proj", "blk.#.ffn_gate"),
        same("layers.#.mlp_block.up_proj", "blk.#.ffn_up"),
        same("layers.#.mlp_block.down_proj", "blk.#.ffn_down"),
        same("layers.#.temporal_block.q_proj", "blk.#.attn_q"),
        same("layers.#.temporal_block.k_proj", "blk.#.attn_k"),
        same("layers.#.temporal_block.v_proj", "blk.#.attn_v"),
        same("layers.#.temporal_block.o_proj", "blk.#.attn_output"),
        same("layers.#.temporal_block.linear_x", "blk.#.lru_x"),
        same("layers.#.temporal_block.linear_y", "blk.#.lru_y"),
        same("layers.#.temporal_block.linear_out", "blk.#.lru_out"),
        ordered(
            "layers.#.temporal_block.conv_1d",
            "blk.#.lru_conv1d",
            Order::Squeezed,
        ),
        exact(
            "layers.#.temporal_block.rg_lru.recurrent_param",
            "blk.#.lru_rate.weight",
        ),
        whole(
            "layers.#.temporal_block.rg_lru.input_gate_weight",
            "blk.#.lru_input_gate.weight",
            Order::Turned(Share::All),
        ),
        whole(
            "layers.#.temporal_block.rg_lru.input_gate_bias",
            "blk.#.lru_input_gate.bias",
            Order::Same,
        ),
        whole(
            "layers.#.temporal_block.rg_lru.recurrent_gate_weight",
            "blk.#.lru_decay_gate.weight",
            Order::Turned(Share::All),
        ),
        whole(
            "layers.#.temporal_block.rg_lru.recurrent_gate_bias",
            "blk.#.lru_decay_gate.bias",
            Order::Same,
        ),
    ]],
    pairs: &[&[
        RMS,
        pair(
            &["logits_soft_cap"],
            "final_logit_softcapping",
            Kind::F32,
            Absent::Skip,
        ),
        pair(
            &["attention_window_size", "sliding_window"],
            "attention.sliding_window",
            Kind::U32,
            Absent::Default(2048.0),
        ),
        pair(
            &["max_position_embeddings"],
            "context_length",
            Kind::U32,
            Absent::Default(8192.0),
        ),
    ]],
    demands: &[demand("hidden_activation", &[Text("gelu_pytorch_tanh")])],
    kv_heads: KvHeads::AttentionLayers,
    head_size: HeadSize::Always,
    ffn: FfnWidth::Halved,
    rotary: Rotary::Share(0.5),
    window: Window::Never,
    states: States::RgLru,
    ..LLAMA
};

/// A share of a token, of which the rest is that of the token before.
const fn rest(from: &'static str, to: &'static str) -> Rule {
    Rule {
        change: Change::OneMinus,
        ..exact(from, to)
    }
}

pub(super) const RWKV4: Family = Family {
    classes: &["RwkvForCausalLM"],
    arch: "rwkv4",
    rules: &[&[
        same("embeddings", "token_embd"),
        same("head", "output"),
        same("ln_out", "output_norm"),
        same("blocks.#.pre_ln", "token_embd_norm"),
        same("blocks.#.ln1", "blk.#.attn_norm"),
        same("blocks.#.ln2", "blk.#.attn_norm_2"),
        same("blocks.#.attention.key", "blk.#.time_mix_key"),
        same("blocks.#.attention.value", "blk.#.time_mix_value"),
        same("blocks.#.attention.receptance", "blk.#.time_mix_receptance"),
        same("blocks.#.attention.output", "blk.#.time_mix_output"),
        decay(
            "blocks.#.attention.time_decay",
            "blk.#.time_mix_decay.weight",
            Order::Same,
        ),
        exact(
            "blocks.#.attention.time_first",
            "blk.#.time_mix_first.weight",
        ),
        rest(
            "blocks.#.attention.time_mix_key",
            "blk.#.time_mix_lerp_k.weight",
        ),
        rest(
            "blocks.#.attention.time_mix_value",
            "blk.#.time_mix_lerp_v.weight",
        ),
        rest(
            "blocks.#.attention.time_mix_receptance",
            "blk.#.time_mix_lerp_r.weight",
        ),
        same("blocks.#.feed_forward.key", "blk.#.channel_mix_key"),
        same("blocks.#.feed_forward.value", "blk.#.channel_mix_value"),
        same(
            "blocks.#.feed_forward.receptance",
            "blk.#.channel_mix_receptance",
        ),
        rest(
            "blocks.#.feed_forward.time_mix_key",
            "blk.#.channel_mix_lerp_k.weight",
        ),
        rest(
            "blocks.#.feed_forward.time_mix_receptance",
            "blk.#.channel_mix_lerp_r.weight",
        ),
    ]],
    pairs: &[&[
        NO_ATTENTION[1],
        FFN,
        pair(
            &["layer_norm_epsilon"],
            "attention.layer_norm_epsilon",
            Kind::F32,
            Absent::Default(1e-5),
        ),
        pair(
            &["context_length"],
            "context_length",
            Kind::U32,
            Absent::Default(1024.0),
        ),
    ]],
    kv_heads: KvHeads::Never,
    rotary: Rotary::None,
    window: Window::Never,
    ..LLAMA
};
