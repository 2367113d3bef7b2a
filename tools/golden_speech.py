"""A tiny random Whisper, with what transformers makes of spectrograms: logits, and whole decodings with timestamps.

    pip install torch transformers==5.22.2 gguf==0.19.0 tokenizers safetensors
    python tools/golden_speech.py --out crates/model/tests/golden_speech --folder crates/convert/tests/ears/whisper

`whisper.gguf` has Strata's keys and tensors (docs/speech.md). `whisper.json` has a window, tokens and their logits.
`decoding.json` has a longer spectrogram with the segments that `generate` finds in it, and what it does with windows that
read badly: which it tries again at higher temperatures, and which it leaves out. Its random numbers are made as Strata makes
them, and in three points it is given the rules of Whisper's authors, from which it differs: any token may be drawn, not the
likeliest 50 alone; texts, not the bytes of token numbers, are compressed; and the mean of a text that was cut off counts its
end. The folder is what Hugging Face would have, `whisper.bin` in it what whisper.cpp's converter would write.
"""

import argparse
import base64
import json
import struct
import zlib
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, WhisperConfig, WhisperForConditionalGeneration
from transformers.generation.utils import GenerationMixin

WIDTH, FFN, HEADS, BANDS, AUDIO, TEXT = 16, 24, 2, 8, 50, 32
LANGUAGES = ["en", "zh", "de", "fr"]
MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("i", "n"), ("e", "r"), ("Ġ", "a"), ("o", "n"), ("r", "e")]


def vocabulary():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    return letters + [a + b for a, b in MERGES]


PLAIN = vocabulary()
SPECIALS = ["<|endoftext|>", "<|startoftranscript|>", *[f"<|{name}|>" for name in LANGUAGES], "<|translate|>",
            "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
STAMPS = [f"<|{i * 0.02:.2f}|>" for i in range(AUDIO + 1)]
ID = {token: i for i, token in enumerate(PLAIN + SPECIALS + STAMPS)}
VOCAB = len(ID)
SUPPRESS = [ID["#"], ID["$"], ID["<|startofprev|>"], ID["<|startoflm|>"], ID["<|translate|>"], ID["<|transcribe|>"],
            ID["<|nospeech|>"], ID["<|startoftranscript|>"]]


# The most compression, the least mean, and what is silence: those of Whisper's authors, and others that some texts of this
# model fail at low temperatures alone, or at all.
FALLBACK = [(2.4, -1.0, 0.6), (1.5, -9.0, 0.6), (0.7, -9.0, 0.6), (2.4, -0.8, 0.001)]


def model():
    torch.manual_seed(7)
    config = WhisperConfig(
        vocab_size=VOCAB, num_mel_bins=BANDS, encoder_layers=2, encoder_attention_heads=HEADS, decoder_layers=2,
        decoder_attention_heads=HEADS, encoder_ffn_dim=FFN, decoder_ffn_dim=FFN, d_model=WIDTH,
        max_source_positions=AUDIO, max_target_positions=TEXT, pad_token_id=ID["<|endoftext|>"],
        bos_token_id=ID["<|endoftext|>"], eos_token_id=ID["<|endoftext|>"],
        decoder_start_token_id=ID["<|startoftranscript|>"], suppress_tokens=None, begin_suppress_tokens=None)
    made = WhisperForConditionalGeneration(config).float().eval()
    # Larger than they start, so that decisions are clear and depend on what is heard.
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if weight.dim() > 1 and "embed_positions" not in name:
                weight.normal_(0, 0.5 if weight.dim() == 2 else 0.3)
            elif "bias" in name:
                weight.normal_(0, 0.1)
        # Stamps come often, so that windows begin where they say.
        made.model.decoder.embed_tokens.weight[ID[STAMPS[0]]:] *= 1.5
    made.generation_config = GenerationConfig(
        decoder_start_token_id=ID["<|startoftranscript|>"], eos_token_id=ID["<|endoftext|>"],
        pad_token_id=ID["<|endoftext|>"], bos_token_id=ID["<|endoftext|>"], is_multilingual=True,
        lang_to_id={f"<|{name}|>": ID[f"<|{name}|>"] for name in LANGUAGES},
        task_to_id={"transcribe": ID["<|transcribe|>"], "translate": ID["<|translate|>"]},
        no_timestamps_token_id=ID["<|notimestamps|>"], prev_sot_token_id=ID["<|startofprev|>"],
        max_initial_timestamp_index=25, suppress_tokens=SUPPRESS,
        begin_suppress_tokens=[ID["Ġ"], ID["<|endoftext|>"]], alignment_heads=[[1, 0], [1, 1]], max_length=TEXT)
    return made


NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_o", "self_attn_layer_norm": "attn_norm", "encoder_attn.q_proj": "cross_attn_q",
    "encoder_attn.k_proj": "cross_attn_k", "encoder_attn.v_proj": "cross_attn_v",
    "encoder_attn.out_proj": "cross_attn_o", "encoder_attn_layer_norm": "cross_attn_norm", "fc1": "ffn_up",
    "fc2": "ffn_down", "final_layer_norm": "ffn_norm",
}


