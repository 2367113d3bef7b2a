"""Tiny random models that see, with what transformers makes of an image and a text.

    pip install torch torchvision pillow transformers==5.22.2 gguf==0.19.0
    python tools/golden_vision.py --out crates/model/tests/golden_vision --folders crates/convert/tests/eyes

For each family: `CASE.mmproj.gguf` is the tower and its projector as llama.cpp's converter writes them, `CASE.gguf` the
text model, `CASE.json` the pixels, the embeddings that they become, the tokens, and the logits of the whole.
"""

import argparse
import base64
import json
import math
import re
import zlib
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from transformers import (CLIPVisionConfig, Gemma3Config, Gemma3ForConditionalGeneration, Idefics3Config,
                          Idefics3ForConditionalGeneration, InternVLConfig, InternVLForConditionalGeneration, LlavaConfig,
                          LlavaForConditionalGeneration, LlavaNextConfig, LlavaNextForConditionalGeneration,
                          Mistral3Config, Mistral3ForConditionalGeneration,
                          Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLConfig,
                          Qwen2VLForConditionalGeneration)

import golden_vision_families as families
from golden_common import VOCAB, add_tokenizer, rope, rope_interleaved

WIDTH, FFN, HEADS, TEXT_WIDTH, TEXT_FFN = 16, 32, 2, 24, 40
IMAGE = VOCAB - 1
EPS = 1e-5
MEAN, STD = [0.5, 0.4, 0.3], [0.5, 0.25, 0.3]

TEXT = dict(vocab_size=VOCAB, hidden_size=TEXT_WIDTH, intermediate_size=TEXT_FFN, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=128, rms_norm_eps=EPS,
            rope_parameters=rope(), tie_word_embeddings=False, pad_token_id=None, bos_token_id=1, eos_token_id=2)
VIT = dict(hidden_size=WIDTH, intermediate_size=FFN, num_hidden_layers=3, num_attention_heads=HEADS, layer_norm_eps=EPS)


def llava():
    vision = CLIPVisionConfig(**VIT, image_size=12, patch_size=3, hidden_act="quick_gelu")
    return LlavaForConditionalGeneration(LlavaConfig(
        vision_config=vision, text_config=transformers.LlamaConfig(**TEXT), image_token_index=IMAGE, image_seq_length=16,
        tie_word_embeddings=False))


# Height and width of pictures of tiles, and of the image.
PINPOINTS, LLAVA_NEXT_IMAGE = [[12, 24], [24, 12]], (10, 50)


def llava_next():
    vision = CLIPVisionConfig(**VIT, image_size=12, patch_size=3, hidden_act="quick_gelu")
    return LlavaNextForConditionalGeneration(LlavaNextConfig(
        vision_config=vision, text_config=transformers.LlamaConfig(**TEXT), image_token_index=IMAGE, image_seq_length=16,
        image_grid_pinpoints=PINPOINTS, tie_word_embeddings=False))


def gemma3():
    vision = transformers.SiglipVisionConfig(**VIT, image_size=24, patch_size=3, vision_use_head=False)
    text = transformers.Gemma3TextConfig(**(TEXT | dict(
        tie_word_embeddings=True, query_pre_attn_scalar=8, sliding_window=20, layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"sliding_attention": rope(), "full_attention": rope(1e6)})))
    return Gemma3ForConditionalGeneration(Gemma3Config(vision_config=vision, text_config=text, mm_tokens_per_image=16,
                                                       image_token_index=IMAGE, tie_word_embeddings=True))


def idefics3():
    vision = transformers.Idefics3VisionConfig(**VIT, image_size=24, patch_size=3)
    return Idefics3ForConditionalGeneration(Idefics3Config(
        vision_config=vision, text_config=transformers.LlamaConfig(**TEXT), image_token_id=IMAGE, scale_factor=2,
        tie_word_embeddings=False))


def internvl():
    vision = transformers.InternVLVisionConfig(**VIT, image_size=[24, 24], patch_size=[3, 3], attention_bias=True)
    text = transformers.Qwen2Config(**{k: v for k, v in TEXT.items() if k != "head_dim"} | dict(hidden_size=32))
    return InternVLForConditionalGeneration(InternVLConfig(vision_config=vision, text_config=text, image_token_id=IMAGE,
                                                           image_seq_length=16, tie_word_embeddings=False))


