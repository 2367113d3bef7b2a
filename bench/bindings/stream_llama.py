"""The same with llama-cpp-python, for bench/bindings.py. Counts the calls into C that a token takes, and the bytes of logits
that are copied."""

import json
import resource
import sys
import time

file, tokens = sys.argv[1], int(sys.argv[2])
model = None
calls = 0


def counted(function):
    def call(*arguments):
        global calls
        calls += 1
        return function(*arguments)

    return call


def load():
    import llama_cpp
    from llama_cpp import llama_cpp as raw

    opened = llama_cpp.Llama(file, n_ctx=1024, verbose=False)
    for name in dir(raw):
        if name.startswith("llama_") and callable(getattr(raw, name)) and not isinstance(getattr(raw, name), type):
            setattr(raw, name, counted(getattr(raw, name)))
    return opened


def stream(count: int) -> dict:
    global calls
    start, pieces = 0.0, 0
    for _ in model.create_completion("Once upon a time", max_tokens=count, temperature=0, stream=True):
        if not start:
            start, calls = time.perf_counter(), 0
        else:
            pieces += 1
    seconds = time.perf_counter() - start
    per_token = calls / max(1, pieces)
    copied = model.n_vocab() * 4 if model.scores.shape[0] > 1 and model.scores[5].any() else 0
    return {"decode": pieces / seconds if pieces else 0.0, "calls": per_token, "copied": copied}


for line in sys.stdin:
    model = model or load()
    result = stream(1 if line.strip() == "first" else tokens)
    result["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(result), flush=True)
print("{}")
