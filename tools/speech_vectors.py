"""Audio files that libsndfile wrote, with their samples, and what transformers' feature extractor makes of sound.

    apt install espeak-ng
    pip install torch soundfile transformers==5.22.2
    python tools/speech_vectors.py --out crates/speech/tests/vectors

With `--seeds crates/fuzz/seeds` the files are written as seeds of the fuzz targets too. `files.json` has small files of
each format in base64 with the samples that libsndfile reads from them, the mean of their channels. `mel.json` has every
seventh frame of the log-mel spectrograms of speech (espeak-ng) and of noise that the tests make too.
"""

import argparse
import base64
import io
import json
import subprocess
from pathlib import Path

import numpy as np
import soundfile
import transformers

RATE = 16000


def text(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def speech(words):
    wav = subprocess.run(["espeak-ng", "-s", "240", "--stdout", words], check=True, capture_output=True).stdout
    sound, rate = soundfile.read(io.BytesIO(wav), dtype="float32")
    at = np.arange(0, len(sound) - 1, rate / RATE)
    return np.interp(at, np.arange(len(sound)), sound).astype(np.float32)


def noise(count):
    """Uniform noise by a generator that the tests know."""
    state, out = 1, np.empty(count, np.float32)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = (state >> 8) / 2**23 - 1
    return out


def encoded(sound, rate, kind, subtype=None):
    out = io.BytesIO()
    soundfile.write(out, sound, rate, format=kind, subtype=subtype)
    return out.getvalue()


def files(sound):
    two = np.stack([sound, sound[::-1] * 0.5], axis=1)
    made = {
        "wav, 16 bits": encoded(sound, RATE, "WAV", "PCM_16"),
        "wav, 8 bits": encoded(sound, RATE, "WAV", "PCM_U8"),
        "wav, 24 bits, two channels": encoded(two, RATE, "WAV", "PCM_24"),
        "wav, floats": encoded(sound, RATE, "WAV", "FLOAT"),
        "wav, mu-law": encoded(sound, RATE, "WAV", "ULAW"),
        "flac, 16 bits": encoded(sound, RATE, "FLAC", "PCM_16"),
        "flac, two channels": encoded(two, RATE, "FLAC", "PCM_16"),
        "mp3": encoded(sound, RATE, "MP3"),
        "mp3, two channels": encoded(two, RATE, "MP3"),
        "ogg vorbis": encoded(sound, RATE, "OGG", "VORBIS"),
    }
    out = []
    for name, file in made.items():
        read, rate = soundfile.read(io.BytesIO(file), dtype="float32", always_2d=True)
        assert rate == RATE
        samples = np.round(read.mean(axis=1) * 32767).clip(-32768, 32767).astype("<i2")
        out.append({"name": name, "file": base64.b64encode(file).decode(), "samples": text(samples)})
    return made, out


def spectrograms(sound):
    out = []
    for name, samples in [("speech", sound), ("noise", noise(16000))]:
        for bands in (80, 128):
            extractor = transformers.WhisperFeatureExtractor(feature_size=bands)
            for padded in (False, True):
                given = extractor(
                    samples, sampling_rate=RATE, return_tensors="np", padding="max_length" if padded else False
                )
                mel = given.input_features[0]
                frames = list(range(0, mel.shape[1], 7)) if not padded else [0, 1, 50, 99, 100, 101, 2999]
                out.append({
                    "name": name, "bands": bands, "padded": padded, "count": mel.shape[1], "frames": frames,
                    "values": text(mel.T[frames].astype("<f4")),
                })
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sound = speech("Strata listens.")
    sound = np.round(sound[1600:9600] * 32767).astype("<i2").astype(np.float32) / 32768
    made, vectors = files(sound[2000:5000])
    with (options.out / "files.json").open("w") as out:
        json.dump(vectors, out)
    values = {"speech": text((sound * 32768).astype("<i2")), "spectrograms": spectrograms(sound)}
    with (options.out / "mel.json").open("w") as out:
        json.dump(values, out)
    if options.seeds:
        for name, file in made.items():
            kind = name.split(",")[0].split()[0]
            folder = options.seeds / kind
            folder.mkdir(parents=True, exist_ok=True)
            (folder / (name.replace(", ", "-").replace(" ", "-") + "." + kind)).write_bytes(file)


if __name__ == "__main__":
    main()
