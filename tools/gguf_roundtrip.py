"""GGUF files from and through the `gguf` Python package, to compare Strata's reader and writer with it.

    python tools/gguf_roundtrip.py write DIR    writes sample files, each with its content as JSON
    python tools/gguf_roundtrip.py check FILE   prints a file's content, as the package reads it, as JSON

The samples in crates/weights/tests/data were made with gguf 0.19.
Floats are printed as their bits and tensor data as its FNV-1a hash, so that equality is exact.
"""

import json
import random
import struct
import sys
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFValueType, GGUFWriter

T = GGUFValueType
NAMES = {
    T.UINT8: "u8", T.INT8: "i8", T.UINT16: "u16", T.INT16: "i16", T.UINT32: "u32", T.INT32: "i32",
    T.FLOAT32: "f32", T.BOOL: "bool", T.STRING: "string", T.ARRAY: "array", T.UINT64: "u64",
    T.INT64: "i64", T.FLOAT64: "f64",
}
# The package gives Q8_1 blocks 40 bytes where ggml has 36; no file has tensors of it.
# Q1_0 is newer than what Strata reads.
SKIPPED = {"Q8_1", "Q1_0"}
FLOATS = [0.0, -0.0, 1.5, -3.25e-5, float("inf")]
SCALARS = {
    T.UINT8: [0, 255], T.INT8: [-128, 127], T.UINT16: [0, 65535], T.INT16: [-32768, 32767],
    T.UINT32: [0, 2**32 - 1], T.INT32: [-(2**31), 2**31 - 1], T.UINT64: [0, 2**64 - 1],
    T.INT64: [-(2**63), 2**63 - 1], T.FLOAT32: FLOATS, T.FLOAT64: FLOATS + [1e300],
    T.BOOL: [True, False, True], T.STRING: ["", "a", "\u00e9t\u00e9 \u4e2d\u6587 \U0001f980", "line\n\ttab \0 \"quoted\""],
}


def fnv(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    return f"{value:016x}"


def scalar(ty, part):
    if ty == T.STRING:
        return bytes(part).decode("utf-8")
    if ty == T.FLOAT32:
        return f"{struct.unpack('<I', part.tobytes())[0]:08x}"
    if ty == T.FLOAT64:
        return f"{struct.unpack('<Q', part.tobytes())[0]:016x}"
    return bool(part[0]) if ty == T.BOOL else int(part[0])


def describe(path) -> dict:
    reader = GGUFReader(path)
    metadata = []
    for field in reader.fields.values():
        if field.name.startswith("GGUF."):
            continue
        ty = field.types[0]
        if ty == T.ARRAY:
            element = GGUFValueType(int(field.parts[3][0]))
            values = [scalar(element, field.parts[i]) for i in field.data]
            metadata.append([field.name, f"array of {NAMES[element]}", values])
        else:
            metadata.append([field.name, NAMES[ty], scalar(ty, field.parts[field.data[0]])])
    tensors = [
        [t.name, t.tensor_type.name, [int(d) for d in t.shape], int(t.data_offset) - int(reader.data_offset),
         int(t.n_bytes), fnv(t.data.tobytes())]
        for t in reader.tensors
    ]
    version = int(reader.fields["GGUF.version"].parts[0][0])
    alignment = int(reader.alignment)
    return {"version": version, "alignment": alignment, "metadata": metadata, "tensors": tensors}


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def all_types(path):
    rng = random.Random(1)
    writer = GGUFWriter(path, "llama")
    for ty, values in SCALARS.items():
        for index, value in enumerate(values):
            writer.add_key_value(f"scalar.{NAMES[ty]}.{index}", value, ty)
        writer.add_key_value(f"array.{NAMES[ty]}", values, T.ARRAY, sub_type=ty)
    for ty, (block_len, block_bytes) in GGML_QUANT_SIZES.items():
        if ty.name in SKIPPED:
            continue
        rows = (1, 3)[block_len < 256]
        data = np.frombuffer(rng.randbytes(rows * block_bytes), dtype=np.uint8).reshape(rows, block_bytes)
        writer.add_tensor(f"blk.0.{ty.name.lower()}.weight", data, raw_dtype=ty)
    for rank in (1, 2, 3, 4):
        shape = (2, 1, 3, 5)[-rank:]
        count = int(np.prod(shape))
        data = np.frombuffer(rng.randbytes(2 * count), dtype=np.float16).reshape(shape)
        writer.add_tensor(f"rank{rank}", data)
    finish(writer)


def aligned(path, alignment):
    writer = GGUFWriter(path, "llama")
    writer.add_custom_alignment(alignment)
    for index in range(3):
        writer.add_tensor(f"t{index}", np.arange(index + 1, dtype=np.float32))
    finish(writer)


def vocabulary(path):
    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"token {i}" for i in range(40)])
    writer.add_token_types([1] * 40)
    finish(writer)


def split(path):
    writer = GGUFWriter(path, "llama", split_max_tensors=2)
    writer.add_block_count(5)
    for index in range(5):
        writer.add_tensor(f"blk.{index}.weight", np.full((2, 4), index, dtype=np.float32))
    finish(writer)


def big_endian(path):
    writer = GGUFWriter(path, "llama", endianess=GGUFEndian.BIG)
    writer.add_tensor("t", np.zeros(4, dtype=np.float32))
    finish(writer)


def write(directory):
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    all_types(directory / "all_types.gguf")
    aligned(directory / "aligned_8.gguf", 8)
    aligned(directory / "aligned_256.gguf", 256)
    vocabulary(directory / "vocabulary.gguf")
    split(directory / "split.gguf")
    for path in sorted(directory.glob("*.gguf")):
        text = json.dumps(describe(path), ensure_ascii=True, separators=(",", ":"))
        path.with_suffix(".json").write_text(text + "\n")
    # The package reads it, but Strata only has to say what it is.
    big_endian(directory / "big_endian.gguf")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", directory]:
            write(directory)
        case ["check", file]:
            print(json.dumps(describe(file), separators=(",", ":")))
        case _:
            sys.exit(__doc__)
