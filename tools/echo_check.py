"""Compares the log-probabilities of an echoed prompt with llama.cpp's.

    python tools/echo_check.py PROGRAM

Needs llama-cpp-python and numpy. PROGRAM is the `strata` program, which serves the model of models/tale. The prompt is
given as text and as tokens; both must give the same numbers, llama.cpp's within what its coarser arithmetic explains.
"""

import json
import pathlib
import sys
import tempfile
import urllib.request

import llama_library
import llama_cpp
import numpy as np

import strata_server

ROOT = pathlib.Path(__file__).parent.parent
TEXT = (ROOT / "crates/cli/tests/story.txt").read_text()[:600]
# The mean difference of a log-probability, and the difference of the perplexities' logarithms.
MEAN, TOTAL = 0.1, 0.03


def peer(model, tokens):
    llama = llama_cpp.Llama(model, n_ctx=1024, n_batch=1024, logits_all=True, verbose=False)
    llama.eval(tokens)
    logits = np.array(llama.scores[: len(tokens)], dtype=np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return np.array([logits[at, token] for at, token in enumerate(tokens[1:])])


def main(program):
    model = str(next((ROOT / "models/tale").glob("*.gguf")))
    with tempfile.TemporaryDirectory() as folder:
        server = strata_server.StrataServer(program, folder, [model])

        def post(path, body):
            request = urllib.request.Request(server.url + path, json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)

        def echo(prompt):
            body = {"prompt": prompt, "max_tokens": 0, "echo": True, "logprobs": 1}
            choice = post("/v1/completions", body)["choices"][0]
            assert choice["text"] == TEXT, choice["text"]
            logprobs = choice["logprobs"]
            assert logprobs["token_logprobs"][0] is None and logprobs["text_offset"][0] == 0
            return logprobs["token_logprobs"][1:]

        tokens = post("/tokenize", {"prompt": TEXT, "add_special_tokens": False})["tokens"]
        ours = np.array(echo(tokens))
        # What stands before the text, where the model wants it, changes the first tokens' numbers.
        texts = post("/tokenize", {"prompt": TEXT})["tokens"]
        as_text = np.array(echo(TEXT))
        server.stop()
    if texts == tokens:
        assert (as_text == ours).all()
    theirs = peer(model, tokens)
    mean, total = np.abs(ours - theirs).mean(), abs(ours.mean() - theirs.mean())
    print(f"{len(ours)} tokens, perplexity {np.exp(-ours.mean()):.4f} and {np.exp(-theirs.mean()):.4f}, ", end="")
    print(f"mean difference of a log-probability {mean:.4f}")
    assert mean < MEAN and total < TOTAL


if __name__ == "__main__":
    main(sys.argv[1])
