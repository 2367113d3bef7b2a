"""Quantizes with Strata and with llama.cpp: how long it takes, and how far the results are from their source.

Usage: python bench/quantize.py PATH_OF_STRATA [MODEL-F16.gguf…] [--type NAME] [--threads N] [--rounds N] [--folder DIR]
       [--quality] [--quick]

`cargo xtask bench quantize` builds the program, makes a 1b model of random half floats where none is named, installs
llama.cpp (`llama-cpp-python`) and runs this, with `--quality` as well.

- speed: both quantize the same file alternately, each time in a new process; medians and their ratio, of seconds by
  the clock and of processor seconds, which a busy machine changes less. Ours ends with the file on the disk (fsync),
  llama.cpp's does not wait for that.
- quality: the built-in model with its weights moved off the grid that they were rounded to once (noise of a third of a
  step), as f16, is the source. Both quantize it to each mix, and llama.cpp computes the source and both results with
  f32 keys and values: the mean KL divergence from the source over all positions of a text, and the share of equal
  likeliest tokens. Nobody uses an importance matrix.
"""

import argparse
import ctypes
import json
import pathlib
import resource
import statistics
import sys
import tempfile
import time

import gguf
import numpy

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
TALE = ROOT / "models/tale/tale-q4_k_m.gguf"
STORY = ROOT / "crates/cli/tests/story.txt"
MIXES = ["q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "q4_0", "iq4_xs", "iq4_nl", "q4_k_s", "q4_k_m", "q5_0", "q5_k_m", "q6_k"]
CONTEXT = 256
CHUNKS = 8
# llama.cpp says much to whoever listens; the listener must not go away.
KEPT: list = []


def theirs(source: pathlib.Path, out: pathlib.Path, mix: str, threads: int) -> float:
    """llama.cpp's quantizer, in this process; seconds."""
    import llama_cpp as api

    if not KEPT:
        KEPT.append(api.llama_log_callback(lambda *_: None))
        api.llama_log_set(KEPT[0], None)
    parameters = api.llama_model_quantize_default_params()
    parameters.nthread = threads
    parameters.ftype = getattr(api, "LLAMA_FTYPE_MOSTLY_" + mix.upper())
    start = time.perf_counter()
    code = api.llama_model_quantize(str(source).encode(), str(out).encode(), ctypes.byref(parameters))
    assert code == 0, f"llama.cpp did not quantize {source}"
    return time.perf_counter() - start


def processor_seconds() -> float:
    """Of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def apart(source: pathlib.Path, out: pathlib.Path, mix: str, threads: int) -> float:
    """The same in a process of its own."""
    return machine.run([sys.executable, __file__, "--one", source, out, mix, threads])["seconds"]


def ours(strata: str, source: pathlib.Path, out: pathlib.Path, mix: str, threads: int) -> float:
    return machine.run([strata, "quantize", source, mix, "-o", out, "-t", threads, "--json"])["seconds"]


def speed(options: argparse.Namespace, model: pathlib.Path, folder: pathlib.Path) -> None:
    found: tuple[list[float], list[float]] = [], []
    used: tuple[list[float], list[float]] = [], []
    size = model.stat().st_size
    for _ in range(options.rounds):
        start = processor_seconds()
        found[0].append(ours(options.strata, model, folder / "ours.gguf", options.type, options.threads))
        between = processor_seconds()
        found[1].append(apart(model, folder / "theirs.gguf", options.type, options.threads))
        used[0].append(between - start)
        used[1].append(processor_seconds() - between)
        sizes = [(folder / name).stat().st_size for name in ("ours.gguf", "theirs.gguf")]
        for name in ("ours.gguf", "theirs.gguf"):
            (folder / name).unlink()
    a, b = (statistics.median(values) for values in found)
    c, d = (statistics.median(values) for values in used)
    print(f"{model.name} → {options.type}, {options.threads} threads, {options.rounds} rounds, {machine.load()}")
    print(f"  ours       {a:7.2f} s  {size / a / 1e6:7.0f} MB/s of the source  {c:7.2f} processor s  {sizes[0] / 1e6:9.1f} MB")
    print(f"  llama.cpp  {b:7.2f} s  {size / b / 1e6:7.0f} MB/s                {d:7.2f} processor s  {sizes[1] / 1e6:9.1f} MB")
    print(f"  ours is {b / a:.2f} times as fast, {d / c:.2f} times by processor seconds", flush=True)


def off_grid(folder: pathlib.Path) -> pathlib.Path:
    """The built-in model as half floats that no block format has made."""
    reader = gguf.GGUFReader(TALE)
    out = folder / "source-f16.gguf"
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    random = numpy.random.Generator(numpy.random.PCG64(7))
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        if values.ndim > 1:
            # Steps of a group of 16: the span over the levels that four bits have.
            groups = values.reshape(-1, 16)
            steps = (groups.max(axis=1) - groups.min(axis=1)) / 15
            noise = random.standard_normal(groups.shape, dtype=numpy.float32) * (steps[:, None] / 3)
            values = (groups + noise).reshape(values.shape).astype(numpy.float16)
        writer.add_tensor(tensor.name, numpy.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def logprobs(path: pathlib.Path, chunks: int, texts: list | None) -> tuple[list, list[numpy.ndarray]]:
    from llama_cpp import Llama

    model = Llama(str(path), n_ctx=CONTEXT, n_batch=CONTEXT, n_threads=2, logits_all=True, type_k=0, type_v=0, verbose=False)
    if texts is None:
        tokens = model.tokenize(STORY.read_bytes(), add_bos=True)
        texts = [tokens[at : at + CONTEXT] for at in range(0, min(len(tokens), chunks * CONTEXT), CONTEXT)]
    rows = []
    for tokens in texts:
        model.reset()
        model.eval(tokens)
        logits = numpy.array(model.scores[: len(tokens)], dtype=numpy.float64)
        logits -= logits.max(axis=-1, keepdims=True)
        rows.append(logits - numpy.log(numpy.exp(logits).sum(axis=-1, keepdims=True)))
    model.close()
    return texts, rows


def distance(exact: list[numpy.ndarray], found: list[numpy.ndarray]) -> tuple[float, float]:
    p, q = numpy.concatenate(exact), numpy.concatenate(found)
    divergence = float((numpy.exp(p) * (p - q)).sum(axis=-1).mean())
    return divergence, float((p.argmax(axis=-1) == q.argmax(axis=-1)).mean())


def quality(options: argparse.Namespace, folder: pathlib.Path) -> None:
    source = off_grid(folder)
    chunks = 1 if options.quick else CHUNKS
    texts, exact = logprobs(source, chunks, None)
    positions = sum(map(len, texts))
    print(f"\nKL from the f16 source over {positions} positions, and equal likeliest tokens")
    print(f"{'':8} {'ours':>18} {'llama.cpp':>18} {'ratio':>7} {'MB':>12}")
    for mix in MIXES[:2] if options.quick else MIXES:
        a, b = folder / "ours.gguf", folder / "theirs.gguf"
        ours(options.strata, source, a, mix, options.threads)
        theirs(source, b, mix, options.threads)
        (kl_a, top_a), (kl_b, top_b) = (distance(exact, logprobs(path, chunks, texts)[1]) for path in (a, b))
        sizes = "/".join(f"{path.stat().st_size / 1e6:.1f}" for path in (a, b))
        print(f"{mix:8} {kl_a:10.5f} {top_a:7.1%} {kl_b:10.5f} {top_b:7.1%} {kl_a / kl_b:7.2f} {sizes:>12}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        _, _, source, out, mix, threads = sys.argv
        print(json.dumps({"seconds": theirs(pathlib.Path(source), pathlib.Path(out), mix, int(threads))}))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--type", default="q4_k_m")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    print(machine.describe())
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        for model in options.models:
            speed(options, model, folder)
        if options.quality:
            quality(options, folder)


if __name__ == "__main__":
    main()
