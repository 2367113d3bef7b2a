"""The golden cases of families with mixtures of experts, and of text models of families that see."""

import math
import re

import numpy as np
import torch

from golden_common import CONTEXT, EPS, VOCAB, WINDOW, rope
from golden_model import EXPERTS, HEADS, SLIDING, TIED, TINY, Family, base_keys, experts, shapes


def dbrx_experts(case, name, x):
    found = re.fullmatch(r".*\.blocks\.(\d+)\.ffn\.experts\.mlp\.(w1|v1|w2)", name)
    if not found:
        return None
    kind = {"w1": "gate", "v1": "up", "w2": "down"}[found[2]]
    x = x.reshape(4, -1, 32)
    return [(f"blk.{found[1]}.ffn_{kind}_exps.weight", x.swapaxes(1, 2) if kind == "down" else x)]


def granite_shared(case, name, x):
    found = re.fullmatch(r".*\.layers\.(\d+)\.shared_mlp\.(input|output)_linear\.weight", name)
    if not found:
        return None
    block = f"blk.{found[1]}"
    if found[2] == "output":
        return [(f"{block}.ffn_down_shexp.weight", x)]
    gate, up = np.split(x, 2)
    return [(f"{block}.ffn_gate_shexp.weight", gate), (f"{block}.ffn_up_shexp.weight", up)]


def gpt_oss_tensors(case, name, x):
    """Experts are stored (in, out), gate and up alternating."""
    found = re.fullmatch(r".*\.layers\.(\d+)\.(?:mlp\.experts|self_attn)\.(\w+)", name)
    if not found:
        return None
    block, kind = f"blk.{found[1]}", found[2]
    if kind == "sinks":
        return [(f"{block}.attn_sinks.weight", x)]
    part = "bias" if kind.endswith("_bias") else "weight"
    if part == "weight":
        x = x.swapaxes(1, 2)
    if kind.startswith("gate_up"):
        return [(f"{block}.ffn_gate_exps.{part}", x[:, 0::2]), (f"{block}.ffn_up_exps.{part}", x[:, 1::2])]
    return [(f"{block}.ffn_down_exps.{part}", x)]


def llama4_experts(case, name, x):
    """Experts are stored (in, out)."""
    found = re.fullmatch(r".*\.layers\.(\d+)\.feed_forward\.experts\.(\w+)", name)
    if not found:
        return None
    block, x = f"blk.{found[1]}", x.swapaxes(1, 2)
    if found[2] == "down_proj":
        return [(f"{block}.ffn_down_exps.weight", x)]
    gate, up = np.split(x, 2, axis=1)
    return [(f"{block}.ffn_gate_exps.weight", gate), (f"{block}.ffn_up_exps.weight", up)]


def bare_choice_bias(case, name, x):
    found = re.fullmatch(r".*\.layers\.(\d+)\.mlp\.e_score_correction_bias", name)
    return [(f"blk.{found[1]}.exp_probs_b", x)] if found else None


def sinks(case, name, x):
    found = re.fullmatch(r".*\.layers\.(\d+)\.self_attn\.sinks", name)
    return [(f"blk.{found[1]}.attn_sinks.weight", x)] if found else None


def lfm2_conv(case, name, x):
    if ".conv." not in name:
        return None
    layer, stem = re.fullmatch(r".*\.layers\.(\d+)\.conv\.(\w+)\.weight", name).groups()
    x = x.squeeze(1) if stem == "conv" else x
    return [(f"blk.{layer}.shortconv.{stem}.weight", x)]


