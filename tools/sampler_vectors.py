#!/usr/bin/env python3
"""Makes the reference data of crates/engine's samplers with llama.cpp's.

    python tools/sampler_vectors.py               writes crates/engine/tests/vectors/samplers.txt
    python tools/sampler_vectors.py --verify      fails when it is not what the installed llama.cpp gives

Needs numpy and llama-cpp-python. The file has three kinds of lines:
    logits NAME VALUE...            an input
    case LOGITS KEY=VALUE...        settings, by the names of SamplerSettings; `history` is what came before,
                                    `breakers` are token sequences, `first` is a token accepted before because no other was allowed
    kept TOKEN:PROBABILITY...       the candidates that llama.cpp leaves, the likeliest first
Only what does not depend on llama.cpp's random generator is recorded: XTC always acts, and mirostat's first choice has
one token to choose from.
"""

import argparse
import ctypes
import sys
from pathlib import Path

import llama_library
import llama_cpp
import numpy as np

SEED = 20240301
OUT = Path(__file__).parent.parent / "crates/engine/tests/vectors/samplers.txt"
DRY = "_Z30llama_sampler_init_dry_testingffiiRKSt6vectorIS_IiSaIiEESaIS1_EE"


def inputs():
    rng = np.random.default_rng(SEED)
    sets = {
        "narrow": rng.normal(0, 1, 40),
        "wide": rng.normal(0, 4, 200),
        "flat": rng.normal(0, 0.2, 100),
        "peaked": np.append(rng.normal(-3, 1.5, 150), [6.0, 5.5, 5.2]),
        "many": rng.normal(0, 2.5, 600),
    }
    masked = rng.normal(0, 2, 120)
    masked[rng.random(120) < 0.6] = -np.inf
    sets["masked"] = masked
    return {name: values.astype(np.float32) for name, values in sets.items()}


class Vector(ctypes.Structure):
    """The three pointers of a std::vector."""

    _fields_ = [("begin", ctypes.c_void_p), ("end", ctypes.c_void_p), ("capacity", ctypes.c_void_p)]

    def __init__(self, array):
        start = ctypes.addressof(array)
        super().__init__(start, start + ctypes.sizeof(array), start + ctypes.sizeof(array))
        self.array = array


def dry_sampler(multiplier, base, allowed, last, breakers):
    make = llama_cpp.llama_cpp._lib[DRY]
    make.restype = llama_cpp.llama_sampler_p_ctypes
    make.argtypes = [ctypes.c_float, ctypes.c_float, ctypes.c_int, ctypes.c_int, ctypes.POINTER(Vector)]
    inner = [Vector((ctypes.c_int * len(b))(*b)) for b in breakers]
    outer = Vector((Vector * len(inner))(*inner))
    return make(multiplier, base, allowed, last, ctypes.byref(outer))


def chain(settings, n_vocab):
    """The samplers that the settings turn on, in the order of crates/engine."""
    get = settings.get
    keep = get("min_keep", 0)
    samplers = []
    if "bias" in settings:
        entries = [llama_cpp.llama_logit_bias(token, bias) for token, bias in settings["bias"]]
        array = (llama_cpp.llama_logit_bias * len(entries))(*entries)
        samplers.append(llama_cpp.llama_sampler_init_logit_bias(n_vocab, len(entries), array))
    if {"repeat", "frequency", "presence"} & settings.keys():
        samplers.append(llama_cpp.llama_sampler_init_penalties(
            n_vocab, get("penalty_last", 64), get("repeat", 1.0), get("frequency", 0.0), get("presence", 0.0)))
    if "dry_multiplier" in settings:
        samplers.append(dry_sampler(settings["dry_multiplier"], get("dry_base", 1.75), get("dry_allowed", 2),
                                    get("dry_last", 1000), get("breakers", [])))
    if "top_n_sigma" in settings:
        samplers.append(llama_cpp.llama_sampler_init_top_n_sigma(settings["top_n_sigma"]))
    if "top_k" in settings:
        samplers.append(llama_cpp.llama_sampler_init_top_k(settings["top_k"]))
    if "typical_p" in settings:
        samplers.append(llama_cpp.llama_sampler_init_typical(settings["typical_p"], keep))
    if "top_p" in settings:
        samplers.append(llama_cpp.llama_sampler_init_top_p(settings["top_p"], keep))
    if "min_p" in settings:
        samplers.append(llama_cpp.llama_sampler_init_min_p(settings["min_p"], keep))
    if "xtc_threshold" in settings:
        samplers.append(llama_cpp.llama_sampler_init_xtc(1.0, settings["xtc_threshold"], keep, 1))
    if {"temperature", "dynamic_range"} & settings.keys():
        samplers.append(llama_cpp.llama_sampler_init_temp_ext(
            get("temperature", 1.0), get("dynamic_range", 0.0), get("dynamic_exponent", 1.0)))
    if "tau" in settings:
        samplers.append(llama_cpp.llama_sampler_init_mirostat_v2(1, settings["tau"], settings["eta"]))
    return samplers


def apply(samplers, logits):
    """The candidates as {token: logit}, without those at minus infinity, which no draw can give."""
    data = (llama_cpp.llama_token_data * len(logits))()
    for token, logit in enumerate(logits):
        data[token] = llama_cpp.llama_token_data(token, float(logit), 0.0)
    array = llama_cpp.llama_token_data_array(data, len(logits), -1, False)
    for sampler in samplers:
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
    kept = {array.data[i].id: array.data[i].logit for i in range(array.size)}
    return {token: logit for token, logit in kept.items() if logit != -np.inf}


