"""Check `strata convert` and the loading of Hugging Face folders against transformers and llama.cpp.

For every case of golden_logits.py (tiny random models of each architecture) the model is saved as safetensors, as
safetensors in shards and as a PyTorch file, with a byte-level tokenizer. Then

- `strata logits` of the folder itself, of the PyTorch file and of the converted GGUF must give the logits of
  transformers within 1e-3, all three with the same bits;
- the converted tensors and metadata must be those that golden_logits.py wrote, which llama.cpp has checked;
- llama.cpp must load the converted file, agree with transformers, tokenize a text as strata does, and continue it
  greedily with the same tokens.

    pip install torch transformers==5.22.2 gguf==0.19.0 llama-cpp-python==0.3.36
    python tools/convert_check.py --strata target/release/strata            # all cases
    python tools/convert_check.py --strata target/release/strata qwen3      # one of them
    python tools/convert_check.py --fixtures crates/convert/tests/folders llama-llama3-rope mixtral qwen2moe gemma \\
        phi3-longrope-long gpt2 gptneox-parallel falcon-40b stablelm-parallel bert-rank xlm-roberta  # write the folders that tests use
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

import golden_logits as golden
import golden_states as states

TOLERANCE = 1e-3
TEXT = "A B! AA"


def tokenizer_json(vocab):
    """Byte-level BPE over a few letters, with the special tokens that every case has."""
    letters = ["Ġ"] + [chr(c) for c in range(ord("!"), ord("~") + 1)]
    tokens = ["<unk>", "<s>", "</s>"] + letters[: vocab - 6] + ["ĠA", "ĠB", "<|endoftext|>"]
    assert len(tokens) == vocab == len(set(tokens)), tokens
    special = [0, 1, 2, vocab - 1]
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True} for i in special
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": [["Ġ", "A"], ["Ġ", "B"]]},
    }


def save(model, folder, shards=None):
    """Saves a model as a folder; `shards` is the most bytes of a file."""
    model.save_pretrained(folder, max_shard_size=shards or "5GB")
    vocab = model.config.vocab_size
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(vocab), ensure_ascii=False))
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "tokenizer_class": "PreTrainedTokenizerFast",
                "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def save_torch(model, folder, source):
    """The same folder with a PyTorch file, tied tensors and transposed views included."""
    folder.mkdir()
    for path in source.iterdir():
        if not path.name.startswith("model"):
            shutil.copy(path, folder)
    from safetensors.torch import load_file

    state = {}
    for path in sorted(source.glob("*.safetensors")):
        state |= load_file(path)
    for index, (name, tensor) in enumerate(state.items()):
        if tensor.dim() == 2 and index % 3 == 0:
            state[name] = tensor.t().contiguous().t()  # a view with other strides
    torch.save(state, folder / "pytorch_model.bin")


def strata_logits(strata, path, tokens, folder):
    out = folder / "logits.bin"
    subprocess.run([strata, "logits", path, "--tokens", ",".join(map(str, tokens)), "--out", out, "--kv", "f32"],
                   check=True, stdout=subprocess.DEVNULL)
    return np.fromfile(out, dtype="<f4").reshape(len(tokens), -1)


def tensors_of(path):
    return {t.name: (list(t.shape), t.data) for t in gguf.GGUFReader(path).tensors}


def compare_files(ours, theirs):
    """Names, shapes and values of all tensors."""
    a, b = tensors_of(ours), tensors_of(theirs)
    if a.keys() != b.keys():
        return f"the tensors {sorted(a.keys() ^ b.keys())} are only in one of the files"
    for name, (shape, data) in a.items():
        if [d for d in shape if d != 1] != [d for d in b[name][0] if d != 1]:
            return f"{name} has the shape {shape}, not {b[name][0]}"
        if not np.array_equal(np.ravel(data), np.ravel(b[name][1])):
            worst = np.abs(np.ravel(data).astype(np.float64) - np.ravel(b[name][1]).astype(np.float64)).max()
            if worst > 1e-6:
                return f"{name} has other values, by {worst:.1e}"
    return None


def greedy(path, tokens, count):
    """llama.cpp's continuation, and what it makes of the text."""
    import llama_cpp

    llm = llama_cpp.Llama(str(path), n_ctx=golden.CONTEXT, logits_all=True, type_k=0, type_v=0, flash_attn=False,
                          n_threads=1, n_gpu_layers=0, verbose=False)
    ids = llm.tokenize(TEXT.encode(), add_bos=True, special=False)
    tokens = list(tokens)
    for _ in range(count):
        llm.reset()
        llm.eval(tokens)
        tokens.append(int(np.argmax(llm.scores[len(tokens) - 1])))
    llm.close()
    return ids, tokens


