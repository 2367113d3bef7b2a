"""What llama.cpp does with a model, through the low-level interface of llama-cpp-python. Prints one JSON object.

Usage: python bench/llamacpp.py speed MODEL.gguf [--threads N] [--prompt N] [--tokens N] [--ctx-used N]
       python bench/llamacpp.py aggregate MODEL.gguf [--threads N] [--tokens N] [--sequences N]
       python bench/llamacpp.py serving MODEL.gguf [--threads N] [--streams N,N…] [--prompt N] [--tokens N]

The measurements are those of `strata bench` (`speed` is its `--in-turns`: one for each line of standard input, `prefill`
or `decode`) and of the engine's example `serving`. The batches are the ones that llama.cpp's own programs make: prompts in
batches of up to 2048 tokens, a token of every running sequence in each step.
"""

import argparse
import collections
import ctypes
import json
import os
import resource
import sys
import time

import llama_cpp as api
import numpy

# Tokens of the prompts of sequences that decode side by side, and of a prompt that are its own where the rest is shared.
SHORT = 32
OWN = 32
BATCH = 2048


class Context:
    """A model in memory with room for some sequences."""

    def __init__(self, model, threads: int, positions: int, sequences: int = 1, unified: bool = False) -> None:
        parameters = api.llama_context_default_params()
        each = -(-positions // 256) * 256
        parameters.n_ctx = each * sequences
        parameters.n_batch = BATCH
        parameters.n_seq_max = sequences
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.kv_unified = unified
        self.raw = api.llama_init_from_model(model, parameters)
        if not self.raw:
            raise SystemExit("llama.cpp made no context")
        self.memory = api.llama_get_memory(self.raw)
        self.vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))
        self.batch = api.llama_batch_init(BATCH, 0, 1)

    def decode(self, entries: list[tuple[int, int, int, bool]]) -> None:
        """Computes (token, position, sequence, whether logits are wanted)."""
        batch = self.batch
        batch.n_tokens = len(entries)
        for i, (token, position, sequence, logits) in enumerate(entries):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, logits
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        code = api.llama_decode(self.raw, batch)
        if code != 0:
            raise SystemExit(f"llama_decode failed with {code}")

    def feed(self, tokens: list[int], start: int, sequence: int = 0) -> None:
        """A prompt, with the logits of its last token."""
        for at in range(0, len(tokens), BATCH):
            part = tokens[at : at + BATCH]
            last = at + len(part) - 1
            self.decode([(t, start + at + i, sequence, at + i == last == len(tokens) - 1) for i, t in enumerate(part)])

    def choose(self, row: int) -> int:
        """The likeliest token of a row of the last batch."""
        logits = api.llama_get_logits_ith(self.raw, row)
        return int(numpy.ctypeslib.as_array(logits, shape=(self.vocabulary,)).argmax())

    def clear(self) -> None:
        api.llama_memory_clear(self.memory, False)

    def truncate(self, positions: int) -> None:
        api.llama_memory_seq_rm(self.memory, 0, positions, -1)

    def close(self) -> None:
        api.llama_batch_free(self.batch)
        api.llama_free(self.raw)


def random_tokens(seed: int, count: int, vocabulary: int) -> list[int]:
    return [int(token) for token in numpy.random.default_rng(seed).integers(0, vocabulary, count)]


