#!/usr/bin/env python3
"""Makes the reference data of crates/quant with the gguf package.

    python tools/quant_vectors.py               writes the vectors and the grid tables
    python tools/quant_vectors.py --verify      fails when they are not what the installed gguf package gives
    python tools/quant_vectors.py --ggml LIB    also records the errors of ggml's own quantizer (libggml-base.so)
    python tools/quant_vectors.py --compare LIB [--release]
                                                prints our error and speed beside ggml's, on larger random rows

Needs numpy and gguf. What it writes, under crates/quant:
    tests/vectors/TYPE.bin      u32 block count, the blocks, their values as f32 (all little-endian)
    tests/vectors/rows.bin      f32 rows to quantize: ROW_LEN values for each name in ROWS
    tests/vectors/errors.txt    TYPE ROW RMSE lines, from gguf's quantizers
    tests/vectors/ggml.txt      TYPE ROW RMSE lines, from ggml's quantizers (with --ggml only)
    src/iq/grids.rs             the grids of the IQ formats
"""

import argparse
import ctypes
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants

SEED = 20240229
ROW_LEN = 4096
ROWS = ("gaussian", "laplace", "outlier")
RANDOM_BLOCKS = 8

# Values and bytes of a block, and where its half floats are. gguf's table has 40 bytes for Q8_1; ggml stores 36.
K = 256
LAYOUTS = {
    "F32": (1, 4, []), "F16": (1, 2, []), "BF16": (1, 2, []), "F64": (1, 8, []),
    "I8": (1, 1, []), "I16": (1, 2, []), "I32": (1, 4, []), "I64": (1, 8, []),
    "Q4_0": (32, 18, [0]), "Q4_1": (32, 20, [0, 2]), "Q5_0": (32, 22, [0]), "Q5_1": (32, 24, [0, 2]),
    "Q8_0": (32, 34, [0]), "Q8_1": (32, 36, [0, 2]),
    "Q2_K": (K, 84, [80, 82]), "Q3_K": (K, 110, [108]), "Q4_K": (K, 144, [0, 2]), "Q5_K": (K, 176, [0, 2]),
    "Q6_K": (K, 210, [208]), "Q8_K": (K, 292, []),
    "IQ1_S": (K, 50, [0]), "IQ1_M": (K, 56, []), "IQ2_XXS": (K, 66, [0]), "IQ2_XS": (K, 74, [0]),
    "IQ2_S": (K, 82, [0]), "IQ3_XXS": (K, 98, [0]), "IQ3_S": (K, 110, [0]),
    "IQ4_NL": (32, 18, [0]), "IQ4_XS": (K, 136, [0]),
    "TQ1_0": (K, 54, [52]), "TQ2_0": (K, 66, [64]), "MXFP4": (32, 17, []), "NVFP4": (64, 36, []),
}
GGUF_QUANTIZES = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")
GGML_QUANTIZES = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
                  "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4")
NUMPY_TYPES = {"F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}

# Maximum and its negative, one, the least and the greatest subnormal, the least normal, both zeros.
EDGE_HALVES = (0x7BFF, 0xFBFF, 0x3C00, 0x0001, 0x83FF, 0x0400, 0x0000, 0x8000)


def generator(name):
    return np.random.default_rng([SEED, zlib.crc32(name.encode())])


def put_half(name, block, offsets, index, bits):
    """Sets half float `index` of a block."""
    if name == "IQ1_M":
        # The four upper bits of each of the last four words.
        for i in range(4):
            block[49 + 2 * i] = block[49 + 2 * i] & 0x0F | (bits >> 4 * i & 15) << 4
    else:
        block[offsets[index]:offsets[index] + 2] = np.frombuffer(np.uint16(bits).tobytes(), np.uint8)


def random_half(rng):
    return int(np.float16(rng.normal() * 2.0 ** rng.integers(-12, 8)).view(np.uint16))


def make_blocks(name):
    length, size, offsets = LAYOUTS[name]
    rng = generator(name)
    if length == 1:
        return make_scalars(name, rng)
    halves = 1 if name == "IQ1_M" else len(offsets)
    count = RANDOM_BLOCKS + (len(EDGE_HALVES) if length < K else 4)
    blocks = rng.integers(0, 256, (count + 2, size), dtype=np.uint8)
    for n, block in enumerate(blocks[:count]):
        for i in range(halves):
            edge = n - RANDOM_BLOCKS
            bits = random_half(rng) if edge < 0 else EDGE_HALVES[(edge + 3 * i) % len(EDGE_HALVES)]
            put_half(name, block, offsets, i, bits)
        if name == "Q8_K":
            block[:4] = np.frombuffer(np.float32(rng.normal()).tobytes(), np.uint8)
    blocks[count] = 0
    blocks[count + 1] = 0xFF
    for i in range(halves):
        put_half(name, blocks[count + 1], offsets, i, 0x7BFF)
    if name == "Q8_K":
        blocks[count + 1][:4] = np.frombuffer(np.float32(-1e30).tobytes(), np.uint8)
    if name == "MXFP4":
        for n, e in enumerate((0, 1, 2, 254)):
            blocks[n][0] = e
    if name == "NVFP4":
        blocks[0][:4] = (0, 1, 7, 8)
        blocks[1][:4] = (0x7E, 0x7F, 0x80, 0xFF)
    return blocks


def make_scalars(name, rng):
    count = 256
    size = LAYOUTS[name][1]
    if name in ("F32", "F64"):
        values = rng.normal(size=count) * 2.0 ** rng.integers(-140 if name == "F32" else -155, 120, count)
        return values.astype("<f" + str(size)).view(np.uint8).reshape(count, size)
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    if name == "F16":
        blocks.view("<u2")[np.isnan(blocks.view("<f2"))] = 0x3C00
    if name in ("I16", "I32", "I64"):
        info = np.iinfo(NUMPY_TYPES[name])
        blocks.view(NUMPY_TYPES[name])[:4, 0] = (info.min, info.max, 0, -1)
    return blocks


def expected(name, blocks):
    if name in NUMPY_TYPES:
        with np.errstate(over="ignore", under="ignore"):
            return blocks.view(NUMPY_TYPES[name]).astype(np.float32).ravel()
    if name == "Q8_1":
        return (blocks[:, :2].copy().view("<f2").astype(np.float32) * blocks[:, 4:].view(np.int8)).ravel()
    if name == "Q8_K":
        return (blocks[:, :4].copy().view("<f4") * blocks[:, 4:260].view(np.int8)).astype(np.float32).ravel()
    with np.errstate(over="ignore"):
        return quants.dequantize(blocks, Type[name]).astype(np.float32).ravel()


def make_rows():
    rng = generator("rows")
    gaussian = rng.normal(size=ROW_LEN) * 0.02
    laplace = rng.laplace(size=ROW_LEN) * 0.02
    outlier = rng.normal(size=ROW_LEN) * 0.02 * np.where(rng.random(ROW_LEN) < 0.01, 20.0, 1.0)
    return np.stack([gaussian, laplace, outlier]).astype(np.float32)


def rmse(a, b):
    return float(np.sqrt(np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2)))


