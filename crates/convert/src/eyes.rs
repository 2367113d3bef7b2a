//! Kinds of eyes as data: which tensors of a checkpoint are theirs, and what llama.cpp calls those.

use crate::minicpmv;
use crate::ways::Way;

/// A name in the checkpoint, without what is in front of it and without `.weight` or `.bias`, and the one in GGUF.
pub(crate) type Rule = (&'static str, &'static str, Way);

/// A kind of eyes.
pub(crate) struct Eyes {
    /// The model's class.
    pub(crate) classes: &'static [&'static str],
    /// `clip.projector_type`.
    pub(crate) projector: &'static str,
    pub(crate) rules: &'static [&'static [Rule]],
    /// What `clip.use_gelu` or `clip.use_silu` says, if either is true.
    pub(crate) activation: Option<&'static str>,
    /// The colors' mean and deviation where nothing beside the weights says.
    pub(crate) colors: [[f32; 3]; 2],
    /// The epsilon of norms where the config has none.
    pub(crate) epsilon: f32,
    /// The kind of tower that the class must have, where classes differ in that.
    pub(crate) tower: Option<&'static str>,
}

const HALF: [[f32; 3]; 2] = [[0.5; 3], [0.5; 3]];
const CLIP: [[f32; 3]; 2] = [
    [0.481_454_66, 0.457_827_5, 0.408_210_73],
    [0.268_629_54, 0.261_302_6, 0.275_777_1],
];