def qwen2vl():
    text = TEXT | dict(rope_parameters=rope() | {"mrope_section": [1, 1, 2]}, hidden_size=32)
    text.pop("head_dim")
    return Qwen2VLForConditionalGeneration(Qwen2VLConfig(
        vision_config=dict(depth=2, embed_dim=WIDTH, hidden_size=32, mlp_ratio=2, num_heads=HEADS, patch_size=3,
                           spatial_merge_size=2, temporal_patch_size=2),
        text_config=text, image_token_id=IMAGE, vision_start_token_id=3, vision_end_token_id=4, tie_word_embeddings=False))


def qwen25vl():
    text = TEXT | dict(rope_parameters=rope() | {"mrope_section": [1, 1, 2]}, hidden_size=32)
    text.pop("head_dim")
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(
        vision_config=dict(depth=4, hidden_size=WIDTH, intermediate_size=FFN, num_heads=HEADS, patch_size=3,
                           spatial_merge_size=2, temporal_patch_size=2, window_size=12, out_hidden_size=32,
                           fullatt_block_indexes=[1, 3]),
        text_config=text, image_token_id=IMAGE, vision_start_token_id=3, vision_end_token_id=4, tie_word_embeddings=False))


def mistral3():
    vision = transformers.PixtralVisionConfig(hidden_size=WIDTH, intermediate_size=FFN, num_hidden_layers=2,
                                              num_attention_heads=HEADS, image_size=48, patch_size=3, hidden_act="silu",
                                              rope_parameters=rope())
    return Mistral3ForConditionalGeneration(Mistral3Config(
        vision_config=vision, text_config=transformers.MistralConfig(**(TEXT | dict(sliding_window=None))),
        image_token_index=IMAGE, spatial_merge_size=2, tie_word_embeddings=False))


def pixtral():
    vision = transformers.PixtralVisionConfig(hidden_size=WIDTH, intermediate_size=FFN, num_hidden_layers=2,
                                              num_attention_heads=HEADS, image_size=48, patch_size=3, hidden_act="silu",
                                              rope_parameters=rope())
    return LlavaForConditionalGeneration(LlavaConfig(
        vision_config=vision, text_config=transformers.MistralConfig(**(TEXT | dict(sliding_window=None))),
        image_token_index=IMAGE, vision_feature_layer=-1, vision_feature_select_strategy="full",
        tie_word_embeddings=False))


# name: (class, projector type, text architecture, height and width in pixels, patches to a position's side)
CASES = {
    "llava": (llava, "mlp", "llama", (12, 12), 1),
    "llava-next": (llava_next, "mlp", "llama", (12, 12), 1),
    "gemma3": (gemma3, "gemma3", "gemma3", (24, 24), 2),
    "idefics3": (idefics3, "idefics3", "llama", (24, 24), 2),
    "internvl": (internvl, "internvl", "qwen2", (24, 24), 2),
    "qwen2vl": (qwen2vl, "qwen2vl_merger", "qwen2vl", (18, 30), 2),
    "qwen2.5vl": (qwen25vl, "qwen2.5vl_merger", "qwen2vl", (30, 42), 2),
    "pixtral": (pixtral, "pixtral", "llama", (9, 15), 1),
    "mistral3": (mistral3, "pixtral", "llama", (18, 30), 2),
    "qwen3vl": (lambda: families.qwen3vl(TEXT), "qwen3vl_merger", "qwen3vl", (18, 30), 2),
    "gemma4": (families.gemma4, "gemma4v", "gemma4", (27, 36), 3),
    "gemma4-small": (families.gemma4_small, "gemma4v", "gemma4", (27, 18), 3),
    "llama4": (families.llama4, "llama4", "llama4", (24, 24), 2),
    "minicpmv": (lambda: families.MiniCPMV(TEXT), "resampler", "llama", (12, 21), 1),
}


