"""Compares Strata's logits with llama.cpp's on the same files.

Usage: python tools/llama_compare.py PATH_OF_STRATA [MODEL.gguf…]

Without models: the built-in `tale`, and `strata synth` files of every quantized mix. For each it prints the mean KL
divergence over 200 positions, the share of positions whose likeliest token is the same, and the largest difference
of a logit:

- ours and llama.cpp's, on the file as it is;
- each of the two and the exact result: llama.cpp on the same weights as f32, with keys and values in f32.

Both engines round activations to 8 bits, each in its own way, so their distance to each other is about the sum of
their distances to the exact result. llama.cpp alone is further than 1e-3 from it on tale, and as far from itself when
its cache is f32 instead of f16; no other engine can then be nearer to it than that. So the bar for tale is the exact
result: a divergence of at most 1e-3 and less than llama.cpp's own, and of the likeliest tokens 98%, and as many as
llama.cpp has. For the synthetic models, which amplify rounding less, it is also at most 1e-3 between the two. Needs `llama-cpp-python` and `gguf`.
"""

import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy
import llama_library
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


def as_f32(path: pathlib.Path, folder: str) -> pathlib.Path:
    """A copy of a model with every tensor in f32."""
    reader = gguf.GGUFReader(path)
    out = pathlib.Path(folder) / "f32.gguf"
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(out, arch)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, numpy.ascontiguousarray(values, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def llama_logits(path: pathlib.Path, tokens: list[int] | None, **options) -> tuple[list[int], numpy.ndarray]:
    size = POSITIONS + 8
    model = Llama(str(path), n_ctx=size, n_batch=size, n_threads=2, logits_all=True, verbose=False, **options)
    tokens = tokens or model.tokenize(STORY.encode(), add_bos=True)[:POSITIONS]
    assert len(tokens) == POSITIONS, f"the text has only {len(tokens)} tokens"
    model.eval(tokens)
    return tokens, numpy.array(model.scores[:POSITIONS])


def our_logits(strata: str, path: pathlib.Path, tokens: list[int], folder: str) -> numpy.ndarray:
    out = pathlib.Path(folder) / "logits.f32"
    ids = ",".join(map(str, tokens))
    subprocess.run([strata, "logits", path, "--tokens", ids, "--out", out], check=True, stdout=subprocess.DEVNULL)
    return numpy.fromfile(out, dtype="<f4").reshape(POSITIONS, -1)


def distance(a: numpy.ndarray, b: numpy.ndarray) -> tuple[float, float, str]:
    p, q = log_softmax(a), log_softmax(b)
    divergence = float((numpy.exp(p) * (p - q)).sum(axis=-1).mean())
    same = float((a.argmax(axis=-1) == b.argmax(axis=-1)).mean())
    return divergence, same, f"KL {divergence:.2e}, top-1 {same:.1%}, max |Δ| {numpy.abs(a - b).max():.3f}"


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
            tokens, theirs = llama_logits(path, None)
            _, exact = llama_logits(as_f32(path, folder), tokens, type_k=0, type_v=0)
            ours = our_logits(strata, path, tokens, folder)
            between, _, between_text = distance(theirs, ours)
            our_error, our_top, our_text = distance(exact, ours)
            their_error, their_top, their_text = distance(exact, theirs)
            bad = our_error > 1e-3 or our_error > their_error if path == TALE else between > 1e-3
            bad |= path == TALE and our_top < max(0.98, their_top)
            failed |= bad
            print(f"{path.name}: {'TOO FAR' if bad else 'ok'}")
            print(f"  ours and llama.cpp's   {between_text}")
            print(f"  ours and exact         {our_text}")
            print(f"  llama.cpp's and exact  {their_text}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
