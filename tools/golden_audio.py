"""Tiny random models that hear, with what transformers makes of a sound and a text.

    pip install torch torchvision pillow transformers==5.22.2 gguf==0.19.0 safetensors
    python tools/golden_audio.py --out crates/model/tests/golden_audio --folders crates/convert/tests/listeners

For each family: `CASE.mmproj.gguf` is the audio tower and its projector as llama.cpp's converter writes them, `CASE.gguf`
the text model, `CASE.json` how long the sound is (`sound()` says what it is), the spectrogram that the family's feature
extractor makes of it, the embeddings, the tokens with the sound among them, and the logits of the whole. `lengths` are numbers of
samples, and how many positions the processor makes of each.

Ultravox has no class in transformers: its projector is written here, over the encoder of Whisper.
"""

import argparse
import json
import math
import zlib
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from torch import nn
from transformers import (Qwen2AudioConfig, Qwen2AudioForConditionalGeneration, VoxtralConfig,
                          VoxtralForConditionalGeneration, WhisperFeatureExtractor)
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from golden_common import VOCAB, add_tokenizer, rope_interleaved
from golden_vision import EPS, TEXT, TEXTS, finish, packed, renamed

WIDTH, FFN, HEADS, LAYERS, BANDS = 16, 64, 2, 2, 8
# Of a window: 0.4 seconds.
POSITIONS, HOP = 20, 160
WINDOW = 2 * POSITIONS * HOP
AUDIO = VOCAB - 1
STACK = {"voxtral": 4, "ultravox": 8}
# Samples of each case's sound: one window that is not full, and two windows.
SAMPLES = {"qwen2audio": 4500, "voxtral": 9000, "ultravox": 9000}
LENGTHS = {"qwen2audio": [480, 481, 800, 1600, 1601, 4500, 6399, 6400], "voxtral": [1, 160, 6400, 6401, 9000, 12800, 12801],
           "ultravox": [1, 6400, 6401]}

TEXT_CONFIG = {key: value for key, value in TEXT.items() if key != "head_dim"} | dict(hidden_size=32)


def sound(samples):
    """What `sound` of the tests makes too: exact in f32."""
    n = np.arange(samples, dtype=np.int64)
    return (((n * n * 31 + n * 7) % 65536 - 32768) / 65536).astype(np.float32)


def extractor():
    made = WhisperFeatureExtractor(feature_size=BANDS)
    made.n_samples, made.nb_max_frames = WINDOW, 2 * POSITIONS
    return made


def qwen2audio():
    config = Qwen2AudioConfig(
        audio_config=dict(model_type="qwen2_audio_encoder", num_mel_bins=BANDS, encoder_layers=LAYERS, encoder_attention_heads=HEADS,
                          encoder_ffn_dim=FFN, d_model=WIDTH, max_source_positions=POSITIONS),
        text_config=dict(model_type="qwen2", **TEXT_CONFIG), audio_token_index=AUDIO)
    return Qwen2AudioForConditionalGeneration(config)


def voxtral():
    config = VoxtralConfig(
        audio_config=dict(model_type="voxtral_encoder", num_mel_bins=BANDS, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                          intermediate_size=FFN, hidden_size=WIDTH, max_source_positions=POSITIONS),
        text_config=dict(model_type="llama", **TEXT_CONFIG, head_dim=8), audio_token_id=AUDIO)
    return VoxtralForConditionalGeneration(config)


