"""The golden cases of golden_vision.py whose towers or text models need more than names: Qwen3-VL, Gemma 4, Llama 4 and
MiniCPM-V, of which transformers has no class with a resampler."""

import math
import re

import numpy as np
import torch
import transformers
from torch import nn
from transformers.models.idefics2.modeling_idefics2 import Idefics2VisionTransformer

import golden_gemma
import golden_mixtures
from golden_common import VOCAB, rope
from golden_model import config_keys, convert_tensor, write_gguf

IMAGE = VOCAB - 1
WIDTH, FFN, HEADS, PATCH, EPS = 16, 32, 2, 3, 1e-5


def qwen3vl(text):
    text = text | dict(rope_parameters=rope() | {"mrope_section": [2, 1, 1], "mrope_interleaved": True})
    vision = dict(depth=2, hidden_size=WIDTH, intermediate_size=FFN, num_heads=HEADS, patch_size=PATCH, spatial_merge_size=2,
                  temporal_patch_size=2, out_hidden_size=text["hidden_size"], num_position_embeddings=16,
                  deepstack_visual_indexes=[0, 1])
    return transformers.Qwen3VLForConditionalGeneration(transformers.Qwen3VLConfig(
        vision_config=vision, text_config=text, image_token_id=IMAGE, vision_start_token_id=3, vision_end_token_id=4,
        tie_word_embeddings=False))


# ---------------------------------------------------------------------------------------------------------------------
# Text models of golden_families.py
# ---------------------------------------------------------------------------------------------------------------------

TWO = golden_gemma.FOUR | dict(num_hidden_layers=2, layer_types=[golden_gemma.SLIDING, golden_gemma.FULL],
                               attention_k_eq_v=False, pad_token_id=0)
TWO_KEYS = golden_gemma.FOUR_KEYS | {"attention.sliding_window_pattern": [True, False], "feed_forward_length": 20}


def text_case(kind, name, arch, config_class, config, keys, **more):
    return kind(name, arch, config_class, config, keys=keys, **more)


GEMMA = dict(convert=golden_gemma.tensors, names=golden_gemma.NAMES, extra=golden_gemma.FACTORS)
TEXTS = {
    "gemma4": text_case(golden_gemma.Gemma4, "gemma4", "gemma4", "Gemma4TextConfig",
                        TWO | dict(hidden_size_per_layer_input=0, use_bidirectional_attention="vision"),
                        TWO_KEYS | {"embedding_length_per_layer_input": 0}, **GEMMA),
    "gemma4-small": text_case(golden_gemma.Gemma4, "gemma4-small", "gemma4", "Gemma4TextConfig", TWO, TWO_KEYS, **GEMMA),
    "llama4": text_case(golden_mixtures.Family, "llama4", "llama4", "Llama4TextConfig",
                        golden_mixtures.HEADS | dict(
                            num_hidden_layers=4, hidden_size=24, intermediate_size=12, intermediate_size_mlp=16,
                            num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, attention_chunk_size=16,
                            use_qk_norm=True, attn_temperature_tuning=True, floor_scale=8192, attn_scale=0.1,
                            no_rope_layers=[1, 1, 1, 0]),
                        {"expert_count": 4, "expert_used_count": 1, "expert_feed_forward_length": 12,
                         "feed_forward_length": 16, "interleave_moe_layer_step": 2, "attention.sliding_window": 16},
                        convert=golden_mixtures.llama4_experts),
}


def write_text(name, model, path):
    """The text model, as golden_families.py writes such."""
    case = TEXTS[name]
    config = model.config.text_config
    config.allow_global_per_layer_attribute_access = True
    tied = name.startswith("gemma4")
    tensors = []
    for key, tensor in model.state_dict().items():
        if not is_text(key) or (tied and key.endswith("lm_head.weight")):
            continue
        key = re.sub(r"^(?:model\.)?language_model\.(?:model\.)?(?=layers|norm|embed|per_layer)", "model.", key)
        key = key.removeprefix("language_model.")
        tensors += convert_tensor(case, config, key, tensor.float().numpy())
    tensors += [(key, case.extra_value(key, shape)) for key, shape in case.extra.items()]
    write_gguf(case, path, config_keys(case, config), tensors, half=True)


def is_text(key):
    return "language_model" in key or key.startswith(("lm_head", "llm."))


# ---------------------------------------------------------------------------------------------------------------------
# Gemma 4
# ---------------------------------------------------------------------------------------------------------------------


def gemma4_of(name, clipped):
    case = TEXTS[name]
    vision = dict(hidden_size=WIDTH, intermediate_size=FFN, num_hidden_layers=2, num_attention_heads=HEADS,
                  num_key_value_heads=HEADS, head_dim=WIDTH // HEADS, patch_size=PATCH, pooling_kernel_size=3,
                  position_embedding_size=12, standardize=not clipped, use_clipped_linears=clipped, rms_norm_eps=EPS)
    config = transformers.Gemma4Config(text_config=case.config | {"model_type": "gemma4_text"}, vision_config=vision,
                                       audio_config=None, image_token_id=IMAGE)
    return transformers.Gemma4ForConditionalGeneration(config)


