"""What faster-whisper and CTranslate2 do with a minute of audio, with the weights of a Whisper in Strata's GGUF keys.

Usage: python bench/ct2_whisper.py MODEL.gguf FOLDER [--threads N] [--type int8|float32] [--tokens N]

Writes the model into FOLDER in CTranslate2's format, unless it is there, keeps it in memory, and hears the minute once for
each line of standard input, `audio`: a line of JSON with the figures of `strata bench --in-turns`. A last object has the
peak memory. A minute is two windows of 30 seconds. `window_s` is one of them, from its spectrogram to the first token.
"""

import argparse
import json
import os
import pathlib
import resource
import sys
import time

import ctranslate2
import gguf
import numpy
from ctranslate2.specs import common_spec
from ctranslate2.specs.whisper_spec import WhisperSpec
from faster_whisper.feature_extractor import FeatureExtractor

RATE = 16_000


class File:
    """A GGUF file's tensors as floats."""

    def __init__(self, path: str) -> None:
        self.reader = gguf.GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}

    def number(self, key: str) -> int:
        return int(self.reader.fields[key].contents())

    def get(self, name: str) -> numpy.ndarray:
        tensor = self.tensors[name]
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)

    def linear(self, spec: common_spec.LinearSpec, *names: str) -> None:
        """Matrices one below the other, and their biases, zeros where there are none."""
        spec.weight = numpy.concatenate([self.get(f"{name}.weight") for name in names])
        biases = [self.bias(name) for name in names]
        if any(bias is not None for bias in biases):
            rows = len(spec.weight) // len(names)
            spec.bias = numpy.concatenate([numpy.zeros(rows, numpy.float32) if b is None else b for b in biases])

    def bias(self, name: str) -> numpy.ndarray | None:
        return self.get(f"{name}.bias") if f"{name}.bias" in self.tensors else None

    def norm(self, spec: common_spec.LayerNormSpec, name: str) -> None:
        spec.gamma, spec.beta = self.get(f"{name}.weight"), self.get(f"{name}.bias")

    def layer(self, spec, block: str) -> None:
        self.norm(spec.self_attention.layer_norm, f"{block}.attn_norm")
        self.linear(spec.self_attention.linear[0], *(f"{block}.attn_{part}" for part in "qkv"))
        self.linear(spec.self_attention.linear[1], f"{block}.attn_o")
        if hasattr(spec, "attention"):
            self.norm(spec.attention.layer_norm, f"{block}.cross_attn_norm")
            self.linear(spec.attention.linear[0], f"{block}.cross_attn_q")
            self.linear(spec.attention.linear[1], f"{block}.cross_attn_k", f"{block}.cross_attn_v")
            self.linear(spec.attention.linear[2], f"{block}.cross_attn_o")
        self.norm(spec.ffn.layer_norm, f"{block}.ffn_norm")
        self.linear(spec.ffn.linear_0, f"{block}.ffn_up")
        self.linear(spec.ffn.linear_1, f"{block}.ffn_down")


def convert(path: str, folder: pathlib.Path, kind: str) -> None:
    """The same weights in CTranslate2's format; `kind` is how it keeps matrices."""
    file = File(path)
    sizes = [file.number(f"whisper.{part}.{what}") for part in ("encoder", "decoder") for what in ("block_count", "attention.head_count")]
    spec = WhisperSpec(*sizes)
    for conv, name in ((spec.encoder.conv1, "enc.conv1"), (spec.encoder.conv2, "enc.conv2")):
        conv.weight, conv.bias = file.get(f"{name}.weight"), file.get(f"{name}.bias")
    for part, name in ((spec.encoder, "enc"), (spec.decoder, "dec")):
        part.position_encodings.encodings = file.get(f"{name}.position_embd.weight")
        file.norm(part.layer_norm, f"{name}.output_norm")
        for index, layer in enumerate(part.layer):
            file.layer(layer, f"{name}.blk.{index}")
    spec.decoder.embeddings.weight = file.get("token_embd.weight")
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    spec.register_vocabulary(file.reader.fields["tokenizer.ggml.tokens"].contents())
    spec.config.suppress_ids = []
    spec.config.suppress_ids_begin = []
    spec.config.lang_ids = []
    spec.config.alignment_heads = [(0, 0)]
    spec.validate()
    spec.optimize(quantization=kind)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


class Ears:
    """A model in memory."""

    def __init__(self, folder: pathlib.Path, kind: str, threads: int, tokens: int) -> None:
        options = {"compute_type": kind, "intra_threads": threads, "inter_threads": 1}
        self.model = ctranslate2.models.Whisper(str(folder), device="cpu", **options)
        self.features = FeatureExtractor()
        self.tokens = tokens
        names = json.loads((folder / "vocabulary.json").read_text())
        prompt = ("startoftranscript", "en", "transcribe", "notimestamps")
        self.prompt = [names.index(f"<|{name}|>") for name in prompt]
        # All but text.
        self.suppressed = list(range(names.index("<|endoftext|>"), len(names)))

    def write(self, encoded, tokens: int) -> int:
        """Greedy, so many tokens: the end is not one of them."""
        options = {"beam_size": 1, "max_length": tokens + len(self.prompt), "suppress_tokens": self.suppressed}
        found = self.model.generate(encoded, [self.prompt], suppress_blank=False, **options)
        return len(found[0].sequences_ids[0])

    def hear(self, samples: numpy.ndarray) -> dict:
        start = time.perf_counter()
        mel = self.features(samples)
        mel_s = time.perf_counter() - start
        window = numpy.ascontiguousarray(mel[None, :, :3000], dtype=numpy.float32)
        windows = []
        for _ in range(2):
            start = time.perf_counter()
            encoded = self.model.encode(ctranslate2.StorageView.from_array(window))
            self.write(encoded, 1)
            windows.append(time.perf_counter() - start)
        first = time.perf_counter()
        few = self.write(encoded, 1)
        middle = time.perf_counter()
        many = self.write(encoded, self.tokens)
        last = time.perf_counter()
        speed = (many - few) / ((last - middle) - (middle - first))
        return {"mel_s": mel_s, "window_s": sum(windows) / 2, "decode_tok_s": speed, "tokens": many}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--type", default="int8")
    parser.add_argument("--tokens", type=int, default=128)
    options = parser.parse_args()
    if not (options.folder / "model.bin").exists():
        convert(options.model, options.folder, options.type)
    ears = Ears(options.folder, options.type, options.threads, options.tokens)
    time_of = numpy.arange(60 * RATE, dtype=numpy.float32) / RATE
    noise = numpy.random.default_rng(1).standard_normal(len(time_of)).astype(numpy.float32)
    samples = 0.3 * numpy.sin(2 * numpy.pi * 220 * time_of) + 0.05 * noise
    for line in sys.stdin:
        if line.strip() != "audio":
            raise SystemExit(f"unknown measurement {line.strip()!r}")
        print(json.dumps(ears.hear(samples)), flush=True)
    print(json.dumps({"peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
