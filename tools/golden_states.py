"""Make the golden-states cases of crates/model/tests/golden_states.

Each case is a tiny random encoder (or a decoder used for embeddings) built by Hugging Face transformers, written as a
GGUF file with llama.cpp's tensor names and conventions, and evaluated by transformers (float32, eager attention) on a
few texts: the states of all tokens, and the scores of models with a classifier. Jina BERT is not in transformers; it is
a module of this script. Every encoder is then run by llama.cpp, which proves the conversion by a third party.

    pip install torch transformers==5.22.2 gguf==0.19.0 llama-cpp-python==0.3.36
    python tools/golden_states.py --out crates/model/tests/golden_states            # make all cases and the README
    python tools/golden_states.py --out crates/model/tests/golden_states --verify   # compare with fresh ones

Weights come from numpy's PCG64 seeded by case and parameter name, so the GGUF files are the same bytes on every
machine; states may differ in the last digits with another build of torch.
"""

import argparse
import base64
import importlib.metadata
import json
import math
import re
import sys
import tempfile
import zlib
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from torch import nn

from golden_model import MATRIX

VOCAB = 64
WIDTH = 48
HEADS = 3
FFN = 40
LAYERS = 2
POSITIONS = 80
EPS = 3e-3  # large, so that a norm with another one is seen
LENGTHS = [70, 1, 33, 5]  # more than two blocks of keys, and a single token
VERIFY_TOLERANCE = 1e-4
LLAMA_CPP_TOLERANCE = 1e-2

SIZES = dict(vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
             intermediate_size=FFN, layer_norm_eps=EPS, max_position_embeddings=POSITIONS)


class JinaLayer(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.attn_output = nn.Linear(WIDTH, WIDTH)
        if code:
            self.q_norm, self.k_norm, self.attn_norm_2 = (nn.LayerNorm(WIDTH, eps=EPS) for _ in range(3))
            self.up_gated = nn.Linear(WIDTH, 2 * FFN, bias=False)
        else:
            self.gate, self.up = (nn.Linear(WIDTH, FFN, bias=False) for _ in range(2))
        self.down = nn.Linear(FFN, WIDTH)
        self.attn_output_norm, self.layer_output_norm = (nn.LayerNorm(WIDTH, eps=EPS) for _ in range(2))
        self.code = code

    def heads(self, x):
        return x.reshape(x.shape[0], HEADS, -1).transpose(0, 1)

    def forward(self, x, bias):
        q, k, v = self.query(x), self.key(x), self.value(x)
        if self.code:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = self.heads(q), self.heads(k), self.heads(v)
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) + bias
        attended = (scores.softmax(-1) @ v).transpose(0, 1).reshape(x.shape)
        y = self.attn_output_norm(self.attn_output(attended) + x)
        if self.code:
            y = self.attn_norm_2(y + x)
            gate, up = self.up_gated(y).chunk(2, dim=-1)
        else:
            gate, up = self.gate(y), self.up(y)
        return self.layer_output_norm(self.down(nn.functional.gelu(gate) * up) + y)


class JinaBert(nn.Module):
    """Jina BERT 2 as its authors describe it: symmetric ALiBi, GLU with GELU."""

    def __init__(self, code):
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCAB, WIDTH)
        self.token_type_embeddings = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=EPS)
        self.layers = nn.ModuleList(JinaLayer(code) for _ in range(LAYERS))

    def forward(self, tokens, types):
        x = self.norm(self.word_embeddings(tokens) + self.token_type_embeddings(types))
        # ALiBi's rates for 3 heads: those of 2 heads, then the first of 4.
        slopes = torch.tensor([2.0 ** -4, 2.0 ** -8, 2.0 ** -2])[:, None, None]
        places = torch.arange(len(tokens))
        bias = -slopes * (places[:, None] - places[None]).abs()
        for layer in self.layers:
            x = layer(x, bias)
        return x