def gguf_name(name):
    stem, suffix = name.removeprefix("model.").rsplit(".", 1)
    part, rest = stem.split(".", 1)
    part = {"encoder": "enc", "decoder": "dec"}[part]
    if rest == "embed_tokens":
        return f"token_embd.{suffix}"
    if rest.startswith("layers."):
        _, layer, rest = rest.split(".", 2)
        return f"{part}.blk.{layer}.{NAMES[rest]}.{suffix}"
    return f"{part}.{ {'embed_positions': 'position_embd', 'layer_norm': 'output_norm'}.get(rest, rest)}.{suffix}"


def tensors(made):
    state = made.state_dict()
    return {name: value.contiguous() for name, value in state.items() if name != "proj_out.weight"}


def write_gguf(made, path):
    writer = gguf.GGUFWriter(path, "whisper")
    u32 = writer.add_uint32
    u32("whisper.embedding_length", WIDTH)
    for part, context, layers in [("encoder", AUDIO, 2), ("decoder", TEXT, 2)]:
        u32(f"whisper.{part}.context_length", context)
        u32(f"whisper.{part}.block_count", layers)
        u32(f"whisper.{part}.attention.head_count", HEADS)
        u32(f"whisper.{part}.feed_forward_length", FFN)
    u32("whisper.encoder.mel_bands", BANDS)
    u32("whisper.first_stamp_limit", 25)
    writer.add_array("whisper.suppress_tokens", SUPPRESS)
    writer.add_array("whisper.begin_suppress_tokens", [ID["Ġ"], ID["<|endoftext|>"]])
    writer.add_array("whisper.alignment_heads", [1, 0, 1, 1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(list(ID))
    control = gguf.TokenType.CONTROL
    writer.add_token_types([int(gguf.TokenType.NORMAL)] * len(PLAIN) + [int(control)] * (VOCAB - len(PLAIN)))
    writer.add_token_merges([f"{a} {b}" for a, b in MERGES])
    writer.add_eos_token_id(ID["<|endoftext|>"])
    for name, value in tensors(made).items():
        writer.add_tensor(gguf_name(name), value.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_folder(made, folder):
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors(made), folder / "model.safetensors", metadata={"format": "pt"})
    config = made.config.to_diff_dict() | {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "torch_dtype": "float32"}
    for key in ("encoder_layers", "encoder_attention_heads", "decoder_layers", "decoder_attention_heads",
                "encoder_ffn_dim", "decoder_ffn_dim", "d_model", "max_source_positions", "max_target_positions",
                "num_mel_bins", "vocab_size", "activation_function"):
        config[key] = getattr(made.config, key)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(made.generation_config.to_json_string())
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(PLAIN)}, merges=MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIALS)
    # Folders of the first models have no stamps in their vocabulary.
    tokenizer.save(str(folder / "tokenizer.json"))


GGML_NAMES = {
    "self_attn.q_proj": "attn.query", "self_attn.k_proj": "attn.key", "self_attn.v_proj": "attn.value",
    "self_attn.out_proj": "attn.out", "self_attn_layer_norm": "attn_ln", "encoder_attn.q_proj": "cross_attn.query",
    "encoder_attn.k_proj": "cross_attn.key", "encoder_attn.v_proj": "cross_attn.value",
    "encoder_attn.out_proj": "cross_attn.out", "encoder_attn_layer_norm": "cross_attn_ln", "fc1": "mlp.0",
    "fc2": "mlp.2", "final_layer_norm": "mlp_ln",
}


