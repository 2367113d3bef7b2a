"""The golden cases of families whose layers have states."""

import re

import numpy as np

import golden_latent
from golden_common import EPS, VOCAB, rope
from golden_mixtures import granite_shared
from golden_model import EXPERTS, HEADS, TINY, Family, gguf_name

STATE = {"ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 16, "ssm.time_step_rank": 4}
HEADED = STATE | {"ssm.time_step_rank": 8, "ssm.group_count": 1}
MAMBA = dict(vocab_size=VOCAB, hidden_size=32, state_size=16, num_hidden_layers=2, expand=2, conv_kernel=4,
             layer_norm_epsilon=EPS, bos_token_id=1, eos_token_id=2, pad_token_id=None)
MAMBA_KEYS = {"context_length": 2**20, "feed_forward_length": 0, "attention.head_count": 0, "attention.head_count_kv": None,
              "attention.key_length": None, "attention.value_length": None, "attention.layer_norm_epsilon": None,
              "attention.layer_norm_rms_epsilon": EPS}

NAMES = {"in_proj": "ssm_in", "x_proj": "ssm_x", "dt_proj": "ssm_dt", "out_proj": "ssm_out", "dt_layernorm": "ssm_dt_norm",
         "b_layernorm": "ssm_b_norm", "c_layernorm": "ssm_c_norm", "conv1d": "ssm_conv1d", "norm": "ssm_norm"}


def state_space(case, name, x):
    """Mamba's tensors: decays instead of their logarithms, the convolution without its middle axis."""
    found = re.fullmatch(r".*\.layers\.(\d+)\.(?:mamba|mixer|linear_attn)\.(\w+)(?:\.(\w+))?", name)
    if not found or found[2] not in [*NAMES, "A_log", "D", "dt_bias"]:
        return None
    block, stem, part = f"blk.{found[1]}", found[2], found[3]
    by_head = x.reshape(-1, 1) if x.ndim == 1 else x
    if stem == "A_log":
        return [(f"{block}.ssm_a", -np.exp(by_head))]
    if stem == "D":
        return [(f"{block}.ssm_d", x if "ssm.group_count" not in case.keys else by_head)]
    if stem == "dt_bias":
        return [(f"{block}.ssm_dt.bias", x)]
    if stem == "norm":
        x = x.reshape(case.keys["ssm.group_count"], -1)
    if stem == "conv1d" and part == "weight":
        x = x.squeeze(1)
    return [(f"{block}.{NAMES[stem]}.{part}", x)]


def granite_hybrid(case, name, x):
    return state_space(case, name, x) or granite_shared(case, name, x)


FALCON_H1 = dict(attention_in_multiplier=0.9, attention_out_multiplier=1.1, ssm_in_multiplier=1.2, ssm_out_multiplier=0.8,
                 key_multiplier=0.7, lm_head_multiplier=0.6, embedding_multiplier=1.5, mlp_multipliers=[0.9, 1.2],
                 ssm_multipliers=[0.9, 1.1, 0.8, 1.2, 0.7])


def falcon_h1(case, name, x):
    """Multipliers go into the weights."""
    m = FALCON_H1
    factors = {"self_attn.q_proj": m["attention_in_multiplier"], "self_attn.v_proj": m["attention_in_multiplier"],
               "self_attn.k_proj": m["attention_in_multiplier"] * m["key_multiplier"],
               "self_attn.o_proj": m["attention_out_multiplier"], "mamba.out_proj": m["ssm_out_multiplier"],
               "gate_proj": m["mlp_multipliers"][0], "down_proj": m["mlp_multipliers"][1],
               "embed_tokens": m["embedding_multiplier"], "lm_head": m["lm_head_multiplier"]}
    for stem, factor in factors.items():
        if f"{stem}.weight" in name:
            x = x * np.float32(factor)
    if "mamba.in_proj" in name:
        sizes = [32, 32, 16, 16, 4]
        x = x * np.float32(m["ssm_in_multiplier"]) * np.repeat(np.float32(m["ssm_multipliers"]), sizes)[:, None]
    if found := re.fullmatch(r".*\.layers\.(\d+)\.pre_ff_layernorm\.weight", name):
        return [(f"blk.{found[1]}.ffn_norm", x)]
    return state_space(case, name, x) or [(gguf_name(case, name), x)]


NEMOTRON_H = {"norm": "attn_norm", r"mixer\.([qkv])_proj": r"attn_\1", r"mixer\.o_proj": "attn_output",
              r"mixer\.(up|down)_proj": r"ffn_\1", r"mixer\.shared_experts\.(up|down)_proj": r"ffn_\1_shexp",
              r"mixer\.gate": "ffn_gate_inp"}


def nemotron_experts(case, name, x):
    if found := re.fullmatch(r".*\.layers\.(\d+)\.mixer\.experts\.(up|down)_proj", name):
        return [(f"blk.{found[1]}.ffn_{found[2]}_exps.weight", x)]
    return state_space(case, name, x)


def striding(case, x, axis=0):
    """Value heads of one key head from neighbours to every other."""
    if case.arch == "qwen3next":
        return x
    shape = x.shape
    x = np.moveaxis(x, axis, 0)
    x = x.reshape(2, 2, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return np.moveaxis(x, 0, axis).reshape(shape)


def delta_net(case, name, x):
    """Two key heads of 8, four value heads of 8."""
    if found := re.fullmatch(r".*\.layers\.(\d+)\.mlp\.shared_expert_gate\.weight", name):
        return [(f"blk.{found[1]}.ffn_gate_inp_shexp.weight", x.reshape(-1))]
    found = re.fullmatch(r".*\.layers\.(\d+)\.linear_attn\.(\w+)(?:\.weight)?", name)
    if not found:
        return None
    block, stem = f"blk.{found[1]}", found[2]
    rows = lambda x: np.concatenate([x[:32], striding(case, x[32:])])
    if stem == "in_proj_qkvz":
        parts = np.split(x.reshape(2, 48, 32), [8, 16, 32], axis=1)
        q, k, v, z = [part.reshape(-1, 32) for part in parts]
        return [(f"{block}.attn_qkv.weight", np.concatenate([q, k, v])), (f"{block}.attn_gate.weight", z)]
    if stem == "in_proj_ba":
        return [(f"{block}.ssm_ba.weight", x)]
    if stem == "in_proj_qkv":
        return [(f"{block}.attn_qkv.weight", rows(x))]
    if stem == "conv1d":
        return [(f"{block}.ssm_conv1d.weight", rows(x.squeeze(1)))]
    others = {"in_proj_z": "attn_gate.weight", "in_proj_b": "ssm_beta.weight", "in_proj_a": "ssm_alpha.weight",
              "A_log": "ssm_a", "dt_bias": "ssm_dt.bias"}
    if stem in others:
        x = -np.exp(x) if stem == "A_log" else x
        return [(f"{block}.{others[stem]}", striding(case, x))]
    if stem == "out_proj":
        return [(f"{block}.ssm_out.weight", striding(case, x, axis=1))]
    return [(f"{block}.ssm_norm.weight", x)]


DELTA = HEADS | dict(layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=4,
                     linear_key_head_dim=8, linear_value_head_dim=8, linear_conv_kernel_dim=4,
                     rope_parameters=rope(partial_rotary_factor=0.5))
SECTIONS = dict(rope_parameters=rope(partial_rotary_factor=0.5, mrope_section=[1, 1, 0]))
DELTA_KEYS = {"ssm.conv_kernel": 4, "ssm.inner_size": 32, "ssm.state_size": 8, "ssm.time_step_rank": 4,
              "ssm.group_count": 2, "full_attention_interval": 2, "rope.dimension_count": 4,
              "attention.key_length": 8, "attention.value_length": 8}
DELTA_EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, shared_expert_intermediate_size=8,
                     norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])
