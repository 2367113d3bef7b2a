"""Streams tokens of one model in Python, Node and Go, in turns with `strata bench` and llama-cpp-python.

Usage: python bench/bindings.py STRATA MODEL.gguf TOKENS ROUNDS NAME=COMMAND…

`cargo xtask bench bindings` builds all of it and runs this. Each program keeps the model in memory and computes when it is its
turn, so that all have the same share of a busy machine. Figures are medians; a ratio is the median of the rounds' ratios.

- first token: from the start of the process, so with the interpreter, the import and the load
- decode: tokens a second of a stream, after its first token; `strata bench` decodes as many with no stream at all
- calls a token: calls into the library while a stream is read, counted in a turn that is not timed
- bytes a token: what is copied from the library's memory into the language's in that turn: documents in OpenAI's shape here,
  the texts of tokens there
- memory: what the process has taken at most
"""

import statistics
import sys
import time

import machine

#: Processes of each kind whose first token is timed. The last one stays.
STARTS = 7


def main() -> None:
    strata, model, tokens, rounds, *commands = sys.argv[1:]
    programs = dict(command.split("=", 1) for command in commands)
    print(f"{machine.describe()}; {tokens} tokens, {rounds} rounds\n", flush=True)
    first: dict[str, list[float]] = {name: [] for name in programs}
    running: dict[str, machine.Turns] = {}
    for _ in range(STARTS):
        for name, command in programs.items():
            if name in running:
                running[name].end()
            start = time.perf_counter()
            running[name] = machine.Turns([*command.split(), model, tokens])
            running[name].take("first")
            first[name].append(time.perf_counter() - start)
    bench = machine.Turns([strata, "bench", model, "-n", tokens, "-p", "1", "--in-turns", "--json"])
    speeds: dict[str, list[float]] = {name: [] for name in programs}
    ratios: dict[str, list[float]] = {name: [] for name in programs}
    alone = []
    for round in range(int(rounds) + 1):
        before = bench.take("decode")["tok_s"]
        for name, turns in running.items():
            speed = turns.take("decode")["decode"]
            after = bench.take("decode")["tok_s"]
            # The first round warms up. A program is compared with what the engine did right before and after it.
            if round:
                speeds[name].append(speed)
                ratios[name].append(speed / ((before + after) / 2))
                alone.append(after)
            before = after
    print(f"`strata bench`: {statistics.median(alone):.0f} tokens/s ({machine.load()})\n")
    print("| | first token | decode | of `strata bench` | calls a token | bytes a token | memory |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, turns in running.items():
        row = turns.take("count")
        print(
            f"| {name} | {statistics.median(first[name]):.2f} s | {statistics.median(speeds[name]):.0f} tokens/s "
            f"| {statistics.median(ratios[name]):.1%} | {row['calls']:.1f} | {row['copied']:.0f} "
            f"| {row['memory'] / 1024:.0f} MiB |"
        )
        turns.end()
    bench.end()


if __name__ == "__main__":
    main()
