"""Runs Strata and llama.cpp alternately on the same files and prints medians and ratios.

Usage: python bench/vs_llamacpp.py PATH_OF_STRATA MODEL.gguf… [--large MODEL.gguf] [--threads N] [--rounds N]
       [--isa NAME] [--quick]

`cargo xtask bench vs-llamacpp` builds the program, makes models with random weights where none is named, installs
llama.cpp (`llama-cpp-python`) and runs this. Each measurement of each round starts a new process of either engine. A
busy machine slows both; alternation and medians keep the ratio.

- decode: random tokens one by one, from an empty context and after 2048 positions
- prefill: prompts of 512 and 2048 random tokens
- sequences: so many texts decoded at once, tokens of all of them a second
- load: from the start to the first token; llama.cpp maps its file and reads it when it first computes
- of the read bandwidth: bytes of weights that decode reads, of those that a plain read of the same memory by as many
  threads does right before and after
- of the integer peak: operations that prefill does, of the dot products that the registers alone can do
- `--large` measures decode and memory with a context of 4096, full on our side, and decode with guesses of a text that
  repeats its prompt with one token in 16 changed (which the model is made to say)
- `--isa` forces an instruction set on our side only
"""

import argparse
import dataclasses
import os
import pathlib
import statistics
import sys

import machine

PEER = pathlib.Path(__file__).with_name("llamacpp.py")


@dataclasses.dataclass
class Sizes:
    rounds: int
    prompts: tuple[int, int]
    tokens: int
    context: int
    sequences: tuple[int, ...]
    # Of the large model.
    full: int
    recited: tuple[int, int]


FULL = Sizes(3, (512, 2048), 64, 2048, (8, 32), 4096, (256, 128))
QUICK = Sizes(1, (64, 128), 8, 64, (2, 4), 128, (64, 48))


class Engines:
    """Both programs on one model, with what was measured so far."""

    def __init__(self, options: argparse.Namespace, model: pathlib.Path) -> None:
        self.options, self.model = options, model
        self.environment = {"STRATA_ISA": options.isa} if options.isa else {}
        self.found: dict[str, tuple[list[float], list[float]]] = {}

    def ours(self, *arguments: object) -> dict:
        threads = ["-t", self.options.threads, "--repeat", 1, "--json"]
        return machine.run([self.options.strata, "bench", self.model, *threads, *arguments], self.environment)

    def theirs(self, *arguments: object) -> dict:
        threads = ["--threads", self.options.threads]
        return machine.run([sys.executable, PEER, "speed", self.model, *threads, *arguments])

    def add(self, row: str, ours: float | None, theirs: float | None = None) -> None:
        pair = self.found.setdefault(row, ([], []))
        for values, value in zip(pair, (ours, theirs)):
            if value is not None:
                values.append(value)

    def both(self, arguments: dict[str, int], rows: dict[str, str], more: tuple = ()) -> tuple[dict, dict]:
        """One measurement by either; `rows` are titles and the figures' names."""
        flags = [word for flag, value in arguments.items() for word in (f"--{flag}", value)]
        ours, theirs = self.ours(*flags, *more), self.theirs(*flags)
        ours["first_s"] = ours["load_s"] + 1 / ours["decode_tok_s"]
        for title, key in rows.items():
            scale = {"peak_rss_bytes": 1e-6}.get(key, 1)
            self.add(title, ours[key] * scale, theirs[key] * scale)
        return ours, theirs

    def shares(self, ours: dict, theirs: dict, prompt: int) -> None:
        """What either makes of the machine, where our side measured it."""
        bandwidth, peak = ours["read_bandwidth_bytes_s"], ours.get("int_peak_ops_s")
        self.add("read bandwidth, GB/s", bandwidth / 1e9)
        reads, computes = ([side[key] for side in (ours, theirs)] for key in ("decode_tok_s", "prefill_tok_s"))
        self.add("decode, % of the read bandwidth", *(100 * ours["bytes_per_token"] * speed / bandwidth for speed in reads))
        if peak:
            self.add("integer peak, Tera-ops/s", peak / 1e12)
            title = f"prefill {prompt}, % of the integer peak"
            self.add(title, *(100 * ours["ops_per_token"] * speed / peak for speed in computes))

    def print(self, rounds: int, isa: str) -> None:
        size = self.model.stat().st_size / 1e6
        print(f"\n{self.model.name}: {size:.0f} MB, {self.options.threads} threads, {rounds} rounds, {isa}")
        print(f"  {'':34} {'strata':>10} {'llama.cpp':>10} {'ratio':>8}")
        for title, (ours, theirs) in self.found.items():
            a = statistics.median(ours)
            line = f"  {title:34} {a:10.2f}"
            if theirs:
                b = statistics.median(theirs)
                line += f" {b:10.2f} {a / b:7.2f}×"
            print(line)
        sys.stdout.flush()


