"""Tiny random Wav2Vec2 and HuBERT models with CTC, with what transformers makes of sound: logits, text and times.

    pip install torch transformers==5.22.2 gguf==0.19.0 safetensors
    python tools/golden_ctc.py --out crates/model/tests/golden_speech --folders crates/convert/tests/ears

`NAME.gguf` has Strata's keys and tensors (docs/speech.md), `NAME.json` the logits of a short sound, its text and words, and
those of a long one, which transformers' pipeline reads in chunks. The folders are what Hugging Face would have. Sounds are
made of whole numbers (`sound` here and in the tests), so that both sides have the same.
"""

import argparse
import base64
import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import (
    AutomaticSpeechRecognitionPipeline, HubertConfig, HubertForCTC, Wav2Vec2Config, Wav2Vec2CTCTokenizer,
    Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC, Wav2Vec2Processor)

LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", "E", "T", "A", "O", "N", "'", "H"]
KERNELS, STRIDES = [10, 3, 3, 3, 3, 2, 2], [5, 2, 2, 2, 2, 2, 2]
CASES = {
    "wav2vec2": dict(make=(Wav2Vec2Config, Wav2Vec2ForCTC), norm="group", stable=False, kernel=16, lower=False,
                     normalize=True, old=False, extra={}),
    "wav2vec2-layer": dict(make=(Wav2Vec2Config, Wav2Vec2ForCTC), norm="layer", stable=True, kernel=15, lower=True,
                           normalize=True, old=True, extra={"conv_bias": True}),
    "hubert": dict(make=(HubertConfig, HubertForCTC), norm="group", stable=False, kernel=16, lower=False,
                   normalize=False, old=False, extra={"feat_proj_layer_norm": False}),
}