# name: (GGUF architecture, model, tokenizer, pooling, whether texts come in pairs, note)
CASES = {
    "bert": ("bert", lambda: transformers.BertModel(bert(), add_pooling_layer=False), "wordpiece", "MEAN", True,
             "two texts with types"),
    "bert-rank": ("bert", lambda: transformers.BertForSequenceClassification(bert(num_labels=1)), "wordpiece", "RANK",
                  True, "`cls` (the pooler) and `cls.output`"),
    "xlm-roberta": ("bert", lambda: transformers.XLMRobertaModel(roberta(), add_pooling_layer=False), "unigram", "CLS",
                    False, "positions begin behind the padding's in transformers, at 0 in the file"),
    "xlm-roberta-rank": ("bert", lambda: transformers.XLMRobertaForSequenceClassification(roberta(num_labels=3)),
                         "unigram", "RANK", False, "three labels"),
    "nomic-bert": ("nomic-bert", lambda: transformers.NomicBertModel(nomic(), add_pooling_layer=False), "wordpiece",
                   "MEAN", True, "fused `attn_qkv`, rotary base 1000"),
    "jina-bert-v2": ("jina-bert-v2", lambda: JinaBert(False), "wordpiece", "MEAN", True, "ALiBi for 3 heads"),
    "jina-bert-v2-code": ("jina-bert-v2", lambda: JinaBert(True), "wordpiece", "MEAN", True,
                          "norms of queries and keys, two norms after attention, gate and up fused"),
    "qwen3-last": ("qwen3", lambda: transformers.Qwen3Model(qwen3()), "wordpiece", "LAST", False,
                   "a decoder: states after its last norm"),
}


def bert(**more):
    return transformers.BertConfig(**SIZES, attn_implementation="eager", **more)


def roberta(**more):
    sizes = SIZES | dict(max_position_embeddings=POSITIONS + 2, type_vocab_size=1)
    return transformers.XLMRobertaConfig(**sizes, pad_token_id=1, attn_implementation="eager", **more)


def nomic():
    return transformers.NomicBertConfig(**SIZES, rope_parameters=dict(rope_theta=1000.0, rope_type="default"),
                                        attn_implementation="eager")


def qwen3():
    sizes = {k: v for k, v in SIZES.items() if k != "layer_norm_eps"}
    return transformers.Qwen3Config(**sizes, num_key_value_heads=1, head_dim=16, rms_norm_eps=EPS,
                                    rope_parameters=dict(rope_theta=1e6, rope_type="default"),
                                    attn_implementation="eager")


# ---------------------------------------------------------------------------------------------------------------------
# The model
# ---------------------------------------------------------------------------------------------------------------------


def build(name):
    model = CASES[name][1]().float().eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{name}/{parameter_name}".encode())))
            x = rng.standard_normal(tuple(parameter.shape)).astype(np.float32)
            if "norm" in parameter_name.lower() and parameter_name.endswith("weight"):
                x = 0.2 * x + np.float32(1)
            elif parameter_name.endswith("bias"):
                x = np.float32(0.2) * x
            elif "embed" in parameter_name:
                x = np.float32(0.4) * x
            else:
                peaked = any(word in parameter_name for word in ("query", "key", "q_proj", "k_proj"))
                x = x * np.float32((2.5 if peaked else 1.5) / math.sqrt(parameter.shape[-1]))
            # Values that f16 can hold.
            parameter.copy_(torch.from_numpy(x.astype(np.float16).astype(np.float32)))
    return model


