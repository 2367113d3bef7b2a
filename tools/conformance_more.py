"""Holds a running `strata serve` to libraries that stand on the official clients, to Node and to a browser.

    pip install openai anthropic ollama jsonschema langchain-openai litellm pyyaml
    python tools/conformance_more.py PROGRAM [--node FOLDER] [--chromium]

PROGRAM is the `strata` program. With --node, the clients for Node that are installed in that folder are checked too:
OpenAI's, Anthropic's and the AI SDK; with --chromium as well the clients in a page of another origin. The files for
deployment are read as YAML.
"""

import argparse
import importlib.metadata
import os
import pathlib
import socket
import subprocess
import sys
import time
import traceback
from typing import Literal

# It looks for prices of models on the network otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import yaml
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

import conformance

litellm.suppress_debug_info = True
ROOT = pathlib.Path(__file__).parent.parent
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


@tool
def look_up(word: Literal["dog", "漢字 😀"]) -> str:
    """Looks a word up."""
    return word


class Pet(BaseModel):
    """A pet."""

    name: Literal["Rex", "Ada"]
    age: Literal[1, 2, 3]


def chat(server, **fields):
    return ChatOpenAI(model=server.model, base_url=server.url + "/v1", api_key="none", max_retries=0, **fields)


@check
def langchain_chat_and_stream(server):
    model = chat(server, temperature=0, max_tokens=24)
    whole = model.invoke([HumanMessage("Tell me about a small dog.")])
    assert whole.content and whole.usage_metadata["output_tokens"] <= 24
    pieces = [piece.content for piece in model.stream([HumanMessage("Tell me about a small dog.")])]
    assert len(pieces) > 2 and "".join(pieces) == whole.content


@check
def langchain_tools_and_structured_output(server):
    model = chat(server, temperature=0, max_tokens=300, seed=3)
    answer = model.bind_tools([look_up], tool_choice="required", strict=True).invoke("Look up: dog")
    assert answer.tool_calls[0]["name"] == "look_up" and answer.tool_calls[0]["args"]["word"] in ("dog", "漢字 😀")
    pet = model.with_structured_output(Pet, method="json_schema").invoke("A dog of three.")
    assert isinstance(pet, Pet)


@check
def langchain_embeddings(server):
    model = OpenAIEmbeddings(
        model=server.model, base_url=server.url + "/v1", api_key="none", check_embedding_ctx_length=False
    )
    vectors = model.embed_documents(["a dog", "the moon"])
    assert len(vectors) == 2 and vectors[0] != vectors[1]


@check
def litellm_speaks_three_dialects(server):
    said = [{"role": "user", "content": "Tell me about a small dog."}]
    answers = {}
    for provider, base in [("openai", server.url + "/v1"), ("ollama_chat", server.url), ("anthropic", server.url)]:
        fields = dict(
            model=f"{provider}/{server.model}", api_base=base, api_key="none", messages=said, temperature=0, max_tokens=16
        )
        whole = litellm.completion(**fields)
        answers[provider] = whole.choices[0].message.content
        assert answers[provider], provider
        text = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**fields, stream=True))
        assert text == answers[provider], provider


@check
def deployment_files_are_yaml(server):
    documents = list(yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text()))
    assert [document["kind"] for document in documents] == ["Secret", "Deployment", "Service"]
    pod = documents[1]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports, probe
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert documents[2]["spec"]["selector"] == documents[1]["spec"]["selector"]["matchLabels"]


def browser_on_another_origin(program, folder):
    """Runs the clients in a page of an origin that a server with a key allows, and gives whether they failed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    key = "a-key-of-the-conformance-check"
    arguments = ["--allow-origin", f"http://app.example:{port}", "--api-key", key]
    server = conformance.Server(program, "tale", arguments)
    script = ROOT / "tools" / "conformance_browser.mjs"
    command = ["node", script, server.url, folder, str(port)]
    ended = subprocess.run(command, timeout=600, env={**os.environ, "STRATA_API_KEY": key})
    return (ended.returncode != 0) + (server.stop() != 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--node", help="the folder that clients for Node are installed in")
    parser.add_argument("--chromium", action="store_true", help="check clients in a page of another origin")
    arguments = parser.parse_args()
    server = conformance.Server(arguments.program, "tale")
    failed = 0
    for function in CHECKS:
        start = time.time()
        try:
            function(server)
            print(f"ok    {function.__name__} ({time.time() - start:.1f} s)", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL  {function.__name__}", flush=True)
            traceback.print_exc()
    scripts = []
    if arguments.node:
        scripts.append(["conformance_node.mjs", server.url, arguments.node])
        scripts.append(["conformance_sdks.mjs", server.url, arguments.node])
    for script in scripts:
        ended = subprocess.run(["node", ROOT / "tools" / script[0], *script[1:]], timeout=600)
        print(f"{'ok   ' if ended.returncode == 0 else 'FAIL '} {script[0]}", flush=True)
        failed += ended.returncode != 0
    failed += server.stop() != 0
    if arguments.node and arguments.chromium:
        failed += browser_on_another_origin(arguments.program, arguments.node)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("langchain-openai", "litellm", "openai")]
    print(f"{', '.join(versions)}: {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
