"""Loads `strata synth` files of every mix in llama.cpp and generates with them.

Usage: python tools/synth_check.py PATH_OF_STRATA

Needs `llama-cpp-python`. Fails if a file does not load, if a logit is not a number, or if the logits are
not of a sane size.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy
import llama_library
from llama_cpp import Llama

MIXES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_k_m", "q5_k_m", "q6_k"]


def check(path: pathlib.Path) -> float:
    model = Llama(str(path), n_ctx=256, n_threads=2, logits_all=True, verbose=False)
    tokens = model.tokenize(b"Once upon a time there was a small model", add_bos=True)
    generated = []
    for token in model.generate(tokens, temp=1.0, top_k=0, top_p=1.0):
        generated.append(token)
        if len(generated) == 32:
            break
    logits = numpy.array(model.scores[: model.n_tokens])
    assert numpy.isfinite(logits).all(), f"{path.name}: a logit is not a number"
    deviation = float(logits.std())
    assert 0.3 < deviation < 4, f"{path.name}: logits have a deviation of {deviation}"
    assert len(set(generated)) > 8, f"{path.name}: generates the same few tokens: {generated}"
    return deviation


def main() -> None:
    strata = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        others = [(shape, mix) for shape in ("tiny-lfm2", "tiny-moe", "tiny-hybrid") for mix in ("f32", "q4_k_m")]
        for shape, mix in [("tiny", mix) for mix in MIXES] + others:
            path = pathlib.Path(folder) / f"{shape}-{mix}.gguf"
            subprocess.run([strata, "synth", path, "--shape", shape, "--mix", mix], check=True)
            print(f"{shape} {mix}: llama.cpp generates; deviation of the logits {check(path):.2f}")


if __name__ == "__main__":
    main()
