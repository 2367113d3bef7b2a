"""Check `strata convert` and the loading of Hugging Face folders against transformers and llama.cpp.

For every case of golden_logits.py (tiny random models of each architecture) the model is saved as safetensors, as
safetensors in shards and as a PyTorch file, with a byte-level tokenizer. Then

- `strata logits` of the folder itself, of the PyTorch file and of the converted GGUF must give the logits of
  transformers within 1e-3, all three with the same bits;
- the converted tensors and metadata must be those that golden_logits.py wrote, which llama.cpp has checked;
- llama.cpp must load the converted file, agree with transformers, tokenize a text as strata does, and continue it
  greedily with the same tokens.

Encoders of golden_states.py are converted too: values, metadata, llama.cpp's states, and equal embeddings of the folder
and of its conversion.

    pip install torch transformers==5.22.2 gguf==0.19.0 llama-cpp-python==0.3.36
    python tools/convert_check.py --strata target/release/strata            # all cases
    python tools/convert_check.py --strata target/release/strata qwen3      # one of them
    python tools/convert_check.py --fixtures crates/convert/tests/folders llama-llama3-rope mixtral qwen2moe gemma \\
        phi3-longrope-long gpt2 gptneox-parallel falcon-40b stablelm-parallel bert-rank xlm-roberta nomic-bert \\
        jina-bert-v2 olmo3 lfm2 glm4moe granitemoe-shared ernie4_5-moe nemotron afmoe mamba mamba-falcon mamba2 jamba \\
        cohere2moe laguna laguna-wide granitehybrid granitehybrid-dense falcon-h1 nemotron_h nemotron_h_moe qwen3next qwen35 qwen35moe deepseek2 \\
        deepseek2-lite minicpm3 gpt-oss llama4 dbrx apertus bitnet granite_swa gemma3n gemma4 kimi-linear minimax-01 \\
        recurrent-gemma rwkv4 glm4moe-mtp qwen35-mtp   # the folders that tests use, besides that of golden_t5.py
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import safetensors.torch
import torch
import transformers

import golden_encoders as encoders
import golden_logits as golden
import golden_model
import golden_nextn
import golden_ranks as ranks
import golden_states as states
import golden_t5 as t5

TOLERANCE = 1e-3
TEXT = "A B! AA"
# Of golden_states.py, those with a WordPiece tokenizer.
ENCODERS = ["bert", "nomic-bert", "jina-bert-v2", "jina-bert-v2-code"]


def tokenizer_json(vocab):
    """Byte-level BPE over a few letters, with the special tokens that every case has."""
    letters = ["Ġ"] + [chr(c) for c in range(ord("!"), ord("~") + 1)]
    tokens = ["<unk>", "<s>", "</s>"] + letters[: vocab - 6] + ["ĠA", "ĠB", "<|endoftext|>"]
    assert len(tokens) == vocab == len(set(tokens)), tokens
    special = [0, 1, 2, vocab - 1]
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True} for i in special
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": [["Ġ", "A"], ["Ġ", "B"]]},
    }


def save(model, folder, shards=None):
    """Saves a model as a folder; `shards` is the most bytes of a file."""
    model.save_pretrained(folder, max_shard_size=shards or "5GB")
    vocab = model.config.vocab_size
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(vocab), ensure_ascii=False))
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "tokenizer_class": "PreTrainedTokenizerFast",
                "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def save_torch(model, folder, source):
    """The same folder with a PyTorch file, tied tensors and transposed views included."""
    folder.mkdir()
    for path in source.iterdir():
        if not path.name.startswith("model"):
            shutil.copy(path, folder)
    from safetensors.torch import load_file

    state = {}
    for path in sorted(source.glob("*.safetensors")):
        state |= load_file(path)
    for index, (name, tensor) in enumerate(state.items()):
        if tensor.dim() == 2 and index % 3 == 0:
            state[name] = tensor.t().contiguous().t()  # a view with other strides
    torch.save(state, folder / "pytorch_model.bin")


def strata_logits(strata, path, tokens, folder, context=None):
    out = folder / "logits.bin"
    more = ["--ctx", str(context)] if context else []
    subprocess.run([strata, "logits", path, "--tokens", ",".join(map(str, tokens)), "--out", out, "--kv", "f32", *more],
                   check=True, stdout=subprocess.DEVNULL)
    return np.fromfile(out, dtype="<f4").reshape(len(tokens), -1)


def tensors_of(path):
    return {t.name: (list(t.shape), t.data) for t in gguf.GGUFReader(path).tensors}


def compare_files(ours, theirs):
    """Names, shapes and values of all tensors."""
    a, b = tensors_of(ours), tensors_of(theirs)
    if a.keys() != b.keys():
        return f"the tensors {sorted(a.keys() ^ b.keys())} are only in one of the files"
    for name, (shape, data) in a.items():
        if [d for d in shape if d != 1] != [d for d in b[name][0] if d != 1]:
            return f"{name} has the shape {shape}, not {b[name][0]}"
        if not np.array_equal(np.ravel(data), np.ravel(b[name][1])):
            worst = np.abs(np.ravel(data).astype(np.float64) - np.ravel(b[name][1]).astype(np.float64)).max()
            if worst > 1e-6:
                return f"{name} has other values, by {worst:.1e}"
    return None


def greedy(path, tokens, count):
    """llama.cpp's continuation, and what it makes of the text."""
    import llama_library
    import llama_cpp

    llm = llama_cpp.Llama(str(path), n_ctx=golden.CONTEXT, logits_all=True, type_k=0, type_v=0, flash_attn=False,
                          n_threads=1, n_gpu_layers=0, verbose=False)
    ids = llm.tokenize(TEXT.encode(), add_bos=True, special=False)
    tokens = list(tokens)
    for _ in range(count):
        llm.reset()
        llm.eval(tokens)
        tokens.append(int(np.argmax(llm.scores[len(tokens) - 1])))
    llm.close()
    return ids, tokens


