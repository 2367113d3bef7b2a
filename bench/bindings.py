"""Streams tokens of one model in Python, Node and Go, in turns with `strata bench` and llama-cpp-python.

Usage: python bench/bindings.py STRATA MODEL.gguf TOKENS ROUNDS NAME=COMMAND…

`cargo xtask bench bindings` builds all of it and runs this. Each program keeps the model in memory and computes when it is its
turn, so that all have the same share of a busy machine. Figures are medians; a ratio is the median of the rounds' ratios.

- first token: from the start of the process, so with the interpreter, the import and the load
- decode: tokens a second of a stream, after its first token; `strata bench` decodes as many with no stream at all
- calls: documents that are handed over for a token, or calls into llama.cpp
- memory: what the process has taken at most
"""

import statistics
import sys
import time

import machine


def main() -> None:
    strata, model, tokens, rounds, *commands = sys.argv[1:]
    programs = dict(command.split("=", 1) for command in commands)
    print(f"{machine.describe()}; {tokens} tokens, {rounds} rounds\n")
    first: dict[str, list[float]] = {name: [] for name in programs}
    running: dict[str, machine.Turns] = {}
    for round in range(3):
        for name, command in programs.items():
            start = time.perf_counter()
            turns = machine.Turns([*command.split(), model, tokens])
            turns.take("first")
            first[name].append(time.perf_counter() - start)
            if round < 2:
                turns.end()
            else:
                running[name] = turns
    bench = machine.Turns([strata, "bench", model, "-n", tokens, "-p", "1", "--in-turns", "--json"])
    speeds: dict[str, list[float]] = {name: [] for name in programs}
    ratios: dict[str, list[float]] = {name: [] for name in programs}
    last: dict[str, dict] = {}
    alone = []
    for round in range(int(rounds) + 1):
        before = bench.take("decode")["tok_s"]
        for name, turns in running.items():
            last[name] = turns.take("decode")
            after = bench.take("decode")["tok_s"]
            # The first round warms up. A program is compared with what the engine did right before and after it.
            if round:
                speeds[name].append(last[name]["decode"])
                ratios[name].append(last[name]["decode"] / ((before + after) / 2))
                alone.append(after)
            before = after
    print(f"`strata bench`: {statistics.median(alone):.0f} tokens/s\n")
    print("| | first token | decode | of `strata bench` | calls a token | memory |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in programs:
        row = last[name]
        print(
            f"| {name} | {statistics.median(first[name]):.2f} s | {statistics.median(speeds[name]):.0f} tokens/s "
            f"| {statistics.median(ratios[name]):.1%} | {row['calls']:.1f} | {row['memory'] / 1024:.0f} MiB |"
        )
    for turns in running.values():
        turns.end()
    bench.end()


if __name__ == "__main__":
    main()
