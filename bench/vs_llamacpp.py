"""Runs Strata and llama.cpp alternately on the same files and prints medians and ratios.

Usage: python bench/vs_llamacpp.py PATH_OF_STRATA MODEL.gguf… [--threads N] [--rounds N] [--prompt N] [--tokens N]

`cargo xtask bench vs-llamacpp` builds the program, makes a 1b model of each mix that is published most where none is
named, installs llama.cpp (`llama-cpp-python`) and runs this. Each round starts a new process of either engine, loads
the model, reads a prompt of random tokens and decodes tokens one by one from an empty context. A busy machine slows
both; alternation and medians keep the ratio.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

LLAMA = """
import json, resource, sys, time
import numpy
from llama_cpp import Llama
path, threads, prompt, tokens = sys.argv[1], *map(int, sys.argv[2:])
start = time.perf_counter()
size = max(prompt, tokens)
model = Llama(path, n_ctx=size + 8, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False)
load = time.perf_counter() - start
ids = [int(t) for t in numpy.random.default_rng(1).integers(0, model.n_vocab(), size)]
model.eval(ids[:32])
model.reset()
start = time.perf_counter()
model.eval(ids[:prompt])
prefill = prompt / (time.perf_counter() - start)
model.reset()
start = time.perf_counter()
for token in ids[:tokens]:
    model.eval([token])
decode = tokens / (time.perf_counter() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"prefill_tok_s": prefill, "decode_tok_s": decode, "load_s": load, "peak_rss_bytes": peak}))
"""


def run(command: list[str]) -> dict:
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    sizes = [str(options.prompt), str(options.tokens)]
    threads = str(options.threads)
    rows = [
        (f"prefill {options.prompt}, tok/s", "prefill_tok_s", 1.0),
        ("decode, tok/s", "decode_tok_s", 1.0),
        ("load, s", "load_s", 1.0),
        ("peak memory, MB", "peak_rss_bytes", 1e-6),
    ]
    for path in options.models:
        ours, theirs = [], []
        for _ in range(options.rounds):
            command = [options.strata, "bench", str(path), "-p", sizes[0], "-n", sizes[1], "-t", threads]
            ours.append(run([*command, "--repeat", "1", "--json"]))
            theirs.append(run([sys.executable, "-c", LLAMA, str(path), threads, *sizes]))
        size = path.stat().st_size
        print(f"\n{path.name}: {size / 1e6:.0f} MB, {threads} threads, {options.rounds} rounds, {ours[0]['isa']}")
        print(f"  {'':20} {'strata':>10} {'llama.cpp':>10} {'ratio':>7}")
        for title, key, scale in rows:
            a, b = (statistics.median(run[key] for run in runs) * scale for runs in (ours, theirs))
            print(f"  {title:20} {a:10.2f} {b:10.2f} {a / b:6.2f}×")
        decode = statistics.median(run["decode_tok_s"] for run in ours)
        print(f"  decode reads {decode * size / 1e9:.1f} GB/s of weights")


if __name__ == "__main__":
    main()
