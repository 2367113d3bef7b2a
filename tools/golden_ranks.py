"""Make the golden scores of decoders with a classifier, in crates/model/tests/golden_states.

The models are those of golden_logits.py with a classifier in the place of their output: the …ForSequenceClassification of
Hugging Face transformers (float32, eager attention). `CASE.gguf` has `cls.output` beside the tensors of the golden logits'
file; `CASE.json` the texts, the states of all tokens, and the scores of the last.

    pip install torch transformers==5.22.2 gguf==0.19.0
    python tools/golden_ranks.py --golden crates/model/tests/golden --out crates/model/tests/golden_states [CASE ...]
    python tools/golden_ranks.py --golden crates/model/tests/golden --strata target/release/strata [CASE ...]
"""

import argparse
import base64
import json
import subprocess
import tempfile
import zlib
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

import golden_logits as golden

# name: (case of golden_logits.py, class, labels)
CASES = {
    "llama-rank": ("llama", "LlamaForSequenceClassification", 1),
    "qwen3-rank": ("qwen3", "Qwen3ForSequenceClassification", 2),
    "gemma2-rank": ("gemma2", "Gemma2ForSequenceClassification", 1),
}
LENGTHS = [40, 1, 7]


def case_of(name):
    return next(case for case in golden.CASES if case.name == CASES[name][0])


def build(name):
    case, class_name, labels = CASES[name]
    base = golden.build_model(case_of(name))
    config = base.config
    config.num_labels = labels
    config.pad_token_id = None
    model = getattr(transformers, class_name)(config).float().eval()
    model.model.load_state_dict(base.model.state_dict())
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    with torch.no_grad():
        model.score.weight.copy_(torch.from_numpy(rng.standard_normal(model.score.weight.shape).astype(np.float32) * 0.3))
    return model


def write_gguf(name, model, source, path):
    """The file of the golden logits with a classifier."""
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(path, arch)
    for field in reader.fields.values():
        if field.name == "general.architecture" or field.name.startswith("GGUF."):
            continue
        kind, sub = field.types[0], field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    writer.add_pooling_type(gguf.PoolingType.RANK)
    labels = CASES[name][2]
    writer.add_classifier_output_labels(["yes", "no"] if labels == 2 else ["LABEL_0"])
    for tensor in reader.tensors:
        if tensor.name == "output.weight":
            continue
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.add_tensor("cls.output.weight", model.score.weight.detach().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def texts_of(name):
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    return [[int(t) for t in rng.integers(3, golden.VOCAB, length)] for length in LENGTHS]


def evaluate(model, text):
    with torch.no_grad():
        ids = torch.tensor([text])
        return model.model(ids, use_cache=False).last_hidden_state[0].numpy(), model(ids, use_cache=False).logits[0].numpy()


def make(name, golden_folder, folder):
    model = build(name)
    path = folder / f"{name}.gguf"
    write_gguf(name, model, golden_folder / f"{CASES[name][0]}.gguf", path)
    texts = texts_of(name)
    states, scores = zip(*(evaluate(model, text) for text in texts))
    packed = base64.b64encode(np.concatenate(states).astype("<f4").tobytes()).decode()
    document = dict(reference=f"transformers, {CASES[name][1]}", texts=[dict(tokens=t, second=len(t)) for t in texts],
                    states_f32_le_base64=packed, scores=[[float(x) for x in row] for row in scores])
    path.with_suffix(".json").write_text(json.dumps(document) + "\n")
    print(f"| {name} | {CASES[name][1]} | {np.abs(np.concatenate(scores)).max():.2f} |")


def check(name, golden_folder, strata):
    """A folder of the class, converted: the tensors of the golden file, and its labels."""
    import convert_check

    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        model = build(name)
        written, converted = root / "written.gguf", root / "converted.gguf"
        write_gguf(name, model, golden_folder / f"{CASES[name][0]}.gguf", written)
        convert_check.save(model, root / "folder")
        subprocess.run([strata, "convert", root / "folder", "--out", converted, "--type", "f32"], check=True,
                       stdout=subprocess.DEVNULL)
        problem = convert_check.compare_files(converted, written)
        assert problem is None, f"{name}: {problem}"
        fields = gguf.GGUFReader(converted).fields
        arch = fields["general.architecture"].contents()
        assert fields[f"{arch}.pooling_type"].contents() == 4
        if CASES[name][2] == 1:
            rank = lambda path: subprocess.run([strata, "rerank", path, "A", "B!", "A A"], check=True,
                                               capture_output=True).stdout
            assert rank(root / "folder") == rank(converted), name
        print(f"{name}: the folder becomes the golden file")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--golden", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--strata", type=Path)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    for name in options.cases or CASES:
        if options.strata:
            check(name, options.golden, options.strata.resolve())
        else:
            make(name, options.golden, options.out)


if __name__ == "__main__":
    main()
