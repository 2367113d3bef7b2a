"""Checks `strata quantize` and `strata imatrix` against llama.cpp.

Usage: python tools/quantize_check.py PATH_OF_STRATA [--all]

- The types that each mix gives the tensors of `tale` and of a tiny synthetic model are those of llama.cpp's quantizer.
- llama.cpp loads what `strata quantize` wrote and continues a text greedily with the same 32 tokens as Strata does on
  the same file; where they part, llama.cpp must have found the two tokens about equally likely.
- The sums of `strata imatrix` are those that one gets by looking on while llama.cpp computes, within a hundredth, and
  llama.cpp's quantizer takes them.

With `--all` every mix is compared (but q2_k_s, which llama.cpp makes only with an importance matrix), otherwise a few. Needs `llama-cpp-python`, `gguf` and numpy.
"""

import argparse
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import llama_library
import llama_cpp as api
import numpy

TALE = pathlib.Path(__file__).resolve().parent.parent / "models/tale/tale-q4_k_m.gguf"
STORY = TALE.parents[2] / "crates/cli/tests/story.txt"
FEW = ["q2_k", "q3_k_m", "q4_k_s", "q4_k_m", "iq4_xs"]
ALL = ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m",
       "q5_k_s", "q5_k_m", "q6_k", "iq4_nl", "iq4_xs", "tq1_0", "tq2_0", "mxfp4_moe", "f16", "bf16"]
PROMPT = "Once upon a time there was a little girl who lived"
TOKENS = 32
CHUNK, CHUNKS = 128, 3


def quantize(source: pathlib.Path, out: pathlib.Path, mix: str, threads: int = 2, imatrix: dict | None = None) -> None:
    """llama.cpp's quantizer."""
    parameters = api.llama_model_quantize_default_params()
    parameters.nthread = threads
    parameters.ftype = getattr(api, "LLAMA_FTYPE_MOSTLY_" + mix.upper())
    parameters.allow_requantize = True
    kept = []
    if imatrix:
        entries = (api.llama_model_imatrix_data * (len(imatrix) + 1))()
        for entry, (name, values) in zip(entries, imatrix.items()):
            data = numpy.ascontiguousarray(values, dtype=numpy.float32)
            kept.append(data)
            entry.name = name.encode()
            entry.data = data.ctypes.data_as(type(entry.data))
            entry.size = data.size
        parameters.imatrix = ctypes.cast(entries, type(parameters.imatrix))
    code = api.llama_model_quantize(str(source).encode(), str(out).encode(), ctypes.byref(parameters))
    assert code == 0, f"llama.cpp did not quantize {source} to {mix}"


def quiet() -> None:
    """llama.cpp says much."""
    callback = api.llama_log_callback(lambda *_: None)
    quiet.kept = callback
    api.llama_log_set(callback, None)


def check_types(strata: str, source: pathlib.Path, mixes: list[str], folder: pathlib.Path) -> list[str]:
    problems = []
    for mix in mixes:
        theirs = folder / "theirs.gguf"
        quantize(source, theirs, mix)
        expected = {t.name: t.tensor_type.name for t in gguf.GGUFReader(theirs).tensors}
        printed = subprocess.run([strata, "quantize", source, mix, "-o", folder / "ours.gguf", "--dry-run", "--json"],
                                 check=True, capture_output=True, text=True).stdout
        found = {t["name"]: t["to"] for t in json.loads(printed)["tensors"]}
        wrong = [f"{name} {found.get(name)} {ty}" for name, ty in expected.items() if found.get(name) != ty]
        if wrong or len(found) != len(expected):
            problems.append(f"{source.name} as {mix}: other types (ours, llama.cpp's): {', '.join(wrong[:4])}")
    print(f"{source.name}: types of {len(mixes)} mixes {'differ' if problems else 'agree'}", flush=True)
    return problems


def check_text(strata: str, path: pathlib.Path) -> list[str]:
    model = api.Llama(str(path), n_ctx=256, n_batch=256, n_threads=2, logits_all=True, verbose=False)
    tokens = model.tokenize(PROMPT.encode(), add_bos=True)
    count = len(tokens)
    theirs = list(tokens)
    for _ in range(TOKENS):
        model.eval(theirs[model.n_tokens:])
        theirs.append(int(numpy.argmax(model.scores[model.n_tokens - 1])))
    run = [strata, "run", path, PROMPT, "--raw", "--temp", "0", "-n", str(TOKENS), "--repeat-penalty", "1"]
    text = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    expected = model.detokenize(theirs[count:], prev_tokens=tokens).decode(errors="replace")
    same = text.strip() == expected.strip()
    note = "the same text"
    problems = []
    if not same:
        # Two engines round differently: a near tie may fall the other way. llama.cpp's logits are up to 1 from exact ones.
        ours = model.tokenize((PROMPT + text.rstrip("\n")).encode(), add_bos=True)
        at = next((i for i, (a, b) in enumerate(zip(theirs, ours)) if a != b), None)
        gap = None if at is None else float(model.scores[at - 1][theirs[at]] - model.scores[at - 1][ours[at]])
        note = f"parts at token {at} with a gap of {gap}"
        if gap is None or gap > 0.5:
            problems.append(f"{path.name}: {text!r} here and {expected!r} in llama.cpp; {note}")
    print(f"{path.name}: llama.cpp runs it, {note}", flush=True)
    model.close()
    return problems


class Tensor(ctypes.Structure):
    """ggml_tensor, as far as it is looked at."""