def gemma4():
    return gemma4_of("gemma4", False)


def gemma4_small():
    return gemma4_of("gemma4-small", True)


def fill_buffers(model, random):
    """What checkpoints have and PyTorch does not call parameters."""
    for key, buffer in model.named_buffers():
        last = key.rsplit(".", 1)[-1]
        if last in ("input_min", "input_max", "output_min", "output_max"):
            # Tight enough to be seen, and different for each matrix.
            bound = 1.2 + 0.3 * abs(float(random(key, (1,))[0]))
            buffer.fill_(np.float16(-bound if last.endswith("min") else bound).item())
        elif last == "std_bias":
            buffer.copy_(torch.from_numpy(0.2 * random(key, tuple(buffer.shape))))
        elif last in ("std_scale", "layer_scalar"):
            buffer.copy_(torch.from_numpy(1 + 0.2 * random(key, tuple(buffer.shape))))


def gemma4_inputs(pixels):
    """Patches (rows, columns, channels) of colors between 0 and 1, and where they are."""
    _, height, width = pixels.shape
    rows, columns = height // PATCH, width // PATCH
    colors = (pixels + 1) / 2
    x = colors.reshape(3, rows, PATCH, columns, PATCH).transpose(1, 3, 2, 4, 0).reshape(rows * columns, -1)
    places = [[column, row] for row in range(rows) for column in range(columns)]
    return {"pixel_values": torch.from_numpy(np.ascontiguousarray(x))[None], "image_position_ids": torch.tensor([places])}


# ---------------------------------------------------------------------------------------------------------------------
# Llama 4
# ---------------------------------------------------------------------------------------------------------------------


def llama4():
    vision = dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=4 * WIDTH,
                  image_size=24, patch_size=PATCH, projector_input_dim=20, projector_output_dim=20, vision_output_dim=20,
                  norm_eps=EPS, rope_parameters=rope())
    config = transformers.Llama4Config(vision_config=vision, text_config=TEXTS["llama4"].config | {"model_type": "llama4_text"},
                                       image_token_index=IMAGE)
    return transformers.Llama4ForConditionalGeneration(config)


# ---------------------------------------------------------------------------------------------------------------------
# MiniCPM-V
# ---------------------------------------------------------------------------------------------------------------------


