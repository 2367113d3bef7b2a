"""The golden cases of dense families, and of all families together. golden_logits.py makes the files."""

import math
import re

import numpy as np
import torch

import golden_gemma
import golden_latent
import golden_mixtures
import golden_recurrent
import golden_rwkv
from golden_common import CONTEXT, EPS, VOCAB, WINDOW, rope
from golden_model import (HEADS, LAYER_NORM, SLIDING, TIED, TINY, Family, base_keys, build_model, gguf_name, make_model,
                          shapes)

__all__ = ["CASES", "Family", "build_model", "make_model"]


def bloom_qkv(case, name, x):
    """(heads, 3, size) rows to (3, heads, size)."""
    if "query_key_value" not in name:
        return None
    rows = x.reshape(4, 3, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return [(gguf_name(case, name), rows)]


def opt_positions(case, name, x):
    """The first two positions stand for nothing."""
    return [("position_embd.weight", x[2:])] if "embed_positions" in name else None


def qkv_by_part(case, name, x):
    """Separate projections, one after the other."""
    found = re.fullmatch(r".*\.layers\.(\d+)\.self_attn\.([qkv])_proj\.(\w+)", name)
    if not found:
        return None
    layer, which, part = found.groups()
    held = case.__dict__.setdefault("held", {}).setdefault(part, {})
    held[which] = x
    if len(held) < 3:
        return []
    fused = np.concatenate([held[k] for k in "qkv"])
    held.clear()
    return [(f"blk.{layer}.attn_qkv.{part}", fused)]


def apertus_numbers(case, name, x):
    """Numbers of xIELU go into the metadata."""
    if ".act_fn." not in name:
        return None
    key = f"xielu.{name.rsplit('.', 1)[1]}"
    before = [] if ".layers.0." in name else case.keys[key]
    case.keys[key] = [*before, float(x.reshape(-1)[0])]
    return []


def evaluate_spark(case, tensors, tokens):
    """Spark's forward pass in f64: llama.cpp rounds GELU."""
    w = {name: torch.from_numpy(x).double() for name, x in tensors.items()}
    keys, n = case.keys, len(tokens)
    rms = lambda x, name: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * w[name]
    place = torch.arange(n)

    def turn(x, size, base):
        angles = place[:, None] * base ** (-torch.arange(0, size, 2) / size).double()
        cos, sin, half = torch.cos(angles)[:, None], torch.sin(angles)[:, None], size // 2
        a, b = x[..., :half], x[..., half:size]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, x[..., size:]], -1)

    x = w["token_embd.weight"][tokens]
    for i, slides in enumerate(keys["attention.sliding_window_pattern"]):
        part = lambda name: f"blk.{i}.{name}.weight"
        h = rms(x, part("attn_norm"))
        q, k, v = (h @ w[part("attn_qkv")].T).split([32, 16, 16], -1)
        size, base = (8, keys["rope.freq_base_swa"]) if slides else (4, keys["rope.freq_base"])
        q = turn(q.view(n, 4, 8), size, base)
        k = turn(k.view(n, 2, 8), size, base).repeat_interleave(2, 1)
        v = v.view(n, 2, 8).repeat_interleave(2, 1)
        back = place[:, None] - place[None]
        hidden = (back < 0) | (back >= (WINDOW if slides else n))
        scores = (torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(8)).masked_fill(hidden, -math.inf).softmax(-1)
        gate = torch.sigmoid(h @ w[part("attn_gate")].T)
        mixed = (torch.einsum("hij,jhd->ihd", scores, v) * gate[..., None]).reshape(n, 32)
        x = x + mixed @ w[part("attn_output")].T
        h = rms(x, part("ffn_norm"))
        gelu = torch.nn.functional.gelu(h @ w[part("ffn_gate")].T, approximate="tanh")
        x = x + (gelu * (h @ w[part("ffn_up")].T)) @ w[part("ffn_down")].T
    return (rms(x, "output_norm.weight") @ w["output.weight"].T).float().numpy()


GPT2_LIKE = dict(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_inner=24, resid_pdrop=0.0, embd_pdrop=0.0,
                 attn_pdrop=0.0, layer_norm_epsilon=EPS, bos_token_id=1, eos_token_id=2)

