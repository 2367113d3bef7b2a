"""Make the golden-logits cases of crates/model/tests/golden.

Each case is a tiny random model built by Hugging Face transformers from a config, written as a GGUF file by this
script with llama.cpp's tensor names and conventions, and evaluated by transformers (float32, eager attention) on one
token sequence. Every file that llama.cpp can run is then run by it, which proves the conversion by a third party.
golden_families.py, golden_mixtures.py, golden_recurrent.py, golden_latent.py, golden_rwkv.py and golden_gemma.py have the cases of most
families.

    pip install torch transformers==5.22.2 gguf==0.19.0 llama-cpp-python==0.3.36
    python tools/golden_logits.py --out crates/model/tests/golden            # make all cases and the README
    python tools/golden_logits.py --out crates/model/tests/golden qwen3      # make one of them again
    python tools/golden_logits.py --out crates/model/tests/golden --verify   # compare with fresh ones, write nothing

Weights come from numpy's PCG64 seeded by case and parameter name, so the GGUF files are the same bytes on every
machine; logits may differ in the last digits with another build of torch.
"""

import argparse
import base64
import dataclasses
import importlib.metadata
import json
import math
import sys
import tempfile
import zlib
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

import golden_families
from golden_model import MATRIX
from golden_common import (CONTEXT, EPS, N_TOKENS, VOCAB, WINDOW, add_tokenizer, llama_cpp_logits, rope,
                           rope_interleaved, tokens_of, transformers_logits)

VERIFY_TOLERANCE = 1e-4
LLAMA_CPP_TOLERANCE = 1e-2


@dataclasses.dataclass
class Case:
    """One model: a transformers config, and what the GGUF says about it."""

    name: str
    arch: str
    config_class: str
    config: dict
    keys: dict = dataclasses.field(default_factory=dict)  # metadata beyond what the config implies
    note: str = ""
    seed: int = 0  # of the weights; chosen so that no router is near a tie
    # llama.cpp ignores this model's sliding window: only positions inside the first window can agree.
    checked_positions: int = N_TOKENS
    half: bool = False  # values that f16 can hold, matrices stored so
    # llama.cpp reads some tensors only in deep models: it is checked on this many layers instead.
    checked_layers: int = 0


# ---------------------------------------------------------------------------------------------------------------------
# The cases
# ---------------------------------------------------------------------------------------------------------------------


# Head size free of the hidden size.
FREE = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=CONTEXT, rms_norm_eps=EPS,
            bos_token_id=1, eos_token_id=2, pad_token_id=None)
# Head size = hidden size / heads.
TIED = {k: v for k, v in FREE.items() if k != "head_dim"} | dict(hidden_size=64, intermediate_size=24)
SMALL = TIED | dict(hidden_size=48, num_attention_heads=3, num_key_value_heads=1, intermediate_size=32)
LAYER_NORM = {k: v for k, v in SMALL.items() if k != "rms_norm_eps"} | dict(layer_norm_eps=EPS)
LONG_FACTORS = [1.0, 1.7, 3.1, 5.9, 8.3, 11.0]
SHORT_FACTORS = [1.0, 1.1, 1.3, 1.25, 1.5, 1.9]


def longrope(original):
    return dict(max_position_embeddings=4 * original, original_max_position_embeddings=original,
                rope_parameters=rope(rope_type="longrope", partial_rotary_factor=0.75,
                                     original_max_position_embeddings=original,
                                     long_factor=LONG_FACTORS, short_factor=SHORT_FACTORS))