def error_lines(types, rows, through):
    lines = []
    for name in types:
        for row_name, row in zip(ROWS, rows):
            lines.append(f"{name} {row_name} {rmse(row, through(name, row)):.9e}\n")
    return "".join(lines).encode()


def through_gguf(name, row):
    row = row.reshape(1, -1)
    return quants.dequantize(quants.quantize(row, Type[name]), Type[name]).ravel()


class Ggml:
    """ggml's own quantizer."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(str(path))
        self.lib.ggml_quantize_chunk.restype = ctypes.c_size_t
        self.lib.ggml_quantize_chunk.argtypes = (
            [ctypes.c_int] + [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 3 + [ctypes.c_void_p])

    def quantize(self, name, rows, importance=None):
        length, size, _ = LAYOUTS[name]
        rows = np.ascontiguousarray(rows, np.float32)
        out = np.zeros(rows.size // length * size, np.uint8)
        columns = rows.shape[-1]
        weights = None if importance is None else importance.ctypes.data
        written = self.lib.ggml_quantize_chunk(
            int(Type[name]), rows.ctypes.data, out.ctypes.data, 0, rows.size // columns, columns, weights)
        assert written == out.size, name
        return out.reshape(-1, size)

    def through(self, name, row):
        return expected(name, self.quantize(name, row))


def grid_table(const, doc, owner):
    owner.init_grid()
    values = list(owner.grid_map)
    bits = 2 if len(values) == 3 else 3
    grid = owner.grid.reshape(owner.grid_shape)
    codes = np.vectorize(values.index)(grid.astype(int))
    packed = (codes << (bits * np.arange(codes.shape[1]))).sum(axis=1)
    lines = [f"/// {doc}", "#[rustfmt::skip]", f"pub(super) static {const}: [u16; {len(packed)}] = ["]
    for start in range(0, len(packed), 16):
        lines.append("    " + " ".join(f"{p}," for p in packed[start:start + 16]))
    return "\n".join(lines + ["];", ""])


def make_grids():
    head = (
        "//! The grids of the IQ formats, written by `tools/quant_vectors.py`.\n"
        "//!\n"
        "//! An entry holds the codes of a point's values from below: 8 codes of 2 bits, or 4 of 3 bits.\n"
    )
    tables = [
        grid_table("IQ2_XXS", "Codes of the magnitudes 8, 25, 43.", quants.IQ2_XXS),
        grid_table("IQ2_XS", "Codes of the magnitudes 8, 25, 43.", quants.IQ2_XS),
        grid_table("IQ2_S", "Codes of the magnitudes 8, 25, 43.", quants.IQ2_S),
        grid_table("IQ3_XXS", "Codes of the magnitudes 4, 12, 20, 28, 36, 44, 52, 62.", quants.IQ3_XXS),
        grid_table("IQ3_S", "Codes of the odd magnitudes up to 15.", quants.IQ3_S),
        grid_table("IQ1", "Ternary values plus one.", quants.IQ1_S),
    ]
    return "\n".join([head] + tables).encode()


def vector_file(name, blocks):
    values = expected(name, blocks)
    assert values.dtype == np.float32 and values.size == len(blocks) * LAYOUTS[name][0], name
    return np.uint32(len(blocks)).tobytes() + blocks.tobytes() + values.astype("<f4").tobytes()


def make_files(blocks_of, rows):
    """Everything that follows from the blocks and the rows."""
    files = {"src/iq/grids.rs": make_grids()}
    for name in LAYOUTS:
        files[f"tests/vectors/{name}.bin"] = vector_file(name, blocks_of(name))
    files["tests/vectors/rows.bin"] = rows.astype("<f4").tobytes()
    files["tests/vectors/errors.txt"] = error_lines(GGUF_QUANTIZES, rows, through_gguf)
    return files


def verify(root):
    """Takes the committed blocks and rows as given, since numpy does not promise the same random numbers for ever."""
    def committed_blocks(name):
        data = (root / f"tests/vectors/{name}.bin").read_bytes()
        size = LAYOUTS[name][1]
        count = int(np.frombuffer(data, "<u4", 1)[0])
        return np.frombuffer(data, np.uint8, count * size, 4).reshape(count, size).copy()

    rows = np.fromfile(root / "tests/vectors/rows.bin", "<f4").reshape(len(ROWS), ROW_LEN)
    files = make_files(committed_blocks, rows)
    wrong = [path for path, data in files.items()
             if not (root / path).is_file() or (root / path).read_bytes() != data]
    for path in wrong:
        print(f"{path} is not what the gguf package gives", file=sys.stderr)
    if not wrong:
        print(f"{len(files)} files are what the gguf package gives")
    return 1 if wrong else 0


def big_rows():
    rng = generator("compare")
    shape = (64, 4096)
    sigma = np.exp(rng.normal(size=shape[1]) * 0.4)
    return {
        "gaussian": rng.normal(size=shape) * 0.02,
        "laplace": rng.laplace(size=shape) * 0.02,
        "outlier": rng.normal(size=shape) * 0.02 * np.where(rng.random(shape) < 0.01, 20.0, 1.0),
        "columns": rng.normal(size=shape) * 0.02 * sigma,
        "shifted": rng.normal(size=shape) * 0.02 + 0.03,
    }


def compare(root, ggml, release):
    """Our error over ggml's: plain, and weighted by a random importance for both."""
    rng = generator("importance")
    importance = np.exp(rng.normal(size=4096)).astype(np.float32)
    build = ["cargo", "run", "--quiet", "-p", "strata-quant", "--example", "quantize_rows"]
    build += ["--release", "--"] if release else ["--"]
    print(f"{'type':8}{'rows':10}{'rmse':>12}{'/ ggml':>9}{'weighted/':>10}{'Mval/s':>9}{'ggml':>9}")
    for row_name, rows in big_rows().items():
        rows = rows.astype(np.float32)
        for name in GGML_QUANTIZES:
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                (folder / "rows").write_bytes(rows.tobytes())
                (folder / "importance").write_bytes(importance.tobytes())
                ours = []
                for extra in ([], [str(folder / "importance")]):
                    run = subprocess.run(
                        build + [name, str(folder / "rows"), str(folder / "out")] + extra,
                        cwd=root, check=True, capture_output=True, text=True)
                    blocks = np.fromfile(folder / "out", np.uint8).reshape(-1, LAYOUTS[name][1])
                    ours.append((expected(name, blocks).reshape(rows.shape), float(run.stdout)))
            plain = expected(name, ggml.quantize(name, rows)).reshape(rows.shape)
            # The best of as many runs as quantize_rows makes.
            seconds = []
            for _ in range(10):
                start = time.perf_counter()
                ggml.quantize(name, rows)
                seconds.append(time.perf_counter() - start)
            speed = rows.size / min(seconds) / 1e6
            weighted = expected(name, ggml.quantize(name, rows, importance)).reshape(rows.shape)
            root_w = np.sqrt(importance)
            ratio = rmse(rows, ours[0][0]) / rmse(rows, plain)
            ratio_w = rmse(rows * root_w, ours[1][0] * root_w) / rmse(rows * root_w, weighted * root_w)
            print(f"{name:8}{row_name:10}{rmse(rows, ours[0][0]):12.4e}{ratio:9.4f}{ratio_w:10.4f}"
                  f"{ours[0][1]:9.1f}{speed:9.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent / "crates" / "quant")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--ggml", type=Path, metavar="LIB")
    parser.add_argument("--compare", type=Path, metavar="LIB")
    parser.add_argument("--release", action="store_true", help="measure the release build in --compare")
    options = parser.parse_args()
    if options.compare:
        compare(options.root, Ggml(options.compare), options.release)
        return 0
    if options.verify:
        return verify(options.root)
    rows = make_rows()
    files = make_files(make_blocks, rows)
    if options.ggml:
        files["tests/vectors/ggml.txt"] = error_lines(GGML_QUANTIZES, rows, Ggml(options.ggml).through)
    for path, data in files.items():
        (options.root / path).parent.mkdir(parents=True, exist_ok=True)
        (options.root / path).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