def texts_of(name):
    """(tokens, where the second text begins) of each text; ids above those of special tokens."""
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    paired = CASES[name][4]
    texts = []
    for length in LENGTHS:
        tokens = [int(t) for t in rng.integers(5, VOCAB, length)]
        texts.append((tokens, length * 2 // 3 if paired and length > 2 else length))
    return texts


def evaluate(name, model, texts):
    """The states of all texts, and their scores or None."""
    states, scores = [], []
    for tokens, second in texts:
        ids = torch.tensor(tokens)
        types = (torch.arange(len(tokens)) >= second).long()
        extra = {"token_type_ids": types[None]} if CASES[name][4] else {}
        with torch.no_grad():
            if isinstance(model, JinaBert):
                states.append(model(ids, types))
            elif "rank" in name:
                out = model(ids[None], output_hidden_states=True, **extra)
                states.append(out.hidden_states[-1][0])
                scores.append(out.logits[0])
            else:
                states.append(model(ids[None], **extra).last_hidden_state[0])
    states = torch.cat(states).numpy()
    return states, torch.stack(scores).numpy() if scores else None


# ---------------------------------------------------------------------------------------------------------------------
# GGUF
# ---------------------------------------------------------------------------------------------------------------------

NAMES = [
    (r"(?:bert|roberta)\.", ""),
    (r"embeddings\.word_embeddings|embed_tokens|^word_embeddings", "token_embd"),
    (r"(?:embeddings\.)?token_type_embeddings", "token_types"),
    (r"embeddings\.position_embeddings", "position_embd"),
    (r"embeddings\.LayerNorm", "token_embd_norm"),
    (r"encoder\.layer\.(\d+)|layers\.(\d+)", lambda m: f"blk.{m[1] or m[2]}"),
    (r"attention\.self\.query|self_attn\.q_proj|(?<=\d\.)query", "attn_q"),
    (r"attention\.self\.key|self_attn\.k_proj|(?<=\d\.)key", "attn_k"),
    (r"attention\.self\.value|self_attn\.v_proj|(?<=\d\.)value", "attn_v"),
    (r"attention\.output\.dense|self_attn\.o_proj", "attn_output"),
    (r"self_attn\.([qk])_norm|(?<=\d\.)([qk])_norm", lambda m: f"attn_{m[1] or m[2]}_norm"),
    (r"attention\.output\.LayerNorm", "attn_output_norm"),
    (r"intermediate\.dense|mlp\.up_proj|(?<=\d\.)up(?:_gated)?(?=\.)", "ffn_up"),
    (r"mlp\.gate_proj|(?<=\d\.)gate(?=\.)", "ffn_gate"),
    (r"(?<=\d\.)output\.dense|mlp\.down_proj|(?<=\d\.)down(?=\.)", "ffn_down"),
    (r"(?<=\d\.)output\.LayerNorm|post_mlp_layernorm", "layer_output_norm"),
    (r"classifier\.dense|pooler\.dense", "cls"),
    (r"classifier(?:\.out_proj)?(?=\.)", "cls.output"),
]
# The same words mean other norms in an encoder, in Jina BERT and in a decoder.
MORE_NAMES = {
    "nomic-bert": [(r"post_attention_layernorm", "attn_output_norm")],
    "jina-bert-v2": [(r"^norm\.", "token_embd_norm.")],
    "qwen3": [(r"post_attention_layernorm", "ffn_norm"), (r"input_layernorm", "attn_norm"),
              (r"^norm\.", "output_norm.")],
}


def tensors(name, model):
    arch = CASES[name][0]
    fused = {}
    for parameter_name, parameter in model.named_parameters():
        x = parameter.detach().numpy()
        for pattern, replacement in MORE_NAMES.get(arch, []) + NAMES:
            parameter_name = re.sub(pattern, replacement, parameter_name)
        if parameter_name == "position_embd.weight":
            x = x[-POSITIONS:]
        match = re.fullmatch(r"(blk\.\d+)\.attn_([qkv])\.weight", parameter_name)
        if arch == "nomic-bert" and match:
            parts = fused.setdefault(match[1], {})
            parts[match[2]] = x
            if len(parts) == 3:
                yield f"{match[1]}.attn_qkv.weight", np.concatenate([parts[c] for c in "qkv"])
            continue
        yield parameter_name, x


LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]


def add_tokenizer(writer, kind):
    """Single letters, at the beginning of a word and inside it: enough to spell any word."""
    kinds = gguf.TokenType
    if kind == "wordpiece":
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *("\u2581" + c for c in LETTERS), *LETTERS]
        pieces += [f"[unused{i}]" for i in range(VOCAB - len(pieces))]
        types = [kinds.CONTROL] * 5 + [kinds.NORMAL] * (VOCAB - 5)
        writer.add_tokenizer_model("bert")
        writer.add_token_type_count(2)
        writer.add_pad_token_id(0)
        writer.add_unk_token_id(1)
        writer.add_bos_token_id(2)
        writer.add_sep_token_id(3)
        writer.add_mask_token_id(4)
    else:
        pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "\u2581", *LETTERS]
        pieces += [a + b for a in "aeiou" for b in "nrst"] + [f"<{i}>" for i in range(VOCAB)]
        pieces = pieces[:VOCAB]
        types = [kinds.CONTROL, kinds.CONTROL, kinds.CONTROL, kinds.UNKNOWN, kinds.CONTROL]
        types += [kinds.NORMAL] * (VOCAB - 5)
        writer.add_tokenizer_model("t5")
        writer.add_token_scores([-float(i % 7) - 1 for i in range(VOCAB)])
        writer.add_token_type_count(1)
        writer.add_add_space_prefix(True)
        writer.add_remove_extra_whitespaces(True)
        writer.add_bos_token_id(0)
        writer.add_pad_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_sep_token_id(2)
        writer.add_unk_token_id(3)
        writer.add_mask_token_id(4)
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(True)
        writer.add_add_sep_token(True)
    assert len(pieces) == VOCAB
    writer.add_token_list(pieces)
    writer.add_token_types([int(kind) for kind in types])