def build(name):
    model = CASES[name][0]().float().eval()
    model.config._attn_implementation = "eager"

    def random(key, shape):
        rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{name}/{key}".encode())))
        return rng.standard_normal(shape).astype(np.float32)

    with torch.no_grad():
        families.fill_buffers(model, lambda key, shape: random(key, shape).astype(np.float16).astype(np.float32))
        for key, parameter in model.named_parameters():
            x = random(key, tuple(parameter.shape))
            lower = key.lower()
            norm = ("norm" in lower or "ln_" in lower) and key.endswith("weight")
            if norm or "lambda" in lower:
                # Gemma's norms count from 1.
                x = 0.2 * x + np.float32(0 if name == "gemma3" and "vision_tower" not in key else 1)
            elif key.endswith("bias"):
                x = np.float32(0.2) * x
            elif "embed" in lower and "patch" not in lower or "cls_token" in lower:
                x = np.float32(0.4) * x
            else:
                columns = parameter.shape[0] if "mm_input_projection" in key else families.fan_in(key, parameter.shape)
                x = x * np.float32(1.5 / math.sqrt(columns))
            parameter.copy_(torch.from_numpy(x.astype(np.float16).astype(np.float32)))
    return model


# ---------------------------------------------------------------------------------------------------------------------
# Inputs and outputs
# ---------------------------------------------------------------------------------------------------------------------


