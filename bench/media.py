"""Runs Strata beside llama.cpp's mtmd on an image, and beside CTranslate2 on a minute of audio; prints medians and ratios.

Usage: python bench/media.py PATH_OF_STRATA FOLDER [--vision PYTHON] [--speech PYTHON] [--threads N] [--rounds N] [--quick]

`cargo xtask bench media` builds the program, installs the peers and runs this. Models with random weights are made in FOLDER
by `strata synth`: SigLIP-400m at 896 pixels, as Gemma 3 has it, before a 1b, and whisper-small. Both sides read the same
files; CTranslate2's is made of ours. Programs keep their models in memory and take turns, now one first and now the other:
a shared machine can be half or twice as fast from one second to the next. Figures are medians; a ratio is the median of the
turns' ratios, how many times as fast Strata is.

- decode, fit: an image of 1024×1024 from its PNG file to the pixels that the tower reads
- tower: through the tower's layers and the projector
- prefill: the image's positions through the language model
- spectrogram: of a minute of audio
- window: of 30 seconds from its spectrogram through the encoder to the first token
- tokens: tokens a second after it, one by one
- `--vision`, `--speech`: the interpreters that have the peers; a part whose interpreter is not named is left out
- `--types`: of the language model's matrices; a tower's are f16, or q8_0 where the model's are. Whisper's are q8_0, with
  CTranslate2's `int8` beside them; `f32` compares its floats, too
"""

import argparse
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import zlib

import machine

HERE = pathlib.Path(__file__).parent
SIDE = 1024


def photograph(path: pathlib.Path) -> None:
    """An image like a photograph: slopes, edges and a little noise."""
    state, rows = 1, []
    for y in range(SIDE):
        row = bytearray([1])
        before = (0, 0, 0)
        for x in range(SIDE):
            state = (state * 1_664_525 + 1_013_904_223) & 0xFFFFFFFF
            edge = 40 if (x // 128 + y // 96) % 2 == 0 else 0
            now = tuple((((x * (c + 1) + y * (3 - c)) // 32) + edge + (state >> (20 + 3 * c) & 7)) & 255 for c in range(3))
            # Differences from the pixel before, as files of cameras have them.
            row += bytes((a - b) & 255 for a, b in zip(now, before))
            before = now
        rows.append(bytes(row))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(b"".join(rows), 6)), chunk(b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


class Pair:
    """Both programs, and what was measured so far."""

    def __init__(self, title: str, ours: list, theirs: list, peer: str) -> None:
        self.title, self.peer = title, peer
        self.programs = (machine.Turns(ours), machine.Turns(theirs))
        self.rounds: list[tuple[dict, dict]] = []

    def run(self, word: str, rounds: int) -> None:
        for program in self.programs:
            # The first touch of every page belongs to no measurement.
            program.take(word)
        for number in range(rounds):
            order = self.programs[:: 1 if number % 2 else -1]
            found = [program.take(word) for program in order]
            self.rounds.append(tuple(found[:: 1 if number % 2 else -1]))
        self.ends = [program.end() for program in self.programs]

    def print(self, rows: list[tuple[str, tuple[str, ...], bool]], threads: int) -> None:
        """Rows are names, the keys whose figures are added up, and whether more is better."""
        print(f"\n{self.title}: {threads} threads, {len(self.rounds)} rounds, {self.ends[0].get('isa', '')}")
        print(f"  {'':34} {'strata':>10} {self.peer:>12} {'ratio':>8}")
        for name, keys, more in rows:
            pairs = [tuple(sum(side.get(key, 0.0) for key in keys) for side in turn) for turn in self.rounds]
            ours, theirs = (statistics.median(side) for side in zip(*pairs))
            ratios = [a / b if more else b / a for a, b in pairs if a and b]
            scale, unit = (1, "tok/s") if more else (1000, "ms")
            line = f"  {name + ', ' + unit:34} {ours * scale:10.1f} {theirs * scale:12.1f}"
            print(line + (f" {statistics.median(ratios):7.2f}×" if ratios else ""))
        peaks = [end["peak_rss_bytes"] / 1e6 for end in self.ends]
        print(f"  {'peak memory, MB':34} {peaks[0]:10.1f} {peaks[1]:12.1f}")
        sys.stdout.flush()


def synthetic(strata: str, folder: pathlib.Path, shape: str, mix: str) -> pathlib.Path:
    """A model with random weights, in a folder of its own, made once."""
    path = folder / f"{shape}-{mix}" / "model.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([strata, "synth", path, "--shape", shape, "--mix", mix], check=True)
    return path


def vision(options: argparse.Namespace, mix: str) -> None:
    shape = "tiny-vision" if options.quick else "vision-1b"
    model = synthetic(options.strata, options.folder, shape, mix)
    projector = model.with_name("mmproj-model.gguf")
    image = options.folder / "photograph.png"
    if not image.exists():
        photograph(image)
    turns = ["-t", options.threads, "--in-turns", "--json"]
    ours = [options.strata, "bench", model, f"--image={image}", "--mmproj", projector, *turns]
    theirs = [options.vision, HERE / "mtmd.py", model, projector, image, "--threads", options.threads]
    pair = Pair(f"{shape}, {mix}: an image of {SIDE}×{SIDE}", ours, theirs, "mtmd")
    pair.run("image", options.rounds)
    rows = [
        ("decode", ("decode_s",), False),
        ("fit", ("fit_s",), False),
        ("tower and projector", ("tower_s", "projector_s"), False),
        ("prefill", ("prefill_s",), False),
        ("all", ("total_s",), False),
    ]
    pair.print(rows, options.threads)


def speech(options: argparse.Namespace, mix: str, kind: str) -> None:
    shape = "tiny-whisper" if options.quick else "whisper-small"
    model = synthetic(options.strata, options.folder, shape, mix)
    converted = model.with_name(f"ctranslate2-{kind}")
    theirs = [options.speech, HERE / "ct2_whisper.py", model, converted, "--type", kind]
    theirs += ["--threads", options.threads, "--tokens", 128]
    # Converting takes a while.
    subprocess.run(list(map(str, theirs)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    ours = [options.strata, "bench", model, "-t", options.threads, "-n", 128, "--in-turns", "--json"]
    pair = Pair(f"{shape}, {mix} beside {kind}: a minute of audio", ours, theirs, "CTranslate2")
    pair.run("audio", options.rounds)
    rows = [
        ("spectrogram", ("mel_s",), False),
        ("window to first token", ("window_s",), False),
        ("spectrogram and two windows", ("mel_s", "window_s", "window_s"), False),
        ("tokens", ("decode_tok_s",), True),
    ]
    pair.print(rows, options.threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--vision")
    parser.add_argument("--speech")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--types", default="q4_k_m,q8_0")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.folder.mkdir(parents=True, exist_ok=True)
    print(machine.describe())
    types = options.types.split(",")
    if options.speech:
        speech(options, "q8_0", "int8")
        if "f32" in types:
            speech(options, "f32", "float32")
    if options.vision:
        for mix in types:
            if mix != "f32":
                vision(options, mix)
    print(f"\nat the end: {machine.load()}")


if __name__ == "__main__":
    main()
