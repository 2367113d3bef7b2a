"""The golden cases of families with multi-head latent attention."""

import re

import numpy as np

from golden_common import VOCAB, rope
from golden_model import EXPERTS, TINY, Family, base_keys, shapes

HEADS, RANK, PLAIN, TURNED, VALUE = 4, 16, 12, 8, 10
LATENT = TINY | dict(q_lora_rank=16, kv_lora_rank=RANK, qk_nope_head_dim=PLAIN, qk_rope_head_dim=TURNED, v_head_dim=VALUE,
                     num_key_value_heads=HEADS, rms_norm_eps=1e-6)
ROUTED = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, n_shared_experts=1,
              first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5, n_group=1, topk_group=1)
ROUTED_KEYS = EXPERTS | {"expert_feed_forward_length": 8, "expert_shared_count": 1, "leading_dense_block_count": 1,
                         "expert_weights_norm": True, "expert_weights_scale": 1.5, "expert_gating_func": 2}
COMPRESSED = {"attention.head_count_kv": 1, "attention.q_lora_rank": 16, "attention.kv_lora_rank": RANK,
              "attention.key_length": RANK + TURNED, "attention.value_length": RANK,
              "attention.key_length_mla": PLAIN + TURNED, "attention.value_length_mla": VALUE,
              "rope.dimension_count": TURNED}
EXPANDED = {"attention.q_lora_rank": 16, "attention.kv_lora_rank": RANK, "attention.key_length": PLAIN + TURNED,
            "attention.value_length": VALUE, "rope.dimension_count": TURNED}
NAMES = {r"self_attn\.(q_a|q_b|kv_b)_proj": r"attn_\1", r"self_attn\.kv_a_proj_with_mqa": "attn_kv_a_mqa",
         r"self_attn\.(q_a|kv_a)_layernorm": r"attn_\1_norm"}


def split(case, name, x):
    """Keys and values apart, head by head, keys turned over."""
    found = re.fullmatch(r".*\.layers\.(\d+)\.self_attn\.kv_b_proj\.weight", name)
    if not found:
        return None
    keys, values = np.split(x.reshape(HEADS, PLAIN + VALUE, RANK), [PLAIN], axis=1)
    return [(f"blk.{found[1]}.attn_k_b.weight", keys.swapaxes(1, 2)), (f"blk.{found[1]}.attn_v_b.weight", values)]


YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, mscale=0.7, mscale_all_dim=0.7)
YARN_KEYS = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64,
             "rope.scaling.yarn_log_multiplier": 0.1 * 0.7}

PLM = {k: v for k, v in shapes(2, gate=False).items() if not re.search(r"attn_[qkv]\.|attn_output", k)}
for i in range(2):
    PLM |= {f"blk.{i}.attn_q.weight": (HEADS * (PLAIN + TURNED), 32), f"blk.{i}.attn_kv_a_mqa.weight": (RANK + TURNED, 32),
            f"blk.{i}.attn_kv_a_norm.weight": (RANK,), f"blk.{i}.attn_kv_b.weight": (HEADS * (PLAIN + VALUE), RANK),
            f"blk.{i}.attn_output.weight": (32, HEADS * VALUE)}

MISTRAL4 = {"token_embd.weight": (VOCAB, 32), "output_norm.weight": (32,), "blk.0.attn_norm.weight": (32,),
            "blk.0.ffn_norm.weight": (32,), "blk.0.attn_q_a.weight": (16, 32), "blk.0.attn_q_a_norm.weight": (16,),
            "blk.0.attn_q_b.weight": (HEADS * (PLAIN + TURNED), 16), "blk.0.attn_kv_a_mqa.weight": (RANK + TURNED, 32),
            "blk.0.attn_kv_a_norm.weight": (RANK,), "blk.0.attn_k_b.weight": (HEADS, RANK, PLAIN),
            "blk.0.attn_v_b.weight": (HEADS, VALUE, RANK), "blk.0.attn_output.weight": (32, HEADS * VALUE),
            "blk.0.ffn_gate_inp.weight": (4, 32), "blk.0.ffn_gate_exps.weight": (4, 8, 32),
            "blk.0.ffn_up_exps.weight": (4, 8, 32), "blk.0.ffn_down_exps.weight": (4, 32, 8),
            "blk.0.ffn_gate_shexp.weight": (8, 32), "blk.0.ffn_up_shexp.weight": (8, 32),
            "blk.0.ffn_down_shexp.weight": (32, 8)}