class UltravoxProjector(nn.Module):
    """`UltravoxProjector` of fixie-ai/ultravox-v0_5: frames stacked, SwiGLU with the gate last, a norm in the middle."""

    def __init__(self, stack, inner, width):
        super().__init__()
        self.stack = stack
        self.ln_pre = nn.Parameter(torch.ones(WIDTH * stack))
        self.linear_1 = nn.Linear(WIDTH * stack, inner, bias=False)
        self.ln_mid = nn.Parameter(torch.ones(inner // 2))
        self.linear_2 = nn.Linear(inner // 2, width, bias=False)

    def forward(self, x):
        positions, width = x.shape
        x = nn.functional.pad(x, (0, 0, 0, -positions % self.stack)).reshape(-1, width * self.stack)
        norm = lambda x, weight: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight
        value, gate = self.linear_1(norm(x, self.ln_pre)).chunk(2, dim=-1)
        return self.linear_2(norm(value * nn.functional.silu(gate), self.ln_mid))


class Ultravox(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = transformers.WhisperConfig(
            num_mel_bins=BANDS, encoder_layers=LAYERS, encoder_attention_heads=HEADS, encoder_ffn_dim=FFN, d_model=WIDTH,
            max_source_positions=POSITIONS)
        self.audio_tower = WhisperEncoder(self.config)
        self.multi_modal_projector = UltravoxProjector(STACK["ultravox"], 24, TEXT_CONFIG["hidden_size"])
        self.language_model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**TEXT_CONFIG, head_dim=8))

    def embedded(self, features):
        states = [self.audio_tower(window[None]).last_hidden_state[0] for window in features]
        return torch.cat([self.multi_modal_projector(state) for state in states])


CASES = {"qwen2audio": (qwen2audio, "qwen2a", "qwen2"), "voxtral": (voxtral, "voxtral", "llama"),
         "ultravox": (Ultravox, "ultravox", "llama")}


def build(name):
    model = CASES[name][0]().float().eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{name}/{key}".encode())))
            x = rng.standard_normal(tuple(parameter.shape)).astype(np.float32)
            if ("norm" in key or "ln_" in key) and not key.endswith("bias"):
                x = 0.2 * x + 1
            elif key.endswith("bias"):
                x = 0.2 * x
            elif "embed" in key:
                x = 0.4 * x
            else:
                x = x * np.float32(1.5 / math.sqrt(np.prod(parameter.shape[1:])))
            parameter.copy_(torch.from_numpy(x.astype(np.float16).astype(np.float32)))
    return model


# ---------------------------------------------------------------------------------------------------------------------
# Inputs and outputs
# ---------------------------------------------------------------------------------------------------------------------


def features(name, samples):
    """(windows, bands, frames), and how many of the first window's frames have sound."""
    if name == "qwen2audio":
        made = extractor()(sound(samples), sampling_rate=16000, padding="max_length", return_attention_mask=True,
                           return_tensors="pt")
        return made["input_features"], made["attention_mask"]
    # As VoxtralProcessor does it: whole windows, one spectrogram, cut.
    made = extractor()(sound(samples), sampling_rate=16000, padding=True, truncation=False, pad_to_multiple_of=WINDOW,
                       return_tensors="pt")["input_features"]
    return made.reshape(BANDS, -1, 2 * POSITIONS).transpose(0, 1), None


def positions(name, samples):
    made, mask = features(name, samples)
    if name == "qwen2audio":
        # What Qwen2AudioProcessor repeats the placeholder by.
        frames = int(mask.sum())
        return ((frames - 1) // 2 + 1 - 2) // 2 + 1
    return len(made) * math.ceil(POSITIONS / STACK[name])


def evaluate(name, model):
    made, mask = features(name, SAMPLES[name])
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    start = [1] + [int(t) for t in rng.integers(5, AUDIO, 5)]
    end = [int(t) for t in rng.integers(5, AUDIO, 6)]
    count = positions(name, SAMPLES[name])
    tokens = start + [AUDIO] * count + end
    ids = torch.tensor([tokens])
    found = []
    with torch.no_grad():
        if name == "ultravox":
            embedded = model.embedded(made)
            inputs = model.language_model.model.embed_tokens(ids)
            inputs[0, len(start) : len(start) + count] = embedded
            logits = model.language_model(inputs_embeds=inputs, use_cache=False).logits[0]
        else:
            hook = model.model.multi_modal_projector.register_forward_hook(lambda _, __, output: found.append(output))
            inputs = {"input_ids": ids, "input_features": made, "attention_mask": torch.ones_like(ids)}
            if mask is not None:
                inputs["feature_attention_mask"] = mask
            logits = model(**inputs, use_cache=False).logits[0]
            hook.remove()
            embedded = found[0].reshape(-1, found[0].shape[-1])[:count]
    assert embedded.shape[0] == count and logits.shape[0] == len(tokens)
    return made.numpy(), tokens, len(start), embedded.numpy(), logits.numpy()


# ---------------------------------------------------------------------------------------------------------------------
# GGUF
# ---------------------------------------------------------------------------------------------------------------------

AUDIO_NAMES = [
    (r"^model\.", ""),
    (r"^audio_tower\.conv", "a.conv1d."),
    (r"^audio_tower\.embed_positions", "a.position_embd"),
    (r"^audio_tower\.layer_norm", "a.post_ln"),
    (r"^audio_tower\.layers\.", "a.blk."),
    (r"self_attn\.([qkv])_proj", r"attn_\1"),
    (r"self_attn\.out_proj", "attn_out"),
    (r"self_attn_layer_norm", "ln1"),
    (r"final_layer_norm", "ln2"),
    (r"fc1", "ffn_up"),
    (r"fc2", "ffn_down"),
    (r"^multi_modal_projector\.linear_", "mm.a.mlp."),
    (r"^multi_modal_projector\.linear\.", "mm.a.fc."),
    (r"^multi_modal_projector\.ln_(pre|mid)$", r"mm.a.norm_\1.weight"),
]


def is_text(key):
    return "language_model" in key or key.startswith("lm_head")


def split(name, model):
    audio, text = [], []
    for key, tensor in model.state_dict().items():
        x = tensor.float().numpy()
        if is_text(key):
            key = key.replace("language_model.lm_head", "lm_head")
            key = renamed(key.replace("language_model.model", "model.language_model") if name == "ultravox" else key,
                          TEXTS + [(r"post_attention_layernorm", "ffn_norm")])
            if CASES[name][2] == "llama" and ("attn_q" in key or "attn_k" in key):
                x = rope_interleaved(x, 4 if "attn_q" in key else 2)
            text.append((key, x))
            continue
        key = renamed(key, AUDIO_NAMES)
        if key.startswith("a.conv1d") and key.endswith("bias"):
            x = x[:, None]
        audio.append((key, x))
    return audio, text


def write_audio(name, tensors, path):
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_type("mmproj")
    writer.add_bool("clip.has_audio_encoder", True)
    writer.add_string("clip.projector_type", CASES[name][1])
    for key, value in {"projection_dim": TEXT_CONFIG["hidden_size"], "embedding_length": WIDTH, "feed_forward_length": FFN,
                       "block_count": LAYERS, "attention.head_count": HEADS, "num_mel_bins": BANDS}.items():
        writer.add_uint32(f"clip.audio.{key}", value)
    writer.add_float32("clip.audio.attention.layer_norm_epsilon", 1e-5)
    if name in STACK:
        writer.add_uint32("clip.audio.projector.stack_factor", STACK[name])
    finish(writer, tensors)


def write_text(name, tensors, path):
    writer = gguf.GGUFWriter(path, CASES[name][2])
    writer.add_name(f"golden {name}")
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(128)
    writer.add_embedding_length(TEXT_CONFIG["hidden_size"])
    writer.add_block_count(2)
    writer.add_feed_forward_length(TEXT_CONFIG["intermediate_size"])
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_key_length(8)
    writer.add_value_length(8)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(10000.0)
    add_tokenizer(writer)
    finish(writer, tensors)


def save(name, model, folder):
    """A Hugging Face folder with the tower and the text model."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    if name == "ultravox":
        config = {"audio_config": model.config.to_dict(), "text_config": model.language_model.config.to_dict(),
                  "stack_factor": STACK[name]}
        config["architectures"] = ["UltravoxModel"]
        kept = ("num_mel_bins", "encoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "d_model", "max_source_positions")
        config["audio_config"] = {key: config["audio_config"][key] for key in kept}
    else:
        config = model.config.to_dict()
        config["architectures"] = [type(model).__name__]
    kept = ("architectures", "audio_config", "text_config", "model_type", "audio_token_index", "audio_token_id", "stack_factor")
    config = {key: config[key] for key in kept if key in config}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    state = model.state_dict()
    if name == "ultravox":
        # The text model is another folder's.
        state = {key.replace("ln_pre", "ln_pre.weight").replace("ln_mid", "ln_mid.weight"): x
                 for key, x in state.items() if not is_text(key)}
    save_file({key: x.to(torch.float16).contiguous() for key, x in state.items()}, folder / "model.safetensors")


def make(name, folder, folders=None):
    model = build(name)
    made, tokens, start, embedded, logits = evaluate(name, model)
    assert np.isfinite(logits).all() and np.isfinite(embedded).all()
    audio, text = split(name, model)
    write_audio(name, audio, folder / f"{name}.mmproj.gguf")
    write_text(name, text, folder / f"{name}.gguf")
    content = {"case": name, "samples": SAMPLES[name], "start": start, "tokens": tokens,
               "lengths": [[samples, positions(name, samples)] for samples in LENGTHS[name]],
               # (windows, frames, bands), as towers read them.
               "features_f32_le_base64": packed(made.transpose(0, 2, 1)),
               "embedded_f32_le_base64": packed(embedded), "logits_f32_le_base64": packed(logits)}
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    if folders:
        save(name, model, folders / name)
    print(f"{name:10} {len(embedded)} positions, largest embedding {np.abs(embedded).max():.1f}, "
          f"largest logit {np.abs(logits).max():.1f}", flush=True)


README = """# Golden audio

Tiny random audio towers and text models with what Hugging Face transformers makes of them (float32, eager attention):
`CASE.mmproj.gguf` is the tower as llama.cpp's converter writes it, `CASE.gguf` the text model, `CASE.json` the
spectrogram of a sound, the embeddings that the projector gives, the tokens with the sound among them, and the logits of all
positions. `tools/golden_audio.py` says what the sound is.

Made by `python tools/golden_audio.py --out crates/model/tests/golden_audio --folders crates/convert/tests/listeners`; versions:
torch {torch}, transformers {transformers}, gguf 0.19.0.
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folders", type=Path, help="where to save Hugging Face folders, for the tests of crates/convert")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for case in arguments.cases or CASES:
        make(case, arguments.out, arguments.folders)
    (arguments.out / "README.md").write_text(
        README.format(torch=torch.__version__.split("+")[0], transformers=transformers.__version__))


if __name__ == "__main__":
    main()
