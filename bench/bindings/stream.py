"""Decodes in Python, for bench/bindings.py: a line of JSON for each line of standard input.

`first` imports the package, opens the model and waits for a token; `decode` streams so many tokens and times them; `count`
does the same and counts what crosses the border.
"""

import json
import resource
import sys
import time

model_name, tokens = sys.argv[1], int(sys.argv[2])
model = None
calls = copied = 0


class Counted:
    """A stream of the library's whose every call is counted, and the texts that it gives."""

    def __init__(self, raw: object) -> None:
        self._raw = raw

    def __getattr__(self, name: str):
        function = getattr(self._raw, name)

        def call(*arguments):
            global calls, copied
            result = function(*arguments)
            calls += 1
            copied += len(result.encode()) if isinstance(result, str) else 0
            return result

        return call


def stream(count: int) -> float:
    """Tokens a second after the first."""
    start = 0.0
    answer = model.complete("Once upon a time", max_tokens=count, ignore_eos=True, temperature=0)
    for _ in answer:
        if not start:
            start = time.perf_counter()
    return (count - 1) / (time.perf_counter() - start)


def counted() -> dict:
    """Calls and bytes for a token."""
    plain = strata.Stream.__init__
    strata.Stream.__init__ = lambda self, raw: plain(self, Counted(raw))
    stream(tokens)
    strata.Stream.__init__ = plain
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"calls": calls / tokens, "copied": copied / tokens, "memory": memory}


for line in sys.stdin:
    if model is None:
        import strata

        model = strata.load(model_name)
    turn = line.strip()
    result = counted() if turn == "count" else {"decode": stream(1 if turn == "first" else tokens)}
    print(json.dumps(result), flush=True)
print("{}")