def waves(size, places):
    """Sines, then cosines, of places (<https://arxiv.org/abs/1706.03762>, section 3.5)."""
    angles = places[:, None] * 10000.0 ** -(np.arange(size // 2) / (size / 2))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


class Resampler(nn.Module):
    """Queries that attend to patches, as MiniCPM-V's paper and its configuration describe them."""

    def __init__(self, queries, width, heads, patch_width):
        super().__init__()
        self.query = nn.Parameter(torch.zeros(queries, width))
        self.kv_proj = nn.Linear(patch_width, width, bias=False)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_q, self.ln_kv, self.ln_post = (nn.LayerNorm(width, eps=EPS) for _ in range(3))
        self.proj = nn.Parameter(torch.zeros(width, width))

    def forward(self, patches, rows, columns):
        x = self.ln_kv(self.kv_proj(patches))
        half = x.shape[-1] // 2
        y_places, x_places = np.mgrid[0:rows, 0:columns].reshape(2, -1)
        places = np.concatenate([waves(half, x_places), waves(half, y_places)], axis=1)
        keys = x + torch.from_numpy(places.astype(np.float32))
        out, _ = self.attn(self.ln_q(self.query)[None], keys[None], x[None])
        return self.ln_post(out[0]) @ self.proj


class MiniCPMV(nn.Module):
    def __init__(self, text):
        super().__init__()
        config = transformers.LlamaConfig(**text | dict(hidden_size=32))
        vision = transformers.Idefics2VisionConfig(hidden_size=WIDTH, intermediate_size=FFN, num_hidden_layers=2,
                                                   num_attention_heads=HEADS, image_size=30, patch_size=PATCH,
                                                   layer_norm_eps=EPS)
        self.vpm = Idefics2VisionTransformer._from_config(vision, attn_implementation="eager")
        self.resampler = Resampler(8, 32, 2, WIDTH)
        self.llm = transformers.LlamaForCausalLM(config)
        self.config = transformers.PretrainedConfig()
        self.config.text_config = config


def minicpmv_config(model):
    """What a published config has beside its text model's sizes, which are not in a map of their own."""
    vision = model.vpm.config.to_dict() | {"model_type": "siglip"}
    return {"model_type": "minicpmv", "version": 2.6, "query_num": 8, "image_size": 12, "vision_config": vision,
            "slice_config": {"max_slice_nums": 9, "patch_size": PATCH, "model_type": "minicpmv"}}


def minicpmv_results(model, pixels, tokens):
    rows, columns = pixels.shape[1] // PATCH, pixels.shape[2] // PATCH
    with torch.no_grad():
        mask = torch.ones(1, rows, columns, dtype=torch.bool)
        patches = model.vpm(torch.from_numpy(pixels)[None], patch_attention_mask=mask).last_hidden_state[0]
        embedded = model.resampler(patches, rows, columns)
        x = model.llm.get_input_embeddings()(torch.tensor(tokens)).clone()
        x[torch.tensor(tokens) == IMAGE] = embedded
        logits = model.llm(inputs_embeds=x[None], use_cache=False).logits[0]
    return embedded.numpy(), logits.float().numpy()


# ---------------------------------------------------------------------------------------------------------------------
# Names of towers
# ---------------------------------------------------------------------------------------------------------------------

LAYERS = [
    (r"^(?:encoder|model)\.layers\.(\d+)|^blocks\.(\d+)", lambda m: f"v.blk.{m[1] or m[2]}"),
    (r"self_attn\.([qkv])_proj(?:\.linear)?", r"attn_\1"),
    (r"self_attn\.o(?:ut)?_proj(?:\.linear)?|attn\.proj", "attn_out"),
    (r"self_attn\.([qk])_norm", r"attn_\1_norm"),
    (r"attn\.qkv", "attn_qkv"),
    (r"mlp\.(gate|up|down)_proj(?:\.linear)?", r"ffn_\1"),
    (r"mlp\.(?:linear_)?fc1", "ffn_up"),
    (r"mlp\.(?:linear_)?fc2", "ffn_down"),
    (r"pre_feedforward_layernorm", "ln2"),
    (r"post_feedforward_layernorm", "ffn_post_norm"),
    (r"input_layernorm|layer_norm1|(?<=\.)norm1", "ln1"),
    (r"layer_norm2|(?<=\.)norm2", "ln2"),
]
OUTER = {
    "qwen3vl": [(r"^patch_embed\.proj", "v.patch_embd"), (r"^pos_embed", "v.position_embd"),
                (r"^merger\.norm", "v.post_ln"), (r"^merger\.linear_fc1", "mm.0"), (r"^merger\.linear_fc2", "mm.2"),
                (r"^deepstack_merger_list\.(\d)\.(?:linear_)?", r"v.deepstack.\1.")],
    "gemma4": [(r"^patch_embedder\.input_proj", "v.patch_embd"),
               (r"^patch_embedder\.position_embedding_table", "v.position_embd.weight"), (r"^std_", "v.std_"),
               (r"^model\.embed_vision\.embedding_projection", "mm.input_projection"),
               (r"post_attention_layernorm", "attn_post_norm")],
    "llama4": [(r"^patch_embedding\.linear", "v.patch_embd"), (r"^class_embedding", "v.class_embd"),
               (r"^positional_embedding_vlm", "v.position_embd.weight"), (r"^layernorm_pre", "v.pre_ln"),
               (r"^layernorm_post", "v.post_ln"), (r"^vision_adapter\.mlp\.fc", "mm.model.mlp."),
               (r"^multi_modal_projector\.linear_1", "mm.model.fc"), (r"post_attention_layernorm", "ln2")],
    "minicpmv": [(r"^embeddings\.patch_embedding", "v.patch_embd"), (r"^embeddings\.position_embedding", "v.position_embd"),
                 (r"^post_layernorm", "v.post_ln"), (r"^resampler\.kv_proj", "resampler.kv"),
                 (r"^resampler\.attn\.out_proj", "resampler.attn.out"), (r"^resampler\.proj$", "resampler.proj.weight")],
}
OUTER["gemma4-small"] = OUTER["gemma4"]


def tower_tensors(name, model):
    """The tower's tensors under llama.cpp's names."""
    found = []
    for key, tensor in model.state_dict().items():
        if is_text(key):
            continue
        x = tensor.float().numpy()
        short = re.sub(r"^(?:model\.)?(?:vision_tower|visual|vision_model|vpm)\.", "", key)
        for pattern, to in [*OUTER[name], *LAYERS]:
            short = re.sub(pattern, to, short)
        if short == "resampler.proj.weight":
            x = x.T
        if short.startswith("resampler.attn.in_proj_"):
            part = short.rsplit("_", 1)[-1]
            found += [(f"resampler.attn.{kind}.{part}", y) for kind, y in zip("qkv", np.split(x, 3))]
            continue
        if name.startswith("gemma4") and short == "v.patch_embd.weight":
            x = x.reshape(-1, PATCH, PATCH, 3).transpose(0, 3, 1, 2)
        if x.ndim == 0:
            x = x.reshape(1)
        if x.ndim == 5:
            found.append((short, x[:, :, 0]))
            short, x = short + ".1", x[:, :, 1]
        found.append((short, x))
    return found


def describe(name, writer):
    """Keys that not all projectors have."""
    if name == "qwen3vl":
        writer.add_array("clip.vision.is_deepstack_layers", [True, True])
    if name.startswith("gemma4"):
        writer.add_uint32("clip.vision.image_max_pixels", 16 * 9 * 9)
    if name == "minicpmv":
        writer.add_int32("clip.minicpmv_version", 3)
        writer.add_uint32("clip.minicpmv_query_num", 8)
        # Strata's own key: published models have heads of 128.
        writer.add_uint32("clip.vision.projector.head_count", 2)


def fan_in(key, shape):
    """What a matrix sums over; Llama 4's experts are stored (in, out)."""
    return shape[-2] if ".experts." in key else math.prod(shape[1:])