CASES = [
    Case("llama", "llama", "LlamaConfig",
         FREE | dict(rope_parameters=rope(), tie_word_embeddings=False),
         note="GQA; heads wider than the hidden size"),
    Case("llama-llama3-rope", "llama", "LlamaConfig",
         FREE | dict(tie_word_embeddings=True,
                     rope_parameters=rope(500000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                          high_freq_factor=4.0, original_max_position_embeddings=64)),
         half=True, note="tied; `rope_freqs` tensor"),
    Case("llama-linear", "llama", "LlamaConfig",
         FREE | dict(rope_parameters=rope(rope_type="linear", factor=4.0)), half=True, note="linear RoPE scaling by 4"),
    Case("llama-yarn", "llama", "LlamaConfig",
         FREE | dict(rope_parameters=rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
                     max_position_embeddings=CONTEXT),
         half=True, note="YaRN by 4 from a context of 64, with its attention factor"),
    Case("llama-bias", "llama", "LlamaConfig",
         FREE | dict(num_key_value_heads=4, attention_bias=True, mlp_bias=True, rope_parameters=rope()),
         half=True, note="biases on every projection, no GQA"),
    Case("mistral-window", "llama", "MistralConfig",
         FREE | dict(rope_parameters=rope(), sliding_window=WINDOW),
         keys={"attention.sliding_window": WINDOW}, checked_positions=WINDOW,
         half=True, note="window of 8 on every layer; llama.cpp ignores the key for this architecture, so it is compared on the "
              "first 8 positions"),
    Case("mixtral", "llama", "MixtralConfig",
         FREE | dict(rope_parameters=rope(1e6), num_local_experts=4, num_experts_per_tok=2, intermediate_size=24),
         seed=10, half=True, note="4 experts, 2 used, renormalized"),
    Case("qwen2", "qwen2", "Qwen2Config",
         TIED | dict(rope_parameters=rope(1e6), tie_word_embeddings=True), half=True, note="tied; q, k, v biases"),
    Case("qwen3", "qwen3", "Qwen3Config", FREE | dict(rope_parameters=rope(1e6)),
         half=True, note="RMSNorm on each q and k head"),
    Case("qwen2moe", "qwen2moe", "Qwen2MoeConfig",
         SMALL | dict(rope_parameters=rope(1e6), num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                      shared_expert_intermediate_size=24, norm_topk_prob=False),
         seed=26, half=True, note="4 experts, 2 used, not renormalized, gated shared expert"),
    Case("qwen3moe", "qwen3moe", "Qwen3MoeConfig",
         FREE | dict(rope_parameters=rope(1e6), num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16,
                     norm_topk_prob=True), seed=35, half=True, note="6 experts, 3 used, renormalized"),
    Case("gemma", "gemma", "GemmaConfig",
         FREE | dict(num_key_value_heads=1, rope_parameters=rope(), tie_word_embeddings=True), half=True, note="tied; MQA"),
    Case("gemma2", "gemma2", "Gemma2Config",
         FREE | dict(num_hidden_layers=3, rope_parameters=rope(), sliding_window=WINDOW, query_pre_attn_scalar=16,
                     attn_logit_softcapping=5.0, final_logit_softcapping=6.0, tie_word_embeddings=True),
         half=True, note="tied; window of 8 on layers 0 and 2; soft-caps 5 (attention) and 6 (logits)"),
    Case("gemma3", "gemma3", "Gemma3TextConfig",
         FREE | dict(num_hidden_layers=7, num_attention_heads=2, num_key_value_heads=1, intermediate_size=24,
                     sliding_window=WINDOW, query_pre_attn_scalar=16, tie_word_embeddings=True,
                     rope_parameters={"full_attention": rope(1e6, rope_type="linear", factor=8.0),
                                      "sliding_attention": rope(10000.0)}),
         half=True, note="tied; layer 5 is global (base 1e6, linear factor 8), the others have a window of 8 and base 1e4"),
    Case("phi3", "phi3", "Phi3Config", TIED | dict(rope_parameters=rope(), original_max_position_embeddings=CONTEXT),
         half=True, note="fused `attn_qkv` with GQA; gate and up fused in `ffn_up`, gate first"),
    Case("phi3-window", "phi3", "Phi3Config",
         SMALL | dict(rope_parameters=rope(), original_max_position_embeddings=CONTEXT, sliding_window=WINDOW),
         checked_positions=WINDOW,
         half=True, note="window of 8 on every layer; llama.cpp ignores it, so it is compared on the first 8 positions"),
    Case("phi3-longrope-short", "phi3", "Phi3Config", SMALL | longrope(CONTEXT),
         half=True, note="`rope_factors_short` in use (sequence within the original context of 256); 12 of 16 dimensions rotated"),
    Case("phi3-longrope-long", "phi3", "Phi3Config", SMALL | longrope(16) | dict(tie_word_embeddings=True),
         note="tied; `rope_factors_long` in use for all positions (sequence longer than the original context of 16)"),
    Case("gpt2", "gpt2", "GPT2Config",
         dict(vocab_size=VOCAB, n_positions=40, n_embd=48, n_layer=2, n_head=3, n_inner=64, resid_pdrop=0.0,
              embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=EPS, bos_token_id=1, eos_token_id=2),
         half=True, note="tied; learned positions; tanh GELU"),
    Case("gptneox-parallel", "gptneox", "GPTNeoXConfig",
         LAYER_NORM | dict(use_parallel_residual=True, rope_parameters=rope(partial_rotary_factor=0.25)),
         half=True, note="4 of 16 dimensions rotated; erf GELU (llama.cpp: tanh)"),
    Case("gptneox-serial", "gptneox", "GPTNeoXConfig",
         LAYER_NORM | dict(use_parallel_residual=False, rope_parameters=rope(partial_rotary_factor=0.5)),
         half=True, note="8 of 16 dimensions rotated; erf GELU (llama.cpp: tanh)"),
    Case("falcon-7b", "falcon", "FalconConfig",
         dict(vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2, num_attention_heads=3, multi_query=True,
              parallel_attn=True, bias=False, ffn_hidden_size=64, rope_parameters=rope(),
              max_position_embeddings=CONTEXT, layer_norm_epsilon=EPS, bos_token_id=1, eos_token_id=2),
         half=True, note="tied; multi-query; one norm; erf GELU (llama.cpp: tanh)"),
    Case("falcon-40b", "falcon", "FalconConfig",
         dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2,
              new_decoder_architecture=True, bias=False, ffn_hidden_size=48, rope_parameters=rope(),
              max_position_embeddings=CONTEXT, layer_norm_epsilon=EPS, bos_token_id=1, eos_token_id=2,
              tie_word_embeddings=False),
         half=True, note="GQA; `attn_norm_2` feeds attention, `attn_norm` the FFN; erf GELU (llama.cpp: tanh)"),
    Case("starcoder2", "starcoder2", "Starcoder2Config",
         LAYER_NORM | dict(norm_epsilon=EPS, rope_parameters=rope(1e5), tie_word_embeddings=True, sliding_window=None,
                           intermediate_size=48),
         half=True, note="tied; biases everywhere; tanh GELU"),
    Case("stablelm", "stablelm", "StableLmConfig",
         LAYER_NORM | dict(use_qkv_bias=True, rope_parameters=rope(partial_rotary_factor=0.25)),
         half=True, note="q, k, v biases; 4 of 16 dimensions rotated"),
    Case("stablelm-parallel", "stablelm", "StableLmConfig",
         LAYER_NORM | dict(use_parallel_residual=True, qk_layernorm=True, hidden_size=64, num_attention_heads=4,
                           num_key_value_heads=2, rope_parameters=rope(partial_rotary_factor=0.25)),
         half=True, note="parallel residual (no `ffn_norm`); LayerNorm on each q and k head with its own weights"),
    Case("olmo2", "olmo2", "Olmo2Config", TIED | dict(rope_parameters=rope(5e5)),
         half=True, note="norms after attention and FFN; q and k norms over all heads together"),
    Case("olmo3", "olmo2", "Olmo3Config",
         SMALL | dict(num_hidden_layers=5, hidden_size=32, num_attention_heads=2, sliding_window=WINDOW,
                     layer_types=["sliding_attention" if i in (0, 2, 3) else "full_attention" for i in range(5)],
                     rope_parameters={"full_attention": rope(5e5, rope_type="yarn", factor=4.0,
                                                             original_max_position_embeddings=64),
                                      "sliding_attention": rope(5e5)}),
         half=True, note="window of 8 and unscaled RoPE on layers 0, 2 and 3 (`sliding_window_pattern`), YaRN by 4 on 1 and 4"),
    Case("lfm2", "lfm2", "Lfm2Config",
         {k: v for k, v in SMALL.items() if k != "rms_norm_eps"}
         | dict(num_hidden_layers=5, hidden_size=32, num_attention_heads=2, norm_eps=EPS, conv_L_cache=3, block_auto_adjust_ff_dim=False,
                layer_types=["conv", "conv", "full_attention", "conv", "full_attention"], rope_parameters=rope(1e6),
                tie_word_embeddings=True),
         half=True, note="tied; short convolutions over 3 positions in layers 0, 1 and 3, attention with head norms in 2 and 4"),
    Case("granite", "granite", "GraniteConfig",
         SMALL | dict(rope_parameters=rope(), embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4,
                     attention_multiplier=0.15, tie_word_embeddings=True),
         half=True, note="tied; four multipliers; logits are divided by `logit_scale`"),
    Case("command-r", "command-r", "CohereConfig",
         LAYER_NORM | dict(rope_parameters=rope(), logit_scale=0.25, tie_word_embeddings=True),
         half=True, note="tied; parallel block; LayerNorm without bias; logits are multiplied by `logit_scale`"),
    Case("command-r-qknorm", "command-r", "CohereConfig",
         LAYER_NORM | dict(rope_parameters=rope(), logit_scale=0.25, tie_word_embeddings=True,
                           use_qk_norm=True),
         checked_layers=64,
         half=True, note="as command-r, LayerNorm on each q and k head; llama.cpp reads these norms only in models of 64 layers "
              "and more, so the conversion is compared on the same model with 64 layers"),
]

