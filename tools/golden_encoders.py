"""Make the golden states of encoders besides BERT's own, in crates/model/tests/golden_states.

As golden_states.py does: tiny random models of Hugging Face transformers, written as GGUF files and evaluated there (float32,
eager attention), or by formulas written down here. Every file is then run by llama.cpp.

    pip install torch transformers==5.22.2 gguf==0.19.0 llama-cpp-python==0.3.36
    python tools/golden_encoders.py --out crates/model/tests/golden_states [CASE ...]
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

from golden_common import rope_interleaved
from golden_model import add_key
from golden_states import VOCAB, add_tokenizer

WIDTH, HEADS, FFN, POSITIONS, EPS, WINDOW = 32, 4, 20, 80, 3e-3, 16
LENGTHS = [70, 1, 5]  # more than two blocks of keys, more than a window to both sides, and a single token
LLAMA_CPP_TOLERANCE = 1e-2

SIZES = dict(vocab_size=VOCAB, hidden_size=WIDTH, num_attention_heads=HEADS, intermediate_size=FFN,
             max_position_embeddings=POSITIONS, pad_token_id=0, bos_token_id=2, eos_token_id=3,
             attn_implementation="eager")
RMS = SIZES | dict(rms_norm_eps=EPS)


def rope(theta):
    return dict(rope_theta=theta, rope_type="default")


def eurobert():
    return transformers.EuroBertModel(transformers.EuroBertConfig(
        **RMS, num_hidden_layers=2, num_key_value_heads=2, rope_parameters=rope(5e4), mask_token_id=4))


def modern_bert():
    names = dict(cls_token_id=2, sep_token_id=3, norm_eps=EPS, num_hidden_layers=3, local_attention=WINDOW,
                 layer_types=["full_attention", "sliding_attention", "sliding_attention"],
                 rope_parameters={"full_attention": rope(160000.0), "sliding_attention": rope(10000.0)})
    return transformers.ModernBertModel(transformers.ModernBertConfig(**SIZES, **names))


def gemma_embedding():
    return transformers.Gemma3TextModel(transformers.Gemma3TextConfig(
        **RMS, num_hidden_layers=2, num_key_value_heads=1, head_dim=8, sliding_window=WINDOW, query_pre_attn_scalar=8,
        use_bidirectional_attention=True, layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"full_attention": rope(1e6), "sliding_attention": rope(10000.0)}))


def jina_v3():
    return transformers.JinaEmbeddingsV3Model(transformers.JinaEmbeddingsV3Config(
        **SIZES, num_hidden_layers=2, layer_norm_eps=EPS, rope_parameters=rope(20000.0)), add_pooling_layer=False)


def llama():
    return transformers.LlamaModel(transformers.LlamaConfig(
        **RMS, num_hidden_layers=2, num_key_value_heads=2, rope_parameters=rope(10000.0)))


def neo_bert():
    return transformers.LlamaModel(transformers.LlamaConfig(**RMS, num_hidden_layers=2, rope_parameters=rope(10000.0)))


NOMIC_MOE = {"token_embd.weight": (VOCAB, WIDTH), "token_types.weight": (1, WIDTH), "token_embd_norm.weight": (WIDTH,),
             "token_embd_norm.bias": (WIDTH,)}
for i in range(2):
    block = {"attn_qkv.weight": (3 * WIDTH, WIDTH), "attn_qkv.bias": (3 * WIDTH,), "attn_output.weight": (WIDTH, WIDTH),
             "attn_output.bias": (WIDTH,), "attn_output_norm.weight": (WIDTH,), "attn_output_norm.bias": (WIDTH,),
             "layer_output_norm.weight": (WIDTH,), "layer_output_norm.bias": (WIDTH,)}
    if i == 1:
        block |= {"ffn_gate_inp.weight": (4, WIDTH), "ffn_up_exps.weight": (4, FFN, WIDTH),
                  "ffn_down_exps.weight": (4, WIDTH, FFN)}
    else:
        block |= {"ffn_up.weight": (FFN, WIDTH), "ffn_up.bias": (FFN,), "ffn_down.weight": (WIDTH, FFN),
                  "ffn_down.bias": (WIDTH,)}
    NOMIC_MOE |= {f"blk.{i}.{name}": shape for name, shape in block.items()}

NORM = {"attention.layer_norm_epsilon": EPS}
RMS_NORM = {"attention.layer_norm_rms_epsilon": EPS}
# name: (architecture, model or shapes, layers, keys, tokenizer)
CASES = {
    "eurobert": ("eurobert", eurobert, 2, RMS_NORM | {"attention.head_count_kv": 2, "rope.freq_base": 5e4}, "wordpiece"),
    "modern-bert": ("modern-bert", modern_bert, 3,
                    NORM | {"rope.freq_base": 160000.0, "rope.freq_base_swa": 10000.0, "attention.sliding_window": WINDOW,
                            "attention.sliding_window_pattern": 3}, "wordpiece"),
    "gemma-embedding": ("gemma-embedding", gemma_embedding, 2,
                        RMS_NORM | {"attention.head_count_kv": 1, "attention.key_length": 8, "attention.value_length": 8,
                                    "attention.sliding_window": WINDOW, "rope.freq_base": 1e6,
                                    "attention.sliding_window_pattern": [True, False], "rope.freq_base_swa": 10000.0,
                                    "dense_2_feat_in": WIDTH, "dense_2_feat_out": 24, "dense_3_feat_in": 24,
                                    "dense_3_feat_out": WIDTH}, "wordpiece"),
    "jina-bert-v3": ("jina-bert-v3", jina_v3, 2, NORM | {"rope.freq_base": 20000.0}, "unigram"),
    "llama-embed": ("llama-embed", llama, 2, RMS_NORM | {"attention.head_count_kv": 2, "rope.freq_base": 10000.0,
                                                         "rope.dimension_count": 8}, "wordpiece"),
    "neo-bert": ("neo-bert", neo_bert, 2, RMS_NORM | {"rope.freq_base": 10000.0}, "wordpiece"),
    "nomic-bert-moe": ("nomic-bert-moe", NOMIC_MOE, 2,
                       NORM | {"rope.freq_base": 10000.0, "expert_count": 4, "expert_used_count": 2,
                               "moe_every_n_layers": 2}, "unigram"),
}
NAMES = [
    (r"embeddings\.(word_embeddings|tok_embeddings)|embed_tokens", "token_embd"),
    (r"embeddings\.token_type_embeddings", "token_types"),
    (r"embeddings\.(LayerNorm|norm)", "token_embd_norm"),
    (r"layers\.(\d+)", r"blk.\1"),
    (r"(self_attn|attn)\.(Wqkv)", "attn_qkv"),
    (r"self_attn\.([qkv])_proj", r"attn_\1"),
    (r"(self_attn\.o_proj|attn\.Wo)", "attn_output"),
    (r"self_attn\.([qk])_norm", r"attn_\1_norm"),
    (r"mlp\.(gate|up|down)_proj", r"ffn_\1"),
    (r"mlp\.(fc1|Wi)", "ffn_up"),
    (r"mlp\.(fc2|Wo)", "ffn_down"),
    (r"mlp_norm|pre_feedforward_layernorm", "ffn_norm"),
    (r"post_feedforward_layernorm", "post_ffw_norm"),
    (r"^(norm|final_norm)\.", "output_norm."),
]
POST = {"eurobert": "ffn_norm", "llama-embed": "ffn_norm", "neo-bert": "ffn_norm", "gemma-embedding": "post_attention_norm",
        "jina-bert-v3": "attn_output_norm"}


def random(case, name, shape):
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{case}/{name}".encode())))
    x = rng.standard_normal(shape).astype(np.float32)
    if "norm" in name.lower() and name.endswith("weight"):
        return np.float32(0.2) * x + np.float32(0 if case == "gemma-embedding" else 1)
    if name.endswith("bias"):
        return np.float32(0.2) * x
    if "embed" in name or "embd" in name or "types" in name:
        return np.float32(0.4) * x
    peaked = re.search(r"q_proj|k_proj|Wqkv|attn_qkv|gate_inp", name)
    return x * np.float32((2.5 if peaked else 1.5) / math.sqrt(shape[-1]))


def build(case):
    model = CASES[case][1]().float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(random(case, name, tuple(parameter.shape))))
    return model


def tensors(case, model):
    """A transformers model's tensors under GGUF's names."""
    arch, held = CASES[case][0], {}
    for name, parameter in model.named_parameters():
        x = parameter.detach().numpy()
        if case == "gemma-embedding" and "norm" in name:
            x = x + np.float32(1)
        for pattern, to in NAMES:
            name = re.sub(pattern, to, name)
        name = name.replace("input_layernorm", "attn_norm").replace("post_mlp_layernorm", "layer_output_norm")
        name = name.replace("post_attention_layernorm", POST.get(case, "ffn_norm"))
        if case in ("llama-embed", "neo-bert"):
            heads = {"attn_q.weight": HEADS, "attn_k.weight": 2 if case == "llama-embed" else HEADS}
            x = next((rope_interleaved(x, n) for stem, n in heads.items() if name.endswith(stem)), x)
        fuse = re.fullmatch(r"(blk\.\d+)\.(attn_[qkv]|ffn_gate|ffn_up)\.weight", name)
        if arch == "neo-bert" and fuse:
            held[name] = x
            parts = ["attn_q", "attn_k", "attn_v"] if "attn" in name else ["ffn_gate", "ffn_up"]
            found = [held.get(f"{fuse[1]}.{part}.weight") for part in parts]
            if all(part is not None for part in found):
                whole = "attn_qkv" if "attn" in name else "ffn_up"
                yield f"{fuse[1]}.{whole}.weight", np.concatenate(found)
            continue
        yield ("enc." + name if arch == "neo-bert" and name == "output_norm.weight" else name), x


DENSE = {"dense_2.weight": (24, WIDTH), "dense_3.weight": (WIDTH, 24)}


def evaluate(case, model, texts):
    states = []
    for tokens in texts:
        ids = torch.tensor([tokens])
        extra = {}
        if case in ("llama-embed", "neo-bert"):
            extra["attention_mask"] = torch.zeros(1, 1, len(tokens), len(tokens))
        with torch.no_grad():
            x = model(ids, **extra).last_hidden_state[0]
        if case == "gemma-embedding":
            for name, shape in DENSE.items():
                x = x @ torch.from_numpy(random(case, name, shape)).T
        states.append(x)
    return torch.cat(states).numpy()


def evaluate_nomic_moe(tensors, texts):
    """Nomic embeddings 2 in f64: transformers has no such class."""
    w = {name: torch.from_numpy(x).double() for name, x in tensors}
    gelu, states = torch.nn.functional.gelu, []
    norm = lambda x, name: torch.nn.functional.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], EPS)
    for tokens in texts:
        n, size = len(tokens), WIDTH // HEADS
        angles = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size).double()
        cos, sin = torch.cos(angles)[:, None], torch.sin(angles)[:, None]

        def turn(x):
            a, b = x.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        x = norm(w["token_embd.weight"][tokens] + w["token_types.weight"][0], "token_embd_norm")
        for i in range(2):
            b = f"blk.{i}"
            linear = lambda x, name: x @ w[f"{b}.{name}.weight"].T + w[f"{b}.{name}.bias"]
            q, k, v = (part.view(n, HEADS, size) for part in linear(x, "attn_qkv").chunk(3, -1))
            scores = torch.einsum("ihd,jhd->hij", turn(q), turn(k)) / math.sqrt(size)
            h = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(n, WIDTH)
            x = norm(linear(h, "attn_output") + x, f"{b}.attn_output_norm")
            if i == 0:
                h = linear(gelu(linear(x, "ffn_up")), "ffn_down")
            else:
                best, chosen = (x @ w[f"{b}.ffn_gate_inp.weight"].T).softmax(-1).topk(2, -1)
                each = torch.einsum("nef,edf->ned", gelu(torch.einsum("nd,efd->nef", x, w[f"{b}.ffn_up_exps.weight"])),
                                    w[f"{b}.ffn_down_exps.weight"])
                h = (each.gather(1, chosen[..., None].expand(-1, -1, WIDTH)) * best[..., None]).sum(1)
            x = norm(h + x, f"{b}.layer_output_norm")
        states.append(x)
    return torch.cat(states).float().numpy()


def llama_cpp_states(path, texts):
    import llama_cpp

    llm = llama_cpp.Llama(str(path), n_ctx=256, n_batch=256, n_ubatch=256, embedding=True, type_k=0, type_v=0,
                          pooling_type=llama_cpp.LLAMA_POOLING_TYPE_NONE, flash_attn=False, n_threads=1, n_gpu_layers=0,
                          verbose=False)
    rows = []
    memory = llama_cpp.llama_get_memory(llm.ctx)
    for tokens in texts:
        if memory:
            llama_cpp.llama_memory_clear(memory, True)
        llm._batch.reset()
        llm._batch.add_sequence(tokens, 0, True)
        llm._ctx.decode(llm._batch)
        pointer = llama_cpp.llama_get_embeddings(llm.ctx)
        rows.append(np.ctypeslib.as_array(pointer, shape=(len(tokens) * WIDTH,)).reshape(-1, WIDTH).copy())
    llm.close()
    return np.concatenate(rows)


def make(case, folder):
    arch, model, layers, keys, tokenizer = CASES[case]
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(case.encode())))
    texts = [[int(t) for t in rng.integers(5, VOCAB, length)] for length in LENGTHS]
    path = folder / f"{case}.gguf"
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"golden {case}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(VOCAB)
    base = {"context_length": POSITIONS, "embedding_length": WIDTH, "block_count": layers, "feed_forward_length": FFN,
            "attention.head_count": HEADS, "attention.causal": False}
    for key, value in (base | keys).items():
        add_key(writer, f"{arch}.{key}", value)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    add_tokenizer(writer, tokenizer)
    if isinstance(model, dict):
        found = [(name, random(case, name, shape)) for name, shape in model.items()]
    else:
        model = build(case)
        found = list(tensors(case, model))
        if case == "gemma-embedding":
            found += [(name, random(case, name, shape)) for name, shape in DENSE.items()]
    for name, x in found:
        writer.add_tensor(name, np.ascontiguousarray(x, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    content = {"case": case, "arch": arch, "width": WIDTH,
               "texts": [{"tokens": tokens, "second": len(tokens)} for tokens in texts]}
    difference = None
    if isinstance(model, dict):
        states = evaluate_nomic_moe(found, texts)
        content["reference"] = "our formulas"
    else:
        states = evaluate(case, model, texts)
        content["reference"] = f"transformers, {type(model).__name__.removesuffix('Model')}"
    # llama.cpp pools before the last matrices.
    if case != "gemma-embedding":
        difference = float(np.abs(llama_cpp_states(path, texts) - states).max())
        if not difference <= LLAMA_CPP_TOLERANCE * np.abs(states).max():
            raise ValueError(f"{case}: llama.cpp differs by {difference:.2e}")
    assert np.isfinite(states).all() and states.shape == (sum(LENGTHS), WIDTH)
    if difference is not None:
        content["llama_cpp_max_difference"] = float(f"{difference:.2e}")
    content["states_f32_le_base64"] = base64.b64encode(states.astype("<f4").tobytes()).decode()
    (folder / f"{case}.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{case:20} {path.stat().st_size / 1024:5.0f} KiB  largest state {np.abs(states).max():4.1f}  "
          f"llama.cpp differs by {difference}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for case in arguments.cases or CASES:
        make(case, arguments.out)


if __name__ == "__main__":
    main()