def evaluate_grok(case, tensors, tokens):
    """Grok's forward pass in f64: llama.cpp leaves the router's cap out, and rounds GELU."""
    w = {name: torch.from_numpy(x).double() for name, x in tensors.items()}
    keys, n = case.keys, len(tokens)
    soft_cap = lambda x, name: keys[name] * torch.tanh(x / keys[name])
    rms = lambda x, name: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * w[name]
    gelu = lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    angles = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8).double()
    cos, sin = torch.cos(angles)[:, None], torch.sin(angles)[:, None]

    def turn(x):
        a, b = x[..., :4], x[..., 4:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["token_embd.weight"][tokens] * keys["embedding_scale"]
    for i in range(keys["block_count"]):
        part = lambda name: f"blk.{i}.{name}.weight"
        h = rms(x, part("attn_norm"))
        q = turn((h @ w[part("attn_q")].T).view(n, 4, 8))
        k = turn((h @ w[part("attn_k")].T).view(n, 2, 8)).repeat_interleave(2, 1)
        v = (h @ w[part("attn_v")].T).view(n, 2, 8).repeat_interleave(2, 1)
        scores = soft_cap(torch.einsum("ihd,jhd->hij", q, k) * keys["attention.output_scale"], "attn_logit_softcapping")
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf).softmax(-1)
        h = torch.einsum("hij,jhd->ihd", scores, v).reshape(n, 32) @ w[part("attn_output")].T
        x = x + rms(h, part("attn_output_norm"))
        h = rms(x, part("ffn_norm"))
        dense = (gelu(h @ w[part("ffn_gate")].T) * (h @ w[part("ffn_up")].T)) @ w[part("ffn_down")].T
        routed = soft_cap(h @ w[part("ffn_gate_inp")].T, "router_logit_softcapping").softmax(-1)
        best, chosen = routed.topk(2, -1)
        best = best / best.sum(-1, keepdim=True)
        up = gelu(torch.einsum("nd,efd->nef", h, w[part("ffn_gate_exps")])) * torch.einsum(
            "nd,efd->nef", h, w[part("ffn_up_exps")])
        each = torch.einsum("nef,edf->ned", up, w[part("ffn_down_exps")])
        mixed = (each.gather(1, chosen[..., None].expand(-1, -1, 32)) * best[..., None]).sum(1)
        x = x + rms((dense + mixed) * math.sqrt(0.5), part("post_ffw_norm"))
    logits = rms(x, "output_norm.weight") @ w["output.weight"].T * keys["logit_scale"]
    return soft_cap(logits, "final_logit_softcapping").float().numpy()


GPT_OSS = HEADS | dict(intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW,
                       layer_types=SLIDING)
GPT_OSS_KEYS = EXPERTS | {"expert_feed_forward_length": 12, "attention.sliding_window": WINDOW,
                          "attention.key_length": 8, "attention.value_length": 8}

COHERE2MOE = {k: v for k, v in HEADS.items() if k != "rms_norm_eps"} | dict(
    num_hidden_layers=3, layer_norm_eps=EPS, intermediate_size=12, prefix_dense_intermediate_size=24, num_experts=4,
    num_experts_per_tok=2, num_shared_experts=1, expert_selection_fn="sigmoid", norm_topk_prob=True, sliding_window=WINDOW,
    layer_types=["full_attention", "sliding_attention", "full_attention"], mlp_layer_types=["dense", "sparse", "sparse"],
    logit_scale=0.5, tie_word_embeddings=True)
COHERE2MOE_KEYS = EXPERTS | {
    "feed_forward_length": 24, "expert_feed_forward_length": 12, "expert_shared_count": 1,
    "expert_shared_feed_forward_length": 12, "expert_weights_norm": True, "expert_gating_func": 2,
    "leading_dense_block_count": 1, "attention.sliding_window": WINDOW,
    "attention.sliding_window_pattern": [False, True, False], "logit_scale": 0.5}
LAGUNA = HEADS | dict(
    num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=12,
    moe_routed_scaling_factor=1.5, mlp_layer_types=["dense", "sparse"], sliding_window=WINDOW,
    layer_types=["full_attention", "sliding_attention"], gating=True,
    rope_parameters={"full_attention": rope(theta=50000.0, partial_rotary_factor=0.5),
                     "sliding_attention": rope(partial_rotary_factor=1.0)})