def patches(pixels, size, merge):
    """Qwen's order: squares of patches, each patch (channels, two frames, rows, columns)."""
    _, height, width = pixels.shape
    frames = np.stack([pixels, pixels])
    x = frames.reshape(2, 3, height // (size * merge), merge, size, width // (size * merge), merge, size)
    return x.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(-1, 3 * 2 * size * size)


def evaluate(name, model):
    _, _, _, (height, width), merge = CASES[name]
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    pixels = rng.standard_normal((3, height, width)).astype(np.float32)
    size = 3
    rows, columns = height // (size * merge), width // (size * merge)
    start = [1] + [int(t) for t in rng.integers(5, IMAGE, 5)]
    end = [int(t) for t in rng.integers(5, IMAGE, 6)]
    positions = 8 if name == "minicpmv" else rows * columns
    if name == "llava-next":
        # Two tiles side by side, whose 4×8 positions lose two rows of padding and get a newline behind each row, and the
        # whole image.
        pixels = rng.standard_normal((3, 3, height, width)).astype(np.float32)
        positions = 16 + 2 * 9
    tokens = start + [IMAGE] * positions + end
    if name == "minicpmv":
        embedded, logits = families.minicpmv_results(model, pixels, tokens)
        return pixels, (1, positions), tokens, len(start), embedded, logits
    inputs = {"input_ids": torch.tensor([tokens])}
    kinds = torch.tensor([[int(t == IMAGE) for t in tokens]])
    if name.startswith("qwen"):
        inputs["pixel_values"] = torch.from_numpy(patches(pixels, size, merge))
        inputs["image_grid_thw"] = torch.tensor([[1, height // size, width // size]])
        inputs["mm_token_type_ids"] = kinds
    elif name.startswith("gemma4"):
        inputs |= families.gemma4_inputs(pixels)
        inputs["mm_token_type_ids"] = kinds
    else:
        inputs["pixel_values"] = torch.from_numpy(pixels)[None]
        if name == "idefics3":
            inputs["pixel_values"] = inputs["pixel_values"][None]
        if name == "gemma3":
            inputs["token_type_ids"] = kinds
        if name in ("pixtral", "mistral3"):
            inputs["image_sizes"] = torch.tensor([[height, width]])
    if name == "llava-next":
        # The file has the whole image last; transformers has it first.
        inputs["pixel_values"] = torch.from_numpy(np.roll(pixels, 1, axis=0))[None]
        inputs["image_sizes"] = torch.tensor([LLAVA_NEXT_IMAGE])
        with torch.no_grad():
            features = model.model.get_image_features(**{k: inputs[k] for k in ("pixel_values", "image_sizes")})
            embedded = torch.cat(list(features.pooler_output)).float().numpy()
            logits = model(**inputs, use_cache=False).logits[0].float().numpy()
        assert embedded.shape == (positions, TEXT_WIDTH)
        return pixels, (rows, columns), tokens, len(start), embedded, logits
    found = []
    inner = getattr(model, "model", model)
    watched = getattr(inner, "embed_vision", None) or getattr(inner, "multi_modal_projector", None) or getattr(inner, "connector", None) or inner.visual

    def remember(module, args, output):
        # What qwen's tower gives is an object; the merged patches are its pooled output, and layers may have more.
        stacked = getattr(output, "deepstack_features", None) or []
        output = getattr(output, "pooler_output", output)
        if stacked:
            output = torch.cat([output, *stacked], dim=-1)
        found.append(output[0] if isinstance(output, (tuple, list)) else output)

    handle = watched.register_forward_hook(remember)
    with torch.no_grad():
        logits = model(**inputs, use_cache=False).logits[0].float().numpy()
    handle.remove()
    embedded = found[0].reshape(rows * columns, -1).float().numpy()
    return pixels, (rows, columns), tokens, len(start), embedded, logits


# ---------------------------------------------------------------------------------------------------------------------
# GGUF
# ---------------------------------------------------------------------------------------------------------------------

VISION = [
    (r"^model\.(?:vision_tower|vision_model|visual)\.", ""),
    (r"^(?:vision_model\.)?(?:embeddings\.)?(?:patch_embeddings\.projection|patch_embedding|patch_embed\.proj|patch_conv)",
     "v.patch_embd"),
    (r"^(?:vision_model\.)?embeddings\.class_embedding|^embeddings\.cls_token", "v.class_embd"),
    (r"^(?:vision_model\.)?embeddings\.position_embeddings?(?:\.weight)?", "v.position_embd.weight"),
    (r"^(?:vision_model\.)?(?:pre_layrnorm|ln_pre)", "v.pre_ln"),
    (r"^(?:vision_model\.)?(?:post_layernorm|layernorm)(?=\.)|^merger\.ln_q", "v.post_ln"),
    (r"^(?:vision_model\.)?(?:encoder\.layers?|blocks|transformer\.layers)\.(\d+)", r"v.blk.\1"),
    (r"(?:self_attn|attention|attn)\.(?:out_proj|projection_layer|proj|o_proj)(?=\.)", "attn_out"),
    (r"(?:self_attn|attention|attn)\.([qkv])_proj", r"attn_\1"),
    (r"attn\.qkv", "attn_qkv"),
    (r"(?:layer_norm1|layernorm_before|norm1|attention_norm)(?=\.)", "ln1"),
    (r"(?:layer_norm2|layernorm_after|norm2|ffn_norm)(?=\.)", "ln2"),
    (r"(?:mlp|feed_forward)\.(?:fc1|up_proj)", "ffn_up"),
    (r"(?:mlp|feed_forward)\.(?:fc2|down_proj)", "ffn_down"),
    (r"(?:mlp|feed_forward)\.gate_proj", "ffn_gate"),
    (r"lambda_([12])", r"ls\1.weight"),
    (r"^merger\.mlp", "mm"),
    (r"^model\.connector\.modality_projection\.proj", "mm.model.fc"),
    (r"^model\.multi_modal_projector\.mm_input_projection_weight", "mm.input_projection.weight"),
    (r"^model\.multi_modal_projector\.mm_soft_emb_norm", "mm.soft_emb_norm"),
    (r"^model\.multi_modal_projector\.norm", "mm.input_norm"),
    (r"^model\.multi_modal_projector\.patch_merger\.merging_layer", "mm.patch_merger"),
    (r"^model\.multi_modal_projector\.layer_norm", "mm.0"),
]
LINEARS = {"mlp": ("mm.0", "mm.2"), "internvl": ("mm.1", "mm.3"), "pixtral": ("mm.1", "mm.2")}
TEXTS = [
    (r"^llm\.", ""),
    (r"^model\.(?:language_model|text_model)\.(?:model\.)?|^model\.(?=layers|norm|embed)", ""),
    (r"^lm_head", "output"),
    (r"^embed_tokens", "token_embd"),
    (r"^norm\.", "output_norm."),
    (r"^layers\.(\d+)", r"blk.\1"),
    (r"self_attn\.([qkv])_proj", r"attn_\1"),
    (r"self_attn\.o_proj", "attn_output"),
    (r"self_attn\.([qk])_norm", r"attn_\1_norm"),
    (r"mlp\.(gate|up|down)_proj", r"ffn_\1"),
    (r"input_layernorm", "attn_norm"),
    (r"pre_feedforward_layernorm", "ffn_norm"),
    (r"post_feedforward_layernorm", "post_ffw_norm"),
]


def renamed(name, pairs):
    for pattern, to in pairs:
        name = re.sub(pattern, to, name)
    return name


def split(case, model):
    """(tower's tensors, text model's tensors)."""
    _, projector, arch, _, _ = CASES[case]
    vision, text = [], []
    if case in families.OUTER:
        vision = families.tower_tensors(case, model)
    for key, tensor in model.state_dict().items():
        x = tensor.float().numpy()
        is_text = families.is_text(key) or "text_model" in key
        if case in families.TEXTS or case in families.OUTER and not is_text:
            continue
        if is_text:
            after = "post_attention_norm" if arch == "gemma3" else "ffn_norm"
            name = renamed(key, TEXTS + [(r"post_attention_layernorm", after)])
            if arch == "gemma3" and key.startswith("lm_head"):
                continue
            if arch == "gemma3" and "norm" in name:
                x = x + np.float32(1)
            if arch == "llama" and (found := re.search(r"attn_([qk])\.weight", name)):
                x = rope_interleaved(x, 4 if found[1] == "q" else 2)
            text.append((name, x))
            continue
        name = renamed(key, VISION)
        if found := re.fullmatch(r"model\.multi_modal_projector\.linear_([12])\.(\w+)", name):
            name = f"{LINEARS[projector][int(found[1]) - 1]}.{found[2]}"
        if name == "model.image_newline":
            pass
        elif case.startswith("llava") and (name.startswith("v.blk.2.") or name.startswith("v.post_ln")):
            continue
        if "position_ids" in name or "inv_freq" in name:
            continue
        if name == "mm.soft_emb_norm.weight":
            x = x + np.float32(1)
        if projector == "pixtral" and (found := re.search(r"attn_([qk])\.weight", name)):
            x = rope_interleaved(x, HEADS)
        if name in ("v.class_embd", "v.position_embd.weight"):
            x = x.reshape(-1, WIDTH) if name.startswith("v.pos") else x.reshape(-1)
        if name == "v.patch_embd.weight" and x.ndim == 5:
            vision.append((name, np.ascontiguousarray(x[:, :, 0])))
            name, x = "v.patch_embd.weight.1", np.ascontiguousarray(x[:, :, 1])
        vision.append((name, x))
    return vision, text


def write_vision(case, model, tensors, path):
    _, projector, _, (height, _), merge = CASES[case]
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_type("mmproj")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", projector)
    layers = 1 + max(int(found[1]) for name, _ in tensors if (found := re.match(r"v\.blk\.(\d+)\.", name)))
    ffn = next(x.shape[0] for name, x in tensors if name == "v.blk.0.ffn_up.weight")
    sizes = {"image_size": height, "patch_size": 3, "embedding_length": WIDTH, "feed_forward_length": ffn,
             "block_count": layers, "attention.head_count": HEADS}
    if projector in ("gemma3", "idefics3", "internvl"):
        sizes["projector.scale_factor"] = merge
    if projector in ("gemma4v", "llama4"):
        sizes["projector.scale_factor"] = merge
    families.describe(case, writer)
    if case == "qwen3vl":
        sizes["image_size"] = 4 * 3  # the table's
    if projector.startswith("qwen") or case == "mistral3":
        sizes["spatial_merge_size"] = merge
    if projector == "qwen2.5vl_merger":
        sizes |= {"n_wa_pattern": 2, "window_size": 12}
    if case == "llava-next":
        writer.add_array("clip.vision.image_grid_pinpoints", [side for size in PINPOINTS for side in size])
        writer.add_string("clip.vision.mm_patch_merge_type", "spatial_unpad")
    for key, value in sizes.items():
        writer.add_uint32(f"clip.vision.{key}", value)
    epsilon = 1e-6 if projector.startswith("qwen") else EPS
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", epsilon)
    writer.add_array("clip.vision.image_mean", MEAN)
    writer.add_array("clip.vision.image_std", STD)
    if projector in ("gemma3", "idefics3", "internvl", "qwen3vl_merger", "llama4", "resampler"):
        writer.add_bool("clip.use_gelu", True)
    if projector in ("pixtral", "qwen2.5vl_merger"):
        writer.add_bool("clip.use_silu", True)
    finish(writer, tensors)


def write_text(case, model, tensors, path):
    _, _, arch, _, _ = CASES[case]
    if case in families.TEXTS:
        return families.write_text(case, model, path)
    config = model.config.text_config
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"golden {case}")
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(128)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(2)
    writer.add_feed_forward_length(TEXT_FFN)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_key_length(8)
    writer.add_value_length(8)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(1e6 if arch == "gemma3" else 10000.0)
    if arch == "gemma3":
        writer.add_sliding_window(20)
        writer.add_array("gemma3.attention.sliding_window_pattern", [True, False])
        writer.add_float32("gemma3.rope.freq_base_swa", 10000.0)
    if arch == "qwen2vl":
        writer.add_array("qwen2vl.rope.dimension_sections", [1, 1, 2, 0])
    if arch == "qwen3vl":
        writer.add_array("qwen3vl.rope.dimension_sections", [2, 1, 1, 0])
        writer.add_uint32("qwen3vl.n_deepstack_layers", 2)
    add_tokenizer(writer)
    finish(writer, tensors)


def finish(writer, tensors):
    for name, x in tensors:
        writer.add_tensor(name, np.ascontiguousarray(x, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def packed(x):
    return base64.b64encode(np.ascontiguousarray(x, dtype="<f4").tobytes()).decode()


# Cases whose eyes `strata convert` writes.
FOLDERS = ["gemma3", "qwen2vl", "qwen2.5vl", "mistral3", "qwen3vl", "gemma4", "gemma4-small", "llama4", "llava", "llava-next",
           "idefics3", "internvl", "pixtral", "minicpmv"]


def save(model, folder):
    """A Hugging Face folder with the model's eyes, without the text model's weights."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    config = families.minicpmv_config(model) if isinstance(model, families.MiniCPMV) else model.config.to_dict()
    config["architectures"] = [type(model).__name__]
    kept = ("architectures", "vision_config", "text_config", "mm_tokens_per_image", "spatial_merge_size", "model_type",
            "vision_feature_layer", "vision_feature_select_strategy", "image_grid_pinpoints", "scale_factor",
            "downsample_ratio", "version", "query_num", "image_size", "slice_config")
    config = {key: config[key] for key in kept if key in config}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    processor = {"image_mean": MEAN, "image_std": STD}
    if type(model).__name__.startswith("Gemma4"):
        processor["max_soft_tokens"] = 16
    (folder / "preprocessor_config.json").write_text(json.dumps(processor) + "\n")
    state = {key: x.contiguous() for key, x in model.state_dict().items()
             if not ("language_model" in key or key.startswith("llm.") or "text_model" in key or key.startswith("lm_head") or "inv_freq" in key)}
    save_file(state, folder / "model.safetensors")


def make(case, folder, folders=None):
    model = build(case)
    pixels, (rows, columns), tokens, start, embedded, logits = evaluate(case, model)
    assert np.isfinite(logits).all() and np.isfinite(embedded).all()
    vision, text = split(case, model)
    write_vision(case, model, vision, folder / f"{case}.mmproj.gguf")
    write_text(case, model, text, folder / f"{case}.gguf")
    content = {"case": case, "height": pixels.shape[-2], "width": pixels.shape[-1], "rows": rows, "columns": columns,
               "start": start, "tokens": tokens, "pixels_f32_le_base64": packed(pixels),
               "embedded_f32_le_base64": packed(embedded), "logits_f32_le_base64": packed(logits)}
    if case == "llava-next":
        height, width = LLAVA_NEXT_IMAGE
        content["tiling"] = {"rows": 1, "columns": 2, "height": height, "width": width}
    (folder / f"{case}.json").write_text(json.dumps(content, indent=1) + "\n")
    if folders and case in FOLDERS:
        save(model, folders / case)
    print(f"{case:10} {rows}×{columns} positions, largest embedding {np.abs(embedded).max():.1f}, "
          f"largest logit {np.abs(logits).max():.1f}", flush=True)


README = """# Golden vision

Tiny random towers and text models with what Hugging Face transformers makes of them (float32, eager attention):
`CASE.mmproj.gguf` is the tower as llama.cpp's converter writes it, `CASE.gguf` the text model, `CASE.json` the pixels,
the embeddings that the projector gives, the tokens with the image among them, and the logits of all positions.

Made by `python tools/golden_vision.py --out crates/model/tests/golden_vision --folders crates/convert/tests/eyes`; versions: torch {torch}, transformers
{transformers}, gguf 0.19.0.
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folders", type=Path, help="where to save Hugging Face folders, for the tests of crates/convert")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for case in arguments.cases or CASES:
        make(case, arguments.out, arguments.folders)
    (arguments.out / "README.md").write_text(
        README.format(torch=torch.__version__.split("+")[0], transformers=transformers.__version__))


if __name__ == "__main__":
    main()