def check(case, strata):
    problems = []
    model = golden.build_model(case)
    tokens = golden.tokens_of(case)
    expected = golden.transformers_logits(model, tokens)
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        save(model, root / "hf")
        save(model, root / "shards", shards="40KB")
        save_torch(model, root / "torch", root / "hf")
        if not list((root / "shards").glob("*.index.json")):
            problems.append("the shards are one file: the case is too small")
        out = root / "out.gguf"
        subprocess.run([strata, "convert", root / "hf", "-o", out], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([strata, "convert", root / "torch" / "pytorch_model.bin", "-o", root / "torch.gguf"], check=True,
                       stdout=subprocess.DEVNULL)
        results = {name: strata_logits(strata, root / name, tokens, root)
                   for name in ("hf", "shards", "torch", "out.gguf", "torch.gguf")}
        worst = max(float(np.abs(logits - expected).max()) for logits in results.values())
        # Phi-3's factors are chosen by the context that a model is loaded for, which `logits` takes from the file.
        by_context = case.name == "phi3-longrope-short"
        if worst > TOLERANCE and not by_context:
            problems.append(f"strata differs from transformers by {worst:.1e}")
        for name, logits in results.items():
            if not np.array_equal(logits.view(np.uint32), results["hf"].view(np.uint32)):
                problems.append(f"{name} gives other bits than the folder")
        golden.write_gguf(case, model, root / "golden.gguf")
        problems += filter(None, [compare_files(out, root / "golden.gguf")])
        difference = golden.check_with_llama_cpp(case, out, tokens, expected)
        if difference > golden.LLAMA_CPP_TOLERANCE * float(np.abs(expected).max()):
            problems.append(f"llama.cpp differs from transformers by {difference:.1e}")
        if case.checked_layers:  # llama.cpp cannot load so few layers
            print(f"{case.name:22} transformers {worst:.1e}  {'; '.join(problems) or 'ok'}", flush=True)
            return [f"{case.name}: {problem}" for problem in problems]
        ids, theirs = greedy(out, tokens[:4], 12)
        printed = subprocess.run([strata, "tokenize", out, TEXT, "--json"], check=True, capture_output=True, text=True).stdout
        ours = json.loads(printed)
        if ours != ids:
            problems.append(f"the text is {ours} here and {ids} in llama.cpp")
        mine = tokens[:4]
        while len(mine) < len(theirs) and case.checked_positions > len(mine):
            logits = strata_logits(strata, out, mine, root)
            mine = [*mine, int(np.argmax(logits[-1]))]
        # llama.cpp reads GELU from a table of half floats: near ties may fall the other way.
        if not by_context and "GELU" not in case.note and mine != theirs[: len(mine)]:
            problems.append(f"greedy tokens are {mine} here and {theirs} in llama.cpp")
    print(f"{case.name:22} transformers {worst:.1e}  llama.cpp {difference:.1e}  {'; '.join(problems) or 'ok'}", flush=True)
    return [f"{case.name}: {problem}" for problem in problems]


def write_fixtures(folder, names):
    """Folders of half floats, small enough to commit; CI compares their conversion with the golden files."""
    for case in golden.CASES:
        if case.name in names:
            target = folder / case.name
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            save(golden.build_model(case).half(), target)
            (target / "generation_config.json").unlink()
    for name in states.CASES.keys() & set(names):
        target = folder / name
        shutil.rmtree(target, ignore_errors=True)
        (target / "1_Pooling").mkdir(parents=True)
        states.build(name).half().save_pretrained(target)
        mode = {"MEAN": "pooling_mode_mean_tokens", "CLS": "pooling_mode_cls_token"}.get(states.CASES[name][3])
        (target / "1_Pooling" / "config.json").write_text(json.dumps({mode: True} if mode else {}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", type=Path)
    parser.add_argument("--fixtures", type=Path)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if arguments.fixtures:
        write_fixtures(arguments.fixtures, arguments.cases)
        return
    if not arguments.strata:
        parser.error("--strata or --fixtures is needed")
    chosen = [case for case in golden.CASES if not arguments.cases or case.name in arguments.cases]
    problems = [problem for case in chosen for problem in check(case, arguments.strata)]
    sys.exit("\n".join(problems) if problems else 0)


if __name__ == "__main__":
    main()
