"""The same with llama-cpp-python, for bench/bindings.py."""

import json
import resource
import sys
import time

file, tokens = sys.argv[1], int(sys.argv[2])
model = None
calls = copied = 0


def counted(name, function):
    """Counts the calls of a function of llama.cpp, and the bytes of tokens' texts that it writes into Python's memory."""

    def call(*arguments):
        global calls, copied
        result = function(*arguments)
        calls += 1
        copied += max(0, result) if name == "llama_token_to_piece" else 0
        return result

    return call


def stream(count: int) -> tuple[float, int]:
    """Tokens a second after the first, and how many there were: it may end sooner."""
    start, pieces = 0.0, 0
    for _ in model.create_completion("Once upon a time", max_tokens=count, temperature=0, stream=True):
        if not start:
            start = time.perf_counter()
        else:
            pieces += 1
    return pieces / (time.perf_counter() - start), pieces + 1


def count() -> dict:
    """Calls and bytes for a token."""
    from llama_cpp import llama_cpp as raw

    plain = {
        name: function
        for name, function in vars(raw).items()
        if name.startswith("llama_") and callable(function) and not isinstance(function, type)
    }
    vars(raw).update({name: counted(name, function) for name, function in plain.items()})
    _, pieces = stream(tokens)
    vars(raw).update(plain)
    # Whoever asks for all logits gets a copy of them at each token.
    logits = 4 * model.n_vocab() if model._logits_all else 0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"calls": calls / pieces, "copied": copied / pieces + logits, "memory": memory}


for line in sys.stdin:
    if model is None:
        import llama_cpp

        model = llama_cpp.Llama(file, n_ctx=1024, verbose=False)
    turn = line.strip()
    result = count() if turn == "count" else {"decode": stream(1 if turn == "first" else tokens)[0]}
    print(json.dumps(result), flush=True)
print("{}")
