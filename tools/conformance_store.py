"""Holds the model store behind `strata serve` to the official client of Ollama.

    pip install ollama
    python tools/conformance_store.py PROGRAM

PROGRAM is the `strata` program. A registry with one model (the repository's models/tale) is started on the loopback
address, and a server with an empty store that may pull from it. Each check is a function below, in order: they share the
store. The last line counts them. The one with a disk that is too small mounts a tmpfs, which only root can.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

import ollama

import strata_server
from model_registry import Registry, digest

TALE = pathlib.Path(__file__).parent.parent / "models/tale/tale-q4_k_m.gguf"
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Server(strata_server.StrataServer):
    """A server under test with a store of its own."""

    def __init__(self, program, folder, registry):
        # The operator says that this machine's own registry may be asked.
        super().__init__(program, folder, ["--threads", "2"], STRATA_REGISTRIES=registry.host)
        self.registry = registry
        self.client = ollama.Client(host=self.url)


TEMPLATE = "{{ if .System }}<s>{{ .System }}</s>{{ end }}{{ .Prompt }}:{{ .Response }}"


@check
def nothing_is_there_at_first(server):
    assert [model.model for model in server.client.list().models] == ["tale"]
    assert server.client.ps().models == []


@check
def a_model_is_pulled(server):
    name = f"{server.registry.host}/library/teller:1"
    steps = list(server.client.pull(name, insecure=True, stream=True))
    assert steps[0].status == "pulling manifest", steps[0]
    assert steps[-1].status == "success" and [step.status for step in steps].count("success") == 1
    layer = [step for step in steps if step.total and step.total > 1_000_000]
    assert layer and layer[-1].completed == layer[-1].total and layer[-1].digest.startswith("sha256:")
    listed = {model.model: model for model in server.client.list().models}
    assert name in listed, listed
    assert listed[name].size > TALE.stat().st_size and len(listed[name].digest) == 64


@check
def it_is_shown(server):
    shown = server.client.show(f"{server.registry.host}/library/teller:1")
    assert "SYSTEM Tell short tales." in shown.modelfile, shown.modelfile
    assert "temperature" in shown.parameters and shown.license == "Free."
    assert shown.details.format == "gguf" and shown.modelinfo["general.architecture"]
    assert "completion" in shown.capabilities


@check
def it_answers(server):
    name = f"{server.registry.host}/library/teller:1"
    question = [{"role": "user", "content": "Tell me a story about a fox."}]
    answer = server.client.chat(name, question)
    assert answer.message.content and answer.eval_count == 12, answer
    again = server.client.chat(name, question)
    assert again.message.content == answer.message.content, "its temperature is 0"
    streamed = [part.message.content for part in server.client.chat(name, question, stream=True)]
    assert "".join(streamed) == answer.message.content
    longer = server.client.chat(name, question, options={"num_predict": 15})
    assert longer.eval_count == 15, longer
    loaded = server.client.ps().models
    assert [model.model for model in loaded] == [name] and loaded[0].expires_at


@check
def it_is_copied_and_a_model_is_made_of_it(server):
    name = f"{server.registry.host}/library/teller:1"
    server.client.copy(name, "mine")
    steps = server.client.create(
        model="brief",
        from_="mine",
        system="One word only.",
        template=TEMPLATE,
        parameters={"num_predict": 3, "stop": ["<end>"]},
        messages=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}],
        license="Mine.",
        stream=True,
    )
    assert list(steps)[-1].status == "success"
    shown = server.client.show("brief")
    assert shown.template == TEMPLATE and "One word only." in shown.modelfile
    assert "stop" in shown.parameters and "temperature" in shown.parameters, "the base's stay"
    answer = server.client.generate("brief", "Why?")
    assert answer.eval_count == 3 and answer.done_reason == "length", answer


@check
def a_file_is_uploaded_and_becomes_a_model(server):
    blob = server.client.create_blob(str(TALE))
    assert blob == digest(TALE.read_bytes())
    made = server.client.create(model="uploaded", files={"tale.gguf": blob})
    assert made.status == "success"
    assert server.client.generate("uploaded", "Hi", options={"num_predict": 2}).eval_count == 2
    try:
        server.client.create(model="x", files={"x.gguf": "sha256:" + "0" * 64})
        raise AssertionError("a blob that is not there was taken")
    except ollama.ResponseError as error:
        assert error.status_code == 400, error


@check
def a_model_is_pushed(server):
    name = f"{server.registry.host}/me/brief:2"
    server.client.copy("brief", name)
    assert list(server.client.push(name, insecure=True, stream=True))[-1].status == "success"
    manifest = json.loads(server.registry.manifests["me/brief:2"])
    assert all(layer["digest"] in server.registry.blobs for layer in manifest["layers"])


@check
def a_running_model_is_stopped(server):
    server.client.generate("brief", "Why?", keep_alive="10m")
    environment = {**server.environment, "STRATA_HOST": server.url}
    listed = subprocess.run([server.program, "ps"], env=environment, capture_output=True, text=True, check=True)
    assert "brief:latest" in listed.stdout and "from now" in listed.stdout, listed.stdout
    subprocess.run([server.program, "stop", "brief"], env=environment, check=True)
    deadline = time.time() + 20
    while any(model.model == "brief:latest" for model in server.client.ps().models):
        assert time.time() < deadline
        time.sleep(0.1)


@check
def models_are_deleted(server):
    for name in ["mine", "brief", "uploaded", f"{server.registry.host}/me/brief:2"]:
        assert server.client.delete(name).status == "success"
    left = [model.model for model in server.client.list().models]
    assert left == ["tale", f"{server.registry.host}/library/teller:1"], left
    for call in [server.client.delete, server.client.show]:
        try:
            call("mine")
            raise AssertionError("it is still there")
        except ollama.ResponseError as error:
            assert error.status_code == 404, error


@check
def others_cannot_be_asked(server):
    for name in ["127.0.0.1:9/a/b", "registry.example/a/b"]:
        try:
            server.client.pull(name, insecure=True)
            raise AssertionError("it was asked")
        except ollama.ResponseError as error:
            assert "not an allowed registry" in str(error), error


@check
def a_full_disk_is_an_error_and_not_the_end(server):
    if os.geteuid() != 0:
        return "only root can mount a disk that is too small"
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", folder]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            return "nothing can be mounted here"
        small = None
        try:
            small = Server(server.program, folder, server.registry)
            name = f"{server.registry.host}/library/teller:1"
            try:
                small.client.pull(name, insecure=True)
                raise AssertionError("it cannot have fit")
            except ollama.ResponseError as error:
                assert "no space left" in str(error), error
            assert [model.model for model in small.client.list().models] == ["tale"]
            assert small.client.generate("tale", "Hi", options={"num_predict": 2}).eval_count == 2
            subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
            before = server.registry.sent
            small.client.pull(name, insecure=True)
            fetched = server.registry.sent - before
            assert fetched < TALE.stat().st_size * 0.9, f"{fetched} bytes were fetched again"
            assert 0 < small.client.generate(name, "Hi").eval_count <= 12
        finally:
            if small:
                small.stop()
            subprocess.run(["umount", "-l", folder], check=False)
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    arguments = parser.parse_args()
    registry = Registry()
    parameters = json.dumps({"temperature": 0, "num_predict": 12}).encode()
    layers = [("model", TALE.read_bytes()), ("system", b"Tell short tales."), ("params", parameters), ("license", b"Free.")]
    registry.add_model("library/teller:1", layers)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        server = Server(os.path.abspath(arguments.program), folder, registry)
        try:
            for function in CHECKS:
                try:
                    skipped = function(server)
                    print(f"{'skip' if skipped else 'ok  '} {function.__name__}{': ' + skipped if skipped else ''}", flush=True)
                except Exception:  # every check is told, whatever becomes of the others
                    failed += 1
                    print(f"FAIL {function.__name__}\n{traceback.format_exc()}", flush=True)
        finally:
            server.stop()
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks passed")
    sys.exit(failed > 0)


main()
