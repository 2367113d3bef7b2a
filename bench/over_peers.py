"""One model in one process and over two, on the same processors: speed, and memory against the plan.

Usage: python bench/over_peers.py PATH_OF_STRATA MODEL.gguf [--processors 0,1] [--rounds N] [--tokens N] [--prompt N]

`cargo xtask bench peers` builds the program, makes a model with random weights where none is named and runs this. All three
processes have as many workers as there are processors, and stay on these: the layers come one after the other, so the
halves of a model take turns, and whoever waits sleeps. Requests alternate between the server alone and the one with a
peer. The answers are compared, token by token.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import urllib.request

import machine

KEY = "a key for the benchmark"


class Program:
    """A process of `strata` on some processors, once it has said that it listens."""

    def __init__(self, strata: str, processors: set[int], words: list) -> None:
        environment = {**os.environ, "STRATA_PEER_KEY": KEY}
        self.process = subprocess.Popen(
            [strata, *map(str, words)],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=lambda: os.sched_setaffinity(0, processors),
        )
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"listening on (?:http://)?([^\s,]+)", line):
                self.address = found[1]
                return
        raise SystemExit("".join(said))

    def post(self, path: str, body: dict) -> dict:
        request = urllib.request.Request(
            f"http://{self.address}{path}", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def resident(self) -> int:
        """Bytes of memory that nothing else shares: weights are packed, and the file is read and let go."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"RssAnon:\s+(\d+)", status)[1])

    def processor_time(self) -> float:
        """Seconds that processors have worked for it, which other programs do not lengthen."""
        status = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        user, system = status.rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--processors", help="such as 0,1 [default: all]")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.tokens, options.prompt = 1, 8, 16
    processors = os.sched_getaffinity(0)
    if options.processors:
        processors = {int(number) for number in options.processors.split(",")}
    print(machine.describe())
    threads = ["--threads", len(processors)]
    serve = ["serve", options.model, *threads, "--host", "127.0.0.1:0", "--parallel", 1, "--ctx", 1024]
    programs = []

    def start(words: list) -> Program:
        programs.append(Program(options.strata, processors, words))
        return programs[-1]

    try:
        alone = start(serve)
        peer = start(["peer", options.model, *threads, "--listen", "127.0.0.1:0"])
        flags = ["--peers", peer.address]
        head = start([*serve, *flags])
        shape = ["--ctx", 1024, *threads, "--json", *flags]
        environment = {**os.environ, "STRATA_PEER_KEY": KEY}
        planned = subprocess.run(
            [options.strata, "plan", options.model, *map(str, shape)], stdout=subprocess.PIPE, env=environment
        )
        plan = json.loads(planned.stdout)
        rows: dict[str, list[tuple[float, float]]] = {"one process": [], "two": []}
        worked = lambda: (alone.processor_time(), head.processor_time() + peer.processor_time())
        for round in range(options.rounds + 1):
            prompt = [(7 * i + round) % 1000 + 100 for i in range(options.prompt)]
            body = {"prompt": prompt, "n_predict": options.tokens, "temperature": 0}
            body |= {"ignore_eos": True, "cache_prompt": False, "return_tokens": True}
            answers = []
            if round == 1:  # The first warms up.
                before = worked()
            for name, program in [("one process", alone), ("two", head)]:
                answer = program.post("/completion", body)
                answers.append(answer["tokens"])
                timings = answer["timings"]
                if round > 0:
                    rows[name].append((timings["predicted_per_second"], timings["prompt_per_second"]))
            assert answers[0] == answers[1], "the answers differ"
        print(f"\n{options.model.name}: {len(processors)} workers on processors {sorted(processors)}, {machine.load()}")
        for column, what in enumerate([f"decode {options.tokens}", f"prefill {options.prompt}"]):
            one, two = ([row[column] for row in rows[name]] for name in rows)
            # Round by round, since the machine may be slower for a while.
            gains = [100 * (second / first - 1) for first, second in zip(one, two)]
            low, middle, high = statistics.quantiles(gains, n=4) if len(gains) > 1 else gains * 3
            one, two = statistics.median(one), statistics.median(two)
            print(
                f"  {what:16} one process {one:8.2f} tokens/s, two {two:8.2f}: {middle:+.1f}% by rounds,"
                f" half of them from {low:+.1f}% to {high:+.1f}%"
            )
        one, two = (after - earlier for after, earlier in zip(worked(), before))
        print(f"  processor time   one process {one:8.2f} s, two {two:8.2f} s: {100 * (two / one - 1):+.1f}%")
        [other] = plan["peers"]
        sizes = [("head", head, plan, "layers"), ("peer", peer, other, "layers")]
        for name, program, figures, layers in sizes:
            model = figures["weights_bytes"] + figures["kv_bytes"] + figures["workspace_bytes"]
            print(
                f"  {name}: {figures[layers]} layers, planned {model / 1e6:.0f} MB (weights"
                f" {figures['weights_bytes'] / 1e6:.0f}), resident {program.resident() / 1e6:.0f} MB with the program"
            )
        print(f"  one process: resident {alone.resident() / 1e6:.0f} MB")
    finally:
        for program in reversed(programs):
            program.end()


if __name__ == "__main__":
    main()