def write_gguf(name, model, path, half=False):
    """Writes a model. With `half`, matrices are stored in f16."""
    arch, _, tokenizer, pooling, *_ = CASES[name]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"golden {name}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    if arch == "qwen3":
        writer.add_head_count_kv(1)
        writer.add_layer_norm_rms_eps(EPS)
        writer.add_rope_freq_base(1e6)
    else:
        writer.add_layer_norm_eps(EPS)
        writer.add_causal_attention(False)
    if arch == "nomic-bert":
        writer.add_rope_freq_base(1000.0)
    writer.add_pooling_type(gguf.PoolingType[pooling])
    if name == "xlm-roberta-rank":
        writer.add_classifier_output_labels(["a", "b", "c"])
    add_tokenizer(writer, tokenizer)
    for tensor_name, x in tensors(name, model):
        x = np.ascontiguousarray(x, dtype=np.float32)
        stored = half and x.ndim > 1 and MATRIX.search(tensor_name)
        writer.add_tensor(tensor_name, x.astype(np.float16) if stored else x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---------------------------------------------------------------------------------------------------------------------
# The third party
# ---------------------------------------------------------------------------------------------------------------------


def llama_cpp_states(path, texts):
    import llama_library
    import llama_cpp

    f32 = 0
    llm = llama_cpp.Llama(str(path), n_ctx=256, n_batch=256, n_ubatch=256, embedding=True, type_k=f32, type_v=f32,
                          pooling_type=llama_cpp.LLAMA_POOLING_TYPE_NONE, flash_attn=False, n_threads=1,
                          n_gpu_layers=0, verbose=False)
    rows = []
    for tokens, _ in texts:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(llm.ctx), True)
        llm._batch.reset()
        llm._batch.add_sequence(tokens, 0, True)
        llm._ctx.decode(llm._batch)
        pointer = llama_cpp.llama_get_embeddings(llm.ctx)
        rows.append(np.ctypeslib.as_array(pointer, shape=(len(tokens) * WIDTH,)).reshape(-1, WIDTH).copy())
    llm.close()
    return np.concatenate(rows)


def check_with_llama_cpp(name, model, path):
    """Largest |difference| of states. llama.cpp knows no second text, so each is checked as a single one."""
    texts = [(tokens, len(tokens)) for tokens, _ in texts_of(name)]
    states, _ = evaluate(name, model, texts)
    return float(np.abs(llama_cpp_states(path, texts) - states).max())


# ---------------------------------------------------------------------------------------------------------------------
# The files
# ---------------------------------------------------------------------------------------------------------------------