const SIGLIP: &[Rule] = &[
    ("embeddings.patch_embedding", "v.patch_embd", Way::Same),
    (
        "embeddings.position_embedding",
        "v.position_embd",
        Way::Same,
    ),
    ("post_layernorm", "v.post_ln", Way::Same),
    ("encoder.layers.#.layer_norm1", "v.blk.#.ln1", Way::Same),
    ("encoder.layers.#.layer_norm2", "v.blk.#.ln2", Way::Same),
    (
        "encoder.layers.#.self_attn.q_proj",
        "v.blk.#.attn_q",
        Way::Same,
    ),
    (
        "encoder.layers.#.self_attn.k_proj",
        "v.blk.#.attn_k",
        Way::Same,
    ),
    (
        "encoder.layers.#.self_attn.v_proj",
        "v.blk.#.attn_v",
        Way::Same,
    ),
    (
        "encoder.layers.#.self_attn.out_proj",
        "v.blk.#.attn_out",
        Way::Same,
    ),
    ("encoder.layers.#.mlp.fc1", "v.blk.#.ffn_up", Way::Same),
    ("encoder.layers.#.mlp.fc2", "v.blk.#.ffn_down", Way::Same),
];
const QWEN: &[Rule] = &[
    ("patch_embed.proj", "v.patch_embd", Way::Frames),
    ("blocks.#.norm1", "v.blk.#.ln1", Way::Same),
    ("blocks.#.norm2", "v.blk.#.ln2", Way::Same),
    ("blocks.#.attn.qkv", "v.blk.#.attn_qkv", Way::Same),
    ("blocks.#.attn.proj", "v.blk.#.attn_out", Way::Same),
    ("merger.ln_q", "v.post_ln", Way::Same),
    ("merger.mlp.0", "mm.0", Way::Same),
    ("merger.mlp.2", "mm.2", Way::Same),
];
const QWEN3: &[Rule] = &[
    ("pos_embed", "v.position_embd", Way::Same),
    ("blocks.#.mlp.linear_fc1", "v.blk.#.ffn_up", Way::Same),
    ("blocks.#.mlp.linear_fc2", "v.blk.#.ffn_down", Way::Same),
    ("merger.norm", "v.post_ln", Way::Same),
    ("merger.linear_fc1", "mm.0", Way::Same),
    ("merger.linear_fc2", "mm.2", Way::Same),
    // Counted as mergers here, and by the layers behind which they are in the file.
    (
        "deepstack_merger_list.#.norm",
        "v.deepstack.#.norm",
        Way::Same,
    ),
    (
        "deepstack_merger_list.#.linear_fc1",
        "v.deepstack.#.fc1",
        Way::Same,
    ),
    (
        "deepstack_merger_list.#.linear_fc2",
        "v.deepstack.#.fc2",
        Way::Same,
    ),
];
const GEMMA4: &[Rule] = &[
    ("patch_embedder.input_proj", "v.patch_embd", Way::Colors),
    (
        "patch_embedder.position_embedding_table",
        "v.position_embd.weight",
        Way::Same,
    ),
    ("std_bias", "v.std_bias", Way::Same),
    ("std_scale", "v.std_scale", Way::Same),
    (
        "embed_vision.embedding_projection",
        "mm.input_projection",
        Way::Same,
    ),
    ("encoder.layers.#.input_layernorm", "v.blk.#.ln1", Way::Same),
    (
        "encoder.layers.#.post_attention_layernorm",
        "v.blk.#.attn_post_norm",
        Way::Same,
    ),
    (
        "encoder.layers.#.pre_feedforward_layernorm",
        "v.blk.#.ln2",
        Way::Same,
    ),
    (
        "encoder.layers.#.post_feedforward_layernorm",
        "v.blk.#.ffn_post_norm",
        Way::Same,
    ),
    (
        "encoder.layers.#.self_attn.q_norm",
        "v.blk.#.attn_q_norm",
        Way::Same,
    ),
    (
        "encoder.layers.#.self_attn.k_norm",
        "v.blk.#.attn_k_norm",
        Way::Same,
    ),
    (
        "encoder.layers.#.self_attn.q_proj",
        "v.blk.#.attn_q",
        Way::Same,
    ),
    (
        "encoder.layers.#.self_attn.k_proj",
        "v.blk.#.attn_k",
        Way::Same,
    ),
    (
        "encoder.layers.#.self_attn.v_proj",
        "v.blk.#.attn_v",
        Way::Same,
    ),
    (
        "encoder.layers.#.self_attn.o_proj",
        "v.blk.#.attn_out",
        Way::Same,
    ),
    (
        "encoder.layers.#.mlp.gate_proj",
        "v.blk.#.ffn_gate",
        Way::Same,
    ),
    ("encoder.layers.#.mlp.up_proj", "v.blk.#.ffn_up", Way::Same),
    (
        "encoder.layers.#.mlp.down_proj",
        "v.blk.#.ffn_down",
        Way::Same,
    ),
];
const LLAMA4: &[Rule] = &[
    ("patch_embedding.linear", "v.patch_embd", Way::Same),
    ("class_embedding", "v.class_embd", Way::Same),
    (
        "positional_embedding_vlm",
        "v.position_embd.weight",
        Way::Same,
    ),
    ("layernorm_pre", "v.pre_ln", Way::Same),
    ("layernorm_post", "v.post_ln", Way::Same),
    ("layers.#.input_layernorm", "v.blk.#.ln1", Way::Same),
    (
        "layers.#.post_attention_layernorm",
        "v.blk.#.ln2",
        Way::Same,
    ),
    ("layers.#.self_attn.q_proj", "v.blk.#.attn_q", Way::Same),
    ("layers.#.self_attn.k_proj", "v.blk.#.attn_k", Way::Same),
    ("layers.#.self_attn.v_proj", "v.blk.#.attn_v", Way::Same),
    ("layers.#.self_attn.o_proj", "v.blk.#.attn_out", Way::Same),
    ("layers.#.mlp.fc1", "v.blk.#.ffn_up", Way::Same),
    ("layers.#.mlp.fc2", "v.blk.#.ffn_down", Way::Same),
    ("vision_adapter.mlp.fc1", "mm.model.mlp.1", Way::Same),
    ("vision_adapter.mlp.fc2", "mm.model.mlp.2", Way::Same),
    ("multi_modal_projector.linear_1", "mm.model.fc", Way::Same),
];
const PIXTRAL: &[Rule] = &[
    ("patch_conv", "v.patch_embd", Way::Same),
    ("ln_pre", "v.pre_ln", Way::Same),
    (
        "transformer.layers.#.attention_norm",
        "v.blk.#.ln1",
        Way::Same,
    ),
    ("transformer.layers.#.ffn_norm", "v.blk.#.ln2", Way::Same),
    (
        "transformer.layers.#.attention.q_proj",
        "v.blk.#.attn_q",
        Way::Pairs,
    ),
    (
        "transformer.layers.#.attention.k_proj",
        "v.blk.#.attn_k",
        Way::Pairs,
    ),
    (
        "transformer.layers.#.attention.v_proj",
        "v.blk.#.attn_v",
        Way::Same,
    ),
    (
        "transformer.layers.#.attention.o_proj",
        "v.blk.#.attn_out",
        Way::Same,
    ),
    (
        "transformer.layers.#.feed_forward.gate_proj",
        "v.blk.#.ffn_gate",
        Way::Same,
    ),
    (
        "transformer.layers.#.feed_forward.up_proj",
        "v.blk.#.ffn_up",
        Way::Same,
    ),
    (
        "transformer.layers.#.feed_forward.down_proj",
        "v.blk.#.ffn_down",
        Way::Same,
    ),
    ("multi_modal_projector.norm", "mm.input_norm", Way::Same),
    (
        "multi_modal_projector.patch_merger.merging_layer",
        "mm.patch_merger",
        Way::Same,
    ),
    ("multi_modal_projector.linear_1", "mm.1", Way::Same),
    ("multi_modal_projector.linear_2", "mm.2", Way::Same),
];