def speed(model, load: float, options: argparse.Namespace) -> dict:
    prompt, tokens, used = options.prompt, options.tokens, options.ctx_used
    positions = max(prompt, used + tokens, options.positions)
    start = time.perf_counter()
    context = Context(model, options.threads, positions)
    ids = random_tokens(1, max(prompt, used + tokens), context.vocabulary)
    # The file is mapped, and read when it is first used.
    context.feed(ids[:1], 0)
    found = {"first_s": load + time.perf_counter() - start}
    context.feed(ids[1 : min(32, len(ids))] or ids[:1], 1)
    computed = 0  # tokens that the cache holds

    def prefill() -> float:
        nonlocal computed
        context.clear()
        computed = prompt
        start = time.perf_counter()
        context.feed(ids[:prompt], 0)
        return prompt / (time.perf_counter() - start)

    def decode() -> float:
        nonlocal computed
        context.truncate(min(computed, used))
        if used > computed:
            context.feed(ids[computed:used], computed)
        computed = used + tokens
        start = time.perf_counter()
        for i in range(used, used + tokens):
            context.feed(ids[i : i + 1], i)
        return tokens / (time.perf_counter() - start)

    turns = {"prefill": prefill, "decode": decode}
    for line in sys.stdin:
        print(json.dumps({"tok_s": turns[line.strip()]()}), flush=True)
    context.close()
    found["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found


def aggregate(model, options: argparse.Namespace) -> float:
    count, tokens = options.sequences, options.tokens
    context = Context(model, options.threads, SHORT + tokens + 2, count)
    for sequence in range(count):
        context.feed(random_tokens(2 + sequence, SHORT, context.vocabulary), 0, sequence)
    latest = random_tokens(1, count, context.vocabulary)
    start = time.perf_counter()
    for i in range(tokens):
        context.decode([(latest[s], SHORT + i, s, True) for s in range(count)])
        latest = [context.choose(s) for s in range(count)]
    seconds = time.perf_counter() - start
    context.close()
    return count * tokens / seconds


def percentiles(values: list[float]) -> list[float]:
    values = sorted(values)
    return [values[max(-(-len(values) * share // 100) - 1, 0)] for share in (50, 90, 99)]


def burst(model, streams: int, shared: bool, options: argparse.Namespace) -> dict:
    """Requests that come all at once, in the batches that llama-server makes: a token of everybody who decodes, and
    as much of the prompts as fits beside."""
    prefix = options.prompt - OWN if shared else 0
    context = Context(model, options.threads, options.prompt + options.tokens + 2, streams + 1, unified=shared)
    # The same first touch as the other engine has, and the prefix where it is shared.
    context.feed(random_tokens(0, prefix or OWN, context.vocabulary), 0, streams)
    start = time.perf_counter()
    waiting = collections.deque()
    for sequence in range(streams):
        if shared:
            api.llama_memory_seq_cp(context.memory, streams, sequence, 0, prefix)
        own = random_tokens(sequence + 1, options.prompt - prefix, context.vocabulary)
        waiting.extend((token, prefix + i, sequence, i + 1 == len(own)) for i, token in enumerate(own))
    running: dict[int, tuple[int, int]] = {}
    times: list[list[float]] = [[] for _ in range(streams)]
    while waiting or running:
        entries = [(token, position, sequence, True) for sequence, (token, position) in running.items()]
        while waiting and len(entries) < BATCH:
            entries.append(waiting.popleft())
        context.decode(entries)
        rows = [(context.choose(row), entry) for row, entry in enumerate(entries) if entry[3]]
        now = time.perf_counter()
        for token, (_, position, sequence, _) in rows:
            times[sequence].append(now)
            running[sequence] = (token, position + 1)
            if len(times[sequence]) == options.tokens:
                del running[sequence]
    seconds = time.perf_counter() - start
    context.close()
    return {
        "streams": streams,
        "shared": shared,
        "tok_s": streams * options.tokens / seconds,
        "first_token_s": percentiles([each[0] - start for each in times]),
        "token_s": percentiles([b - a for each in times for a, b in zip(each, each[1:])]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "aggregate", "serving"])
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--ctx-used", type=int, default=0)
    parser.add_argument("--positions", type=int, default=0, help="room in the context, if more than is used")
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--streams", default="1,4,8,16,32")
    options = parser.parse_args()
    # Its messages would be among the figures.
    silence = api.llama_log_callback(lambda *_: None)
    api.llama_log_set(silence, ctypes.c_void_p(0))
    api.llama_backend_init()
    start = time.perf_counter()
    model = api.llama_model_load_from_file(options.model.encode(), api.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama.cpp cannot load {options.model}")
    if options.what == "speed":
        print(json.dumps(speed(model, time.perf_counter() - start, options)))
        return
    if options.what == "aggregate":
        print(json.dumps({"aggregate_tok_s": aggregate(model, options)}))
        return
    streams = [int(n) for n in options.streams.split(",")]
    rows = [burst(model, n, shared, options) for n in streams for shared in (True, False)]
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
