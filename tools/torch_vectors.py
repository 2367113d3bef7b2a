"""Make the PyTorch files of crates/weights/tests/torch_files.

    pip install torch
    python tools/torch_vectors.py --out crates/weights/tests/torch_files

`good.bin` has contiguous, transposed, sliced, shared and empty tensors of several types, saved by torch.save from an
ordered map with the notes that a module's state has; `deflated.bin` is the same archive compressed; `legacy.bin` is the
format from before 1.6; the `bad_*.bin` call something. `expected.json` holds the values of `good.bin`.
"""

import argparse
import collections
import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path

import torch


class Evil:
    def __reduce__(self):
        return (os.system, ("touch this-pickle-was-run",))


def state():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 8 - 1
    tensors = collections.OrderedDict()
    tensors["plain"] = base
    tensors["transposed"] = base.t()
    tensors["columns"] = base[:, 1:5:2]
    tensors["rows"] = base[1:3]
    tensors["shared"] = base
    tensors["half"] = base.half()
    tensors["brain"] = base.bfloat16()
    tensors["double"] = base.double()
    tensors["vector"] = base[:, 2]
    tensors["parameter"] = torch.nn.Parameter(base[0].clone())
    tensors["integers"] = torch.arange(3)
    tensors["cube"] = torch.arange(12, dtype=torch.float32).reshape(2, 2, 3)
    tensors["empty"] = torch.zeros(0, 3)
    tensors._metadata = collections.OrderedDict({"": {"version": 1}})
    return tensors


def with_pickle(good, data):
    """The archive with another pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.infolist():
            body = data if entry.filename.endswith("data.pkl") else source.read(entry)
            target.writestr(zipfile.ZipInfo(entry.filename), body)
    return out.getvalue()


def deflated(good):
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            target.writestr(zipfile.ZipInfo(entry.filename), source.read(entry), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    tensors = state()
    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    good = buffer.getvalue()
    (folder / "good.bin").write_bytes(good)
    (folder / "deflated.bin").write_bytes(deflated(good))
    buffer = io.BytesIO()
    torch.save({"a": torch.zeros(2)}, buffer, _use_new_zipfile_serialization=False)
    (folder / "legacy.bin").write_bytes(buffer.getvalue())
    buffer = io.BytesIO()
    torch.save({"state_dict": {"a": torch.ones(2)}, "epoch": 3, "loss": 0.5, "name": "x"}, buffer, pickle_protocol=4)
    (folder / "nested.bin").write_bytes(buffer.getvalue())
    (folder / "bad_call.bin").write_bytes(with_pickle(good, pickle.dumps({"a": Evil()}, 2)))
    (folder / "bad_call_4.bin").write_bytes(with_pickle(good, pickle.dumps({"a": Evil()}, 4)))
    hidden = b"\x80\x02cbuiltins\ngetattr\n(cos\nsystem\nX\x01\x00\x00\x00xtR."
    (folder / "bad_getattr.bin").write_bytes(with_pickle(good, hidden))
    # The allowed function, with a storage of a lie: 2**40 elements.
    lie = (b"\x80\x02}X\x01\x00\x00\x00actorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
           b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpu\x8a\x06" + struct.pack("<Q", 2**40)[:6]
           + b"tQK\x00\x8a\x06" + struct.pack("<Q", 2**40)[:6] + b"\x85K\x01\x85\x89NtRs.")
    (folder / "bad_storage.bin").write_bytes(with_pickle(good, lie))
    expected = {name: {"dtype": str(t.dtype), "shape": list(t.shape), "values": t.detach().double().reshape(-1).tolist()}
                for name, t in tensors.items()}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
