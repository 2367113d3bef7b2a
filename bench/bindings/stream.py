"""Decodes in Python, for bench/bindings.py: a line of JSON for each line of standard input.

`first` imports the package, opens the model and waits for a token; `decode` streams so many tokens and times them.
"""

import json
import resource
import sys
import time

model_name, tokens = sys.argv[1], int(sys.argv[2])
model = None


def stream(count: int) -> dict:
    """Tokens a second after the first, and what crossed the border."""
    calls = size = 0
    start = 0.0
    answer = model.complete("Once upon a time", max_tokens=count, ignore_eos=True, temperature=0)
    for event in answer:
        calls += 1
        if not start:
            start = time.perf_counter()
        size += len(event.text)
    seconds = time.perf_counter() - start
    return {"decode": (count - 1) / seconds if count > 1 else 0.0, "calls": calls / count, "text": size}


for line in sys.stdin:
    if model is None:
        import strata

        model = strata.load(model_name)
    result = stream(1 if line.strip() == "first" else tokens)
    result["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(result), flush=True)
print("{}")
