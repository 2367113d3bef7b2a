"""The golden cases of RWKV, which transformers has no classes for."""

import numpy as np

from golden_common import CONTEXT, EPS, VOCAB
from golden_model import Family

WIDTH, SIZE, FFN = 32, 8, 20
BASE = {"context_length": CONTEXT, "embedding_length": WIDTH, "feed_forward_length": FFN, "attention.head_count": 0,
        "wkv.head_size": SIZE, "block_count": 2}
SIX = {"time_mix_extra_dim": 4, "time_decay_extra_dim": 6}
SEVEN = {"attention.decay_lora_rank": 6, "attention.iclr_lora_rank": 4, "attention.value_residual_mix_lora_rank": 5}
LAYER_NORM = {"attention.layer_norm_epsilon": EPS, "token_shift_count": 2}
RMS_NORM = {"attention.layer_norm_rms_epsilon": EPS, "token_shift_count": 1}


def model(blocks, biased):
    """The tensors of all layers, and what comes before and after."""
    found = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,), "output.weight": (VOCAB, WIDTH)}
    if biased:
        found |= {"token_embd_norm.weight": (WIDTH,), "token_embd_norm.bias": (WIDTH,), "output_norm.bias": (WIDTH,)}
    for i, block in enumerate(blocks):
        found |= {f"blk.{i}.{name}": shape for name, shape in block.items()}
    return found


def norms(*names):
    return {f"{name}.{part}": (WIDTH,) for name in names for part in ("weight", "bias")}


def six(kv, fused):
    block = {"time_mix_w1.weight": (20, WIDTH), "time_mix_w2.weight": (5, WIDTH, 4),
             "time_mix_lerp_x.weight": (1, 1, WIDTH), "time_mix_decay.weight": (WIDTH,),
             "time_mix_decay_w1.weight": (6, WIDTH), "time_mix_decay_w2.weight": (WIDTH, 6),
             "time_mix_key.weight": (kv, WIDTH), "time_mix_value.weight": (kv, WIDTH),
             "time_mix_receptance.weight": (WIDTH, WIDTH), "time_mix_gate.weight": (WIDTH, WIDTH),
             "time_mix_output.weight": (WIDTH, WIDTH)}
    if fused:
        return block | {"time_mix_lerp_fused.weight": (5, 1, 1, WIDTH)}
    return block | {f"time_mix_lerp_{part}.weight": (1, 1, WIDTH) for part in "wkvrg"}


def seven(layer, gate):
    value = 5 if layer else 4
    block = {f"time_mix_{name}0.weight": (WIDTH,) for name in "wav"}
    block |= {f"time_mix_{name}1.weight": (rank, WIDTH) for name, rank in [("w", 6), ("a", 4), ("v", value)]}
    block |= {f"time_mix_{name}2.weight": (WIDTH, rank) for name, rank in [("w", 6), ("a", 4), ("v", value)]}
    block |= {f"time_mix_{name}.weight": (WIDTH,) for name in ("k_k", "k_a", "r_k")}
    block |= {f"time_mix_{name}.weight": (WIDTH, WIDTH) for name in ("key", "value", "receptance", "output")}
    if gate:
        block |= {"time_mix_g1.weight": (gate, WIDTH), "time_mix_g2.weight": (WIDTH, gate)}
    return block | {"time_mix_lerp_fused.weight": (6 if gate else 5, 1, 1, WIDTH)}


