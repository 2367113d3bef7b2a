"""Runs Strata and llama.cpp alternately on the same files and prints medians and ratios.

Usage: python bench/vs_llamacpp.py PATH_OF_STRATA MODEL.gguf… [--large MODEL.gguf] [--threads N] [--rounds N]
       [--isa NAME] [--quick]

`cargo xtask bench vs-llamacpp` builds the program, makes models with random weights where none is named, installs
llama.cpp (`llama-cpp-python`) and runs this. Both programs keep the model in memory and compute in short turns, now one
first and now the other: a shared machine can be half or twice as fast from one second to the next, and so both have the
same share of it. Figures are medians; a ratio is the median of the turns' ratios.

- decode: random tokens one by one, from an empty context and after 2048 positions
- prefill: prompts of 512 and 2048 random tokens
- sequences: so many texts decoded at once, tokens of all of them a second, in a process for each measurement
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
    # Decoded in a turn, and the turns of a round.
    tokens: int
    turns: int
    context: int
    sequences: tuple[int, ...]
    # Of the large model.
    full: int
    recited: tuple[int, int]


FULL = Sizes(3, (512, 2048), 16, 5, 2048, (8, 32), 4096, (256, 128))
QUICK = Sizes(1, (64, 128), 4, 2, 64, (2, 4), 128, (64, 48))


class Engines:
    """Both programs on one model, with what was measured so far."""

    def __init__(self, options: argparse.Namespace, model: pathlib.Path) -> None:
        self.options, self.model = options, model
        self.environment = {"STRATA_ISA": options.isa} if options.isa else {}
        self.found: dict[str, tuple[list[float], list[float]]] = {}
        self.swapped = False

    def ours(self, *arguments: object) -> list:
        threads = ["-t", self.options.threads, "--repeat", 1, "--json"]
        return [self.options.strata, "bench", self.model, *threads, *arguments]

    def run(self, *arguments: object) -> dict:
        return machine.run(self.ours(*arguments), self.environment)

    def theirs(self, what: str, *arguments: object) -> list:
        return [sys.executable, PEER, what, self.model, "--threads", self.options.threads, *arguments]

    def both(self, arguments: list, ours: tuple = (), theirs: tuple = ()) -> tuple[machine.Turns, machine.Turns]:
        """Both programs, one started when the other has its model in memory and has computed a little."""
        programs = []
        for command, environment in (
            (self.ours(*arguments, "--in-turns", *ours), self.environment),
            (self.theirs("speed", *arguments, *theirs), {}),
        ):
            programs.append(machine.Turns(command, environment))
            programs[-1].take("decode")
        return tuple(programs)

    def turn(self, pair: tuple[machine.Turns, machine.Turns], what: str, title: str) -> list[dict]:
        """One turn of either, the other one first each time."""
        self.swapped = not self.swapped
        order = reversed(pair) if self.swapped else pair
        found = [program.take(what) for program in order]
        found = found[::-1] if self.swapped else found
        self.add(title, *(turn["tok_s"] for turn in found))
        return found

    def add(self, row: str, ours: float | None, theirs: float | None = None) -> None:
        pair = self.found.setdefault(row, ([], []))
        for values, value in zip(pair, (ours, theirs)):
            if value is not None:
                values.append(value)

    def memory(self, reports: list[dict], title: str) -> None:
        self.add(title, *(report["peak_rss_bytes"] / 1e6 for report in reports))

    def read_share(self, pair: list[dict], bytes_per_token: float) -> None:
        """What either reads of what our side found can be read."""
        bandwidth = pair[0]["read_bandwidth_bytes_s"]
        if bandwidth:
            self.add("read bandwidth, GB/s", bandwidth / 1e9)
            shares = (100 * bytes_per_token * turn["tok_s"] / bandwidth for turn in pair)
            self.add("decode, % of the read bandwidth", *shares)

    def print(self, rounds: int, isa: str) -> None:
        size = self.model.stat().st_size / 1e6
        print(f"\n{self.model.name}: {size:.0f} MB, {self.options.threads} threads, {rounds} round{'s' * (rounds > 1)}, {isa}")
        print(f"  {'':34} {'strata':>10} {'llama.cpp':>10} {'ratio':>8}")
        for title, (ours, theirs) in self.found.items():
            line = f"  {title:34} {statistics.median(ours):10.2f}"
            if theirs:
                ratio = statistics.median(a / b for a, b in zip(ours, theirs))
                line += f" {statistics.median(theirs):10.2f} {ratio:7.2f}×"
            print(line)
        sys.stdout.flush()


def small(engines: Engines, sizes: Sizes) -> None:
    short, long = sizes.prompts
    isa = ""
    for _ in range(sizes.rounds):
        pair = engines.both(["--prompt", short, "--tokens", sizes.tokens], ("--read-bandwidth", "--int-peak"))
        decoded = [engines.turn(pair, "decode", "decode, tok/s") for _ in range(sizes.turns)]
        prefilled = engines.turn(pair, "prefill", f"prefill {short}, tok/s")
        reports = [program.end() for program in pair]
        ours, theirs = reports
        isa = ours["isa"]
        first = ours["load_s"] + 1 / decoded[0][0]["tok_s"]
        engines.add("load to the first token, s", first, theirs["first_s"])
        engines.memory(reports, "peak memory, MB")
        for turn in decoded:
            engines.read_share(turn, ours["bytes_per_token"])
        if peak := ours.get("int_peak_ops_s"):
            engines.add("integer peak, Tera-ops/s", peak / 1e12)
            shares = (100 * ours["ops_per_token"] * turn["tok_s"] / peak for turn in prefilled)
            engines.add(f"prefill {short}, % of the integer peak", *shares)
        used = ["--prompt", long, "--tokens", sizes.tokens, "--ctx-used", sizes.context]
        pair = engines.both(used)
        engines.turn(pair, "prefill", f"prefill {long}, tok/s")
        for _ in range(sizes.turns):
            engines.turn(pair, "decode", f"decode after {sizes.context}, tok/s")
        for program in pair:
            program.end()
        for count in sizes.sequences:
            several = ["--tokens", 2 * sizes.tokens, "--sequences", count]
            ours = engines.run("--prompt", 1, *several)
            theirs = machine.run(engines.theirs("aggregate", *several))
            key = "aggregate_tok_s"
            engines.add(f"{count} sequences, tok/s in all", ours[key], theirs[key])
    engines.print(sizes.rounds, isa)


def large(engines: Engines, sizes: Sizes) -> None:
    prompt, tokens = sizes.recited
    # Decoded at the end of a full context.
    last = 8
    few = ["--prompt", 32, "--tokens", sizes.tokens // 2]
    pair = engines.both(few, ("--read-bandwidth",), ("--positions", sizes.full))
    decoded = [engines.turn(pair, "decode", "decode, tok/s") for _ in range(sizes.rounds * sizes.turns)]
    ours, theirs = (program.end() for program in pair)
    for turn in decoded:
        engines.read_share(turn, ours["bytes_per_token"])
    for _ in range(sizes.rounds):
        guessed = engines.run("-p", prompt, "-n", tokens, "--speculate")
        engines.add("decode with guesses, tok/s", guessed["speculated_tok_s"])
        engines.add("the same without guesses, tok/s", guessed["unspeculated_tok_s"])
        right = guessed["accepted_tokens"] / max(guessed["drafted_tokens"], 1)
        engines.add("guesses that are right, %", 100 * right)
    full = engines.run("-p", 32, "-n", last, "--ctx-used", sizes.full - last)
    engines.memory([full, theirs], f"peak memory, context {sizes.full}, MB")
    engines.add(f"decode after {sizes.full - last}, tok/s", full["decode_tok_s"])
    engines.print(sizes.rounds, ours["isa"])


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
