"""A golden case of golden_families.py, and how it becomes a GGUF file and logits.

A case is a tiny random model: of a transformers class (its own, or one with the same formulas), or of named tensors that
llama.cpp evaluates, where transformers has no class.
"""

import dataclasses
import math
import re
import zlib

import gguf
import numpy as np
import torch
import transformers

import golden_nextn
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
    half: bool = True  # values that f16 can hold, stored so
    fp4: str = ""  # tensors whose values 4-bit floats can hold, stored so
    nextn: bool = False  # with the layer that predicts the token after the next; tokens mostly follow from one another
    nextn_logits: object = None  # its logits, when they are made
    note: str = ""

    def extra_value(self, name, shape):
        return random_parameter(self, name, shape)

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
    (r"(model|transformer|backbone)(\.decoder)?\.(embed_tokens|wte|word_embeddings|embeddings)\.weight",
     "token_embd.weight"),
    (r"(transformer\.wpe|model\.decoder\.embed_positions)\.weight", "position_embd.weight"),
    (r"transformer\.word_embeddings_layernorm\.(\w+)", r"token_embd_norm.\1"),
    (r"model\.embedding_norm\.weight", r"token_embd_norm.weight"),
    (r"(?:model\.norm|model\.final_layernorm|transformer\.ln_f|\w+\.norm_f|model\.decoder\.final_layer_norm)"
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
    heads = first(config, "num_attention_heads") or 1
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

# Tensors that are matrices to llama.cpp and here.
MATRIX = re.compile(r"shortconv\.(in|out)_proj|per_layer_model_proj|inp_gate|\d\.proj\.|altup_proj|altup_unembd_proj|laurel_[lr]\.|ssm_[fg]_[ab]\.|lru_(x|y|out|input_gate|decay_gate)\.|token_embd|output|attn_(q|k|v|qkv|gate|q_a|q_b|kv_a_mqa|kv_b|k_b|v_b)\.|ffn_|ssm_(in|x|out|beta|alpha|ba)\.|"
                    r"(time|channel)_mix_(key|value|receptance|gate|output|w1|w2|a1|a2|v1|v2|g1|g2|decay_w1|decay_w2)\.")

# transformers adds 1 to these norms' weights when it runs; GGUF stores the sum.
SHIFTED_NORM = {"nemotron", "qwen3next", "qwen35", "qwen35moe", "recurrent-gemma"}


def shifted(case, name):
    return case.arch in SHIFTED_NORM and re.search(r"norm\.weight", name) and "linear_attn" not in name


def random_parameter(case, name, shape):
    """Values that keep activations near 1, attention peaked, every bias and norm weight at work."""
    x = random_floats(case, name, shape)
    if case.fp4 and name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
        # Blocks run along what experts see, which is the last axis but one here.
        kind = gguf.GGMLQuantizationType.MXFP4
        x = gguf.dequantize(gguf.quantize(np.ascontiguousarray(x.swapaxes(1, 2)), kind), kind).swapaxes(1, 2)
        return np.ascontiguousarray(x)
    return x.astype(np.float16).astype(np.float32) if case.half else x


def random_floats(case, name, shape):
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{case.name}/{case.seed}/{name}".encode())))
    x = rng.standard_normal(shape).astype(np.float32)
    stem, part = name.rsplit(".", 1) if "." in name else (name, "")
    norm = re.search(r"norm|ln_\d|ln_f|mix_ln", stem.rsplit(".", 1)[-1])
    if norm and part == "weight":
        return np.float32(0.2) * x + np.float32(0.0 if shifted(case, name) else 1.0)
    if "bias" in part or part in ("sinks", "alpha_p", "alpha_n"):
        return np.float32(0.2) * x
    if part in ("layer_scalar", "per_expert_scale", "scale", "correct_output_scale"):
        return np.float32(0.2) * x + np.float32(1)
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
    biases = {k: v for k, v in model.named_buffers() if k.endswith(("score_correction_bias", "expert_bias", "layer_scalar"))}
    with torch.no_grad():
        for name, parameter in (values | biases).items():
            parameter.copy_(torch.from_numpy(random_parameter(case, name, tuple(parameter.shape))))
    if case.nextn:
        golden_nextn.make_predictable(model)
    return model.eval()


# ---------------------------------------------------------------------------------------------------------------------
# Metadata
# ---------------------------------------------------------------------------------------------------------------------


def first(config, *names):
    return next((getattr(config, n) for n in names if getattr(config, n, None) is not None), None)


def config_keys(case, config):
    """What every config says."""
    heads, width = first(config, "num_attention_heads") or 1, config.hidden_size
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


def write_gguf(case, path, keys, tensors, half=False):
    """Writes a model. With `half`, matrices whose values f16 can hold are stored so."""
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
        x = np.ascontiguousarray(x, dtype=np.float32)
        short = x.astype(np.float16)
        if case.fp4 and re.search(case.fp4, name):
            packed = gguf.quantize(x, gguf.GGMLQuantizationType.MXFP4)
            assert (gguf.dequantize(packed, gguf.GGMLQuantizationType.MXFP4) == x).all(), name
            writer.add_tensor(name, packed, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
            continue
        if half and x.ndim > 1 and MATRIX.search(name) and (short.astype(np.float32) == x).all():
            x = short
        writer.add_tensor(name, x)
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
        evaluate = case.evaluate or (lambda case, tensors, tokens: llama_cpp_logits(path, tokens))
        logits = evaluate(case, dict(tensors), tokens)
        write_gguf(case, path, {}, tensors, case.half)
        return logits, None
    model = build_model(case)
    config = model.config
    config.allow_global_per_layer_attribute_access = True
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    tensors = []
    values = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    if case.nextn:
        nextn = golden_nextn.Nextn(case, model, random_parameter)
        case.nextn_logits = nextn.logits(tokens)
        values |= nextn.parameters()
    for name, x in values.items():
        if shifted(case, name):
            x = x + np.float32(1)
        if not (tied and name == "lm_head.weight"):
            tensors += [(name, x)] if name.startswith("blk.") else convert_tensor(case, config, name, x)
    tensors += [(name, case.extra_value(name, shape)) for name, shape in case.extra.items()]
    write_gguf(case, path, config_keys(case, config), tensors)
    logits = transformers_logits(model, tokens)
    n = case.checked_positions
    # With f16 weights llama.cpp would round activations too.
    difference = float(np.abs(llama_cpp_logits(path, tokens[:n]) - logits[:n]).max()) if case.peer else None
    write_gguf(case, path, config_keys(case, config), tensors, case.half)
    return logits, difference


# ---------------------------------------------------------------------------------------------------------------------
# Sizes
# ---------------------------------------------------------------------------------------------------------------------

TINY = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=CONTEXT, rms_norm_eps=EPS, bos_token_id=1, eos_token_id=2,
            pad_token_id=None, tie_word_embeddings=False, rope_parameters=rope())
HEADS = TINY | dict(head_dim=8)
TIED = TINY | dict(tie_word_embeddings=True)
LAYER_NORM = {k: v for k, v in TINY.items() if k != "rms_norm_eps"} | dict(layer_norm_eps=EPS)
SLIDING = ["sliding_attention", "full_attention"]
EXPERTS = {"expert_count": 4, "expert_used_count": 2}


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
