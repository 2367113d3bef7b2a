"""Checks the page of `strata serve` in a headless Chromium, with all that it talks to on the loopback address.

    pip install mcp markdown-it-py
    python tools/page_check.py PROGRAM [FOLDER FOR SCREENSHOTS]

PROGRAM is the `strata` program. A registry with one model (the repository's models/tale), an MCP server and a server with an
empty store are started; `tools/page_check.mjs` does the rest, for the page and for the book that `strata learn` serves.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import book_check
import strata_server
from model_registry import Registry

TOOLS = pathlib.Path(__file__).parent


def with_senses(folder, name, golden):
    """A tiny model with its projector beside it, in a folder of its own."""
    to = pathlib.Path(folder) / f"model-{name}"
    to.mkdir()
    source = TOOLS.parent / "crates/model/tests" / golden
    for ending, place in ((".gguf", f"{name}.gguf"), (".mmproj.gguf", "mmproj.gguf")):
        (to / place).write_bytes(source.with_name(source.name + ending).read_bytes())
    return str(to / f"{name}.gguf")


def main():
    program, shots = sys.argv[1], sys.argv[2:3]
    registry = Registry()
    tale = (TOOLS.parent / "models/tale/tale-q4_k_m.gguf").read_bytes()
    registry.add_model("library/teller:1", [("model", tale)])
    # It writes letters at random, but writes them.
    speech = str(TOOLS.parent / "crates/model/tests/golden_speech/wav2vec2.gguf")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as beside:
        # Two at a time, so that others wait.
        senses = [with_senses(beside, "sees", "golden_vision/llava"), with_senses(beside, "hears", "golden_audio/voxtral")]
        server = strata_server.StrataServer(program, folder, ["tale", *senses, "--parallel", "2", "--speech", speech], STRATA_REGISTRIES=registry.host)
        peer = subprocess.Popen([sys.executable, TOOLS / "mcp_peer.py", server.url], stdout=subprocess.PIPE, text=True)
        reader = subprocess.Popen([program, "learn", "--port", "0"], stdout=subprocess.PIPE, text=True)
        book = re.search(r"http://\S+", reader.stdout.readline()).group()
        book_check.compare(book)
        environment = {
            **os.environ,
            "BOOK": book,
            "SPEECH": "1",
            "SENSES": "1",
            "MCP_PEER": f"http://127.0.0.1:{peer.stdout.readline().strip()}",
            "PULL_MODEL": f"{registry.host}/library/teller:1",
        }
        ended = subprocess.run(["node", TOOLS / "page_check.mjs", server.url, *shots], env=environment, timeout=900)
        reader.terminate()
        reader.wait(timeout=30)
        peer.terminate()
        peer.wait(timeout=30)
        stopped = server.stop()
    sys.exit(ended.returncode or stopped)


if __name__ == "__main__":
    main()
