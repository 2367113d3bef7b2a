"""Make LoRA adapters with PEFT for the tiny models that the converter's tests have, and PEFT's own logits with them.

Each case takes a folder of crates/convert/tests/folders (tiny random models that transformers saved), gives every linear
layer that the case names random matrices, saves the adapter as PEFT does, and writes down the logits of the model
with it and without it, in 32-bit floats. `crates/convert/tests/lora.rs` compares.

    pip install torch transformers==5.22.2 peft==0.21.2 accelerate
    python tools/lora_vectors.py crates/convert/tests/folders crates/convert/tests/adapters
"""

import argparse
import base64
import json
from pathlib import Path

import numpy as np
import peft
import safetensors.torch
import torch
import transformers

TOKENS = [1, 5, 9, 2, 30, 7, 11, 4]

# The folder, what PEFT is told beside the rank, and the type of the saved tensors.
CASES = {
    "llama": ("llama-llama3-rope", dict(r=4, lora_alpha=6, target_modules=[
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]), torch.float32),
    "llama-rslora": ("llama-llama3-rope", dict(
        r=3, lora_alpha=5, use_rslora=True, target_modules=["q_proj", "k_proj", "o_proj"]), torch.bfloat16),
    "llama-ranks": ("llama-llama3-rope", dict(
        r=2, lora_alpha=4, rank_pattern={"v_proj": 5}, target_modules=["q_proj", "v_proj"]), torch.float16),
    "gpt2": ("gpt2", dict(r=4, lora_alpha=8, fan_in_fan_out=True,
                          target_modules=["c_attn", "c_proj", "c_fc"]), torch.float32),
    "gptneox": ("gptneox-parallel", dict(r=4, lora_alpha=8, target_modules=[
        "query_key_value", "dense", "dense_h_to_4h"]), torch.float32),
    "falcon": ("falcon-40b", dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense"]), torch.float32),
    "gemma": ("gemma", dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "down_proj"]), torch.float32),
}


def logits(model):
    with torch.no_grad():
        rows = model(input_ids=torch.tensor([TOKENS])).logits[0]
    return base64.b64encode(rows.to(torch.float32).numpy().astype("<f4").tobytes()).decode()


def make(name, folder, out):
    base, settings, dtype = CASES[name]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / base, dtype=torch.float32)
    model.eval()
    plain = logits(model)
    config = peft.LoraConfig(task_type="CAUSAL_LM", **settings)
    adapted = peft.get_peft_model(model, config)
    adapted.eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for key, tensor in adapted.named_parameters():
            if "lora_" in key:
                random = torch.randn(tensor.shape, generator=generator) * 0.15
                # What is saved is what is computed with.
                tensor.copy_(random.to(dtype).to(torch.float32))
    changed = logits(adapted)
    difference = np.abs(np.frombuffer(base64.b64decode(plain), "<f4") - np.frombuffer(base64.b64decode(changed), "<f4"))
    assert difference.max() > 0.05, f"{name}: the adapter changes nothing"
    target = out / name
    target.mkdir(parents=True, exist_ok=True)
    adapted.save_pretrained(target)
    (target / "README.md").unlink(missing_ok=True)
    weights = target / "adapter_model.safetensors"
    tensors = {k: v.to(dtype).contiguous() for k, v in safetensors.torch.load_file(weights).items()}
    safetensors.torch.save_file(tensors, weights, metadata={"format": "pt"})
    path = target / "adapter_config.json"
    settings = json.loads(path.read_text())
    settings["base_model_name_or_path"] = base
    settings["target_modules"] = sorted(settings["target_modules"])
    path.write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")
    answer = {"base": base, "tokens": TOKENS, "plain_f32_le_base64": plain, "logits_f32_le_base64": changed}
    (target / "logits.json").write_text(json.dumps(answer) + "\n")
    print(f"{name}: {len(tensors)} tensors, logits change by up to {difference.max():.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, help="the tiny models")
    parser.add_argument("out", type=Path, help="where the adapters go")
    parser.add_argument("names", nargs="*", default=list(CASES), help="cases")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        make(name, arguments.folders, arguments.out)


if __name__ == "__main__":
    main()
