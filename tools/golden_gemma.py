"""The golden cases of Gemma 3n and 4."""

import math
import re
from statistics import NormalDist

import numpy as np

from golden_common import WINDOW, rope
from golden_model import TIED, VOCAB, Family

SLIDING, FULL = "sliding_attention", "full_attention"
NAMES = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm", "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
         "post_per_layer_input_norm": "post_norm", r"laurel\.linear_left": "laurel_l", r"laurel\.linear_right": "laurel_r",
         r"laurel\.post_laurel_norm": "laurel_post_norm", r"altup\.correction_coefs": "altup_correct_coef",
         r"altup\.prediction_coefs": "altup_predict_coef", r"altup\.modality_router": "altup_router",
         r"altup\.router_norm": "altup_router_norm", r"router\.proj": "ffn_gate_inp",
         "pre_feedforward_layernorm_2": "pre_ffw_norm_2", "post_feedforward_layernorm_1": "post_ffw_norm_1",
         "post_feedforward_layernorm_2": "post_ffw_norm_2"}
GLOBAL = {"embed_tokens_per_layer": "per_layer_token_embd", "per_layer_model_projection": "per_layer_model_proj",
          "per_layer_projection_norm": "per_layer_proj_norm"}
BARE = {"altup.correct_output_scale": "altup_correct_scale", "layer_scalar": "layer_output_scale",
        "experts.gate_up_proj": "ffn_gate_up_exps", "experts.down_proj": "ffn_down_exps"}
SCALES = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale"}


def tensors(case, name, x):
    for stem, to in GLOBAL.items():
        if name == f"model.{stem}.weight":
            return [(f"{to}.weight", x)]
    if found := re.fullmatch(r"model\.(altup_projections|altup_unembed_projections)\.(\d)\.weight", name):
        held = case.__dict__.setdefault(found[1], [])
        held.append(x)
        to = {"altup_projections": "altup_proj", "altup_unembed_projections": "altup_unembd_proj"}[found[1]]
        return [(f"{to}.weight", np.stack(held[-3:]))] if found[2] == "2" else []
    found = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", name)
    if found and found[2] in BARE:
        return [(f"blk.{found[1]}.{BARE[found[2]]}.weight", x)]
    if found and found[2] in SCALES:
        return [(f"blk.{found[1]}.{SCALES[found[2]]}", x)]
    return None


TEXT = {k: v for k, v in TIED.items() if k != "rope_parameters"} | dict(
    hidden_activation="gelu_pytorch_tanh", head_dim=8, hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCAB,
    sliding_window=WINDOW, final_logit_softcapping=6.0)
KEYS = {"attention.sliding_window": WINDOW, "embedding_length_per_layer_input": 8, "final_logit_softcapping": 6.0,
        "attention.key_length": 8, "attention.value_length": 8, "rope.freq_base": 1e6, "rope.freq_base_swa": 10000.0}
DEVIATIONS = NormalDist().inv_cdf(0.8)
FACTORS = {"rope_freqs.weight": (8,)}


class Gemma4(Family):
    """A quarter of each head of full layers is rotated: the others' frequencies are divided by something huge."""

    def extra_value(self, name, shape):
        return np.array([1.0, 1.0] + [1e30] * 6, dtype=np.float32)


FOUR = TEXT | dict(num_hidden_layers=4, global_head_dim=16, layer_types=[SLIDING, FULL] * 2,
                   rope_parameters={SLIDING: rope(), FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                                                            "rope_theta": 1e6}})
FOUR_KEYS = KEYS | {"attention.key_length": 16, "attention.value_length": 16, "attention.key_length_swa": 8,
                    "attention.value_length_swa": 8, "rope.dimension_count": 16, "rope.dimension_count_swa": 8,
                    "attention.sliding_window_pattern": [True, False] * 2}

CASES = [
    Family("gemma3n", "gemma3n", "Gemma3nTextConfig",
           TEXT | dict(num_hidden_layers=4, intermediate_size=[20] * 4, layer_types=[SLIDING, FULL] * 2, laurel_rank=4,
                       num_kv_shared_layers=2, altup_num_inputs=4, activation_sparsity_pattern=[0.8, 0.0, 0.0, 0.0],
                       rope_parameters={SLIDING: rope(), FULL: rope(1e6)}),
           keys=KEYS | {"feed_forward_length": [20] * 4, "attention.shared_kv_layers": 2, "altup.num_inputs": 4,
                        "altup.active_idx": 0, "activation_sparsity_scale": [DEVIATIONS] + [-math.inf] * 3,
                        "attention.sliding_window_pattern": [True, False] * 2},
           convert=tensors, names=NAMES, peer=False,
           note="tied; four streams; window of 8 on layers 0 and 2; layers 2 and 3 read the keys of 0 and 1; sparse gates "
                "in layer 0; llama.cpp wants 30 or 35 layers"),
    Gemma4("gemma4", "gemma4", "Gemma4TextConfig",
           FOUR | dict(num_kv_shared_layers=2, use_double_wide_mlp=True, attention_k_eq_v=False),
           keys=FOUR_KEYS | {"feed_forward_length": [20, 20, 40, 40], "attention.shared_kv_layers": 2},
           convert=tensors, names=NAMES, extra=FACTORS,
           note="tied; heads of 16 on full layers, a quarter of which is rotated, and of 8 on the others; layers 2 and 3 read "
                "the keys of 0 and 1 and are twice as wide; GELU"),
    Gemma4("gemma4-moe", "gemma4", "Gemma4TextConfig",
           FOUR | dict(num_hidden_layers=2, layer_types=[SLIDING, FULL], hidden_size_per_layer_input=0, attention_k_eq_v=True,
                       num_global_key_value_heads=1, enable_moe_block=True, num_experts=4, top_k_experts=2,
                       moe_intermediate_size=12),
           keys=FOUR_KEYS | {"embedding_length_per_layer_input": 0,
               "attention.head_count_kv": [2, 1], "attention.sliding_window_pattern": [True, False], "expert_count": 4,
               "expert_used_count": 2, "expert_feed_forward_length": 12},
           convert=tensors, names=NAMES, extra=FACTORS, seed=1,
           note="tied; no embeddings for layers; the full layer makes values from keys; a dense network beside experts; GELU"),
]