def reference(settings, logits):
    samplers = chain(settings, len(logits))
    if "first" in settings:
        sure = np.full(len(logits), -np.inf)
        sure[settings["first"]] = 1.0
        assert len(apply(samplers, sure)) == 1
    for token in settings.get("history", []):
        for sampler in samplers:
            llama_cpp.llama_sampler_accept(sampler, token)
    kept = apply(samplers, logits)
    for sampler in samplers:
        llama_cpp.llama_sampler_free(sampler)
    values = np.array(list(kept.values()), dtype=np.float64)
    weights = np.exp(values - values.max())
    weights /= weights.sum()
    pairs = list(zip(kept, weights))
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def cases():
    rng = np.random.default_rng(SEED + 1)
    distributions = ("narrow", "wide", "flat", "peaked", "masked")
    for logits in distributions:
        for key, values in {
            "top_k": (1, 7, 64), "top_p": (0.0, 0.3, 0.9, 0.99), "min_p": (0.02, 0.3, 1.0),
            "top_n_sigma": (0.5, 1.0, 2.5), "temperature": (0.2, 0.8, 3.0), "xtc_threshold": (0.02, 0.1, 0.3),
        }.items():
            for value in values:
                yield logits, {key: value}
        for value in (0.5, 2.0):
            yield logits, {"bias": [(1, value), (5, -value), (7, -np.inf), (1, 0.25)]}
    # llama.cpp's entropy is NaN when a token is masked, so these two have no reference there.
    for logits in ("narrow", "wide", "flat", "peaked", "many"):
        for value in (0.1, 0.5, 0.9, 0.99):
            yield logits, {"typical_p": value}
        for temperature, spread, exponent in ((1.0, 0.5, 1.0), (0.7, 0.9, 1.5), (2.0, 1.0, 0.5)):
            yield logits, {"temperature": temperature, "dynamic_range": spread, "dynamic_exponent": exponent}
        for keep in (3, 20):
            for key, value in (("top_p", 0.2), ("min_p", 0.7), ("typical_p", 0.05)):
                yield logits, {key: value, "min_keep": keep}
        for tau in (0.5, 2.0, 4.0):
            yield logits, {"tau": tau, "eta": 0.3, "temperature": 0.9}
            yield logits, {"tau": tau, "eta": 0.9, "first": 5}
    for keep in (151, 152):
        yield "peaked", {"xtc_threshold": 0.05, "min_keep": keep}
    for logits, size in (("narrow", 40), ("wide", 200)):
        for last in (8, 64):
            history = [int(t) for t in rng.integers(0, min(size, 30), 80)]
            yield logits, {"repeat": 1.3, "penalty_last": last, "history": history}
            yield logits, {"repeat": 0.8, "penalty_last": last, "history": history}
            yield logits, {"frequency": 0.4, "penalty_last": last, "history": history}
            yield logits, {"presence": 1.2, "frequency": -0.1, "penalty_last": last, "history": history}
            yield logits, {"repeat": 1.1, "presence": 0.5, "frequency": 0.2, "penalty_last": last, "history": history}
    yield from dry_cases(rng)
    yield from whole_chains(rng)


def dry_cases(rng):
    for round_ in range(30):
        # A small alphabet, so that runs repeat.
        history = [int(t) for t in rng.integers(0, 3 + round_ % 4, 20 + round_)]
        settings = {"dry_multiplier": 0.8, "dry_base": (1.75, 1.0, 3.0)[round_ % 3], "dry_allowed": round_ % 4,
                    "history": history}
        if round_ % 5 == 1:
            settings["dry_last"] = 15
        settings["breakers"] = [[2], [1, 0], [1, 0, 1]][: 1 + round_ % 3] if round_ % 2 else [[35]]
        yield "narrow", settings
    yield "narrow", {"dry_multiplier": 0.5, "dry_base": 2.0, "breakers": [[35]], "history": [3] * 400}


def whole_chains(rng):
    for logits, size in (("wide", 200), ("many", 600), ("peaked", 153)):
        for k, p, m in ((40, 0.95, 0.05), (100, 0.8, 0.01), (0, 0.9, 0.1)):
            settings = {"top_p": p, "min_p": m, "temperature": 0.8}
            if k:
                settings["top_k"] = k
            yield logits, settings
            yield logits, {**settings, "typical_p": 0.95, "xtc_threshold": 0.08,
                           "bias": [(3, 4.0), (4, -np.inf)], "repeat": 1.2, "presence": 0.3,
                           "dry_multiplier": 1.0, "breakers": [[0]],
                           "history": [int(t) for t in rng.integers(0, 5, 60)]}
        yield logits, {"top_n_sigma": 1.5, "top_k": 30, "top_p": 0.9, "temperature": 1.4}


def number(value):
    return str(np.float32(value)) if isinstance(value, (float, np.floating)) else str(value)


def setting(key, value):
    if key == "history":
        text = ",".join(map(str, value))
    elif key == "breakers":
        text = ",".join(".".join(map(str, breaker)) for breaker in value)
    elif key == "bias":
        text = ",".join(f"{token}:{number(float(bias))}" for token, bias in value)
    else:
        text = number(value)
    return f"{key}={text}"


def vectors():
    sets = inputs()
    lines = ["# Made by tools/sampler_vectors.py with llama.cpp; see there."]
    for name, values in sets.items():
        lines.append(" ".join(["logits", name, *map(number, values)]))
    for logits, settings in cases():
        kept = reference(settings, sets[logits])
        lines.append(" ".join(["case", logits, *(setting(k, v) for k, v in settings.items())]))
        lines.append(" ".join(["kept", *(f"{token}:{p:.6g}" for token, p in kept)]))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verify", action="store_true")
    text = vectors()
    if parser.parse_args().verify:
        if OUT.read_text() != text:
            sys.exit(f"{OUT} is not what llama.cpp gives")
    else:
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(text)


if __name__ == "__main__":
    main()