LAGUNA_KEYS = EXPERTS | {
    "expert_feed_forward_length": 16, "expert_shared_feed_forward_length": 12, "expert_shared_count": 1,
    "leading_dense_block_count": 1, "expert_weights_norm": True, "expert_weights_scale": 1.5, "expert_gating_func": 2,
    "rope.dimension_count": 4, "rope.freq_base": 50000.0, "rope.dimension_count_swa": 8, "rope.freq_base_swa": 10000.0,
    "attention.key_length": 8, "attention.value_length": 8, "attention.sliding_window": WINDOW,
    "attention.sliding_window_pattern": [False, True]}

CASES = [
    Family("olmoe", "olmoe", "OlmoeConfig",
           TINY | dict(num_key_value_heads=4, intermediate_size=12, num_experts=4, num_experts_per_tok=2,
                       norm_topk_prob=False),
           keys=EXPERTS, seed=1, note="not renormalized; norms of whole q and k"),
    Family("granitemoe", "granitemoe", "GraniteMoeConfig",
           TINY | dict(intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=3.0,
                       logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15), pairs=True,
           keys=EXPERTS | {"embedding_scale": 3.0, "logit_scale": 2.0, "residual_scale": 0.4, "attention.scale": 0.15},
           seed=1, note="Granite's scales"),
    Family("granitemoe-shared", "granitemoe", "GraniteMoeSharedConfig",
           TINY | dict(intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=16,
                       embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4,
                       attention_multiplier=0.15), pairs=True, convert=granite_shared,
           keys=EXPERTS | {"embedding_scale": 3.0, "logit_scale": 2.0, "residual_scale": 0.4, "attention.scale": 0.15,
                           "expert_shared_feed_forward_length": 16}, seed=1, note="an expert that sees every token"),
    Family("deepseek", "deepseek", tensors=shapes(1, kv=32, tied=False) | {
        k.replace("blk.0", "blk.1"): v for k, v in shapes(1, kv=32, ffn=0).items() if k.startswith("blk.0")}
           | experts([1], shared=32),
           keys=base_keys(kv=4) | EXPERTS | {"leading_dense_block_count": 1, "expert_feed_forward_length": 16,
                                             "expert_shared_count": 2, "expert_weights_scale": 1.5},
           seed=1, note="dense layer 0; two experts see every token; not renormalized, scaled by 1.5"),
    Family("bailingmoe", "bailingmoe", tensors=shapes(2, ffn=0, tied=False) | experts([0, 1], ffn=12, shared=12),
           keys=base_keys() | EXPERTS | {"expert_feed_forward_length": 12, "expert_shared_count": 1,
                                         "expert_weights_norm": True, "leading_dense_block_count": 0},
           seed=1, note="renormalized; an expert sees every token"),
    Family("ernie4_5-moe", "ernie4_5-moe", "Ernie4_5_MoeConfig",
           HEADS | dict(moe_num_experts=4, moe_k=2, moe_intermediate_size=16, moe_num_shared_experts=2,
                        moe_layer_start_index=1, moe_layer_end_index=1, moe_layer_interval=1),
           keys=EXPERTS | {"expert_feed_forward_length": 16, "expert_shared_feed_forward_length": 32,
                           "interleave_moe_layer_step": 1, "leading_dense_block_count": 1},
           seed=1, note="dense layer 0; a bias for the choice; shared experts"),
    Family("hunyuan-moe", "hunyuan-moe", "HunYuanMoEV1Config",
           HEADS | dict(intermediate_size=12, num_experts=4, moe_topk=2),
           keys=EXPERTS | {"expert_shared_feed_forward_length": 12, "expert_feed_forward_length": 12},
           seed=1, note="head norms after rotation; a shared expert"),
    Family("dots1", "dots1", "Dots1Config",
           HEADS | dict(num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                        n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1, norm_topk_prob=True,
                        routed_scaling_factor=1.5),
           keys=EXPERTS | {"expert_feed_forward_length": 16, "expert_shared_count": 1, "leading_dense_block_count": 1,
                           "expert_weights_norm": True, "expert_weights_scale": 1.5, "expert_gating_func": 2},
           seed=1, note="sigmoids, a bias for the choice, dense layer 0, scaled by 1.5"),
    Family("glm4moe", "glm4moe", "Glm4MoeConfig",
           HEADS | dict(n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=12, n_shared_experts=1,
                        first_k_dense_replace=1, n_group=4, topk_group=2, norm_topk_prob=True, use_qk_norm=True,
                        attention_bias=True, routed_scaling_factor=1.5,
                        rope_parameters=rope(partial_rotary_factor=0.5)),
           keys={"expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 12, "expert_shared_count": 1,
                 "leading_dense_block_count": 1, "expert_weights_norm": True, "expert_weights_scale": 1.5,
                 "expert_gating_func": 2, "expert_group_count": 4, "expert_group_used_count": 2},
           names={"post_attention_layernorm": "post_attention_norm"}, seed=1,
           note="sigmoids; 2 of 4 groups of experts; head norms; half of each head rotated"),
    Family("glm4moe-mtp", "glm4moe", "Glm4MoeConfig",
           HEADS | dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, n_shared_experts=1,
                        first_k_dense_replace=1, n_group=1, topk_group=1, norm_topk_prob=True),
           keys=EXPERTS | {"expert_feed_forward_length": 12, "expert_shared_count": 1, "leading_dense_block_count": 1,
                           "expert_weights_norm": True, "expert_weights_scale": 1.0, "expert_gating_func": 2,
                           "block_count": 3, "nextn_predict_layers": 1},
           names={"post_attention_layernorm": "post_attention_norm"}, nextn=True, peer=False, seed=1,
           note="no head norms; a third layer, which predicts the token after the next"),
    Family("minimax-m2", "minimax-m2", "MiniMaxM2Config",
           HEADS | dict(intermediate_size=12, num_local_experts=4, num_experts_per_tok=2),
           keys=EXPERTS | {"expert_gating_func": 2, "expert_feed_forward_length": 12},
           seed=1, note="sigmoids, renormalized, a bias for the choice; norms of whole q and k"),
    Family("exaone-moe", "exaone-moe", "ExaoneMoeConfig",
           HEADS | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=1,
                        sliding_window=WINDOW, layer_types=SLIDING, mlp_layer_types=["dense", "sparse"],
                        n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.5),
           keys=EXPERTS | {"expert_feed_forward_length": 16, "expert_shared_count": 1, "leading_dense_block_count": 1,
                           "expert_weights_norm": True, "expert_weights_scale": 1.5, "expert_gating_func": 2,
                           "attention.sliding_window": WINDOW, "attention.sliding_window_pattern": [True, False],
                           "expert_shared_feed_forward_length": 16},
           seed=1, note="window of 8 and rotation on layer 0 alone; sigmoids"),
    Family("afmoe", "afmoe", "AfmoeConfig",
           HEADS | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=1,
                        num_dense_layers=1, sliding_window=WINDOW, layer_types=SLIDING, mup_enabled=True,
                        route_norm=True, route_scale=1.5, n_group=1, topk_group=1, score_func="sigmoid"),
           keys=EXPERTS | {"expert_feed_forward_length": 16, "expert_shared_count": 1, "leading_dense_block_count": 1,
                           "expert_weights_norm": True, "expert_weights_scale": 1.5, "expert_gating_func": 2,
                           "attention.sliding_window": WINDOW, "attention.sliding_window_pattern": [True, False]},
           names={"post_attention_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm",
                  "pre_mlp_layernorm": "ffn_norm"}, peer=False,
           seed=1, note="gated attention; norms after the branches; llama.cpp's pattern of rotation is fixed"),
    Family("cohere2moe", "cohere2moe", "Cohere2MoeConfig", COHERE2MOE, keys=COHERE2MOE_KEYS, seed=1,
           note="layer norms; the leading dense layer is rotated though it sees everything; the mean with a shared expert"),
    Family("cohere2moe-rms", "cohere2moe", "Cohere2MoeConfig", COHERE2MOE | dict(rms_norm_eps=EPS, num_shared_experts=0),
           keys={k: v for k, v in COHERE2MOE_KEYS.items() if "shared" not in k}, seed=1,
           note="RMS norms; no shared expert"),
    Family("laguna", "laguna", "LagunaConfig", LAGUNA | dict(num_attention_heads_per_layer=[4, 6]),
           keys=LAGUNA_KEYS | {"attention.head_count": [4, 6]}, names={r"self_attn\.g_proj": "attn_gate"}, seed=1,
           note="gates of a number a head; heads, rotated dimensions and bases by layer; sigmoids"),
    Family("laguna-wide", "laguna", "LagunaConfig",
           LAGUNA | dict(gating="per-element", layer_types=["full_attention"] * 2, tie_word_embeddings=True),
           keys={k: v for k, v in LAGUNA_KEYS.items() if "sliding" not in k}, names={r"self_attn\.g_proj": "attn_gate"},
           seed=1, note="tied; gates of a number a value; no windows"),
    Family("smallthinker", "smallthinker", tensors=shapes(5, ffn=0, tied=False) | experts(range(5), ffn=12),
           keys=base_keys(5) | EXPERTS | {"expert_feed_forward_length": 12, "expert_gating_func": 2,
                                          "attention.sliding_window": 4096},
           seed=1, note="routers see the layer's input; layers 0 and 4 are not rotated; ReLU"),
    Family("mellum", "mellum", "MellumConfig",
           HEADS | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, sliding_window=WINDOW,
                        layer_types=SLIDING, norm_topk_prob=True, mlp_only_layers=[], decoder_sparse_step=1,
                        rope_parameters={"full_attention": rope(rope_type="yarn", factor=4.0,
                                                                original_max_position_embeddings=64),
                                         "sliding_attention": rope()}),
           keys=EXPERTS | {"expert_feed_forward_length": 16, "attention.sliding_window": WINDOW,
                           "attention.sliding_window_pattern": [True, False], "rope.scaling.type": "yarn",
                           "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64},
           seed=1, note="window of 8 and unscaled RoPE on layer 0"),
    Family("lfm2moe", "lfm2moe", "Lfm2MoeConfig",
           {k: v for k, v in TINY.items() if k != "rms_norm_eps"}
           | dict(norm_eps=EPS, conv_L_cache=3, layer_types=["conv", "full_attention"], num_dense_layers=1,
                  num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True,
                  use_expert_bias=True, tie_word_embeddings=True),
           keys=EXPERTS | {"expert_feed_forward_length": 16, "leading_dense_block_count": 1, "expert_gating_func": 2,
                           "shortconv.l_cache": 3, "attention.head_count_kv": [0, 2],
                           "attention.layer_norm_rms_epsilon": EPS},
           convert=lfm2_conv, seed=1, note="tied; convolution with a dense network, attention with experts"),
    Family("dbrx", "dbrx", "DbrxConfig",
           dict(vocab_size=VOCAB, d_model=32, n_layers=2, n_heads=4, max_seq_len=CONTEXT,
                attn_config=dict(kv_n_heads=2, clip_qkv=1.5, rope_theta=1e4), resid_pdrop=0.0, emb_pdrop=0.0,
                ffn_config=dict(ffn_hidden_size=16, moe_num_experts=4, moe_top_k=2, hidden_size=32)),
           keys=EXPERTS | {"feed_forward_length": 16, "attention.clamp_kqv": 1.5, "attention.head_count_kv": 2,
                           "attention.layer_norm_epsilon": 1e-5, "rope.dimension_count": 8, "rope.freq_base": 10000.0},
           names={r"norm_attn_norm\.norm_2": "attn_output_norm"}, convert=dbrx_experts, seed=1,
           note="clamped queries, keys and values; layer norms without bias"),
    Family("arctic", "arctic",
           tensors=shapes(2, ffn=32, tied=False, norms=("attn_norm", "ffn_norm", "ffn_norm_exps")) | experts([0, 1], ffn=8),
           keys=base_keys(ffn=8) | EXPERTS, seed=1, note="experts see the layer's input, a dense network the sum"),
    Family("llama4", "llama4", "Llama4TextConfig",
           HEADS | dict(num_hidden_layers=4, hidden_size=24, intermediate_size=12, intermediate_size_mlp=16, num_local_experts=4,
                        num_experts_per_tok=1, interleave_moe_layer_step=2, attention_chunk_size=8, use_qk_norm=True,
                        attn_temperature_tuning=True, floor_scale=8192, attn_scale=0.1,
                        no_rope_layers=[1, 1, 1, 0]),
           keys={"expert_count": 4, "expert_used_count": 1, "expert_feed_forward_length": 12,
                 "feed_forward_length": 16, "interleave_moe_layer_step": 2, "attention.sliding_window": 8},
           convert=llama4_experts, checked_positions=WINDOW, seed=1,
           note="chunks of 8 in layers 0 to 2, layer 3 not rotated; experts in layers 1 and 3; llama.cpp's chunks are "
                "8192 long, so it is compared on the first 8 positions"),
    Family("gpt-oss", "gpt-oss", "GptOssConfig", GPT_OSS,
           keys=GPT_OSS_KEYS, names={"post_attention_layernorm": "post_attention_norm"}, convert=gpt_oss_tensors,
           seed=1, note="sinks, biased experts, softmax of the chosen; window of 8 on layer 0"),
    Family("gpt-oss-yarn", "gpt-oss", "GptOssConfig",
           GPT_OSS | dict(rope_parameters=rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64,
                                               beta_fast=32.0, beta_slow=1.0, truncate=False)),
           keys=GPT_OSS_KEYS | {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                                "rope.scaling.original_context_length": 64},
           names={"post_attention_layernorm": "post_attention_norm"}, convert=gpt_oss_tensors, peer=False, seed=1,
           note="YaRN, whose range is not rounded; llama.cpp rounds it"),
    Family("gpt-oss-mxfp4", "gpt-oss", "GptOssConfig", GPT_OSS | dict(intermediate_size=32),
           keys=GPT_OSS_KEYS | {"expert_feed_forward_length": 32}, names={"post_attention_layernorm": "post_attention_norm"},
           convert=gpt_oss_tensors, seed=1, tolerance=5e-2, fp4="_exps.weight",
           note="experts in 4-bit floats (MXFP4), as it is published; activations are rounded to 8 bits, here and there"),
    Family("bailingmoe2", "bailingmoe2",
           tensors=shapes(1, fused=True, tied=False) | {
               k.replace("blk.0", "blk.1"): v for k, v in shapes(1, fused=True, ffn=0).items() if k.startswith("blk.0")}
           | {f"blk.{i}.attn_{k}_norm.weight": (8,) for i in range(2) for k in "qk"}
           | experts([1], count=8, ffn=12, shared=12) | {"blk.1.exp_probs_b.bias": (8,)},
           keys=base_keys() | {"expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 12,
                               "expert_shared_feed_forward_length": 12, "expert_shared_count": 1,
                               "leading_dense_block_count": 1, "expert_weights_norm": True,
                               "expert_weights_scale": 1.5, "expert_gating_func": 2, "expert_group_count": 4,
                               "expert_group_used_count": 2},
           seed=1, note="sigmoids; 2 of 4 groups; fused projections; head norms"),
    Family("grok", "grok",
           tensors=shapes(2, norms=("attn_norm", "ffn_norm", "attn_output_norm", "post_ffw_norm"), tied=False, ffn=8)
           | experts([0, 1], ffn=8),
           keys=base_keys(ffn=8) | EXPERTS | {"expert_feed_forward_length": 8, "attn_logit_softcapping": 3.0,
                                              "router_logit_softcapping": 2.0, "final_logit_softcapping": 4.0,
                                              "embedding_scale": 3.0, "logit_scale": 0.6,
                                              "attention.output_scale": 0.3},
           evaluate=evaluate_grok, peer=False, seed=1,
           note="caps on scores, routers and logits; a dense network beside experts; GELU"),
    Family("hy_v3", "hy_v3", "HYV3Config",
           HEADS | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, num_shared_experts=1,
                        first_k_dense_replace=1, mlp_layer_types=["dense", "sparse"], router_scaling_factor=1.5,
                        route_norm=True),
           keys=EXPERTS | {"expert_feed_forward_length": 12, "expert_shared_feed_forward_length": 12,
                           "expert_weights_norm": True, "expert_weights_scale": 1.5, "expert_gating_func": 2,
                           "leading_dense_block_count": 1}, convert=bare_choice_bias, seed=1,
           note="sigmoids, a bias for the choice, head norms"),
    Family("deepseek2-ocr", "deepseek2-ocr",
           tensors=shapes(1, kv=32, tied=False) | {
               k.replace("blk.0", "blk.1"): v for k, v in shapes(1, kv=32, ffn=0).items() if k.startswith("blk.0")}
           | {k.replace("ffn_gate_exps", "ffn_gate_up_exps"): ((4, 24, 32) if "gate_exps" in k else v)
              for k, v in experts([1], ffn=12, shared=24).items() if "up_exps" not in k},
           keys=base_keys(kv=4) | EXPERTS | {"leading_dense_block_count": 1, "expert_feed_forward_length": 12,
                                             "expert_shared_count": 2, "expert_gating_func": 1},
           seed=1, note="the text model; gates and ups of experts in one tensor"),
    Family("granite_swa", "granite_swa", "GraniteSWAConfig",
           TINY | dict(embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4,
                       attention_multiplier=0.15, sliding_window=WINDOW, layer_types=SLIDING,
                       layer_rope_theta=[10000.0, 0.0]), pairs=True, convert=sinks,
           keys={"embedding_scale": 3.0, "logit_scale": 2.0, "residual_scale": 0.4, "attention.scale": 0.15,
                 "attention.sliding_window": WINDOW, "attention.sliding_window_pattern": [True, False],
                 "attention.rope_pattern": [True, False], "rope.dimension_count": 8, "rope.freq_base": 10000.0},
           note="sinks; window of 8 and rotation on layer 0 alone"),
    Family("phimoe", "phimoe", "PhimoeConfig",
           {k: v for k, v in TINY.items()} | dict(intermediate_size=12, num_local_experts=4, num_experts_per_tok=2,
                                                  attention_bias=True, lm_head_bias=True, sliding_window=None),
           keys=EXPERTS | {"rope.scaling.original_context_length": CONTEXT}, peer=False, seed=1,
           note="SparseMixer routing, layer norms; llama.cpp has a softmax and RMS norms"),
    Family("qwen2vl", "qwen2vl", "Qwen2Config", TIED, keys={"rope.dimension_sections": [2, 1, 1, 0]}, peer=False,
           note="the text model: axes of positions are one; llama.cpp does not read the norms' epsilon"),
    Family("qwen3vl", "qwen3vl", "Qwen3Config", HEADS, keys={"rope.dimension_sections": [2, 1, 1, 0]},
           note="the text model: axes of positions are one"),
    Family("qwen3vlmoe", "qwen3vlmoe", "Qwen3MoeConfig",
           HEADS | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True),
           keys=EXPERTS | {"rope.dimension_sections": [2, 1, 1, 0], "expert_feed_forward_length": 16}, seed=1,
           note="the text model: axes of positions are one"),
]
