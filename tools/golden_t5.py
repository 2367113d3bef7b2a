"""Make the golden logits and states of T5, in crates/model/tests/golden and golden_states.

Tiny random models of Hugging Face transformers (float32, eager attention), written as GGUF files. An encoder-decoder's tokens
are a source, the token that begins an answer, and the answer; its logits are those of the latter two. Each file is also run
by llama.cpp, which does not scale the logits of tied models, and knows no other distance than 128.

    pip install torch transformers==5.22.2 gguf==0.19.0 llama-cpp-python==0.3.36
    python tools/golden_t5.py --out crates/model/tests [CASE ...]
    python tools/golden_t5.py --strata target/release/strata [CASE ...]     # folders and their conversions
    python tools/golden_t5.py --fixtures crates/convert/tests/folders t5-gated
"""

import argparse
import base64
import json
import math
import re
import subprocess
import tempfile
import zlib
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

WIDTH, FFN, POSITIONS, EPS, VOCAB = 32, 24, 80, 3e-3, 64
START, END = 0, 1
SOURCE, ANSWER = 40, 20
LENGTHS = [70, 1, 5]  # more than two blocks of keys, and a single token
LLAMA_CPP_TOLERANCE = 1e-2
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
PIECES = ["<pad>", "</s>", "<unk>", "\u2581", *LETTERS, *(a + b for a in "aeiou" for b in "nrst")]
PIECES += [f"<extra_id_{i}>" for i in range(VOCAB - len(PIECES))]
SCORES = [0.0, 0.0, 0.0, *(-float(i % 7) - 1 for i in range(3, VOCAB))]

SIZES = dict(vocab_size=VOCAB, d_model=WIDTH, d_ff=FFN, n_positions=POSITIONS, layer_norm_epsilon=EPS, pad_token_id=START,
             eos_token_id=END, decoder_start_token_id=START, attn_implementation="eager", dropout_rate=0.0)
# name: (config, what it exercises)
CASES = {
    "t5": (dict(d_kv=8, num_heads=4, num_layers=3, num_decoder_layers=2, feed_forward_proj="relu"),
           "tied, scaled by 1/√width; ReLU; three layers that read, two that write"),
    "t5-gated": (dict(d_kv=12, num_heads=3, num_layers=2, num_decoder_layers=2, feed_forward_proj="gated-gelu",
                      relative_attention_num_buckets=8, relative_attention_max_distance=20, tie_word_embeddings=False),
                 "T5 1.1: not tied; gated GELU; heads wider than the model; distances to 20 in 8 buckets, so llama.cpp cannot "
                 "run it"),
    "t5encoder": (dict(d_kv=8, num_heads=4, num_layers=2, feed_forward_proj="gated-gelu"), "gated GELU"),
}


def random(case, name, shape):
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{case}/{name}".encode())))
    x = rng.standard_normal(shape).astype(np.float32)
    if "norm" in name:
        return np.float32(0.2) * x + np.float32(1)
    if "shared" in name:
        return (np.float32(0.6) * x).astype(np.float16).astype(np.float32)
    if "relative" in name:
        return x
    # Scores are not scaled.
    factor = 0.9 / math.sqrt(math.sqrt(12)) if re.search(r"Attention\.[qk]\.", name) else 1.5
    x = x * np.float32(factor / math.sqrt(shape[-1]))
    return x.astype(np.float16).astype(np.float32)


def build(case):
    config = transformers.T5Config(**SIZES, **CASES[case][0])
    model_class = transformers.T5EncoderModel if case == "t5encoder" else transformers.T5ForConditionalGeneration
    model = model_class(config).float().eval()
    if case == "t5-gated":
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(random(case, name, tuple(parameter.shape))))
    return model