def make(name, folder):
    model = build(name)
    texts = texts_of(name)
    states, scores = evaluate(name, model, texts)
    assert np.isfinite(states).all() and states.shape == (sum(LENGTHS), WIDTH)
    path = folder / f"{name}.gguf"
    write_gguf(name, model, path)
    difference = check_with_llama_cpp(name, model, path)
    # With f16 weights llama.cpp would round activations too.
    write_gguf(name, model, path, half=True)
    scale = float(np.abs(states).max())
    if not difference <= LLAMA_CPP_TOLERANCE * scale:
        raise ValueError(f"{name}: llama.cpp differs by {difference:.2e} (largest state {scale:.1f})")
    content = {
        "case": name,
        "arch": CASES[name][0],
        "width": WIDTH,
        "texts": [{"tokens": tokens, "second": second} for tokens, second in texts],
        "llama_cpp_max_difference": float(f"{difference:.2e}"),
        "states_f32_le_base64": base64.b64encode(states.astype("<f4").tobytes()).decode(),
    }
    if scores is not None:
        content["scores"] = [[float(x) for x in row] for row in scores]
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{name:20} {path.stat().st_size / 1024:5.0f} KiB  largest state {scale:4.1f}  "
          f"llama.cpp differs by {difference:.1e}", flush=True)


def read(path):
    content = json.loads(path.read_text())
    return content, np.frombuffer(base64.b64decode(content["states_f32_le_base64"]), dtype="<f4")


def verify(name, folder):
    with tempfile.TemporaryDirectory() as fresh:
        fresh = Path(fresh)
        make(name, fresh)
        if (fresh / f"{name}.gguf").read_bytes() != (folder / f"{name}.gguf").read_bytes():
            return f"{name}: the GGUF file differs from a fresh one"
        (new, new_states), (old, old_states) = (read(where / f"{name}.json") for where in (fresh, folder))
        differences = [np.abs(new_states - old_states).max()]
        if "scores" in old:
            differences.append(np.abs(np.array(new["scores"]) - np.array(old["scores"])).max())
        if new["texts"] != old["texts"] or max(differences) > VERIFY_TOLERANCE:
            return f"{name}: the texts or their states differ"
    return None


README = """# Golden states

Tiny random models (F32 tensors, F16 matrices) with the states that Hugging Face transformers computes for them (float32, eager
attention), of texts of {lengths} tokens. `CASE.gguf` is the model; `CASE.json` holds the texts, where the second of two
begins, the states ({tokens} × {width} little-endian f32 in base64) and the scores of models with a classifier.

Made by `python tools/golden_states.py --out crates/model/tests/golden_states` and checked with `--verify`; versions:
torch {torch}, transformers {transformers}, gguf {gguf}, llama-cpp-python {llama}. Jina BERT is not in transformers: it
is a torch module in that script.

Each file was also run by llama.cpp, which reads every text as a single one: the column gives max |Δ| between its states
and the same of transformers. The larger ones come from GELU, which llama.cpp reads from an f16 table of its tanh form.

Encoders besides BERT's own come from `tools/golden_encoders.py`.

| case | GGUF architecture | max \\|Δ\\| llama.cpp | what it exercises |
|---|---|---|---|
{rows}
"""


def write_readme(folder):
    rows = []
    for name, (arch, *_, note) in CASES.items():
        content, _ = read(folder / f"{name}.json")
        rows.append(f"| {name} | {arch} | {content['llama_cpp_max_difference']:.1e} | {note} |")
    version = importlib.metadata.version
    (folder / "README.md").write_text(README.format(
        lengths=", ".join(map(str, LENGTHS)), tokens=sum(LENGTHS), width=WIDTH, torch=version("torch"),
        transformers=version("transformers"), gguf=version("gguf"), llama=version("llama-cpp-python"),
        rows="\n".join(rows)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        sys.exit(f"unknown cases: {', '.join(sorted(unknown))}")
    chosen = arguments.cases or list(CASES)
    if arguments.verify:
        problems = [p for p in (verify(name, arguments.out) for name in chosen) if p]
        sys.exit("\n".join(problems) if problems else 0)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        make(name, arguments.out)
    if all((arguments.out / f"{name}.json").exists() for name in CASES):
        write_readme(arguments.out)


if __name__ == "__main__":
    main()