ALL_CASES = CASES + golden_families.CASES

# ---------------------------------------------------------------------------------------------------------------------
# The model in transformers
# ---------------------------------------------------------------------------------------------------------------------

# transformers adds 1 to these families' RMSNorm weights when it runs; GGUF stores the sum.
SHIFTED_NORM = {"gemma", "gemma2", "gemma3"}


def is_norm(name):
    stem = name.rsplit(".", 1)[0]
    return any(word in stem for word in ("norm", ".ln_", "layernorm"))


def random_parameter(case, name, shape):
    """Values that keep activations near 1, attention peaked, every bias and norm weight at work."""
    x = random_floats(case, name, shape)
    return x.astype(np.float16).astype(np.float32) if case.half else x


def random_floats(case, name, shape):
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{case.name}/{case.seed}/{name}".encode())))
    x = rng.standard_normal(shape).astype(np.float32)
    if is_norm(name) and name.endswith("weight"):
        return 0.2 * x + np.float32(0.0 if case.arch in SHIFTED_NORM else 1.0)
    if name.endswith("bias"):
        return np.float32(0.2) * x
    if "embed" in name or "wte" in name:
        return np.float32(0.4) * x
    if "wpe" in name:
        return np.float32(0.3) * x
    conv1d = case.arch == "gpt2" and len(shape) == 2  # stored (in, out)
    fan_in = shape[0] if conv1d else shape[-1]
    gain = 2.5 if any(word in name for word in ("q_proj", "k_proj", "mlp.gate.weight")) else 1.5
    return x * np.float32(gain / math.sqrt(fan_in))


