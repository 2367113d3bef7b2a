"""Many users of one model: tokens a second and latencies by number of streams, beside llama.cpp; what a cached prefix
saves; and what a long prompt does to the others.

Usage: python bench/serving.py PATH_OF_EXAMPLE MODEL.gguf [--threads N] [--quick]

`cargo xtask bench serving` builds the engine's example `serving`, makes a model with random weights where none is
named, installs llama.cpp (`llama-cpp-python`) and runs this. A row is a burst of requests, one for each stream, each
with a prompt of 256 tokens and 32 tokens to generate. With a shared prefix all but 32 tokens of each prompt have been
computed before, by either engine. llama.cpp gets the batches that llama-server makes. Latencies are the 50th, 90th and
99th percentiles.
"""

import argparse
import os
import pathlib
import sys

import machine

PEER = pathlib.Path(__file__).with_name("llamacpp.py")


def table(ours: list[dict], theirs: list[dict]) -> None:
    columns = f"{'tok/s':>8} {'first token, ms':>20} {'between tokens, ms':>20}"
    print(f"  {'':26}{'strata':>50}{'llama.cpp':>52}{'tok/s':>9}")
    print(f"  {'streams':26}{columns} |{columns} {'ratio':>8}")
    for a, b in zip(ours, theirs, strict=True):
        name = f"{a['streams']:3}, {'shared prefix' if a['shared'] else 'nothing shared'}"
        print(f"  {name:26}{cells(a)} |{cells(b)} {a['tok_s'] / b['tok_s']:7.2f}×")


def cells(row: dict) -> str:
    first, between = (" ".join(f"{1000 * s:.0f}" for s in row[key]) for key in ("first_token_s", "token_s"))
    return f"{row['tok_s']:8.1f} {first:>20} {between:>20}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    options = parser.parse_args()
    print(machine.describe())
    shape = ["--threads", options.threads]
    shape += ["--prompt", 64, "--tokens", 8, "--streams", "1,4"] if options.quick else ["--prompt", 256, "--tokens", 32]
    sizes = ["--prefix", 200, "--long", 400] if options.quick else []
    ours = machine.run([options.example, options.model, *shape, *sizes])
    theirs = machine.run([sys.executable, PEER, "serving", options.model, *shape])
    print(
        f"\n{options.model.name}: {options.threads} threads, {ours['isa']}; a burst of prompts of {ours['prompt']} tokens,"
        f" {ours['tokens']} generated"
    )
    table(ours["rows"], theirs["rows"])
    prefix, long = ours["prefix"], ours["long_prompt"]
    first = prefix["first_s"]
    print(f"\na prompt of {prefix['tokens']} tokens and a few more: first token after {first:.3f} s")
    for what, key in [("the next with the same beginning", "second_s"), ("after a restart, from disk", "restarted_s")]:
        print(f"  {what}: {prefix[key]:.3f} s, {first / prefix[key]:.1f}× sooner")
    middle, _, most = long["token_s"]
    print(
        f"\nwhile a prompt of {long['tokens']} tokens is computed ({long['prompt_s']:.1f} s), {long['streams']} streams see"
        f" between tokens: median {1000 * middle:.0f} ms, p99 {1000 * most:.0f} ms;"
        f" the target is {1000 * long['target_s']:.0f} ms"
    )
    print(f"\nat the end: {machine.load()}")


if __name__ == "__main__":
    main()