DELTA_EXPERT_KEYS = EXPERTS | {"expert_feed_forward_length": 8, "expert_shared_feed_forward_length": 8}
POST = {"post_attention_layernorm": "post_attention_norm"}

KIMI = {"q_proj": "attn_q.weight", "k_proj": "attn_k.weight", "v_proj": "attn_v.weight", "o_proj": "attn_output.weight",
        "b_proj": "ssm_beta.weight", "g_a_proj": "ssm_g_a.weight", "g_b_proj": "ssm_g_b.weight", "o_norm": "ssm_norm.weight",
        "forget_gate.f_a_proj": "ssm_f_a.weight", "forget_gate.f_b_proj": "ssm_f_b.weight"}


def kimi(case, name, x):
    """Layer 0 has the delta rule, layer 1 latent attention."""
    found = re.fullmatch(r".*\.layers\.0\.self_attn\.(.+?)(?:\.weight)?", name)
    if not found:
        return golden_latent.split(case, name, x)
    if found[1] == "conv1d":
        return [(f"blk.0.ssm_conv1d_{k}.weight", part) for k, part in zip("qkv", np.split(x, 3))]
    if found[1] == "forget_gate.A_log":
        return [("blk.0.ssm_a", -np.exp(x.reshape(-1, 1)))]
    if found[1] == "forget_gate.dt_bias":
        return [("blk.0.ssm_dt.bias", x)]
    return [(f"blk.0.{KIMI[found[1]]}", x)]