def ggml_name(name):
    stem, suffix = name.removeprefix("model.").rsplit(".", 1)
    part, rest = stem.split(".", 1)
    if rest == "embed_tokens":
        return "decoder.token_embedding.weight"
    if rest == "embed_positions":
        return f"{part}.positional_embedding"
    if rest.startswith("layers."):
        _, layer, rest = rest.split(".", 2)
        return f"{part}.blocks.{layer}.{GGML_NAMES[rest]}.{suffix}"
    if rest == "layer_norm":
        return {"encoder": "encoder.ln_post", "decoder": "decoder.ln"}[part] + "." + suffix
    return f"{part}.{rest}.{suffix}"


def letters():
    """GPT-2's characters for bytes, the other way round."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


def write_ggml(made, path):
    """As whisper.cpp's convert-pt-to-ggml.py lays it out: matrices in f16, everything else in f32."""
    with path.open("wb") as out:
        out.write(struct.pack("<12i", 0x67676D6C, VOCAB, AUDIO, WIDTH, HEADS, 2, TEXT, WIDTH, HEADS, 2, BANDS, 1))
        out.write(struct.pack("<2i", BANDS, 201))
        out.write(np.zeros((BANDS, 201), "<f4").tobytes())
        decode = letters()
        out.write(struct.pack("<i", len(PLAIN)))
        for token in PLAIN:
            word = bytes(decode[c] for c in token)
            out.write(struct.pack("<i", len(word)) + word)
        for name, value in tensors(made).items():
            data, name = value.numpy(), ggml_name(name)
            if name.endswith(("conv1.bias", "conv2.bias")):
                data = data.reshape(-1, 1)
            half = data.ndim > 1 and "bias" not in name and "positional" not in name
            out.write(struct.pack("<3i", data.ndim, len(name), int(half)))
            out.write(struct.pack(f"<{data.ndim}i", *reversed(data.shape)))
            out.write(name.encode())
            out.write(data.astype("<f2" if half else "<f4").tobytes())


def text(array):
    return base64.b64encode(np.ascontiguousarray(array).astype("<f4").tobytes()).decode()


def decoded(made, mel, **options):
    """The segments that transformers finds, without its own way of cutting the last one."""
    with torch.no_grad():
        out = made.generate(
            torch.tensor(mel[None]), return_timestamps=True, return_segments=True, max_new_tokens=12,
            **{"temperature": 0.0, **options})
    segments = []
    for segment in out["segments"][0]:
        tokens = [int(t) for t in segment["tokens"] if t < ID["<|endoftext|>"]]
        segments.append({"start": float(segment["start"]), "end": float(segment["end"]), "tokens": tokens})
    return segments


class Numbers:
    """Strata's random numbers: splitmix64, begun anew for each window and temperature."""

    def __init__(self):
        self.seek = self.state = 0

    def begin(self, temperature):
        self.state = self.seek ^ struct.unpack("<I", struct.pack("<f", temperature))[0]

    def uniform(self):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        x = self.state
        x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ x >> 27) * 0x94D049BB133111EB) & mask
        return ((x ^ x >> 31) >> 11) / (1 << 53)

    def draw(self, shares, num_samples):
        assert shares.shape[0] == num_samples == 1
        sums = np.cumsum(shares[0].double().numpy())
        return torch.tensor([[int(np.searchsorted(sums, self.uniform() * sums[-1], side="right"))]])


def written(tokens):
    """What is written, without stamps and other special tokens."""
    decode = letters()
    plain = bytes(decode[c] for t in tokens if t < len(PLAIN) for c in PLAIN[t])
    return plain.decode("utf-8", "replace").encode()


def compression(tokens, _vocabulary):
    text = written(tokens.tolist())
    return len(text) / len(zlib.compress(text))


