"""The golden cases of families whose names and numbers are told by tables.

A case is a tiny random model: of a transformers class (its own, or one with the same formulas), or of tensors named here
and evaluated by llama.cpp, where transformers has no class. golden_logits.py makes the files.
"""

import dataclasses
import math
import re
import zlib

import gguf
import numpy as np
import torch
import transformers

from golden_common import (CONTEXT, EPS, N_TOKENS, VOCAB, WINDOW, add_tokenizer, llama_cpp_logits, rope,
                           rope_interleaved, tokens_of, transformers_logits)


@dataclasses.dataclass
class Family:
    """One model, and how it becomes a GGUF file."""

    name: str
    arch: str
    config_class: str = ""  # empty: llama.cpp evaluates `tensors`
    config: dict = dataclasses.field(default_factory=dict)
    keys: dict = dataclasses.field(default_factory=dict)  # metadata beyond what the config implies
    names: dict = dataclasses.field(default_factory=dict)  # a layer's names, where they are not the usual ones
    pairs: bool = False  # rotated dimensions become neighbours
    pair_norms: bool = False  # so do those of head norms
    convert: object = None  # (case, name, array) to a list of (GGUF name, array)
    tensors: object = None  # names and shapes, where there is no class
    evaluate: object = None  # (case, tensors, tokens) to logits: formulas written down here
    extra: dict = dataclasses.field(default_factory=dict)  # tensors that must not change anything
    peer: bool = True  # llama.cpp can run it
    checked_positions: int = N_TOKENS
    tolerance: float = 1e-2  # of llama.cpp, over the largest logit
    seed: int = 0
    note: str = ""

    @property
    def reference(self):
        """What the logits come from."""
        if self.config_class:
            return f"transformers, {self.config_class.removesuffix('Config')}"
        return "our formulas" if self.evaluate else "llama.cpp"


# ---------------------------------------------------------------------------------------------------------------------
# Names
# ---------------------------------------------------------------------------------------------------------------------

GLOBAL_NAMES = [
    (r"(model|transformer)(\.decoder)?\.(embed_tokens|wte|word_embeddings)\.weight", "token_embd.weight"),
    (r"(transformer\.wpe|model\.decoder\.embed_positions)\.weight", "position_embd.weight"),
    (r"transformer\.word_embeddings_layernorm\.(\w+)", r"token_embd_norm.\1"),
    (r"model\.embedding_norm\.weight", r"token_embd_norm.weight"),
    (r"(?:model\.norm|model\.final_layernorm|transformer\.ln_f|transformer\.norm_f|model\.decoder\.final_layer_norm)"
     r"\.(\w+)", r"output_norm.\1"),
    (r"lm_head\.(\w+)", r"output.\1"),
]

LAYER_NAMES = [
    (r"(input_layernorm|ln_1|self_attn_layer_norm|norm_1|norm_attn_norm\.norm_1|attention_layernorm|operator_norm)",
     "attn_norm"),
    (r"(post_attention_layernorm|ln_2|final_layer_norm|norm_2|norm_attn_norm\.norm_2|feedforward_layernorm|"
     r"pre_mlp_layernorm|ffn_norm)", "ffn_norm"),
    (r"(self_attn|attn)\.q_proj", "attn_q"),
    (r"(self_attn|attn)\.k_proj", "attn_k"),
    (r"(self_attn|attn)\.v_proj", "attn_v"),
    (r"(self_attn|attn)\.gate_proj", "attn_gate"),
    (r"(self_attn|attn|self_attention|norm_attn_norm\.attn)\.(o_proj|dense|out_proj|c_proj)", "attn_output"),
    (r"(attn|self_attention|norm_attn_norm\.attn)\.(c_attn|query_key_value|Wqkv)", "attn_qkv"),
    (r"self_attn\.(q_norm|query_layernorm|q_layernorm)", "attn_q_norm"),
    (r"self_attn\.(k_norm|key_layernorm|k_layernorm)", "attn_k_norm"),
    (r"self_attn\.attn_sub_norm", "attn_sub_norm"),
    (r"mlp\.ffn_sub_norm", "ffn_sub_norm"),
    (r"(?:mlp|feed_forward|block_sparse_moe)\.(?:shared_experts|shared_expert|shared_mlp)\.(\w+)_proj",
     r"ffn_\1_shexp"),
    (r"(mlp|feed_forward|block_sparse_moe)\.(gate|router|gate\.wg|router\.gate)|ffn\.router\.layer", "ffn_gate_inp"),
    (r"(mlp|feed_forward)\.(gate_proj|w1)", "ffn_gate"),
    (r"(mlp|ffn|feed_forward)\.(up_proj|fc_in|fc1|c_fc|dense_h_to_4h|gate_up_proj|w3)|fc1", "ffn_up"),
    (r"(mlp|ffn|feed_forward)\.(down_proj|fc_out|fc2|c_proj|dense_4h_to_h|w2)|fc2", "ffn_down"),
]