GRIFFIN = {"temporal_pre_norm": "attn_norm", "channel_pre_norm": "ffn_norm", r"mlp_block\.(gate|up|down)_proj": r"ffn_\1",
           r"temporal_block\.([qkv])_proj": r"attn_\1", r"temporal_block\.o_proj": "attn_output",
           r"temporal_block\.linear_(x|y|out)": r"lru_\1"}


def griffin(case, name, x):
    if name == "model.final_norm.weight":
        return [("output_norm.weight", x)]
    if found := re.fullmatch(r".*\.layers\.(\d+)\.temporal_block\.conv_1d\.(\w+)", name):
        return [(f"blk.{found[1]}.lru_conv1d.{found[2]}", x.squeeze(1) if x.ndim == 3 else x)]
    found = re.fullmatch(r".*\.layers\.(\d+)\.temporal_block\.rg_lru\.(\w+)", name)
    if not found:
        return None
    if found[2] == "recurrent_param":
        return [(f"blk.{found[1]}.lru_rate.weight", x)]
    stem, part = found[2].rsplit("_", 1)
    to = {"input_gate": "lru_input_gate", "recurrent_gate": "lru_decay_gate"}[stem]
    return [(f"blk.{found[1]}.{to}.{part}", x.swapaxes(1, 2) if part == "weight" else x)]


def lightning(case, name, x):
    """Rates are computed."""
    if re.search(r"slope_rate|(query|key|diagonal)_decay", name):
        return []
    return None


LIGHTNING = {r"self_attn\.qkv_proj": "attn_qkv", r"self_attn\.output_gate": "attn_gate", r"self_attn\.out_proj": "attn_output",
             r"self_attn\.norm": "attn_norm_2"}


def rwkv4(case, name, x):
    if name == "rwkv.embeddings.weight":
        return [("token_embd.weight", x)]
    if name == "head.weight":
        return [("output.weight", x)]
    if found := re.fullmatch(r"rwkv\.(?:blocks\.0\.pre_ln|ln_out)\.(\w+)", name):
        return [(f"{'token_embd' if 'pre_ln' in name else 'output'}_norm.{found[1]}", x)]
    layer, module, rest = re.fullmatch(r"rwkv\.blocks\.(\d+)\.(\w+)\.(.+)", name).groups()
    if module in ("ln1", "ln2"):
        return [(f"blk.{layer}.attn_norm{'_2' if module == 'ln2' else ''}.{rest}", x)]
    mix = "time_mix" if module == "attention" else "channel_mix"
    if found := re.fullmatch(r"time_mix_(key|value|receptance)", rest):
        return [(f"blk.{layer}.{mix}_lerp_{found[1][0]}.weight", 1 - x.reshape(-1))]
    if rest == "time_decay":
        return [(f"blk.{layer}.{mix}_decay.weight", -np.exp(x))]
    if rest == "time_first":
        return [(f"blk.{layer}.{mix}_first.weight", x)]
    return [(f"blk.{layer}.{mix}_{rest}", x)]