NAMES = [
    (r"^shared\.", "token_embd."),
    (r"^lm_head\.", "output."),
    (r"^encoder\.", "enc."),
    (r"^decoder\.", "dec."),
    (r"final_layer_norm", "output_norm"),
    (r"block\.(\d+)\.", r"blk.\1."),
    (r"layer\.0\.SelfAttention\.relative_attention_bias", "attn_rel_b"),
    (r"layer\.0\.SelfAttention\.([qkvo])", r"attn_\1"),
    (r"layer\.0\.layer_norm", "attn_norm"),
    (r"layer\.1\.EncDecAttention\.([qkvo])", r"cross_attn_\1"),
    (r"(dec\.blk\.\d+\.)layer\.1\.layer_norm", r"\1cross_attn_norm"),
    (r"layer\.[12]\.DenseReluDense\.wi_0", "ffn_gate"),
    (r"layer\.[12]\.DenseReluDense\.(wi_1|wi)", "ffn_up"),
    (r"layer\.[12]\.DenseReluDense\.wo", "ffn_down"),
    (r"layer\.[12]\.layer_norm", "ffn_norm"),
]


def tensors(model):
    for name, parameter in model.named_parameters():
        for pattern, to in NAMES:
            name = re.sub(pattern, to, name)
        yield name, parameter.detach().numpy()


def add_tokenizer(writer):
    kinds = gguf.TokenType
    writer.add_tokenizer_model("t5")
    writer.add_token_list(PIECES)
    writer.add_token_scores(SCORES)
    writer.add_token_types([int(kind) for kind in [kinds.CONTROL, kinds.CONTROL, kinds.UNKNOWN, *[kinds.NORMAL] * (VOCAB - 3)]])
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    writer.add_pad_token_id(START)
    writer.add_eos_token_id(END)
    writer.add_unk_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(True)


def write_gguf(case, model, path):
    config = model.config
    arch = "t5encoder" if case == "t5encoder" else "t5"
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"golden {case}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(config.num_heads)
    writer.add_key_length(config.d_kv)
    writer.add_value_length(config.d_kv)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_relative_attn_buckets_count(config.relative_attention_num_buckets)
    if config.relative_attention_max_distance != 128:
        writer.add_uint32("t5.attention.relative_max_distance", config.relative_attention_max_distance)
    if arch == "t5":
        writer.add_decoder_start_token_id(START)
        writer.add_decoder_block_count(config.num_decoder_layers)
    else:
        writer.add_causal_attention(False)
        writer.add_pooling_type(gguf.PoolingType.MEAN)
    add_tokenizer(writer)
    for name, x in tensors(model):
        matrix = x.ndim > 1 and "rel_b" not in name
        writer.add_tensor(name, np.ascontiguousarray(x.astype(np.float16) if matrix else x))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tokens_of(case, length):
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{case}/{length}".encode())))
    return [int(t) for t in rng.integers(3, VOCAB, length)]


def evaluate(model, source, answer):
    with torch.no_grad():
        return model(torch.tensor([source]), decoder_input_ids=torch.tensor([answer]), use_cache=False).logits[0].numpy()


def llama_cpp_rows(path, source, answer, width):
    """States of a source, or logits of an answer to it."""
    import llama_library
    import llama_cpp

    llm = llama_cpp.Llama(str(path), n_ctx=256, n_batch=256, n_ubatch=256, embedding=not answer, logits_all=True, type_k=0,
                          type_v=0, pooling_type=llama_cpp.LLAMA_POOLING_TYPE_NONE, flash_attn=False, n_threads=1,
                          n_gpu_layers=0, verbose=False)
    llm._batch.reset()
    llm._batch.add_sequence(source, 0, True)
    assert llama_cpp.llama_encode(llm.ctx, llm._batch.batch) == 0
    get = llama_cpp.llama_get_embeddings
    if answer:
        llm._batch.reset()
        llm._batch.add_sequence(answer, 0, True)
        llm._ctx.decode(llm._batch)
        get = llama_cpp.llama_get_logits
    rows = np.ctypeslib.as_array(get(llm.ctx), shape=((len(answer) or len(source)) * width,)).reshape(-1, width).copy()
    llm.close()
    return rows


def pack(x):
    return base64.b64encode(np.ascontiguousarray(x, dtype="<f4").tobytes()).decode()


