"""Compares Strata's logits with llama.cpp's on the same files.

Usage: python tools/llama_compare.py PATH_OF_STRATA [MODEL.gguf…]

Without models: the built-in `tale`, and `strata synth` files of every quantized mix. Prints the mean KL divergence
over 200 positions, the share of positions whose likeliest token is the same, and the largest difference; fails if the
divergence is above 1e-3, or if fewer than 99% of tale's likeliest tokens agree. Needs `llama-cpp-python`.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy
from llama_cpp import Llama

POSITIONS = 200
MIXES = ["q4_0", "q8_0", "q4_k_m", "q5_k_m", "q6_k"]
TALE = pathlib.Path(__file__).resolve().parent.parent / "models/tale/tale-q4_k_m.gguf"
STORY = (
    "Once upon a time there was a little girl who lived with her grandmother in a small house at the edge of the "
    "forest. Every morning she fed the hens, fetched water from the well and swept the floor. One day she found a "
    "strange blue egg under the old apple tree. \"What can it be?\" she asked. Her grandmother looked at it for a "
    "long time and said that she had never seen such an egg before. They put it in a basket with some straw and set "
    "it near the stove. In the night they heard a knocking, and then a crack, and out of the egg came a bird with "
    "feathers like the sky. It could not fly yet, but it could sing, and when it sang the whole house was warm. The "
    "girl loved the bird and shared her bread with it. When spring came the bird spread its wings and flew to the "
    "top of the apple tree. It sang once more, and every branch began to bloom. Then it flew away over the hills, "
    "but each year, when the snow had gone, it came back and sang for them, and they were never cold again."
)


def log_softmax(logits: numpy.ndarray) -> numpy.ndarray:
    shifted = logits.astype(numpy.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))


def compare(strata: str, path: pathlib.Path, folder: str) -> tuple[float, float, float]:
    model = Llama(str(path), n_ctx=POSITIONS + 8, n_batch=POSITIONS + 8, n_threads=2, logits_all=True, verbose=False)
    tokens = model.tokenize(STORY.encode(), add_bos=True)[:POSITIONS]
    assert len(tokens) == POSITIONS, f"the text has only {len(tokens)} tokens"
    model.eval(tokens)
    theirs = numpy.array(model.scores[:POSITIONS])
    out = pathlib.Path(folder) / "logits.f32"
    ids = ",".join(map(str, tokens))
    subprocess.run([strata, "logits", path, "--tokens", ids, "--out", out], check=True, stdout=subprocess.DEVNULL)
    ours = numpy.fromfile(out, dtype="<f4").reshape(theirs.shape)
    p, q = log_softmax(theirs), log_softmax(ours)
    divergence = (numpy.exp(p) * (p - q)).sum(axis=-1).mean()
    same = (theirs.argmax(axis=-1) == ours.argmax(axis=-1)).mean()
    return float(divergence), float(same), float(numpy.abs(theirs - ours).max())


def main() -> None:
    strata, *given = sys.argv[1:]
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        models = [pathlib.Path(path) for path in given]
        if not models:
            models = [TALE]
            for mix in MIXES:
                path = pathlib.Path(folder) / f"tiny-{mix}.gguf"
                command = [strata, "synth", path, "--shape", "tiny", "--mix", mix]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                models.append(path)
        for path in models:
            divergence, same, largest = compare(strata, path, folder)
            bad = divergence > 1e-3 or (path == TALE and same < 0.99)
            failed |= bad
            verdict = "TOO FAR" if bad else "ok"
            print(f"{path.name:24} KL {divergence:.2e}  top-1 {same:7.2%}  max |Δ| {largest:.3f}  {verdict}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
