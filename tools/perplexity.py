"""Measures a text's perplexity with llama.cpp, by its own definition: chunks of CTX tokens, the second half scored.

    python tools/perplexity.py MODEL.gguf TEXT CTX

Needs llama-cpp-python and numpy. `strata perplexity MODEL TEXT --ctx CTX` should print about the same:

    python tools/perplexity.py models/tale/tale-q4_k_m.gguf crates/cli/tests/story.txt 128
"""

import sys

import llama_library
import llama_cpp
import numpy as np


def main(model, text, ctx):
    llama = llama_cpp.Llama(model, n_ctx=ctx, n_batch=ctx, logits_all=True, verbose=False)
    with open(text, "rb") as file:
        tokens = llama.tokenize(file.read(), add_bos=True, special=False)
    adds_bos = llama_cpp.llama_vocab_get_add_bos(llama._model.vocab)
    total, count = 0.0, 0
    for start in range(0, len(tokens) - ctx + 1, ctx):
        chunk = tokens[start : start + ctx]
        llama.reset()
        llama.eval([llama.token_bos()] + chunk[1:] if adds_bos else chunk)
        logits = np.array(llama.scores[:ctx], dtype=np.float64)
        for at in range(ctx // 2, ctx - 1):
            row = logits[at] - logits[at].max()
            total -= row[chunk[at + 1]] - np.log(np.exp(row).sum())
            count += 1
    print(f"{np.exp(total / count):.4f} over {count} tokens")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