const CLIP_TOWER: &[Rule] = &[
    ("embeddings.class_embedding", "v.class_embd", Way::Same),
    // Spelled so.
    ("pre_layrnorm", "v.pre_ln", Way::Same),
    ("image_newline", "model.image_newline", Way::Same),
    ("multi_modal_projector.linear_1", "mm.0", Way::Same),
    ("multi_modal_projector.linear_2", "mm.2", Way::Same),
];
const INTERN: &[Rule] = &[
    ("embeddings.cls_token", "v.class_embd", Way::Vectors),
    (
        "embeddings.position_embeddings",
        "v.position_embd.weight",
        Way::Vectors,
    ),
    (
        "embeddings.patch_embeddings.projection",
        "v.patch_embd",
        Way::Same,
    ),
    ("layernorm", "v.post_ln", Way::Same),
    ("encoder.layer.#.layernorm_before", "v.blk.#.ln1", Way::Same),
    ("encoder.layer.#.layernorm_after", "v.blk.#.ln2", Way::Same),
    (
        "encoder.layer.#.attention.q_proj",
        "v.blk.#.attn_q",
        Way::Same,
    ),
    (
        "encoder.layer.#.attention.k_proj",
        "v.blk.#.attn_k",
        Way::Same,
    ),
    (
        "encoder.layer.#.attention.v_proj",
        "v.blk.#.attn_v",
        Way::Same,
    ),
    (
        "encoder.layer.#.attention.projection_layer",
        "v.blk.#.attn_out",
        Way::Same,
    ),
    ("encoder.layer.#.mlp.fc1", "v.blk.#.ffn_up", Way::Same),
    ("encoder.layer.#.mlp.fc2", "v.blk.#.ffn_down", Way::Same),
    ("encoder.layer.#.lambda_1", "v.blk.#.ls1.weight", Way::Same),
    ("encoder.layer.#.lambda_2", "v.blk.#.ls2.weight", Way::Same),
    ("multi_modal_projector.layer_norm", "mm.0", Way::Same),
    ("multi_modal_projector.linear_1", "mm.1", Way::Same),
    ("multi_modal_projector.linear_2", "mm.3", Way::Same),
];
const IMAGENET: [[f32; 3]; 2] = [[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]];