def make(case, folder):
    model = build(case)
    if case == "t5encoder":
        path = folder / "golden_states" / f"{case}.gguf"
        write_gguf(case, model, path)
        texts = [tokens_of(case, length) for length in LENGTHS]
        with torch.no_grad():
            states = np.concatenate([model(torch.tensor([text])).last_hidden_state[0].numpy() for text in texts])
        theirs = np.concatenate([llama_cpp_rows(path, text, [], WIDTH) for text in texts])
        document = dict(reference="transformers, T5Encoder", texts=[dict(tokens=t, second=len(t)) for t in texts],
                        states_f32_le_base64=pack(states))
        expected = states
    else:
        path = folder / "golden" / f"{case}.gguf"
        write_gguf(case, model, path)
        source, answer = tokens_of(case, SOURCE) + [END], [START] + tokens_of(case, ANSWER)
        expected = evaluate(model, source, answer)
        theirs = None
        if case == "t5":
            theirs = llama_cpp_rows(path, source, answer, VOCAB) / np.float32(math.sqrt(WIDTH))
        document = dict(reference="transformers, T5", tokens=source + answer, logits_f32_le_base64=pack(expected))
    path.with_suffix(".json").write_text(json.dumps(document) + "\n")
    difference = "–" if theirs is None else f"{np.abs(theirs - expected).max():.1e}"
    arch = "t5encoder" if case == "t5encoder" else "t5"
    print(f"| {case} | {arch} | transformers, T5 | {np.abs(expected).max():.2f} | {difference} | {CASES[case][1]} |")
    assert theirs is None or np.abs(theirs - expected).max() < LLAMA_CPP_TOLERANCE * np.abs(expected).max()


def save(case, model, folder):
    model.save_pretrained(folder)
    document = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": PIECES[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i in range(3)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [], "special_tokens": {"</s>": {"id": "</s>", "ids": [END], "tokens": ["</s>"]}},
        },
        "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 2, "vocab": [list(pair) for pair in zip(PIECES, SCORES)],
                  "byte_fallback": False},
    }
    (folder / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False))
    settings = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "tokenizer_class": "T5TokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def strata_logits(strata, path, tokens, folder):
    out = folder / "logits.bin"
    command = [strata, "logits", path, "--tokens", ",".join(map(str, tokens)), "--out", out, "--kv", "f32"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return np.fromfile(out, dtype="<f4").reshape(-1, VOCAB)


def check(case, strata):
    """The folder, its conversion and the golden file's tensors against transformers."""
    from convert_check import compare_files

    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        model = build(case)
        folder, converted, written = root / "folder", root / "converted.gguf", root / "written.gguf"
        save(case, model, folder)
        write_gguf(case, model, written)
        subprocess.run([strata, "convert", folder, "--out", converted, "--type", "f32"], check=True,
                       stdout=subprocess.DEVNULL)
        problem = compare_files(converted, written)
        assert problem is None, f"{case}: {problem}"
        if case == "t5encoder":
            texts = ["an eros tin", "o"]
            embed = lambda path: subprocess.run([strata, "embed", path, *texts], check=True, capture_output=True).stdout
            assert embed(folder) == embed(converted), case
            print(f"{case}: the folder and its conversion have the same embeddings")
            return
        source, answer = tokens_of(case, SOURCE) + [END], [START] + tokens_of(case, ANSWER)
        expected = evaluate(model, source, answer)
        rows = [strata_logits(strata, path, source + answer, root) for path in (folder, converted)]
        assert rows[0].tobytes() == rows[1].tobytes(), case
        worst = np.abs(rows[0] - expected).max()
        assert worst < 1e-3, (case, worst)
        with torch.no_grad():
            ours = subprocess.run([strata, "run", folder, "--raw", "--temp", "0", "-n", "12", "an eros"], check=True,
                                  capture_output=True, text=True).stdout.strip()
            tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
            ids = tokenizer("an eros")["input_ids"]
            theirs = model.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False, num_beams=1)[0]
            theirs = tokenizer.decode(theirs, skip_special_tokens=True).strip()
        assert ours == theirs, (case, ours, theirs)
        print(f"{case}: {worst:.1e}; {ours!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--strata", type=Path)
    parser.add_argument("--fixtures", type=Path)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    for case in options.cases or CASES:
        if options.fixtures:
            save(case, build(case).half(), options.fixtures / case)
        elif options.strata:
            check(case, options.strata.resolve())
        else:
            make(case, options.out)


if __name__ == "__main__":
    main()