def small(engines: Engines, sizes: Sizes) -> None:
    short, long = sizes.prompts
    isa = ""
    for _ in range(sizes.rounds):
        ours, theirs = engines.both(
            {"prompt": short, "tokens": sizes.tokens},
            {
                "decode, tok/s": "decode_tok_s",
                f"prefill {short}, tok/s": "prefill_tok_s",
                "load to the first token, s": "first_s",
                "peak memory, MB": "peak_rss_bytes",
            },
            ("--read-bandwidth", "--int-peak"),
        )
        isa = ours["isa"]
        engines.shares(ours, theirs, short)
        engines.both(
            {"prompt": long, "tokens": sizes.tokens // 2, "ctx-used": sizes.context},
            {
                f"prefill {long}, tok/s": "prefill_tok_s",
                f"decode after {sizes.context}, tok/s": "decode_tok_s",
            },
        )
        for count in sizes.sequences:
            engines.both(
                {"prompt": 1, "tokens": sizes.tokens // 2, "sequences": count},
                {f"{count} sequences, tok/s in all": "aggregate_tok_s"},
            )
    engines.print(sizes.rounds, isa)


def large(engines: Engines, sizes: Sizes) -> None:
    prompt, tokens = sizes.recited
    isa = ""
    for round in range(sizes.rounds):
        few = {"prompt": 32, "tokens": sizes.tokens // 4}
        flags = [word for flag, value in few.items() for word in (f"--{flag}", value)]
        ours = engines.ours(*flags, "--read-bandwidth")
        theirs = engines.theirs(*flags, "--positions", sizes.full)
        isa = ours["isa"]
        engines.add("decode, tok/s", ours["decode_tok_s"], theirs["decode_tok_s"])
        engines.shares(ours, theirs, few["prompt"])
        guessed = engines.ours("-p", prompt, "-n", tokens, "--speculate")
        engines.add("decode with guesses, tok/s", guessed["speculated_tok_s"])
        engines.add("the same without guesses, tok/s", guessed["unspeculated_tok_s"])
        right = guessed["accepted_tokens"] / max(guessed["drafted_tokens"], 1)
        engines.add("guesses that are right, %", 100 * right)
        if round == 0:
            last = 8
            full = engines.ours("-p", 32, "-n", last, "--ctx-used", sizes.full - last)
            title = f"peak memory, context {sizes.full}, MB"
            engines.add(title, full["peak_rss_bytes"] / 1e6, theirs["peak_rss_bytes"] / 1e6)
            engines.add(f"decode after {sizes.full - last}, tok/s", full["decode_tok_s"])
    engines.print(sizes.rounds, isa)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--large", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--isa")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    if options.rounds:
        sizes = dataclasses.replace(sizes, rounds=options.rounds)
    print(machine.describe())
    for path in options.models:
        small(Engines(options, path), sizes)
    if options.large:
        large(Engines(options, options.large), sizes)
    print(f"\nat the end: {machine.load()}")


if __name__ == "__main__":
    main()
