"""What the makers of golden logits share: sizes, tokens, a tokenizer, llama.cpp."""

import zlib

import gguf
import numpy as np
import torch

VOCAB = 48
N_TOKENS = 28
WINDOW = 8
CONTEXT = 256
EPS = 3e-3  # large, so that a norm with another one is seen


def rope(theta=10000.0, **scaling):
    return {"rope_theta": theta, "rope_type": "default", **scaling}


def tokens_of(case):
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(case.name.encode())))
    return [1] + [int(t) for t in rng.integers(3, VOCAB, N_TOKENS - 1)]


def transformers_logits(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()


def rope_interleaved(weight, heads):
    """Rows of a q or k projection from half-split order (transformers) to pairs (GGUF's llama)."""
    size = weight.shape[0] // heads
    return weight.reshape(heads, 2, size // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def add_tokenizer(writer):
    """SentencePiece with single characters: enough for a loader, never used by the tests."""
    letters = ["\u2581"] + [chr(c) for c in range(ord("!"), ord("~") + 1) if chr(c) != "<"]
    # llama.cpp insists on the last one in phi3 files.
    pieces = ["<unk>", "<s>", "</s>", *letters[: VOCAB - 4], "<|endoftext|>"]
    kinds = dict.fromkeys(pieces, gguf.TokenType.NORMAL)
    kinds |= {piece: gguf.TokenType.CONTROL for piece in ("<s>", "</s>", "<|endoftext|>")}
    kinds["<unk>"] = gguf.TokenType.UNKNOWN
    assert len(kinds) == len(pieces) == VOCAB
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([-float(i) for i in range(VOCAB)])
    writer.add_token_types([int(kinds[piece]) for piece in pieces])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


def llama_cpp_logits(path, tokens):
    import llama_library
    import llama_cpp

    f32 = 0
    llm = llama_cpp.Llama(str(path), n_ctx=CONTEXT, n_batch=CONTEXT, logits_all=True, type_k=f32, type_v=f32,
                          flash_attn=False, n_threads=1, n_gpu_layers=0, verbose=False)
    llm.eval(tokens)
    scores = np.array(llm.scores[: len(tokens)], dtype=np.float32)
    llm.close()
    return scores
