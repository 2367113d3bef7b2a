"""Runs llama-server's own tests against Strata.

Usage: python tools/llama_suite/run.py PROGRAM LLAMA_CPP [PYTEST_ARGUMENT…]

LLAMA_CPP is a folder with llama.cpp's sources, of which `tools/server/tests` and `models/templates` are read; nothing in
it is changed. expectations.py says which tests are left out or rewritten, and why. Needs pytest, pytest-timeout, openai,
requests, aiohttp, filelock, numpy and prometheus-client.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from expectations import OTHER_PRODUCTS, REWRITTEN

# Only used to download models, which the tests find here.
WGET = 'def download(*_, **__):\n    raise RuntimeError("nothing is downloaded")\n'


def adapted(sources: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A copy of the tests, rewritten where expectations.py says so."""
    tests = folder / "tools" / "server" / "tests"
    shutil.copytree(sources / "tools" / "server" / "tests", tests)
    shutil.copytree(sources / "models" / "templates", folder / "models" / "templates")
    (tests / "wget.py").write_text(WGET)
    for name in OTHER_PRODUCTS:
        (tests / "unit" / name).unlink(missing_ok=True)
    for name, old, new in REWRITTEN:
        path = tests / "unit" / name
        text = path.read_text()
        assert old in text, f"{name} no longer says {old!r}"
        path.write_text(text.replace(old, new))
    return tests


def main() -> None:
    program, sources = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tests = adapted(sources, folder)
        model = folder / "model.gguf"
        # Random weights never end an answer, so that limits are what ends it, as the tests expect.
        subprocess.run([program, "synth", model], check=True, stdout=subprocess.DEVNULL)
        here = pathlib.Path(__file__).resolve().parent
        environment = {
            **os.environ,
            "STRATA_PROGRAM": str(program),
            "STRATA_SUITE_MODEL": str(model),
            "PYTHONPATH": os.pathsep.join([str(here), str(tests)]),
        }
        arguments = ["-p", "strata_suite", "--timeout", "120", "-q", "--tb=short", *(sys.argv[3:] or ["unit"])]
        suite = subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=tests, env=environment)
    sys.exit(suite.returncode)


if __name__ == "__main__":
    main()
