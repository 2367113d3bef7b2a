"""Makes `import llama_cpp` work with llama.cpp's libraries however they came: import this module first.

Libraries that come compiled keep what computes apart, one library for each kind of processor, and it must be loaded
before any model. They may also lack functions of the C interface that nothing here calls: calling one is an error.
"""

import ctypes
import pathlib

_CDLL = ctypes.CDLL


class _Library(_CDLL):
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if not name.startswith("llama_"):
                raise

            def missing(*_):
                raise RuntimeError(f"this build of llama.cpp has no {name}")

            return ctypes.CFUNCTYPE(None)(missing)


ctypes.CDLL = _Library
try:
    import llama_cpp
finally:
    ctypes.CDLL = _CDLL

_folder = pathlib.Path(llama_cpp.llama_cpp._lib._name).parent
_ggml = _CDLL(str(_folder / "libggml.so"))
_ggml.ggml_backend_load_all_from_path(str(_folder).encode())