def check(case, strata):
    problems = []
    model = golden.build_model(case)
    tokens = golden.tokens_of(case)
    expected = golden.transformers_logits(model, tokens)
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        save(model, root / "hf")
        save(model, root / "shards", shards="40KB")
        save_torch(model, root / "torch", root / "hf")
        if not list((root / "shards").glob("*.index.json")):
            problems.append("the shards are one file: the case is too small")
        out = root / "out.gguf"
        subprocess.run([strata, "convert", root / "hf", "-o", out], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([strata, "convert", root / "torch" / "pytorch_model.bin", "-o", root / "torch.gguf"], check=True,
                       stdout=subprocess.DEVNULL)
        # Phi-3's factors are chosen by the context that a model is loaded for: here as long as the text, like
        # transformers has it.
        context = golden.CONTEXT if "longrope" in case.name else None
        results = {name: strata_logits(strata, root / name, tokens, root, context)
                   for name in ("hf", "shards", "torch", "out.gguf", "torch.gguf")}
        worst = max(float(np.abs(logits - expected).max()) for logits in results.values())
        if worst > TOLERANCE:
            problems.append(f"strata differs from transformers by {worst:.1e}")
        for name, logits in results.items():
            if not np.array_equal(logits.view(np.uint32), results["hf"].view(np.uint32)):
                problems.append(f"{name} gives other bits than the folder")
        golden.write_gguf(case, model, root / "golden.gguf")
        problems += filter(None, [compare_files(out, root / "golden.gguf")])
        difference = golden.check_with_llama_cpp(case, out, tokens, expected)
        if difference > golden.LLAMA_CPP_TOLERANCE * float(np.abs(expected).max()):
            problems.append(f"llama.cpp differs from transformers by {difference:.1e}")
        if case.checked_layers:  # llama.cpp cannot load so few layers
            print(f"{case.name:22} transformers {worst:.1e}  {'; '.join(problems) or 'ok'}", flush=True)
            return [f"{case.name}: {problem}" for problem in problems]
        ids, theirs = greedy(out, tokens[:4], 12)
        printed = subprocess.run([strata, "tokenize", out, TEXT, "--json"], check=True, capture_output=True, text=True).stdout
        ours = json.loads(printed)
        if ours != ids:
            problems.append(f"the text is {ours} here and {ids} in llama.cpp")
        mine = tokens[:4]
        while len(mine) < len(theirs) and case.checked_positions > len(mine):
            logits = strata_logits(strata, out, mine, root, context)
            mine = [*mine, int(np.argmax(logits[-1]))]
        # llama.cpp reads GELU from a table of half floats: near ties may fall the other way.
        if "GELU" not in case.note and mine != theirs[: len(mine)]:
            problems.append(f"greedy tokens are {mine} here and {theirs} in llama.cpp")
    print(f"{case.name:22} transformers {worst:.1e}  llama.cpp {difference:.1e}  {'; '.join(problems) or 'ok'}", flush=True)
    return [f"{case.name}: {problem}" for problem in problems]


# Classes that stand in for others in golden_families.py are not those families' own.
STAND_INS = {"LlamaConfig", "GraniteConfig", "StableLmConfig", "Starcoder2Config", "Qwen2Config", "Qwen3Config",
             "Qwen3MoeConfig"}


def convertible(case):
    """Whether the case's folder is one that strata converts."""
    return (case.config_class and case.config_class not in STAND_INS and not case.fp4
            and case.arch not in ("maincoder", "hunyuan_vl") and (not case.extra or case.arch == "gemma4"))


def check_family(case, strata):
    """A family's folder, as it is and converted, against transformers; both with the same bits."""
    families = golden.golden_families
    model, tokens, problems = families.build_model(case), golden.tokens_of(case), []
    expected = golden.transformers_logits(model, tokens)
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        save(model, root / "hf")
        out = root / "out.gguf"
        run = subprocess.run([strata, "convert", root / "hf", "-o", out], capture_output=True, text=True)
        if run.returncode != 0:
            print(f"{case.name:22} {run.stderr.strip()}", flush=True)
            return [f"{case.name}: {run.stderr.strip()}"]
        results = [strata_logits(strata, path, tokens, root) for path in (root / "hf", out)]
        worst = max(float(np.abs(logits - expected).max()) for logits in results)
        if worst > TOLERANCE:
            problems.append(f"strata differs from transformers by {worst:.1e}")
        if not np.array_equal(*(logits.view(np.uint32) for logits in results)):
            problems.append("the conversion gives other bits than the folder")
        if case.peer:
            n = case.checked_positions
            difference = float(np.abs(golden.llama_cpp_logits(out, tokens[:n]) - expected[:n]).max())
            if difference > case.tolerance * float(np.abs(expected).max()):
                problems.append(f"llama.cpp differs from transformers by {difference:.1e}")
    print(f"{case.name:22} transformers {worst:.1e}  {'; '.join(problems) or 'ok'}", flush=True)
    return [f"{case.name}: {problem}" for problem in problems]


# From the names of golden_states.py's module to the published ones.
JINA_NAMES = {
    "norm.": "embeddings.LayerNorm.", "word_embeddings.": "embeddings.word_embeddings.",
    "token_type_embeddings.": "embeddings.token_type_embeddings.", "query": "attention.self.query",
    "key": "attention.self.key", "value": "attention.self.value", "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm", "q_norm": "attention.self.layer_norm_q",
    "k_norm": "attention.self.layer_norm_k", "attn_norm_2": "layer_norm_1",
}


def save_jina(model, folder):
    """Jina BERT as it is published, which transformers does not have: gate and up in one matrix, for code the other
    way round."""
    from safetensors.torch import save_file

    code = model.layers[0].code
    names = JINA_NAMES | ({"up_gated": "mlp.up_gated_layer", "down": "mlp.down_layer", "layer_output_norm": "layer_norm_2"}
                          if code else {"down": "mlp.wo", "layer_output_norm": "mlp.layernorm"})
    state = {}
    for name, tensor in model.state_dict().items():
        if not name.startswith("layers."):
            prefix = name.split(".")[0] + "."
            state[names[prefix] + name.removeprefix(prefix)] = tensor
            continue
        _, layer, part, kind = name.split(".")
        if part == "gate":
            up = model.state_dict()[f"layers.{layer}.up.weight"]
            state[f"encoder.layer.{layer}.mlp.gated_layers.weight"] = torch.cat([tensor, up])
        elif part == "up_gated":
            gate, up = tensor.chunk(2)
            state[f"encoder.layer.{layer}.mlp.up_gated_layer.weight"] = torch.cat([up, gate])
        elif part != "up":
            state[f"encoder.layer.{layer}.{names[part]}.{kind}"] = tensor
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, folder / "model.safetensors")
    sizes = {**states.SIZES, "type_vocab_size": 2}
    config = {"architectures": ["JinaBertForMaskedLM"], "model_type": "bert", "hidden_act": "gelu",
              "position_embedding_type": "alibi", "feed_forward_type": "geglu", **sizes}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def wordpiece_json():
    """The tokenizer that golden_states.py writes, as Hugging Face has it."""
    letters = states.LETTERS
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters)]
    pieces += [f"[unused{i}]" for i in range(states.VOCAB - len(pieces))]
    special = [{"id": i, "content": pieces[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i in range(5)]
    ends = {token: {"id": token, "ids": [pieces.index(token)], "tokens": [token]} for token in ("[CLS]", "[SEP]")}
    return {
        "version": "1.0", "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing", "pair": [], "special_tokens": ends,
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {piece: i for i, piece in enumerate(pieces)}},
    }


def check_encoder(name, strata):
    """An encoder's folder, converted and as it is, against the embeddings of the golden model."""
    model = states.build(name)
    problems = []
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        write_fixtures(root, [name], half=False)
        (root / name / "tokenizer.json").write_text(json.dumps(wordpiece_json(), ensure_ascii=False))
        states.write_gguf(name, model, root / "golden.gguf")
        out = root / "out.gguf"
        subprocess.run([strata, "convert", root / name, "-o", out, "--type", "f32"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        # Gate and up may be in one tensor or in two.
        values = [np.sort(np.concatenate([np.ravel(data) for shape, data in tensors_of(path).values()]))
                  for path in (out, root / "golden.gguf")]
        if values[0].shape != values[1].shape or not np.array_equal(*values):
            problems.append("the values are not those of the golden file")
        keys = [{key: field.contents() for key, field in gguf.GGUFReader(path).fields.items()
                 if not key.startswith(("GGUF.", "general.", "tokenizer."))} for path in (out, root / "golden.gguf")]
        wrong = {key: (keys[0].get(key), value) for key, value in keys[1].items() if keys[0].get(key) != value}
        if wrong:
            problems.append(f"metadata differs: {wrong}")
        difference = states.check_with_llama_cpp(name, model, out)
        if difference > states.LLAMA_CPP_TOLERANCE * 10:
            problems.append(f"llama.cpp differs by {difference:.1e}")
        answer = subprocess.run([strata, "embed", root / name, "a bed", "--json"], capture_output=True, text=True)
        again = subprocess.run([strata, "embed", out, "a bed", "--json"], capture_output=True, text=True)
        if answer.returncode != 0 or answer.stdout.count(".") < states.WIDTH:
            problems.append(f"the folder embeds nothing: {answer.stderr.strip()}")
        if answer.stdout != again.stdout.replace(str(out), str(root / name)):
            problems.append("the folder and its conversion embed differently")
    print(f"{name:22} {'; '.join(problems) or 'ok'}", flush=True)
    return [f"{name}: {problem}" for problem in problems]


# Classes that no golden file was made of: text models of families that see, and one that llama.cpp stands in for.
WIDTHS = dict(vocab_size=golden.VOCAB, hidden_size=32, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=golden.CONTEXT, rms_norm_eps=3e-3, bos_token_id=1, eos_token_id=2,
              pad_token_id=None, tie_word_embeddings=False)
AXES = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True)
# The class has its short vectors' norms with this epsilon, whatever the config says.
LATENT = dict(rms_norm_eps=1e-6, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
              num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, n_shared_experts=1,
              first_k_dense_replace=0, n_group=1, topk_group=1)
SEEING = {
    "qwen2-vl": ("Qwen2VL", WIDTHS | dict(rope_parameters=AXES)),
    "qwen2.5-vl": ("Qwen2_5_VL", WIDTHS | dict(rope_parameters=AXES)),
    "qwen3-vl": ("Qwen3VL", WIDTHS | dict(head_dim=8, rope_parameters=AXES)),
    "qwen3-vl-moe": ("Qwen3VLMoe", WIDTHS | EXPERTS | dict(head_dim=8, rope_parameters=AXES)),
    "mistral4": ("Mistral4", WIDTHS | LATENT),
}


def check_class(name, strata):
    """A class's folder, as it is and converted, against transformers."""
    prefix, sizes = SEEING[name]
    tokens, problems = golden.tokens_of(argparse.Namespace(name=name)), []
    if name == "mistral4":
        config = transformers.Mistral4Config(**sizes)
        kind = transformers.Mistral4ForCausalLM
    else:
        config = getattr(transformers, f"{prefix}Config")(text_config=sizes, tie_word_embeddings=False)
        vision = config.vision_config
        for key in ("depth", "num_heads", "hidden_size", "embed_dim", "intermediate_size", "out_hidden_size"):
            if hasattr(vision, key):
                setattr(vision, key, {"depth": 1, "num_heads": 2}.get(key, 32))
        if hasattr(vision, "deepstack_visual_indexes"):
            vision.deepstack_visual_indexes = [0]
        kind = getattr(transformers, f"{prefix}ForConditionalGeneration")
    config._experts_implementation = "eager"
    torch.manual_seed(1)
    model = kind._from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn_like(parameter) * 1.5 / parameter.shape[-1] ** 0.5)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    expected = golden.transformers_logits(model, tokens)
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        model.config.vocab_size = golden.VOCAB
        save(model, root / "hf")
        out = root / "out.gguf"
        run = subprocess.run([strata, "convert", root / "hf", "-o", out], capture_output=True, text=True)
        if run.returncode != 0:
            print(f"{name:22} {run.stderr.strip()}", flush=True)
            return [f"{name}: {run.stderr.strip()}"]
        results = [strata_logits(strata, path, tokens, root) for path in (root / "hf", out)]
        worst = max(float(np.abs(logits - expected).max()) for logits in results)
        if worst > TOLERANCE:
            problems.append(f"strata differs from transformers by {worst:.1e}")
        if not np.array_equal(*(logits.view(np.uint32) for logits in results)):
            problems.append("the conversion gives other bits than the folder")
    print(f"{name:22} transformers {worst:.1e}  {'; '.join(problems) or 'ok'}", flush=True)
    return [f"{name}: {problem}" for problem in problems]


# Of golden_encoders.py, those whose class is the family's own.
LATER_ENCODERS = ["eurobert", "modern-bert", "gemma-embedding", "jina-bert-v3"]


def joined(tensors):
    """With queries, keys and values in one tensor: a file may have them so or apart."""
    joined = {}
    for name, data in tensors.items():
        if not re.search(r"attn_[qkv]\.", name):
            joined[name] = data
        elif "attn_q." in name:
            parts = [tensors[name.replace("attn_q.", f"attn_{part}.")] for part in "qkv"]
            joined[name.replace("attn_q.", "attn_qkv.")] = np.concatenate([np.ravel(part) for part in parts])
    return joined


def check_later_encoder(name, strata):
    """The same for the encoders of golden_encoders.py."""
    from safetensors.torch import save_file

    model, problems = encoders.build(name), []
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        folder, out = root / name, root / "out.gguf"
        model.save_pretrained(folder)
        (folder / "tokenizer.json").write_text(json.dumps(wordpiece_json(), ensure_ascii=False))
        expected = dict(encoders.tensors(name, model))
        if name == "gemma-embedding":
            modules = []
            for number, (tensor, shape) in zip("23", encoders.DENSE.items()):
                (folder / f"{number}_Dense").mkdir()
                x = encoders.random(name, tensor, shape)
                expected[tensor] = x
                save_file({"linear.weight": torch.from_numpy(x)}, folder / f"{number}_Dense" / "model.safetensors")
                config = {"in_features": shape[1], "out_features": shape[0], "bias": False,
                          "activation_function": "torch.nn.modules.linear.Identity"}
                (folder / f"{number}_Dense" / "config.json").write_text(json.dumps(config))
        run = subprocess.run([strata, "convert", folder, "-o", out, "--type", "f32"], capture_output=True, text=True)
        if run.returncode != 0:
            print(f"{name:22} {run.stderr.strip()}", flush=True)
            return [f"{name}: {run.stderr.strip()}"]
        found = joined({key: data for key, (shape, data) in tensors_of(out).items()})
        expected = joined(expected)
        if found.keys() != expected.keys():
            problems.append(f"the tensors {sorted(found.keys() ^ expected.keys())} are only in one of the files")
        else:
            far = [key for key in found if np.abs(np.ravel(found[key]) - np.ravel(expected[key])).max() > 1e-6]
            problems += [f"{key} has other values" for key in far]
        embed = lambda path: subprocess.run([strata, "embed", path, "a bed", "--json"], capture_output=True, text=True)
        answer, again = embed(folder), embed(out)
        if answer.returncode != 0 or answer.stdout.count(".") < encoders.WIDTH:
            problems.append(f"the folder embeds nothing: {answer.stderr.strip()}")
        if answer.stdout != again.stdout.replace(str(out), str(folder)):
            problems.append("the folder and its conversion embed differently")
    print(f"{name:22} {'; '.join(problems) or 'ok'}", flush=True)
    return [f"{name}: {problem}" for problem in problems]


def write_fixtures(folder, names, half=True):
    """Folders of half floats, small enough to commit; CI compares their conversion with the golden files."""
    builders = [(case, golden.build_model) for case in golden.CASES]
    builders += [(case, golden.golden_families.build_model) for case in golden.golden_families.CASES]
    for case, build in builders:
        if case.name in names:
            target = folder / case.name
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            model = build(case)
            nextn = golden_nextn.Nextn(case, model, golden_model.random_parameter).folder() if getattr(case, "nextn", 0) else {}
            save(model.half(), target)
            if nextn:
                file = target / "model.safetensors"
                safetensors.torch.save_file(safetensors.torch.load_file(file) | nextn, file, {"format": "pt"})
            (target / "generation_config.json").unlink()
    for name in states.CASES.keys() & set(names):
        target = folder / name
        shutil.rmtree(target, ignore_errors=True)
        (target / "1_Pooling").mkdir(parents=True)
        model = states.build(name)
        model = model.half() if half else model
        if isinstance(model, states.JinaBert):
            save_jina(model, target)
        else:
            model.save_pretrained(target)
        mode = {"MEAN": "pooling_mode_mean_tokens", "CLS": "pooling_mode_cls_token"}.get(states.CASES[name][3])
        (target / "1_Pooling" / "config.json").write_text(json.dumps({mode: True} if mode else {}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", type=Path)
    parser.add_argument("--fixtures", type=Path)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if arguments.fixtures:
        write_fixtures(arguments.fixtures, arguments.cases)
        return
    if not arguments.strata:
        parser.error("--strata or --fixtures is needed")
    chosen = [case for case in golden.CASES if not arguments.cases or case.name in arguments.cases]
    problems = [problem for case in chosen for problem in check(case, arguments.strata)]
    for case in golden.golden_families.CASES:
        if convertible(case) and (not arguments.cases or case.name in arguments.cases):
            problems += check_family(case, arguments.strata)
    for name in ENCODERS:
        if not arguments.cases or name in arguments.cases:
            problems += check_encoder(name, arguments.strata)
    for name in LATER_ENCODERS:
        if not arguments.cases or name in arguments.cases:
            problems += check_later_encoder(name, arguments.strata)
    for name in SEEING:
        if not arguments.cases or name in arguments.cases:
            problems += check_class(name, arguments.strata)
    own = Path(__file__).parent.parent / "crates/model/tests/golden"
    for name in t5.CASES:
        if not arguments.cases or name in arguments.cases:
            t5.check(name, arguments.strata.resolve())
    for name in ranks.CASES:
        if not arguments.cases or name in arguments.cases:
            ranks.check(name, own, arguments.strata.resolve())
    sys.exit("\n".join(problems) if problems else 0)


if __name__ == "__main__":
    main()