def gguf_name(case, name):
    """The GGUF name of a parameter."""
    for pattern, to in GLOBAL_NAMES:
        if found := re.fullmatch(pattern, name):
            return found.expand(to)
    layer = re.fullmatch(r".*?\.(?:layers|h|blocks)\.(\d+)\.(.+)\.(\w+)", name)
    if layer is None:
        raise ValueError(f"{case.name}: no GGUF name for {name}")
    number, stem, part = layer.groups()
    for pattern, to in [*case.names.items(), *LAYER_NAMES]:
        if found := re.fullmatch(pattern, stem):
            return f"blk.{number}.{found.expand(to)}.{part}"
    raise ValueError(f"{case.name}: no GGUF name for {name}")


def convert_tensor(case, config, name, x):
    """A parameter as GGUF has it: names and arrays."""
    if case.convert and (found := case.convert(case, name, x)) is not None:
        return found
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    if case.pairs and ".q_proj." in name:
        x = interleaved(case, x, heads)
    if case.pairs and ".k_proj." in name:
        x = interleaved(case, x, kv_heads)
    if case.pair_norms and re.search(r"(q|k|query|key)_(layer)?norm\.", name):
        x = rope_interleaved(x, 1)
    block = re.match(r".*?\.(?:layers|h|blocks)\.(\d+)\.", name)
    block = block and f"blk.{block[1]}"
    if name.endswith(".experts.gate_up_proj"):
        gate, up = np.split(x, 2, axis=1)
        return [(f"{block}.ffn_gate_exps.weight", gate), (f"{block}.ffn_up_exps.weight", up)]
    if name.endswith(".experts.down_proj"):
        return [(f"{block}.ffn_down_exps.weight", x)]
    if name.endswith(("e_score_correction_bias", "expert_bias")):
        return [(f"{block}.exp_probs_b.bias", x.reshape(-1))]
    return [(gguf_name(case, name), x)]


def interleaved(case, x, heads):
    """Rotated rows of each head, which may be only the first, from half-split order to pairs."""
    share = case.config.get("partial_rotary_factor", 1.0)
    size = x.shape[0] // heads
    turned = int(size * share)
    rows = x.reshape(heads, size, *x.shape[1:])
    first = rope_interleaved(rows[:, :turned].reshape(-1, *x.shape[1:]), heads)
    rows = np.concatenate([first.reshape(heads, turned, *x.shape[1:]), rows[:, turned:]], axis=1)
    return rows.reshape(x.shape)


# ---------------------------------------------------------------------------------------------------------------------
# Weights
# ---------------------------------------------------------------------------------------------------------------------

# transformers adds 1 to these norms' weights when it runs; GGUF stores the sum.
SHIFTED_NORM = {"nemotron"}


def random_parameter(case, name, shape):
    """Values that keep activations near 1, attention peaked, every bias and norm weight at work."""
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{case.name}/{case.seed}/{name}".encode())))
    x = rng.standard_normal(shape).astype(np.float32)
    stem, part = name.rsplit(".", 1) if "." in name else (name, "")
    norm = re.search(r"norm|ln_\d|ln_f", stem.rsplit(".", 1)[-1])
    if norm and part == "weight":
        return np.float32(0.2) * x + np.float32(0.0 if case.arch in SHIFTED_NORM else 1.0)
    if "bias" in part or part in ("sinks", "alpha_p", "alpha_n"):
        return np.float32(0.2) * x
    if "attn_sinks" in stem:
        return x
    if re.search(r"embed|wte|wpe|word_embeddings|token_embd|position_embd", name):
        return np.float32(0.4) * x
    transposed = case.arch in ("gpt-oss", "llama4") and ".experts." in name  # stored (in, out)
    fan_in = shape[-2] if transposed else shape[-1]
    peaked = r"q_proj|k_proj|query_key_value|c_attn|Wqkv|attn_q\b|attn_k\b|attn_qkv|gate\.weight|gate_inp|router"
    gain = 2.5 if re.search(peaked, name) else 1.5
    return x * np.float32(gain / math.sqrt(fan_in))


def build_model(case):
    config = getattr(transformers, case.config_class)(**case.config)
    config._experts_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    values = dict(model.named_parameters())
    biases = {k: v for k, v in model.named_buffers() if k.endswith(("score_correction_bias", "expert_bias"))}
    with torch.no_grad():
        for name, parameter in (values | biases).items():
            parameter.copy_(torch.from_numpy(random_parameter(case, name, tuple(parameter.shape))))
    return model.eval()


# ---------------------------------------------------------------------------------------------------------------------
# Metadata
# ---------------------------------------------------------------------------------------------------------------------


