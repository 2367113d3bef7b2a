"""A pytest plugin with which llama-server's own tests start Strata instead, with a model that is at hand.

Run by tools/llama_suite/run.py. What a test asks of the server is translated: context and slots, keys, adapters, the
template, and what a server is told about sampling, which a Modelfile says here. Words that only the suite's own model
would write are not looked for.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import pytest

from expectations import DIFFERENT

PROGRAM = os.environ["STRATA_PROGRAM"]
MODEL = os.environ["STRATA_SUITE_MODEL"]
# Tests that need models of other kinds find them under these names.
ENCODER = os.environ.get("STRATA_SUITE_ENCODER")
RERANKER = os.environ.get("STRATA_SUITE_RERANKER")
ADAPTER = os.environ.get("STRATA_SUITE_ADAPTER")


def modelfile(server, model: str) -> str:
    """What llama-server is told on its command line and Strata in a Modelfile."""
    lines = [f"FROM {model}", f"PARAMETER seed {server.seed}", f"PARAMETER temperature {server.temperature}"]
    if server.n_predict:
        lines.append(f"PARAMETER num_predict {server.n_predict}")
    template = server.chat_template
    if server.chat_template_file:
        template = pathlib.Path(server.chat_template_file).read_text()
    if template:
        lines.append(f'TEMPLATE """{template}"""')
    return "\n".join(lines) + "\n"


def model_of(server) -> str:
    if server.server_reranking:
        model = RERANKER
    elif server.server_embeddings and "bert" in (server.model_alias or ""):
        model = ENCODER
    else:
        model = MODEL
    if model is None:
        pytest.skip("no such model is at hand")
    return model


def start(server, timeout_seconds: int = 60) -> None:
    """Stands in for ServerProcess.start."""
    folder = tempfile.mkdtemp(prefix="strata-suite-")
    environment = {**os.environ, "OLLAMA_MODELS": folder}
    name = (server.model_alias or "model").split(",")[0]
    description = pathlib.Path(folder) / "Modelfile"
    description.write_text(modelfile(server, model_of(server)))
    created = subprocess.run(
        [PROGRAM, "create", name, "--file", str(description)], env=environment, capture_output=True, text=True
    )
    if created.returncode != 0:
        raise RuntimeError(f"cannot create the model: {created.stderr}")
    slots = server.n_slots or 1
    context = server.n_ctx or 2048
    if not server.kv_unified:
        context //= slots
    arguments = [PROGRAM, "serve", name, "--offline", "--host", f"{server.server_host}:{server.server_port}"]
    arguments += ["--ctx", str(context), "--parallel", str(slots)]
    if server.api_key:
        arguments += ["--api-key", server.api_key]
    if server.slot_save_path:
        arguments += ["--slot-save-path", server.slot_save_path]
    if server.n_batch:
        arguments += ["--batch", str(server.n_batch)]
    for adapter in server.lora_files or []:
        arguments += ["--lora", adapter]
    server._log = open(server.log_path, "w") if server.log_path else sys.stdout
    server.process = subprocess.Popen(arguments, env=environment, stdout=server._log, stderr=server._log)
    import utils

    utils.server_instances.add(server)
    end = time.time() + timeout_seconds
    while time.time() < end:
        try:
            if server.make_request("GET", "/health").status_code == 200:
                return
        except Exception:
            pass
        if server.process.poll() is not None:
            raise RuntimeError(f"the server ended with {server.process.returncode}")
        time.sleep(0.05)
    raise TimeoutError("the server did not start")


def translated(make_request):
    """What llama-server is told once and Strata with each request: to think, which it does unless told not to while
    templates decide here, and to show prompts.
    """

    def request(server, method, path, data=None, *arguments, **options):
        if path == "/apply-template" and server.reasoning:
            data = {**data, "chat_template_kwargs": {"enable_thinking": server.reasoning != "off"}}
        if server.debug and path.endswith("/chat/completions"):
            data = {**data, "verbose": True}
        reply = make_request(server, method, path, data, *arguments, **options)
        # Names of headers have no case; the tests spell them as llama-server does.
        reply.headers = {name.title(): value for name, value in reply.headers.items()}
        return reply

    return request


def some_text(_pattern: str, text: str) -> bool:
    """Stands in for match_regex: which words come depends on the model."""
    return isinstance(text, str)


def pytest_configure(config):
    sys.path.insert(0, str(pathlib.Path(config.rootpath)))
    import utils

    utils.ServerProcess.start = start
    utils.ServerProcess.make_request = translated(utils.ServerProcess.make_request)
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.match_regex = some_text
    utils.download_file = lambda *_: ADAPTER or pytest.skip("no such adapter is at hand")


def is_named(pattern: str, name: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return pattern in (name, name.split("[")[0])


def pytest_collection_modifyitems(items):
    for item in items:
        name = item.nodeid.split("unit/")[-1]
        reason = next((why for pattern, why in DIFFERENT if is_named(pattern, name)), None)
        if item.get_closest_marker("slow"):
            reason = "needs a published model"
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