Tensor._fields_ = [
    ("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int), ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(Tensor) * 10), ("view_src", ctypes.c_void_p), ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p), ("name", ctypes.c_char * 64),
]


def their_sums(path: pathlib.Path, chunks: list[list[int]]) -> dict[str, numpy.ndarray]:
    """Squares of what goes into each matrix, summed while llama.cpp computes."""
    sums: dict[str, numpy.ndarray] = {}

    def look(pointer, ask, _):
        node = ctypes.cast(pointer, ctypes.POINTER(Tensor)).contents
        if not node.src[0] or not node.src[1]:
            return False
        weight, x = node.src[0].contents, node.src[1].contents
        name = weight.name.decode(errors="replace")
        if not (name.startswith("blk.") and name.endswith(".weight")) or x.type != 0 or x.ne[0] != weight.ne[0]:
            return False
        if not node.name.decode(errors="replace").split("-")[0] or "norm" in name:
            return False
        if ask:
            return True
        values = numpy.ctypeslib.as_array(ctypes.cast(x.data, ctypes.POINTER(ctypes.c_float)), (x.ne[1], x.ne[0]))
        squares = (values.astype(numpy.float64) ** 2).sum(axis=0)
        sums[name] = sums.get(name, 0) + squares
        return True

    parameters = api.llama_model_default_params()
    parameters.n_gpu_layers = 0
    parameters.use_extra_bufts = False
    model = api.llama_model_load_from_file(str(path).encode(), parameters)
    options = api.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = CHUNK
    options.n_threads = options.n_threads_batch = 2
    kind = dict(api.llama_context_params._fields_)["cb_eval"]
    callback = kind(look) if callable(kind) and kind is not ctypes.c_void_p else ctypes.CFUNCTYPE(
        ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)(look)
    options.cb_eval = callback if kind is not ctypes.c_void_p else ctypes.cast(callback, ctypes.c_void_p)
    context = api.llama_init_from_model(model, options)
    batch = api.llama_batch_init(CHUNK, 0, 1)
    for chunk in chunks:
        api.llama_memory_clear(api.llama_get_memory(context), True)
        batch.n_tokens = len(chunk)
        for i, token in enumerate(chunk):
            batch.token[i], batch.pos[i], batch.logits[i] = token, i, True
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        assert api.llama_decode(context, batch) == 0
    api.llama_batch_free(batch)
    api.llama_free(context)
    api.llama_model_free(model)
    return sums


def check_imatrix(strata: str, source: pathlib.Path, folder: pathlib.Path) -> list[str]:
    out = folder / "imatrix.gguf"
    subprocess.run([strata, "imatrix", source, STORY, "-o", out, "--ctx", str(CHUNK), "--chunks", str(CHUNKS), "--kv", "f32"],
                   check=True, stdout=subprocess.DEVNULL)
    ours = {t.name.removesuffix(".in_sum2"): t.data.reshape(-1) for t in gguf.GGUFReader(out).tensors
            if t.name.endswith(".in_sum2")}
    counts = {int(t.data.reshape(-1)[0]) for t in gguf.GGUFReader(out).tensors if t.name.endswith(".counts")}
    problems = [] if counts == {CHUNK * CHUNKS} else [f"imatrix: counts are {counts}, not {CHUNK * CHUNKS}"]
    model = api.Llama(str(source), vocab_only=True, verbose=False)
    tokens = model.tokenize(STORY.read_bytes(), add_bos=True)
    begins = api.llama_vocab_get_add_bos(api.llama_model_get_vocab(model.model))
    first = model.token_bos()
    model.close()
    chunks = [tokens[at : at + CHUNK] for at in range(0, CHUNK * CHUNKS, CHUNK)]
    if begins:
        chunks = [[first, *chunk[1:]] for chunk in chunks]
    theirs = their_sums(source, chunks)
    missing = sorted(theirs.keys() ^ ours.keys())
    if missing:
        problems.append(f"imatrix: {missing[:6]} are only on one side")
    worst = ("", 0.0)
    for name in theirs.keys() & ours.keys():
        error = float(numpy.abs(ours[name] - theirs[name]).sum() / theirs[name].sum())
        worst = max(worst, (name, error), key=lambda found: found[1])
    if worst[1] > 0.01 or not theirs:
        problems.append(f"imatrix: {worst[0]} differs from llama.cpp's by {worst[1]:.1%}")
    print(f"imatrix: {len(ours)} matrices, differing from llama.cpp's by at most {worst[1]:.2%} ({worst[0]})", flush=True)
    means = {name: values / (CHUNK * CHUNKS) for name, values in ours.items()}
    quantize(source, folder / "weighed.gguf", "iq4_xs", imatrix=means)
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    strata = arguments.strata
    quiet()
    mixes = ALL if arguments.all else FEW
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        source, tiny = folder / "tale-f16.gguf", folder / "tiny-f16.gguf"
        silent = dict(check=True, stdout=subprocess.DEVNULL)
        subprocess.run([strata, "quantize", TALE, "f16", "-o", source], **silent)
        subprocess.run([strata, "synth", tiny, "--shape", "tiny", "--mix", "f16"], **silent)
        for model in (tiny, source) if arguments.all else (tiny,):
            problems += check_types(strata, model, mixes, folder)
        for mix in ("q8_0", "q4_k_m"):
            path = folder / f"tale-{mix}.gguf"
            subprocess.run([strata, "quantize", source, mix, "-o", path], **silent)
            problems += check_text(strata, path)
        problems += check_imatrix(strata, source, folder)
    sys.exit("\n".join(problems) if problems else 0)


if __name__ == "__main__":
    main()
