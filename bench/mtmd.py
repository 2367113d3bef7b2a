"""What llama.cpp's mtmd does with an image, through the low-level interface of llama-cpp-python.

Usage: python bench/mtmd.py MODEL.gguf MMPROJ.gguf IMAGE [--threads N]

Keeps the models in memory and sees the image once for each line of standard input, `image`: a line of JSON with the seconds
of each stage, as `strata bench --image --in-turns` prints it. A last object has the peak memory.
"""

import argparse
import ctypes
import json
import os
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tools"))
import llama_library  # noqa: E402, F401

import llama_cpp as api  # noqa: E402
from llama_cpp import mtmd_cpp as mtmd  # noqa: E402


class Eyes:
    """A model, its projector and a context."""

    def __init__(self, model: str, projector: str, threads: int) -> None:
        self.model = api.llama_model_load_from_file(model.encode(), api.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {model}")
        parameters = api.llama_context_default_params()
        parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = 1024
        parameters.n_threads = parameters.n_threads_batch = threads
        self.context = api.llama_init_from_model(self.model, parameters)
        self.width = api.llama_model_n_embd(self.model)
        eyes = mtmd.mtmd_context_params_default()
        eyes.use_gpu, eyes.print_timings, eyes.n_threads, eyes.warmup = False, False, threads, False
        # Three times as fast without, where 4096 patches see each other on processors.
        eyes.flash_attn_type = 0
        self.eyes = mtmd.mtmd_init_from_file(projector.encode(), self.model, eyes)
        if not self.eyes:
            raise SystemExit(f"mtmd cannot load {projector}")

    def bitmap(self, image: bytes):
        buffer = (ctypes.c_ubyte * len(image)).from_buffer_copy(image)
        bitmap = mtmd.mtmd_helper_bitmap_init_from_buf(self.eyes, buffer, len(image), False)
        if not bitmap:
            raise SystemExit("mtmd cannot read the image")
        return bitmap

    def see(self, image: bytes) -> dict:
        start = time.perf_counter()
        bitmap = self.bitmap(image)
        decoded = time.perf_counter()
        chunks = mtmd.mtmd_input_chunks_init()
        marker = mtmd.mtmd_default_marker()
        text = mtmd.mtmd_input_text(marker, len(marker), False, True)
        bitmaps = (mtmd.mtmd_bitmap_p_ctypes * 1)(bitmap)
        if mtmd.mtmd_tokenize(self.eyes, chunks, ctypes.byref(text), bitmaps, 1) != 0:
            raise SystemExit("mtmd cannot cut the image")
        fitted = time.perf_counter()
        tower = prefill = 0.0
        position = 0
        api.llama_memory_clear(api.llama_get_memory(self.context), False)
        for index in range(mtmd.mtmd_input_chunks_size(chunks)):
            chunk = mtmd.mtmd_input_chunks_get(chunks, index)
            if mtmd.mtmd_input_chunk_get_type(chunk) != mtmd.MTMD_INPUT_CHUNK_TYPE_IMAGE:
                continue
            begin = time.perf_counter()
            if mtmd.mtmd_encode_chunk(self.eyes, chunk) != 0:
                raise SystemExit("mtmd cannot compute the image")
            rows = mtmd.mtmd_get_output_embd(self.eyes)
            middle = time.perf_counter()
            tower += middle - begin
            position += self.read(rows, mtmd.mtmd_input_chunk_get_n_tokens(chunk), position)
            prefill += time.perf_counter() - middle
        mtmd.mtmd_input_chunks_free(chunks)
        mtmd.mtmd_bitmap_free(bitmap)
        return {
            "decode_s": decoded - start,
            "fit_s": fitted - decoded,
            "tower_s": tower,
            "prefill_s": prefill,
            "positions": position,
            "total_s": time.perf_counter() - start,
        }

    def read(self, rows, count: int, first: int) -> int:
        """Gives the language model an image's rows; they see each other."""
        batch = api.llama_batch_init(count, self.width, 1)
        batch.n_tokens = count
        ctypes.memmove(batch.embd, rows, count * self.width * ctypes.sizeof(ctypes.c_float))
        for i in range(count):
            batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = first + i, 1, 0
            batch.logits[i] = i + 1 == count
        api.llama_set_causal_attn(self.context, False)
        code = api.llama_decode(self.context, batch)
        api.llama_set_causal_attn(self.context, True)
        api.llama_batch_free(batch)
        if code != 0:
            raise SystemExit(f"llama_decode failed with {code}")
        return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("projector")
    parser.add_argument("image", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    # Its messages would be among the figures.
    silence = api.llama_log_callback(lambda *_: None)
    api.llama_log_set(silence, ctypes.c_void_p(0))
    mtmd.mtmd_log_set(silence, ctypes.c_void_p(0))
    mtmd.mtmd_helper_log_set(silence, ctypes.c_void_p(0))
    api.llama_backend_init()
    eyes = Eyes(options.model, options.projector, options.threads)
    image = options.image.read_bytes()
    for line in sys.stdin:
        if line.strip() != "image":
            raise SystemExit(f"unknown measurement {line.strip()!r}")
        print(json.dumps(eyes.see(image)), flush=True)
    print(json.dumps({"peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