def build_model(case, layers=None):
    overrides = {}
    if layers:
        overrides["num_hidden_layers"] = layers
    config = getattr(transformers, case.config_class)(**(case.config | overrides))
    config._experts_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(random_parameter(case, name, tuple(parameter.shape))))
    return model.eval()


# ---------------------------------------------------------------------------------------------------------------------
# GGUF
# ---------------------------------------------------------------------------------------------------------------------


def convert_tensors(case, config, state):
    """Yields (transformers-like name, array) in GGUF's layout; the name map of the gguf package does the rest."""
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_kv_heads", heads)
    if case.arch == "falcon" and not config.new_decoder_architecture:
        kv_heads = 1
    head_norms = {}
    for name, tensor in state.items():
        x = tensor.numpy()
        if case.arch in ("llama", "granite"):
            if ".q_proj." in name:
                x = rope_interleaved(x, heads)
            if ".k_proj." in name:
                x = rope_interleaved(x, kv_heads)
        if case.arch in SHIFTED_NORM and name.endswith("norm.weight"):
            x = x + np.float32(1)
        if case.arch == "gpt2" and x.ndim == 2 and name.startswith("transformer.h."):
            x = x.T
        if case.arch == "gptneox" and "query_key_value" in name:  # (heads, 3, size) rows to (3, heads, size)
            x = x.reshape(heads, 3, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
        if case.arch == "falcon" and "query_key_value" in name:  # groups of queries, one key, one value
            groups = x.reshape(kv_heads, heads // kv_heads + 2, -1, x.shape[1])
            parts = groups[:, :-2], groups[:, -2:-1], groups[:, -1:]
            x = np.concatenate([part.reshape(-1, x.shape[1]) for part in parts])
        if ".experts.gate_up_proj" in name:
            gate, up = np.split(x, 2, axis=1)
            yield name.replace("gate_up_proj", "gate_proj.weight"), gate
            yield name.replace("gate_up_proj", "up_proj.weight"), up
            continue
        if ".experts.down_proj" in name:
            name += ".weight"
        if "shared_expert_gate" in name:
            x = x.reshape(-1)
        if name.endswith("conv.conv.weight"):  # (channels, 1, positions)
            x = x.squeeze(1)
        if ".norms." in name:  # one LayerNorm a head: (heads, size)
            stem = name.split(".norms.")[0]
            head_norms.setdefault(stem, []).append(x)
            if len(head_norms[stem]) < (heads if "q_layernorm" in stem else kv_heads):
                continue
            name, x = f"{stem}.weight", np.stack(head_norms[stem])
        yield name, x


def llama3_factors(config):
    """The divisors of llama-3's frequencies: none for short waves, `factor` for long ones, a ramp between."""
    p = config.rope_parameters
    frequencies = p["rope_theta"] ** (-np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim)
    turns = p["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    ramp = (turns - p["low_freq_factor"]) / (p["high_freq_factor"] - p["low_freq_factor"])
    ramp = np.clip(ramp, 0.0, 1.0)
    return (1.0 / ((1.0 - ramp) / p["factor"] + ramp)).astype(np.float32)


def add_rope_keys(writer, case, config, head_dim):
    if case.arch == "gpt2":
        return
    parameters = config.rope_parameters
    full = parameters.get("full_attention", parameters)
    writer.add_rope_dimension_count(int(head_dim * full.get("partial_rotary_factor", 1.0)))
    writer.add_rope_freq_base(full["rope_theta"])
    if "sliding_attention" in parameters:
        writer.add_rope_freq_base_swa(parameters["sliding_attention"]["rope_theta"])
    kind = full.get("rope_type", "default")
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(full["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(full["factor"])
        writer.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
    elif kind == "longrope":
        original = full["original_max_position_embeddings"]
        scale = config.max_position_embeddings / original
        writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)))
    elif case.arch == "phi3":
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)


def add_arch_keys(writer, case, config):
    a = case.arch
    if a in ("gpt2", "falcon"):
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    elif a == "starcoder2":
        writer.add_layer_norm_eps(config.norm_epsilon)
    elif a in ("gptneox", "stablelm", "command-r"):
        writer.add_layer_norm_eps(config.layer_norm_eps)
    elif a == "lfm2":
        writer.add_layer_norm_rms_eps(config.norm_eps)
    else:
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if a in ("gptneox", "stablelm"):
        writer.add_parallel_residual(config.use_parallel_residual)
    if a == "falcon":
        writer.add_tensor_data_layout("jploski")
    if a == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if a in ("gemma2", "gemma3"):
        writer.add_sliding_window(config.sliding_window)
    if a == "phi3":
        writer.add_sliding_window(config.sliding_window or 0)
    if case.config_class == "Olmo3Config":
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
    if a == "granite":
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if a == "command-r":
        writer.add_logit_scale(config.logit_scale)
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if a in ("qwen2moe", "qwen3moe"):
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if a == "qwen2moe":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)