def evaluate_seven(case, tensors, tokens):
    """RWKV 7 in f64: llama.cpp computes heads of 8 wrongly. With one head of 64 it agrees to 1e-5."""
    w = {name: x.astype(np.float64) for name, x in tensors.items()}
    sigmoid = lambda x: 1 / (1 + np.exp(-x))
    width, size = w["token_embd.weight"].shape[1], case.keys["wkv.head_size"]
    heads = width // size

    def norm(x, name):
        if f"{name}.bias" in w:
            x = (x - x.mean()) / np.sqrt(x.var() + EPS)
            return x * w[f"{name}.weight"] + w[f"{name}.bias"]
        return x / np.sqrt((x * x).mean() + EPS) * w[f"{name}.weight"]

    states = np.zeros((2, heads, size, size))
    before, channels_before = np.zeros((2, width)), np.zeros((2, width))
    logits = []
    for token in tokens:
        x = w["token_embd.weight"][token]
        x = norm(x, "token_embd_norm") if "token_embd_norm.weight" in w else x
        for i in range(2):
            g = lambda name: w[f"blk.{i}.time_mix_{name}.weight"]
            low = lambda name, x, f=lambda x: x: g(f"{name}2") @ f(g(f"{name}1") @ x)
            h = norm(x, f"blk.{i}.attn_norm")
            mixed = [h + (before[i] - h) * share for share in g("lerp_fused").reshape(-1, width)]
            before[i] = h
            r, k, v = g("receptance") @ mixed[0], g("key") @ mixed[2], g("value") @ mixed[3]
            decay = np.exp(-0.606531 * sigmoid(low("w", mixed[1], np.tanh) + g("w0")))
            if i == 0:
                first = v
            else:
                v = v + (first - v) * sigmoid(low("v", mixed[3]) + g("v0"))
            a = sigmoid(low("a", mixed[4]) + g("a0"))
            kk = (k * g("k_k")).reshape(heads, size)
            kk = kk / np.linalg.norm(kk, axis=1, keepdims=True)
            k = k * (1 + (a - 1) * g("k_a"))
            r, decay, k, v, a = (x.reshape(heads, size) for x in (r, decay, k, v, a))
            found = np.einsum("hvk,hk->hv", states[i], -kk)
            states[i] = states[i] * decay[:, None] + v[:, :, None] * k[:, None] + found[:, :, None] * (kk * a)[:, None]
            y = np.einsum("hvk,hk->hv", states[i], r)
            if f"blk.{i}.time_mix_ln.weight" in w:
                y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 64e-5)
                y = (y.reshape(-1) * g("ln") + w[f"blk.{i}.time_mix_ln.bias"]).reshape(heads, size)
            y = (y + v * (r * k * g("r_k").reshape(heads, size)).sum(1, keepdims=True)).reshape(-1)
            if f"blk.{i}.time_mix_g1.weight" in w:
                y = y * low("g", mixed[5], sigmoid)
            x = x + g("output") @ y
            c = lambda name: w[f"blk.{i}.{name}.weight"]
            if f"blk.{i}.ffn_gate.weight" in w:
                h = norm(x, f"blk.{i}.ffn_norm")
                gate = c("ffn_gate") @ h
                x = x + c("ffn_down") @ (gate * sigmoid(gate) * (c("ffn_up") @ h))
            else:
                h = norm(x, f"blk.{i}.attn_norm_2")
                hidden = c("channel_mix_key") @ (h + (channels_before[i] - h) * c("channel_mix_lerp_k").reshape(-1))
                channels_before[i] = h
                x = x + c("channel_mix_value") @ np.maximum(hidden, 0) ** 2
        logits.append(w["output.weight"] @ norm(x, "output_norm"))
    return np.array(logits, dtype=np.float32)


CHANNELS = {"channel_mix_lerp_k.weight": (1, 1, WIDTH), "channel_mix_key.weight": (FFN, WIDTH),
            "channel_mix_value.weight": (WIDTH, FFN)}
GATED = {"channel_mix_lerp_r.weight": (1, 1, WIDTH), "channel_mix_receptance.weight": (WIDTH, WIDTH)}
NETWORK = {"attn_norm.weight": (WIDTH,), "ffn_norm.weight": (WIDTH,), "ffn_gate.weight": (FFN, WIDTH),
           "ffn_up.weight": (FFN, WIDTH), "ffn_down.weight": (WIDTH, FFN)}
RWKV = norms("attn_norm", "attn_norm_2", "time_mix_ln")
RWKV6 = {"time_mix_first.weight": (WIDTH // SIZE, SIZE)} | RWKV | CHANNELS | GATED
BIASES = {"time_mix_key.bias": (16,), "time_mix_value.bias": (16,), "time_mix_receptance.bias": (WIDTH,)}

CASES = [
    Family("rwkv6", "rwkv6", tensors=model([six(WIDTH, True) | RWKV6, six(WIDTH, False) | RWKV6], True),
           keys=BASE | SIX | LAYER_NORM | {"rescale_every_n_layers": 1},
           note="halved after each layer; shares of the token before in one tensor, and in five"),
    Family("rwkv6qwen2", "rwkv6qwen2", tensors=model([six(16, True) | NETWORK | BIASES] * 2, False),
           keys=BASE | SIX | RMS_NORM | {"attention.head_count_kv": 2, "attention.head_count": 4},
           note="two key heads; biases; no bonus, no norm of heads"),
    Family("rwkv7", "rwkv7", tensors=model([seven(i, 7) | RWKV | CHANNELS for i in range(2)], True),
           keys=BASE | SEVEN | LAYER_NORM | {"attention.gate_lora_rank": 7}, evaluate=evaluate_seven,
           note="layer 1 mixes in layer 0's values"),
    Family("arwkv7", "arwkv7", tensors=model([seven(i, 0) | NETWORK for i in range(2)], False),
           keys=BASE | SEVEN | RMS_NORM, evaluate=evaluate_seven, note="no gates, no norm of heads"),
]