CASES = [
    Family("deepseek2", "deepseek2", "DeepseekV3Config",
           LATENT | ROUTED | dict(n_routed_experts=8, n_group=4, topk_group=2),
           keys=COMPRESSED | ROUTED_KEYS | {"expert_count": 8, "expert_group_count": 4, "expert_group_used_count": 2},
           convert=split, names=NAMES, seed=1, note="DeepSeek V3: latent attention; sigmoids, 2 of 4 groups of experts"),
    Family("deepseek2-yarn", "deepseek2", "DeepseekV3Config",
           LATENT | ROUTED | dict(rope_parameters=rope(**YARN), num_hidden_layers=1, tie_word_embeddings=True),
           keys=COMPRESSED | YARN_KEYS | {"expert_count": 0, "leading_dense_block_count": 1, "expert_shared_count": 0,
                                          "expert_feed_forward_length": 8},
           convert=split, names=NAMES, peer=False, note="tied; YaRN, whose magnitude is in the scores; llama.cpp wants experts"),
    Family("deepseek2-lite", "deepseek2", "DeepseekV2Config",
           LATENT | ROUTED | dict(q_lora_rank=None, norm_topk_prob=False, topk_method="greedy"),
           keys={k: v for k, v in (COMPRESSED | ROUTED_KEYS).items() if k != "attention.q_lora_rank"}
           | {"expert_gating_func": 1, "expert_weights_norm": False},
           convert=split, names=NAMES, seed=1, peer=False,
           note="DeepSeek V2 Lite: queries from the input, a softmax; llama.cpp knows it by 27 layers"),
    Family("deepseek2-flash", "deepseek2", "Glm4MoeLiteConfig",
           LATENT | ROUTED | dict(mlp_layer_types=["dense", "sparse"]), keys=COMPRESSED | ROUTED_KEYS, convert=split,
           names=NAMES, seed=1, note="GLM-4.7-Flash"),
    Family("deepseek2-expanded", "deepseek2", "DeepseekV3Config",
           LATENT | ROUTED | dict(num_hidden_layers=1, tie_word_embeddings=True, first_k_dense_replace=0),
           keys=EXPANDED | ROUTED_KEYS | {"leading_dense_block_count": 0, "attention.head_count_kv": HEADS},
           names=NAMES, seed=1, note="tied; an older file: keys and values in one matrix"),
    Family("mistral4", "mistral4", tensors=MISTRAL4,
           keys=base_keys(1, kv=1) | COMPRESSED | ROUTED_KEYS | {"leading_dense_block_count": 0,
                                                                 "attention.temperature_scale": 0.3,
                                                                 "attention.temperature_length": 8,
                                                                 "rope.scaling.original_context_length": 8},
           seed=1, note="tied; latent attention; temperature from position 8 on"),
    Family("minicpm3", "minicpm3", "MiniCPM3Config",
           LATENT | dict(scale_emb=12, scale_depth=1.4, dim_model_base=256, rope_parameters=rope()),
           keys=EXPANDED | {"attention.head_count_kv": HEADS}, names=NAMES, note="MiniCPM's scales"),
    Family("plm", "plm", tensors=PLM, keys=base_keys(kv=4) | {k: v for k, v in EXPANDED.items() if "q_lora" not in k},
           note="queries from the input; plain network, ReLU²"),
]
