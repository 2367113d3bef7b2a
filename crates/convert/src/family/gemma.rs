//! Gemma 3n and 4: embeddings for each layer, keys and values that the last layers share.

use super::Literal::Text;
use super::llama::{ATTENTION, GATED, LLAMA, QK_NORMS, RMS};
use super::{
    Absent, Extras, Family, FfnWidth, HeadSize, Kind, Order, Pair, Rule, Window, demand, exact,
    ordered, pair, same, whole,
};

const PER_LAYER: &[Rule] = &[
    same("embed_tokens", "token_embd"),
    same("norm", "output_norm"),
    same("lm_head", "output"),
    same("embed_tokens_per_layer", "per_layer_token_embd"),
    same("per_layer_model_projection", "per_layer_model_proj"),
    same("per_layer_projection_norm", "per_layer_proj_norm"),
    same("layers.#.input_layernorm", "blk.#.attn_norm"),
    same(
        "layers.#.post_attention_layernorm",
        "blk.#.post_attention_norm",
    ),
    same("layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"),
    same("layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"),
    same("layers.#.per_layer_input_gate", "blk.#.inp_gate"),
    same("layers.#.per_layer_projection", "blk.#.proj"),
    same("layers.#.post_per_layer_input_norm", "blk.#.post_norm"),
];
const STREAMS: &[Rule] = &[
    ordered("altup_projections.@", "altup_proj", Order::Stacked),
    ordered(
        "altup_unembed_projections.@",
        "altup_unembd_proj",
        Order::Stacked,
    ),
    same("layers.#.altup.router_norm", "blk.#.altup_router_norm"),
    same("layers.#.altup.modality_router", "blk.#.altup_router"),
    same(
        "layers.#.altup.prediction_coefs",
        "blk.#.altup_predict_coef",
    ),
    same(
        "layers.#.altup.correction_coefs",
        "blk.#.altup_correct_coef",
    ),
    exact(
        "layers.#.altup.correct_output_scale",
        "blk.#.altup_correct_scale.weight",
    ),
    same("layers.#.laurel.linear_left", "blk.#.laurel_l"),
    same("layers.#.laurel.linear_right", "blk.#.laurel_r"),
    same("layers.#.laurel.post_laurel_norm", "blk.#.laurel_post_norm"),
];
const EXPERTS: &[Rule] = &[
    exact("layers.#.layer_scalar", "blk.#.layer_output_scale.weight"),
    same("layers.#.router.proj", "blk.#.ffn_gate_inp"),
    exact("layers.#.router.scale", "blk.#.ffn_gate_inp.scale"),
    exact(
        "layers.#.router.per_expert_scale",
        "blk.#.ffn_down_exps.scale",
    ),
    whole(
        "layers.#.experts.gate_up_proj",
        "blk.#.ffn_gate_up_exps.weight",
        Order::Same,
    ),
    whole(
        "layers.#.experts.down_proj",
        "blk.#.ffn_down_exps.weight",
        Order::Same,
    ),
    same(
        "layers.#.pre_feedforward_layernorm_2",
        "blk.#.pre_ffw_norm_2",
    ),
    same(
        "layers.#.post_feedforward_layernorm_1",
        "blk.#.post_ffw_norm_1",
    ),
    same(
        "layers.#.post_feedforward_layernorm_2",
        "blk.#.post_ffw_norm_2",
    ),
];
const SIZES: &[Pair] = &[
    RMS,
    pair(
        &["final_logit_softcapping"],
        "final_logit_softcapping",
        Kind::F32,
        Absent::Skip,
    ),
    pair(
        &["hidden_size_per_layer_input"],
        "embedding_length_per_layer_input",
        Kind::U32,
        Absent::Default(0.0),
    ),
    pair(
        &["num_kv_shared_layers"],
        "attention.shared_kv_layers",
        Kind::U32,
        Absent::Default(0.0),
    ),
];

pub(super) const GEMMA3N: Family = Family {
    classes: &["Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"],
    arch: "gemma3n",
    rules: &[PER_LAYER, STREAMS, ATTENTION, QK_NORMS, GATED],
    pairs: &[
        SIZES,
        &[
            pair(
                &["altup_num_inputs"],
                "altup.num_inputs",
                Kind::U32,
                Absent::Default(4.0),
            ),
            pair(
                &["altup_active_idx"],
                "altup.active_idx",
                Kind::U32,
                Absent::Default(0.0),
            ),
        ],
    ],
    demands: &[demand("hidden_activation", &[Text("gelu_pytorch_tanh")])],
    head_size: HeadSize::Always,
    ffn: FfnWidth::Paired,
    window: Window::Layers,
    extras: Extras::Gemma3n,
    ..LLAMA
};

pub(super) const GEMMA4: Family = Family {
    classes: &["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"],
    arch: "gemma4",
    rules: &[PER_LAYER, EXPERTS, ATTENTION, QK_NORMS, GATED],
    pairs: &[
        SIZES,
        &[
            pair(&["num_experts"], "expert_count", Kind::U32, Absent::Skip),
            pair(
                &["top_k_experts"],
                "expert_used_count",
                Kind::U32,
                Absent::Skip,
            ),
            pair(
                &["moe_intermediate_size"],
                "expert_feed_forward_length",
                Kind::U32,
                Absent::Skip,
            ),
        ],
    ],
    demands: &[
        demand("hidden_activation", &[Text("gelu_pytorch_tanh")]),
        demand("use_bidirectional_attention", &[Text("vision")]),
    ],
    extras: Extras::Gemma4,
    ..GEMMA3N
};