CASES = [
    Family("mamba", "mamba", "MambaConfig", MAMBA | dict(time_step_rank=4, tie_word_embeddings=False),
           keys=MAMBA_KEYS | STATE, convert=state_space, names={"norm": "attn_norm"},
           note="steps by channel, no attention, no networks"),
    Family("mamba-falcon", "mamba", "FalconMambaConfig",
           MAMBA | dict(num_hidden_layers=1, time_step_rank=4, mixer_rms_eps=EPS, tie_word_embeddings=True),
           keys=MAMBA_KEYS | STATE | {"ssm.dt_b_c_rms": True}, convert=state_space, names={"norm": "attn_norm"},
           note="tied; Falcon-Mamba: steps, B and C normed"),
    Family("mamba2", "mamba2", "Mamba2Config",
           MAMBA | dict(num_heads=8, head_dim=8, n_groups=1, tie_word_embeddings=False, rms_norm=True),
           keys=MAMBA_KEYS | HEADED, convert=state_space, names={"norm": "attn_norm"}, note="steps by head"),
    Family("jamba", "jamba", "JambaConfig",
           TINY | dict(intermediate_size=12, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
                       num_experts=4, num_experts_per_tok=2, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2,
                       mamba_dt_rank=4, use_mamba_kernels=False),
           keys=EXPERTS | STATE | {"attention.head_count_kv": [0, 2]}, convert=state_space,
           names={"pre_ff_layernorm": "ffn_norm"}, seed=1,
           note="Mamba with norms and a dense network; attention without positions and experts"),
    Family("granitehybrid", "granitehybrid", "GraniteMoeHybridConfig",
           TINY | dict(layer_types=["linear_attention", "full_attention"], num_local_experts=4, num_experts_per_tok=2,
                       intermediate_size=8, shared_intermediate_size=8, mamba_n_heads=8, mamba_d_head=8,
                       mamba_n_groups=1, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, embedding_multiplier=3.0,
                       logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15,
                       position_embedding_type=None),
           keys=EXPERTS | HEADED | {"attention.head_count_kv": [0, 2], "expert_shared_feed_forward_length": 8,
                                    "embedding_scale": 3.0, "logit_scale": 2.0, "residual_scale": 0.4,
                                    "attention.scale": 0.15, "rope.scaling.finetuned": False},
           convert=granite_hybrid, pairs=True, seed=1, note="Mamba 2 and attention without positions; experts, one sees every token"),
    Family("granitehybrid-dense", "granitehybrid", "GraniteMoeHybridConfig",
           TINY | dict(layer_types=["linear_attention", "full_attention"], num_local_experts=0, num_experts_per_tok=0,
                       shared_intermediate_size=20, mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=16,
                       mamba_d_conv=4, mamba_expand=2, position_embedding_type="rope", tie_word_embeddings=True,
                       attention_multiplier=0.15),
           keys=HEADED | {"attention.head_count_kv": [0, 2], "attention.scale": 0.15, "rope.dimension_count": 8,
                          "rope.freq_base": 10000.0},
           convert=lambda case, name, x: state_space(case, name, x) or [
               (n.replace("_shexp", ""), x) for n, x in granite_shared(case, name, x) or []] or None,
           pairs=True, note="tied; dense networks; attention rotated"),
    Family("falcon-h1", "falcon-h1", "FalconH1Config",
           TINY | FALCON_H1 | dict(num_hidden_layers=2, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8,
                                   mamba_n_groups=2, mamba_d_state=8, mamba_d_conv=4),
           keys=HEADED | {"ssm.inner_size": 32, "ssm.time_step_rank": 4, "ssm.group_count": 2, "ssm.state_size": 8},
           convert=falcon_h1,
           note="Mamba 2 of two groups beside attention; multipliers in the weights"),
    Family("nemotron_h", "nemotron_h", "NemotronHConfig",
           {k: v for k, v in HEADS.items() if k not in ("rms_norm_eps", "num_hidden_layers", "rope_parameters")}
           | dict(layers_block_type=["linear_attention", "mlp", "full_attention", "mlp"], mamba_num_heads=8,
                  mamba_head_dim=8, n_groups=2, ssm_state_size=16, layer_norm_epsilon=EPS),
           keys=HEADED | {"ssm.group_count": 2, "attention.head_count_kv": [0, 0, 2, 0], "block_count": 4,
                          "feed_forward_length": [0, 20, 0, 20], "attention.layer_norm_rms_epsilon": EPS,
                          "attention.layer_norm_epsilon": EPS, "attention.key_length": 8, "attention.value_length": 8},
           convert=state_space, names=NEMOTRON_H,
           note="each layer is Mamba 2 of two groups, attention without positions, or a network"),
    Family("nemotron_h_moe", "nemotron_h_moe", "NemotronHConfig",
           {k: v for k, v in HEADS.items() if k not in ("rms_norm_eps", "num_hidden_layers", "rope_parameters")}
           | dict(layers_block_type=["linear_attention", "moe", "full_attention"], mamba_num_heads=8, mamba_head_dim=8,
                  n_groups=2, ssm_state_size=16, layer_norm_epsilon=EPS, n_routed_experts=4, num_experts_per_tok=2,
                  moe_intermediate_size=12, moe_shared_expert_intermediate_size=12, routed_scaling_factor=1.5),
           keys=HEADED | EXPERTS | {
               "ssm.group_count": 2, "attention.head_count_kv": [0, 0, 2], "block_count": 3,
               "feed_forward_length": [0, 12, 0], "expert_feed_forward_length": 12,
               "expert_shared_feed_forward_length": 12, "expert_shared_count": 1, "expert_weights_norm": True,
               "expert_weights_scale": 1.5, "attention.layer_norm_rms_epsilon": EPS, "attention.layer_norm_epsilon": EPS,
               "attention.key_length": 8, "attention.value_length": 8},
           convert=nemotron_experts, names=NEMOTRON_H, seed=1, note="the same with experts without gates"),
    Family("qwen3next", "qwen3next", "Qwen3NextConfig", DELTA | DELTA_EXPERTS, keys=DELTA_KEYS | DELTA_EXPERT_KEYS,
           convert=delta_net, names=POST, seed=1, tolerance=3e-2,
           note="gated delta rule; gated attention; experts; llama.cpp adds another number to lengths"),
    Family("qwen35", "qwen35", "Qwen3_5TextConfig", DELTA | SECTIONS,
           keys=DELTA_KEYS | {"rope.dimension_sections": [1, 1, 0, 0]}, convert=delta_net, names=POST,
           note="the same with dense networks; axes of positions are one"),
    Family("qwen35-mtp", "qwen35", "Qwen3_5TextConfig", DELTA | SECTIONS,
           keys=DELTA_KEYS | {"rope.dimension_sections": [1, 1, 0, 0], "block_count": 3, "nextn_predict_layers": 1},
           convert=delta_net, names=POST, nextn=True, peer=False,
           note="the same with a third layer, which predicts the token after the next"),
    Family("qwen35moe", "qwen35moe", "Qwen3_5MoeTextConfig", DELTA | DELTA_EXPERTS | SECTIONS,
           keys=DELTA_KEYS | DELTA_EXPERT_KEYS | {"rope.dimension_sections": [1, 1, 0, 0]}, convert=delta_net, names=POST,
           seed=1, note="the same with experts"),
    Family("kimi-linear", "kimi-linear", "KimiLinearConfig",
           golden_latent.LATENT | golden_latent.ROUTED | dict(
               q_lora_rank=None, layer_types=["linear_attention", "full_attention"], mlp_layer_types=["dense", "sparse"],
               linear_head_dim=8, linear_num_heads=4, linear_conv_kernel_dim=4, num_local_experts=4),
           keys={k: v for k, v in (golden_latent.COMPRESSED | golden_latent.ROUTED_KEYS).items() if "q_lora" not in k} | {
               "attention.head_count_kv": [0, 1], "rope.freq_base": None, "kda.head_dim": 8, "ssm.conv_kernel": 4},
           convert=kimi, names=golden_latent.NAMES, seed=1,
           note="the delta rule with decays by key; latent attention without positions; sigmoids"),
    Family("recurrent-gemma", "recurrent-gemma", "RecurrentGemmaConfig",
           {k: v for k, v in HEADS.items() if k not in ("intermediate_size", "rope_parameters")}
           | dict(num_hidden_layers=3, num_key_value_heads=1, intermediate_size=40, lru_width=32, attention_window_size=8,
                  conv1d_width=4, logits_soft_cap=6.0, hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True,
                  rope_parameters=rope(partial_rotary_factor=0.5)),
           keys={"feed_forward_length": 20, "attention.head_count_kv": [0, 0, 1], "ssm.conv_kernel": 4, "ssm.inner_size": 32,
                 "ssm.group_count": 4, "attention.sliding_window": 8, "embedding_scale": 5.65625,
                 "attention.key_length": 8, "attention.value_length": 8,
                 "final_logit_softcapping": 6.0, "rope.dimension_count": 4, "rope.freq_base": 10000.0},
           convert=griffin, names=GRIFFIN, peer=False,
           note="tied; linear recurrent units in layers 0 and 1, attention over 8 positions in layer 2; llama.cpp has no such "
                "name"),
    Family("rwkv4", "rwkv4", "RwkvConfig",
           dict(vocab_size=VOCAB, context_length=256, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32,
                intermediate_size=20, layer_norm_epsilon=1e-5, bos_token_id=1, eos_token_id=2, use_cache=False),
           keys={"context_length": 256, "attention.head_count": 0, "attention.head_count_kv": None},
           convert=rwkv4, peer=False, note="RWKV 4; llama.cpp has no such name"),
    Family("minimax-01", "minimax-01", "MiniMaxConfig",
           HEADS | dict(hidden_size=16, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=8, intermediate_size=8,
                        num_local_experts=4, num_experts_per_tok=2, rms_norm_eps=1e-6, block_size=8,
                        layer_types=["linear_attention"] * 7 + ["full_attention"],
                        **{f"{kind}_{a}_factor": 1.5 if a == "alpha" else 1.0
                           for kind in ("linear_attn", "full_attn", "mlp") for a in ("alpha", "beta")}),
           keys=EXPERTS | {"residual_scale": 1.5, "attention.key_length": 8, "attention.value_length": 8,
                           "expert_feed_forward_length": 8},
           convert=lightning, names=LIGHTNING, seed=1,
           note="lightning attention in seven layers, attention in the eighth; normed inputs are what branches are added to"),
]