def with_fallback(made, mel, thresholds):
    """Segments, and of each window where it begins, its tries (temperature, mean, compression), and whether it is left out."""
    numbers, windows = Numbers(), []
    generate, fallback = GenerationMixin.generate, made.generate_with_fallback
    needs, mean, multinomial = made._need_fallback, made._retrieve_avg_logprobs, torch.multinomial

    def begin(self, *given, generation_config, **rest):
        generation_config.top_k = 0
        numbers.begin(generation_config.temperature if generation_config.do_sample else 0.0)
        return generate(self, *given, generation_config=generation_config, **rest)

    def window(**given):
        numbers.seek = int(given["seek"][0])
        windows.append({"seek": numbers.seek, "tries": []})
        return fallback(**given)

    def averaged(scores, tokens, temperature):
        cut_off = int(tokens[-1]) != ID["<|endoftext|>"]
        # It may be longer than what is new.
        count = min(len(tokens), len(scores))
        found = mean(scores, tokens, temperature) * count / (count + cut_off)
        windows[-1]["mean"] = float(found)
        return found

    def decide(sequence, outputs, index, processors, config, vocabulary, temperature):
        again, silent = needs(sequence, outputs, index, processors, config, vocabulary, temperature)
        detector = next(p for p in processors if type(p).__name__ == "WhisperNoSpeechDetection")
        windows[-1]["tries"].append([temperature, windows[-1].pop("mean"), compression(sequence, vocabulary)])
        windows[-1] |= {"no_speech": float(detector.no_speech_prob[index]), "silent": silent}
        return again, silent

    GenerationMixin.generate, torch.multinomial = begin, numbers.draw
    made.generate_with_fallback, made._need_fallback = window, decide
    made._retrieve_avg_logprobs, made._retrieve_compression_ratio = averaged, compression
    try:
        segments = decoded(made, mel, temperature=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0), language="en", task="transcribe", **thresholds)
    finally:
        GenerationMixin.generate, torch.multinomial = generate, multinomial
        for name in ("generate_with_fallback", "_need_fallback", "_retrieve_avg_logprobs", "_retrieve_compression_ratio"):
            delattr(made, name)
    return {"thresholds": thresholds, "segments": segments, "windows": windows}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    made = model()
    write_gguf(made, options.out / "whisper.gguf")
    write_folder(made, options.folder)
    write_ggml(made, options.folder / "whisper.bin")
    rng = np.random.Generator(np.random.PCG64(3))
    window = rng.normal(0, 1, (BANDS, 2 * AUDIO)).astype(np.float32)
    tokens = [ID["<|startoftranscript|>"], ID["<|de|>"], ID["<|transcribe|>"], *map(int, rng.integers(0, VOCAB, 9))]
    with torch.no_grad():
        states = made.model.encoder(torch.tensor(window[None])).last_hidden_state
        logits = made(torch.tensor(window[None]), decoder_input_ids=torch.tensor([tokens])).logits
    with (options.out / "whisper.json").open("w") as out:
        json.dump({"window_f32_le_base64": text(window.T), "tokens": tokens, "states_f32_le_base64": text(states[0]),
                   "logits_f32_le_base64": text(logits[0])}, out)
    # Loud and quiet stretches, so that windows differ.
    mel = (rng.normal(0, 1, (BANDS, 430)) * np.linspace(0.2, 2, 430)).astype(np.float32)
    with torch.no_grad():
        language = int(made.detect_language(torch.tensor(mel[None]), num_segment_frames=2 * AUDIO)[0])
    cases = [
        {"options": options_of, "segments": decoded(made, mel, **options_of)}
        for options_of in [
            {"language": "en", "task": "transcribe"},
            {"language": "fr", "task": "translate"},
            {"language": "de", "task": "transcribe", "condition_on_prev_tokens": True},
            {"task": "transcribe"},
        ]
    ]
    fallback = [
        with_fallback(made, mel, dict(zip(("compression_ratio_threshold", "logprob_threshold", "no_speech_threshold"), limits)))
        for limits in FALLBACK
    ]
    with (options.out / "decoding.json").open("w") as out:
        json.dump({"mel_f32_le_base64": text(mel.T), "language": language, "cases": cases, "fallback": fallback}, out)
    for case in fallback:
        print(json.dumps(case["thresholds"]))
        for window in case["windows"]:
            print("  ", json.dumps(window))
    print(VOCAB, [[(round(s["start"], 2), round(s["end"], 2), len(s["tokens"])) for s in c["segments"]] for c in cases])


if __name__ == "__main__":
    main()