/// All kinds.
pub(crate) const ALL: &[Eyes] = &[
    Eyes {
        classes: &["Gemma3ForConditionalGeneration"],
        projector: "gemma3",
        rules: &[
            SIGLIP,
            &[
                (
                    "multi_modal_projector.mm_input_projection_weight",
                    "mm.input_projection.weight",
                    Way::Same,
                ),
                (
                    "multi_modal_projector.mm_soft_emb_norm",
                    "mm.soft_emb_norm",
                    Way::PlusOne,
                ),
            ],
        ],
        activation: Some("clip.use_gelu"),
        colors: HALF,
        epsilon: 1e-6,
        tower: None,
    },
    Eyes {
        classes: &["Qwen2VLForConditionalGeneration"],
        projector: "qwen2vl_merger",
        rules: &[
            QWEN,
            &[
                ("blocks.#.mlp.fc1", "v.blk.#.ffn_up", Way::Same),
                ("blocks.#.mlp.fc2", "v.blk.#.ffn_down", Way::Same),
            ],
        ],
        activation: None,
        colors: CLIP,
        epsilon: 1e-6,
        tower: None,
    },
    Eyes {
        classes: &["Qwen2_5_VLForConditionalGeneration"],
        projector: "qwen2.5vl_merger",
        rules: &[
            QWEN,
            &[
                ("blocks.#.mlp.gate_proj", "v.blk.#.ffn_gate", Way::Same),
                ("blocks.#.mlp.up_proj", "v.blk.#.ffn_up", Way::Same),
                ("blocks.#.mlp.down_proj", "v.blk.#.ffn_down", Way::Same),
            ],
        ],
        activation: Some("clip.use_silu"),
        colors: CLIP,
        epsilon: 1e-6,
        tower: None,
    },
    Eyes {
        classes: &["Mistral3ForConditionalGeneration"],
        projector: "pixtral",
        rules: &[PIXTRAL],
        activation: Some("clip.use_silu"),
        colors: CLIP,
        epsilon: 1e-5,
        tower: None,
    },
    Eyes {
        classes: &[
            "Qwen3VLForConditionalGeneration",
            "Qwen3VLMoeForConditionalGeneration",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
        ],
        projector: "qwen3vl_merger",
        rules: &[QWEN, QWEN3],
        activation: Some("clip.use_gelu"),
        colors: HALF,
        epsilon: 1e-6,
        tower: None,
    },
    Eyes {
        classes: &["Gemma4ForConditionalGeneration"],
        projector: "gemma4v",
        rules: &[GEMMA4],
        activation: None,
        colors: [[0.0; 3], [1.0; 3]],
        epsilon: 1e-6,
        tower: None,
    },
    Eyes {
        classes: &["Llama4ForConditionalGeneration"],
        projector: "llama4",
        rules: &[LLAMA4],
        activation: Some("clip.use_gelu"),
        colors: HALF,
        epsilon: 1e-5,
        tower: None,
    },
    Eyes {
        classes: &[
            "LlavaForConditionalGeneration",
            "LlavaNextForConditionalGeneration",
        ],
        projector: "mlp",
        rules: &[SIGLIP, CLIP_TOWER],
        activation: None,
        colors: CLIP,
        epsilon: 1e-5,
        tower: Some("clip_vision_model"),
    },
    Eyes {
        classes: &["LlavaForConditionalGeneration"],
        projector: "pixtral",
        rules: &[PIXTRAL],
        activation: Some("clip.use_silu"),
        colors: CLIP,
        epsilon: 1e-5,
        tower: Some("pixtral"),
    },
    Eyes {
        classes: &[
            "Idefics3ForConditionalGeneration",
            "SmolVLMForConditionalGeneration",
        ],
        projector: "idefics3",
        rules: &[
            SIGLIP,
            &[(
                "connector.modality_projection.proj",
                "mm.model.fc",
                Way::Same,
            )],
        ],
        activation: Some("clip.use_gelu"),
        colors: HALF,
        epsilon: 1e-6,
        tower: None,
    },
    Eyes {
        classes: &["InternVLForConditionalGeneration"],
        projector: "internvl",
        rules: &[INTERN],
        activation: Some("clip.use_gelu"),
        colors: IMAGENET,
        epsilon: 1e-6,
        tower: None,
    },
    Eyes {
        classes: &[minicpmv::CLASS],
        projector: "resampler",
        rules: &[SIGLIP, minicpmv::RESAMPLER],
        activation: Some("clip.use_gelu"),
        colors: HALF,
        epsilon: 1e-6,
        tower: None,
    },
];