CASES = [
    # Llama under other names.
    Family("internlm2", "internlm2", "LlamaConfig", TINY, pairs=True, note="llama under another name"),
    Family("spark2_5", "spark2_5",
           tensors=shapes(2, fused=True, tied=False) | {f"blk.{i}.attn_gate.weight": (4, 32) for i in range(2)},
           keys=base_keys() | {"attention.sliding_window": WINDOW, "attention.sliding_window_pattern": [True, False],
                               "rope.dimension_count": 4, "rope.dimension_count_swa": 8, "rope.freq_base_swa": 500.0},
           evaluate=evaluate_spark,
           note="gates of a number a head; rotated dimensions and bases by layer; GELU"),
    Family("xverse", "xverse", "LlamaConfig", TINY, pairs=True, note="llama under another name"),
    Family("baichuan-7b", "baichuan", "LlamaConfig", TINY | dict(num_key_value_heads=4), pairs=True,
           keys={}, peer=False, note="rotary positions; llama.cpp rotates only models of 32 layers"),
    Family("baichuan-13b", "baichuan", tensors=shapes(40, width=8, ffn=4, q=8, kv=8, tied=False),
           keys=base_keys(40, ffn=4, kv=4, turned=2, width=8), note="ALiBi in the model of 40 layers"),
    Family("refact", "refact", tensors=shapes(2, kv=8), keys=base_keys(kv=1, turned=0), note="ALiBi; one key head"),
    Family("minicpm", "minicpm", "GraniteConfig",
           TINY | dict(embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4,
                       attention_multiplier=1 / math.sqrt(8)), pairs=True,
           keys={"embedding_scale": 3.0, "residual_scale": 0.4, "logit_scale": 2.0}, note="scales in the metadata"),
    Family("minicpm-old", "minicpm", "GraniteConfig",
           TINY | dict(embedding_multiplier=12.0, logits_scaling=32 / 256, residual_multiplier=1.4 / math.sqrt(2),
                       attention_multiplier=1 / math.sqrt(8)), pairs=True, peer=False,
           note="scales of files that leave them out; llama.cpp multiplies logits by the inverse"),
    Family("mistral3", "mistral3", "Ministral3Config",
           HEADS | dict(rope_parameters=rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=8,
                                             llama_4_scaling_beta=0.3, mscale_all_dim=1.0, mscale=1.0)),
           keys={"attention.temperature_scale": 0.3, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                 "rope.scaling.original_context_length": 8,
                 "rope.scaling.attn_factor": 1 / (1 + 0.1 * math.log(4))},
           pairs=True, note="YaRN; temperature from position 8 on"),
    Family("arcee", "arcee", "ArceeConfig", HEADS, pairs=True, note="plain network, ReLU²"),
    Family("ernie4_5", "ernie4_5", "Ernie4_5Config", HEADS, note="pairs of neighbours rotated"),
    Family("paddleocr", "paddleocr", "LlamaConfig", HEADS, keys={"rope.dimension_sections": [2, 1, 1, 0]},
           note="the text model: axes of positions are one"),
    Family("smollm3", "smollm3", "SmolLM3Config", TIED | dict(num_hidden_layers=4, intermediate_size=12), pairs=True,
           note="layer 3 is not rotated"),
    Family("maincoder", "maincoder", "HunYuanDenseV1Config", HEADS, pairs=True, pair_norms=True,
           note="head norms after rotation; pairs of neighbours rotated"),
    Family("olmo", "olmo", "OlmoConfig", LAYER_NORM | dict(clip_qkv=1.5), pairs=True,
           keys={"attention.layer_norm_epsilon": 1e-5, "attention.clamp_kqv": 1.5},
           note="layer norms without weights; clamped queries, keys and values"),
    Family("chatglm", "chatglm", "GlmConfig",
           HEADS | dict(rope_parameters=rope(partial_rotary_factor=0.5), attention_bias=True),
           convert=qkv_by_part, note="fused projections, half of each head rotated"),
    Family("glm4", "glm4", "Glm4Config",
           HEADS | dict(rope_parameters=rope(partial_rotary_factor=0.5), attention_bias=True),
           names={"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"},
           note="norms after the branches too"),
    Family("exaone", "exaone", "LlamaConfig", TIED, note="halves rotated"),
    Family("exaone4", "exaone4", "Exaone4Config",
           TINY | dict(num_hidden_layers=2, sliding_window=WINDOW, layer_types=SLIDING),
           keys={"attention.sliding_window": WINDOW, "attention.sliding_window_pattern": [True, False]},
           names={"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"},
           peer=False,
           note="window of 8 and rotation on layer 0 alone; llama.cpp slides only in models of 64 layers"),
    Family("exaone4-full", "exaone4", "Exaone4Config",
           TINY | dict(sliding_window=None, layer_types=["full_attention"] * 2),
           names={"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"},
           note="no windows: all layers rotated"),
    Family("qwen", "qwen", "Qwen2Config", TINY | dict(num_key_value_heads=4), convert=qkv_by_part,
           keys={"feed_forward_length": 40}, note="fused projections; the length counts gate and up"),
    Family("seed_oss", "seed_oss", "SeedOssConfig", HEADS,
           names={"post_attention_layernorm": "post_attention_norm"}, note="q, k, v biases"),
    Family("orion", "orion", "StableLmConfig",
           LAYER_NORM | dict(rope_parameters=rope(partial_rotary_factor=1.0)), note="layer norms"),
    Family("pangu-embedded", "pangu-embedded", "LlamaConfig", TINY | dict(attention_bias=True),
           note="biases in attention"),
    Family("bitnet", "bitnet", "BitNetConfig", TIED | dict(hidden_act="silu"), note="norms before the last matrices"),
    Family("apertus", "apertus", "ApertusConfig", TINY, convert=apertus_numbers,
           note="head norms, xIELU with numbers by layer"),
    Family("hunyuan-dense", "hunyuan-dense", "HunYuanDenseV1Config", HEADS, note="head norms after rotation"),
    Family("hunyuan_vl", "hunyuan_vl", "HunYuanDenseV1Config", HEADS | dict(tie_word_embeddings=True),
           note="the text model"),
    Family("plamo", "plamo", tensors=shapes(2, tied=False, norms=("attn_norm",)), keys=base_keys(),
           note="parallel branches over one RMS norm"),
    Family("plamo3", "plamo3",
           tensors={k: v for k, v in shapes(2, fused=True, gate=False, ffn=0).items()}
           | {f"blk.{i}.{k}": v for i in range(2) for k, v in {
               "attn_q_norm.weight": (8,), "attn_k_norm.weight": (8,), "post_attention_norm": (32,),
               "post_ffw_norm": (32,), "ffn_up.weight": (40, 32), "ffn_down.weight": (32, 20)}.items()},
           keys=base_keys() | {"attention.key_length": 8, "attention.value_length": 8,
                               "attention.sliding_window": WINDOW, "rope.freq_base": 1e6,
                               "attention.sliding_window_pattern": [True, False], "rope.freq_base_swa": 10000.0},
           note="fused projections, norms after the branches, window of 8 on layer 0"),
    Family("openelm", "openelm",
           tensors={"token_embd.weight": (VOCAB, 32), "output_norm.weight": (32,)}
           | {f"blk.{i}.{k}": v for i, (q, kv, ffn) in enumerate([(2, 1, 16), (4, 2, 24)]) for k, v in {
               "attn_norm.weight": (32,), "attn_qkv.weight": ((q + 2 * kv) * 8, 32), "attn_q_norm.weight": (8,),
               "attn_k_norm.weight": (8,), "attn_output.weight": (32, q * 8), "ffn_norm.weight": (32,),
               "ffn_gate.weight": (ffn, 32), "ffn_up.weight": (ffn, 32), "ffn_down.weight": (32, ffn)}.items()},
           keys=base_keys() | {"attention.head_count": [2, 4], "attention.head_count_kv": [1, 2],
                               "feed_forward_length": [16, 24], "attention.key_length": 8,
                               "attention.value_length": 8},
           note="heads and widths by layer"),
    Family("cohere2", "cohere2", "Cohere2Config",
           LAYER_NORM | dict(num_hidden_layers=2, sliding_window=WINDOW, layer_types=SLIDING, logit_scale=0.25,
                             tie_word_embeddings=True),
           keys={"attention.sliding_window": WINDOW, "attention.sliding_window_pattern": [True, False],
                 "logit_scale": 0.25},
           note="tied; parallel; window of 8 and rotation on layer 0 alone"),
    # GPT-2's kin.
    Family("starcoder", "starcoder", "GPTBigCodeConfig", GPT2_LIKE | dict(n_positions=40, multi_query=True),
           keys={"attention.head_count_kv": 1, "attention.layer_norm_epsilon": EPS, "context_length": 40},
           note="tied; one key head; learned positions; tanh GELU"),
    Family("opt", "opt", "OPTConfig",
           dict(vocab_size=VOCAB, hidden_size=32, ffn_dim=24, num_hidden_layers=2, num_attention_heads=4,
                max_position_embeddings=40, word_embed_proj_dim=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                dropout=0.0), convert=opt_positions, peer=False,
           note="tied; learned positions, ReLU; llama.cpp has no such name"),
    Family("codeshell", "codeshell", "Starcoder2Config",
           LAYER_NORM | dict(norm_epsilon=EPS, sliding_window=None, use_bias=True), note="GPT-2 with rotary positions"),
    Family("bloom", "bloom", "BloomConfig",
           dict(vocab_size=VOCAB, hidden_size=24, n_layer=2, n_head=4, layer_norm_epsilon=EPS, hidden_dropout=0.0,
                attention_dropout=0.0, bos_token_id=1, eos_token_id=2), convert=bloom_qkv,
           keys={"context_length": CONTEXT, "feed_forward_length": 96, "attention.layer_norm_epsilon": EPS},
           note="tied; ALiBi; norm of the embedding"),
    Family("mpt", "mpt", "MptConfig",
           dict(vocab_size=VOCAB, d_model=24, n_layers=2, n_heads=4, max_seq_len=CONTEXT, expansion_ratio=4,
                attn_config=dict(alibi=True, clip_qkv=1.5, alibi_bias_max=8), layer_norm_epsilon=1e-5),
           keys={"feed_forward_length": 96, "attention.layer_norm_epsilon": 1e-5, "attention.max_alibi_bias": 8.0,
                 "attention.clamp_kqv": 1.5},
           note="tied; ALiBi; clamped queries, keys and values; no biases; erf GELU (llama.cpp: tanh)"),
    Family("phi2", "phi2", "PhiConfig",
           LAYER_NORM | dict(num_key_value_heads=4, rope_parameters=rope(partial_rotary_factor=0.5),
                             hidden_act="gelu_new"),
           note="parallel branches over one norm; half of each head rotated; output bias"),
    Family("gptj", "gptj", "GPTJConfig", GPT2_LIKE | dict(n_positions=CONTEXT, rotary_dim=4, tie_word_embeddings=False),
           keys={"rope.dimension_count": 4, "rope.freq_base": 10000.0}, peer=False,
           note="pairs of neighbours rotated, in half of each head; llama.cpp has the name but no graph"),
    Family("jais", "jais",
           tensors=shapes(2, fused=True, kv=32, tied=False, bias=True), keys=base_keys(kv=4, rms=False, turned=0)
           | {"attention.max_alibi_bias": 8.0}, note="ALiBi; scores divided by the head's size; gated network"),
    Family("jais2", "jais2", "Jais2Config", LAYER_NORM | dict(head_dim=8), note="layer norms, ReLU²"),
    Family("nemotron", "nemotron", "NemotronConfig",
           {k: v for k, v in LAYER_NORM.items() if k != "layer_norm_eps"}
           | dict(norm_eps=EPS, head_dim=8, rope_parameters=rope(partial_rotary_factor=0.5)),
           keys={"attention.layer_norm_epsilon": EPS}, note="layer norms of 1 + weight, ReLU², half of each head rotated"),
] + golden_mixtures.CASES + golden_recurrent.CASES + golden_latent.CASES + golden_rwkv.CASES \
    + golden_gemma.CASES