def write_gguf(case, model, path, half=False):
    """Writes a model. With `half`, matrices are stored in f16, which must hold their values."""
    config = model.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    feed_forward = getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None)
    if case.arch == "falcon":
        kv_heads = config.num_kv_heads if config.new_decoder_architecture else 1
        feed_forward = config.ffn_hidden_size
    if case.arch == "gptneox":
        kv_heads = config.num_attention_heads

    writer = gguf.GGUFWriter(path, case.arch)
    writer.add_name(f"golden {case.name}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(config.num_attention_heads)
    if case.arch == "lfm2":
        writer.add_head_count_kv([kv_heads if kind == "full_attention" else 0 for kind in config.layer_types])
        writer.add_shortconv_l_cache(config.conv_L_cache)
    elif case.arch not in ("gpt2", "gptneox"):
        writer.add_head_count_kv(kv_heads)
    if head_dim * config.num_attention_heads != config.hidden_size or case.arch.startswith("gemma"):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    add_rope_keys(writer, case, config, head_dim)
    add_arch_keys(writer, case, config)
    for key, value in case.keys.items():
        writer.add_uint32(f"{case.arch}.{key}", value)
    add_tokenizer(writer)

    arch = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == case.arch)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    for name, x in convert_tensors(case, config, model.state_dict()):
        if tied and name in ("lm_head.weight", "embed_out.weight"):
            continue
        mapped = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if mapped is None:
            raise ValueError(f"{case.name}: no GGUF name for {name}")
        x = np.ascontiguousarray(x, dtype=np.float32)
        stored = half and x.ndim > 1 and MATRIX.search(mapped)
        writer.add_tensor(mapped, x.astype(np.float16) if stored else x)
    parameters = getattr(config, "rope_parameters", None) or {}
    if parameters.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    if parameters.get("rope_type") == "longrope":
        writer.add_tensor("rope_factors_long.weight", np.array(parameters["long_factor"], dtype=np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(parameters["short_factor"], dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---------------------------------------------------------------------------------------------------------------------
# The third party
# ---------------------------------------------------------------------------------------------------------------------


def check_with_llama_cpp(case, path, tokens, logits):
    """Largest |difference| from transformers over the positions that llama.cpp can be right about."""
    if case.checked_layers:
        model = build_model(case, case.checked_layers)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "deep.gguf"
            write_gguf(case, model, path)
            return check_with_llama_cpp(dataclasses.replace(case, checked_layers=0), path, tokens,
                                        transformers_logits(model, tokens))
    n = case.checked_positions
    return float(np.abs(llama_cpp_logits(path, tokens[:n]) - logits[:n]).max())


# ---------------------------------------------------------------------------------------------------------------------
# The files
# ---------------------------------------------------------------------------------------------------------------------


def make(case, folder):
    """Writes the case into the folder."""
    tokens = tokens_of(case)
    path = folder / f"{case.name}.gguf"
    tolerance, reference = LLAMA_CPP_TOLERANCE, "transformers"
    if isinstance(case, golden_families.Family):
        logits, difference = golden_families.make_model(case, path)
        tolerance, reference = case.tolerance, case.reference
    else:
        model = build_model(case)
        logits = transformers_logits(model, tokens)
        write_gguf(case, model, path)
        difference = check_with_llama_cpp(case, path, tokens, logits)
        # With f16 weights llama.cpp would round activations too.
        write_gguf(case, model, path, case.half)
    assert np.isfinite(logits).all() and logits.shape == (N_TOKENS, VOCAB)
    scale = float(np.abs(logits).max())
    if difference is not None and not difference <= tolerance * scale:
        raise ValueError(f"{case.name}: llama.cpp differs by {difference:.2e} (largest logit {scale:.1f})")
    content = {
        "case": case.name,
        "arch": case.arch,
        "tokens": tokens,
        "vocab": VOCAB,
        "reference": reference,
        "llama_cpp_max_difference": None if difference is None else float(f"{difference:.2e}"),
        "largest_logit": round(scale, 2),
        **({"tolerance": round(0.03 * scale, 3)} if getattr(case, "fp4", "") else {}),
        "logits_f32_le_base64": base64.b64encode(logits.astype("<f4").tobytes()).decode(),
    }
    nextn = getattr(case, "nextn_logits", None)
    if nextn is not None:
        assert np.isfinite(nextn).all() and nextn.shape == (N_TOKENS, VOCAB)
        content["nextn_logits_f32_le_base64"] = base64.b64encode(nextn.astype("<f4").tobytes()).decode()
    (folder / f"{case.name}.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{case.name:22} {path.stat().st_size / 1024:6.0f} KiB  largest logit {scale:5.1f}  "
          f"llama.cpp differs by {difference or math.nan:.1e}", flush=True)


def read_logits(path):
    content = json.loads(path.read_text())
    data = base64.b64decode(content["logits_f32_le_base64"])
    data += base64.b64decode(content.get("nextn_logits_f32_le_base64", ""))
    return content, np.frombuffer(data, dtype="<f4").reshape(-1, content["vocab"])


def verify(case, folder):
    with tempfile.TemporaryDirectory() as fresh:
        fresh = Path(fresh)
        make(case, fresh)
        if (fresh / f"{case.name}.gguf").read_bytes() != (folder / f"{case.name}.gguf").read_bytes():
            return f"{case.name}: the GGUF file differs from a fresh one"
        new, new_logits = read_logits(fresh / f"{case.name}.json")
        old, old_logits = read_logits(folder / f"{case.name}.json")
        if new["tokens"] != old["tokens"]:
            return f"{case.name}: the tokens differ"
        difference = float(np.abs(new_logits - old_logits).max())
        if difference > VERIFY_TOLERANCE:
            return f"{case.name}: the logits differ by {difference:.1e}"
    return None


README = """# Golden logits

Tiny random models (F32 tensors, or F16 where that holds the same values) of each architecture with the logits that Hugging Face transformers computes for them
(float32, eager attention, {tokens} tokens, all positions), with a class of the same formulas where it has none of that
name, or else with those of llama.cpp, or of formulas written down in `tools/golden_mixtures.py` and `tools/golden_rwkv.py`. `CASE.gguf` is the
model; `CASE.json` holds the tokens and the logits: {tokens} × {vocab} little-endian f32 in base64, position by position.
Where it has `nextn_logits` too, they are those of the layer that predicts the token after the next (`tools/golden_nextn.py`):
of what follows the tokens from the second on, and of what follows its own best guess after the last.

Made by `python tools/golden_logits.py --out crates/model/tests/golden` and checked with `--verify`; versions: torch
{torch}, transformers {transformers}, gguf {gguf}, llama-cpp-python {llama}.

Each file was also run by llama.cpp (F32 KV cache, no flash attention): the column gives max |Δ| between its logits and
those of transformers. The differences above 1e-4 come from GELU, which llama.cpp reads from an f16 table of its tanh
form (with transformers' GELU rounded so, positions agree to 1e-5 until the first rounding falls the other way).

| case | GGUF architecture | logits from | largest logit | max \\|Δ\\| llama.cpp | what it exercises |
|---|---|---|---|---|---|
{rows}
"""


def write_readme(folder):
    rows = []
    for case in ALL_CASES:
        content, _ = read_logits(folder / f"{case.name}.json")
        difference = content["llama_cpp_max_difference"]
        rows.append(f"| {case.name} | {case.arch} | {content.get('reference', 'transformers')} | {content['largest_logit']} | "
                    f"{'–' if difference is None else f'{difference:.1e}'} | {case.note} |")
    version = importlib.metadata.version
    (folder / "README.md").write_text(README.format(
        tokens=N_TOKENS, vocab=VOCAB, torch=version("torch"), transformers=version("transformers"),
        gguf=version("gguf"), llama=version("llama-cpp-python"), rows="\n".join(rows)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    unknown = set(arguments.cases) - {case.name for case in ALL_CASES}
    if unknown:
        sys.exit(f"unknown cases: {', '.join(sorted(unknown))}")
    chosen = [case for case in ALL_CASES if not arguments.cases or case.name in arguments.cases]
    if arguments.verify:
        problems = [p for p in (verify(case, arguments.out) for case in chosen) if p]
        sys.exit("\n".join(problems) if problems else 0)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for case in chosen:
        make(case, arguments.out)
    if all((arguments.out / f"{case.name}.json").exists() for case in ALL_CASES):
        write_readme(arguments.out)


if __name__ == "__main__":
    main()