def first(config, *names):
    return next((getattr(config, n) for n in names if getattr(config, n, None) is not None), None)


def config_keys(case, config):
    """What every config says."""
    heads, width = config.num_attention_heads, config.hidden_size
    size = first(config, "head_dim") or width // heads
    parameters = first(config, "rope_parameters") or {}
    parameters = parameters.get("full_attention", parameters)
    keys = {
        "context_length": first(config, "max_position_embeddings", "max_seq_len"),
        "embedding_length": width,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": first(config, "intermediate_size", "n_inner", "ffn_dim") or 4 * width,
        "attention.head_count": heads,
        "attention.head_count_kv": first(config, "num_key_value_heads") or heads,
    }
    if size * heads != width:
        keys |= {"attention.key_length": size, "attention.value_length": size}
    if "rope_theta" in parameters:
        share = parameters.get("partial_rotary_factor") or first(config, "partial_rotary_factor") or 1.0
        keys |= {"rope.dimension_count": int(size * share), "rope.freq_base": float(parameters["rope_theta"])}
    rms = first(config, "rms_norm_eps")
    if rms:
        keys["attention.layer_norm_rms_epsilon"] = rms
    else:
        eps = first(config, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
        keys["attention.layer_norm_epsilon"] = eps or 1e-5
    return keys


def add_key(writer, key, value):
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def write_gguf(case, path, keys, tensors):
    writer = gguf.GGUFWriter(path, case.arch)
    writer.add_name(f"golden {case.name}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(VOCAB)
    for key, value in (keys | case.keys).items():
        if value is not None:
            # llama.cpp reads xIELU's numbers without the architecture's name.
            add_key(writer, key if key.startswith("xielu.") else f"{case.arch}.{key}", value)
    add_tokenizer(writer)
    for name, x in tensors:
        writer.add_tensor(name, np.ascontiguousarray(x, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_model(case, path):
    """Writes the case's model; returns its logits, and by how much llama.cpp differs, if it can run it."""
    tokens = tokens_of(case)
    if not case.config_class:
        tensors = [(name, random_parameter(case, name, shape)) for name, shape in case.tensors.items()]
        write_gguf(case, path, {}, tensors)
        if not case.evaluate:
            return llama_cpp_logits(path, tokens), None
        return case.evaluate(case, dict(tensors), tokens), None
    model = build_model(case)
    config = model.config
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    tensors = []
    for name, tensor in model.state_dict().items():
        x = tensor.numpy()
        if case.arch in SHIFTED_NORM and re.search(r"norm\.weight", name):
            x = x + np.float32(1)
        if not (tied and name == "lm_head.weight"):
            tensors += convert_tensor(case, config, name, x)
    tensors += [(name, random_parameter(case, name, shape)) for name, shape in case.extra.items()]
    write_gguf(case, path, config_keys(case, config), tensors)
    logits = transformers_logits(model, tokens)
    if not case.peer:
        return logits, None
    n = case.checked_positions
    return logits, float(np.abs(llama_cpp_logits(path, tokens[:n]) - logits[:n]).max())


# ---------------------------------------------------------------------------------------------------------------------
# The cases
# ---------------------------------------------------------------------------------------------------------------------

TINY = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=CONTEXT, rms_norm_eps=EPS, bos_token_id=1, eos_token_id=2,
            pad_token_id=None, tie_word_embeddings=False, rope_parameters=rope())
HEADS = TINY | dict(head_dim=8)
TIED = TINY | dict(tie_word_embeddings=True)
LAYER_NORM = {k: v for k, v in TINY.items() if k != "rms_norm_eps"} | dict(layer_norm_eps=EPS)
EXPERTS = {"expert_count": 4, "expert_used_count": 2}
SINKS_AND_BIASES = {r"self_attn\.sinks": "attn_sinks"}


def shapes(layers, width=32, ffn=20, q=32, kv=16, tied=True, gate=True, norms=("attn_norm", "ffn_norm"), bias=False,
           fused=False):
    """The tensors of a llama-like model, numpy's order."""
    found = {"token_embd.weight": (VOCAB, width), "output_norm.weight": (width,)}
    if not tied:
        found["output.weight"] = (VOCAB, width)
    for i in range(layers):
        block = {f"{norm}.weight": (width,) for norm in norms}
        if fused:
            block["attn_qkv.weight"] = (q + 2 * kv, width)
        else:
            block |= {"attn_q.weight": (q, width), "attn_k.weight": (kv, width), "attn_v.weight": (kv, width)}
        block["attn_output.weight"] = (width, q)
        if ffn:
            block |= {"ffn_gate.weight": (ffn, width)} if gate else {}
            block |= {"ffn_up.weight": (ffn, width), "ffn_down.weight": (width, ffn)}
        if bias:
            block |= {k.replace("weight", "bias"): v[:1] for k, v in list(block.items())}
        found |= {f"blk.{i}.{name}": shape for name, shape in block.items()}
    if bias:
        found["output_norm.bias"] = (width,)
    return found


def experts(layers, count=4, ffn=16, width=32, shared=0):
    """The tensors of experts in these layers."""
    found = {}
    for i in layers:
        found |= {f"blk.{i}.ffn_gate_inp.weight": (count, width), f"blk.{i}.ffn_gate_exps.weight": (count, ffn, width),
                  f"blk.{i}.ffn_up_exps.weight": (count, ffn, width),
                  f"blk.{i}.ffn_down_exps.weight": (count, width, ffn)}
        if shared:
            found |= {f"blk.{i}.ffn_gate_shexp.weight": (shared, width), f"blk.{i}.ffn_up_shexp.weight": (shared, width),
                      f"blk.{i}.ffn_down_shexp.weight": (width, shared)}
    return found


def base_keys(layers=2, ffn=20, kv=2, rms=True, turned=8, width=32):
    keys = {"context_length": CONTEXT, "embedding_length": width, "block_count": layers, "feed_forward_length": ffn,
            "attention.head_count": 4, "attention.head_count_kv": kv,
            f"attention.layer_norm_{'rms_' if rms else ''}epsilon": EPS}
    return keys | ({"rope.dimension_count": turned, "rope.freq_base": 10000.0} if turned else {})


def bloom_qkv(case, name, x):
    """(heads, 3, size) rows to (3, heads, size)."""
    if "query_key_value" not in name:
        return None
    rows = x.reshape(4, 3, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return [(gguf_name(case, name), rows)]


def opt_positions(case, name, x):
    """The first two positions stand for nothing."""
    return [("position_embd.weight", x[2:])] if "embed_positions" in name else None


def qwen_qkv(case, name, x):
    """Qwen2's separate projections, one after the other."""
    found = re.fullmatch(r".*\.layers\.(\d+)\.self_attn\.([qkv])_proj\.(\w+)", name)
    if not found:
        return None
    layer, which, part = found.groups()
    held = case.__dict__.setdefault("held", {})
    held[which] = x
    if len(held) < 3:
        return []
    fused = np.concatenate([held[k] for k in "qkv"])
    held.clear()
    return [(f"blk.{layer}.attn_qkv.{part}", fused)]


def qkv_by_part(case, name, x):
    """As `qwen_qkv`, where weights and biases alternate."""
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
    kind = name.rsplit(".", 1)[1]
    case.keys.setdefault(f"xielu.{kind}", []).append(float(x.reshape(-1)[0]))
    return []


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


GPT2_LIKE = dict(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_inner=24, resid_pdrop=0.0, embd_pdrop=0.0,
                 attn_pdrop=0.0, layer_norm_epsilon=EPS, bos_token_id=1, eos_token_id=2)
SLIDING = ["sliding_attention", "full_attention"]
GPT_OSS = HEADS | dict(intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW,
                       layer_types=SLIDING)
GPT_OSS_KEYS = EXPERTS | {"expert_feed_forward_length": 12, "attention.sliding_window": WINDOW,
                          "attention.key_length": 8, "attention.value_length": 8}

CASES = [
    # Llama under other names.
    Family("internlm2", "internlm2", "LlamaConfig", TINY, pairs=True, note="llama under another name"),
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
    # Mixtures.
    Family("olmoe", "olmoe", "OlmoeConfig", TINY | dict(num_key_value_heads=4, intermediate_size=12, num_experts=4, num_experts_per_tok=2, norm_topk_prob=False),
           keys=EXPERTS, seed=1, note="not renormalized; norms of whole q and k"),
    Family("granitemoe", "granitemoe", "GraniteMoeConfig",
           TINY | dict(intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=3.0, logits_scaling=2.0,
                       residual_multiplier=0.4, attention_multiplier=0.15), pairs=True,
           keys=EXPERTS | {"embedding_scale": 3.0, "logit_scale": 2.0, "residual_scale": 0.4, "attention.scale": 0.15},
           seed=1, note="Granite's scales"),
    Family("granitemoe-shared", "granitemoe", "GraniteMoeSharedConfig",
           TINY | dict(intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=16,
                       embedding_multiplier=3.0,
                       logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15), pairs=True,
           convert=granite_shared,
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
           names={"post_attention_layernorm": "post_attention_norm"},
           extra={"blk.2.nextn.eh_proj.weight": (32, 64), "blk.2.nextn.enorm.weight": (32,),
                  "blk.2.attn_norm.weight": (32,)}, peer=False, seed=1,
           note="no head norms; a third layer, which predicts the token after the next, is left out"),
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
