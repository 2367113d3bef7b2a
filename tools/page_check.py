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


def main():
    program, shots = sys.argv[1], sys.argv[2:3]
    registry = Registry()
    tale = (TOOLS.parent / "models/tale/tale-q4_k_m.gguf").read_bytes()
    registry.add_model("library/teller:1", [("model", tale)])
    # It writes letters at random, but writes them.
    speech = str(TOOLS.parent / "crates/model/tests/golden_speech/wav2vec2.gguf")
    with tempfile.TemporaryDirectory() as folder:
        # Two at a time, so that others wait.
        server = strata_server.StrataServer(program, folder, ["tale", "--parallel", "2", "--speech", speech], STRATA_REGISTRIES=registry.host)
        peer = subprocess.Popen([sys.executable, TOOLS / "mcp_peer.py", server.url], stdout=subprocess.PIPE, text=True)
        reader = subprocess.Popen([program, "learn", "--port", "0"], stdout=subprocess.PIPE, text=True)
        book = re.search(r"http://\S+", reader.stdout.readline()).group()
        book_check.compare(book)
        environment = {
            **os.environ,
            "BOOK": book,
            "SPEECH": "1",
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