def sound(seed, count):
    """16-bit noise that is loud and quiet by turns."""
    out = np.empty(count, np.int64)
    state = seed
    for n in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out[n] = ((state >> 16) - 32768) * (n // 4000 % 8 + 1) // 8
    return (out / 32768).astype(np.float32)


def model(case):
    torch.manual_seed(11)
    config_class, class_ = case["make"]
    config = config_class(
        vocab_size=len(LETTERS), hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40,
        conv_dim=[12] * 7, conv_kernel=KERNELS, conv_stride=STRIDES, num_conv_pos_embeddings=case["kernel"],
        num_conv_pos_embedding_groups=4, feat_extract_norm=case["norm"], do_stable_layer_norm=case["stable"],
        pad_token_id=0, bos_token_id=1, eos_token_id=2, **case["extra"])
    made = class_(config).float().eval()
    # Larger than they start, so that decisions are clear.
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "original0" in name:
                weight.uniform_(1, 3)
            elif weight.dim() > 1:
                weight.normal_(0, 1.6 / (weight[0].numel() ** 0.5) if "lm_head" not in name else 1.0)
            elif "norm" in name and "weight" in name:
                weight.uniform_(0.7, 1.4)
            elif "bias" in name:
                weight.normal_(0, 0.2)
        # Every letter has its turn; none, and the end of a word, more often.
        samples = sound(2, 16000 * 8)
        if case["normalize"]:
            samples = (samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)
        logits = made(torch.tensor(samples[None])).logits[0]
        often = torch.tensor([1.5, -1.5, -1.5, -1.0, 1.0] + [0.0] * (len(LETTERS) - 5))
        scale = 2 / logits.std(0)
        made.lm_head.weight *= scale[:, None]
        made.lm_head.bias.copy_((made.lm_head.bias - logits.mean(0)) * scale + often)
    return made


def merged(made):
    """Weights by GGUF's names."""
    conv = (made.wav2vec2 if hasattr(made, "wav2vec2") else made.hubert).encoder.pos_conv_embed.conv
    out = {}
    for name, value in made.state_dict().items():
        name = name.removeprefix("wav2vec2.").removeprefix("hubert.")
        value = value.detach().numpy()
        if name == "masked_spec_embed":
            continue
        if "parametrizations" in name:
            if "original0" not in name:
                continue
            weight = conv.weight.detach().numpy()
            rows, inner, taps = weight.shape
            out["position_conv.weight"] = weight.transpose(0, 2, 1).reshape(4, rows // 4, taps * inner)
            continue
        stem, suffix = name.rsplit(".", 1)
        parts = stem.split(".")
        if parts[:2] == ["feature_extractor", "conv_layers"]:
            kind = {"conv": "conv", "layer_norm": "norm"}[parts[3]]
            if kind == "conv" and suffix == "weight":
                value = value.transpose(0, 2, 1).reshape(value.shape[0], -1)
            out[f"feat.{kind}.{parts[2]}.{suffix}"] = value
            continue
        if parts[:2] == ["encoder", "layers"]:
            inner = ".".join(parts[3:])
            names = {"attention.q_proj": "attn_q", "attention.k_proj": "attn_k", "attention.v_proj": "attn_v",
                     "attention.out_proj": "attn_output", "layer_norm": "attn_norm",
                     "feed_forward.intermediate_dense": "ffn_up", "feed_forward.output_dense": "ffn_down",
                     "final_layer_norm": "ffn_norm"}
            out[f"blk.{parts[2]}.{names[inner]}.{suffix}"] = value
            continue
        names = {"feature_projection.layer_norm": "feat.output_norm", "feature_projection.projection": "feat.output",
                 "encoder.pos_conv_embed.conv": "position_conv", "encoder.layer_norm": "output_norm",
                 "lm_head": "output"}
        out[f"{names[stem]}.{suffix}"] = value
    return {name: np.ascontiguousarray(value) for name, value in out.items()}


def write_gguf(made, case, path):
    arch = made.config.model_type
    writer = gguf.GGUFWriter(path, arch)
    for key, value in [
        ("embedding_length", 24), ("block_count", 2), ("attention.head_count", 2), ("feed_forward_length", 40),
        ("position.kernel", case["kernel"]), ("position.groups", 4), ("word_delimiter", 4),
    ]:
        writer.add_uint32(f"{arch}.{key}", value)
    for key, value in [("channels", [12] * 7), ("kernels", KERNELS), ("strides", STRIDES)]:
        writer.add_array(f"{arch}.feature_extractor.{key}", value)
    writer.add_string(f"{arch}.feature_extractor.norm", case["norm"])
    writer.add_bool(f"{arch}.norm_first", case["stable"])
    writer.add_bool(f"{arch}.normalize", case["normalize"])
    writer.add_bool(f"{arch}.lower_case", case["lower"])
    writer.add_float32(f"{arch}.attention.layer_norm_epsilon", made.config.layer_norm_eps)
    writer.add_tokenizer_model("ctc")
    writer.add_token_list(LETTERS)
    writer.add_pad_token_id(0)
    for name, value in merged(made).items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_folder(made, processor, case, folder):
    shutil.rmtree(folder, ignore_errors=True)
    processor.save_pretrained(folder)
    made.save_pretrained(folder)
    # The two may share one file; older folders have one of their own.
    extractor = processor.feature_extractor.to_dict()
    (folder / "processor_config.json").unlink(missing_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps(extractor, indent=1))
    (folder / "generation_config.json").unlink(missing_ok=True)
    if case["old"]:
        (folder / "model.safetensors").unlink()
        state = {
            name.replace("parametrizations.weight.original0", "weight_g").replace(
                "parametrizations.weight.original1", "weight_v"): value
            for name, value in made.state_dict().items()}
        torch.save(state, folder / "pytorch_model.bin")


def read(made, processor, samples):
    inputs = processor.feature_extractor(samples, sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        logits = made(inputs.input_values).logits[0]
    decoded = processor.tokenizer.decode(logits.argmax(-1), output_word_offsets=True)
    words = [[w["word"], int(w["start_offset"]), int(w["end_offset"])] for w in decoded.word_offsets]
    top = logits.topk(2).values
    return logits.numpy(), decoded.text, words, float((top[:, 0] - top[:, 1]).min())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folders", type=Path, required=True)
    options = parser.parse_args()
    for name, case in CASES.items():
        made = model(case)
        folder = options.folders / name
        folder.mkdir(parents=True, exist_ok=True)
        vocabulary = folder.parent / "vocab.json"
        vocabulary.write_text(json.dumps({letter: i for i, letter in enumerate(LETTERS)}))
        tokenizer = Wav2Vec2CTCTokenizer(str(vocabulary), do_lower_case=case["lower"])
        vocabulary.unlink()
        extractor = Wav2Vec2FeatureExtractor(do_normalize=case["normalize"], return_attention_mask=False)
        processor = Wav2Vec2Processor(extractor, tokenizer)
        write_gguf(made, case, options.out / f"{name}.gguf")
        write_folder(made, processor, case, folder)
        logits, text, words, margin = read(made, processor, sound(1, 8000))
        pipeline = AutomaticSpeechRecognitionPipeline(
            model=made, feature_extractor=extractor, tokenizer=tokenizer, device="cpu")
        long = pipeline(sound(2, 16000 * 62 + 777), chunk_length_s=30, return_timestamps="word")
        chunks = [[c["text"], *map(float, c["timestamp"])] for c in long["chunks"]]
        with (options.out / f"{name}.json").open("w") as out:
            logits_text = base64.b64encode(np.ascontiguousarray(logits).astype("<f4").tobytes()).decode()
            json.dump({"logits_f32_le_base64": logits_text, "text": text, "words": words,
                       "long_text": long["text"], "long_words": chunks}, out)
        print(name, logits.shape, margin, text, len(chunks), long["text"][:80])


if __name__ == "__main__":
    main()
