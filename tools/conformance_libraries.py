"""Holds a running `strata serve` to LlamaIndex, LiteLLM, instructor, pydantic-ai and lm-eval.

    pip install openai litellm instructor pydantic-ai-slim[openai] llama-index-llms-openai-like \\
        llama-index-embeddings-openai-like lm-eval[api]
    python tools/conformance_libraries.py PROGRAM [--only WORD]

PROGRAM is the `strata` program. The server is started on a free port of the loopback address and stopped at the end.
Each check is a function below; the last line counts them.
"""

import argparse
import importlib.metadata
import json
import os
import sys
import tempfile
import time
import traceback
import urllib.request
from typing import Literal

# It looks for prices of models on the network otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import instructor
import litellm
import openai
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
from pydantic import BaseModel, ConfigDict
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

import strata_server

litellm.suppress_debug_info = True
PACKAGES = ["llama-index-core", "litellm", "instructor", "pydantic-ai-slim", "lm-eval", "openai"]
STORY = "Once upon a time there was a little fox. The fox lived in a big forest with his friends."
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Pet(BaseModel):
    """A pet."""

    model_config = ConfigDict(extra="forbid")
    name: Literal["Rex", "Ada"]
    age: Literal[1, 2, 3]


def look_up(word: Literal["dog", "fox"]) -> str:
    """Looks a word up."""
    return word


class Server(strata_server.StrataServer):
    def __init__(self, program, folder):
        super().__init__(program, folder, ["tale"])
        self.model = "tale"
        self.base = self.url + "/v1"
        self.openai = openai.OpenAI(base_url=self.base, api_key="none", max_retries=0)

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)


@check
def llama_index_chats_completes_and_calls_tools(server):
    fields = dict(model=server.model, api_base=server.base, api_key="none", temperature=0, max_tokens=40, max_retries=0)
    model = OpenAILike(**fields, is_chat_model=True, is_function_calling_model=True)
    said = [ChatMessage(role="user", content="Tell me about a small dog.")]
    whole = model.chat(said).message.content
    assert whole and "".join(piece.delta or "" for piece in model.stream_chat(said)) == whole
    tool = FunctionTool.from_defaults(fn=look_up)
    answer = model.chat_with_tools([tool], user_msg="Look up: dog", tool_required=True)
    calls = model.get_tool_calls_from_response(answer)
    assert calls[0].tool_name == "look_up" and calls[0].tool_kwargs["word"] in ("dog", "fox")
    plain = OpenAILike(**fields, is_chat_model=False)
    assert plain.complete("Once upon a time").text


@check
def llama_index_embeds(server):
    model = OpenAILikeEmbedding(model_name=server.model, api_base=server.base, api_key="none")
    vectors = model.get_text_embedding_batch(["a dog", "the moon"])
    assert len(vectors) == 2 and vectors[0] != vectors[1]


@check
def litellm_knows_a_prompt_that_is_too_long(server):
    said = [{"role": "user", "content": "fox " * 20000}]
    for provider, base in [("openai", server.base), ("anthropic", server.url)]:
        try:
            litellm.completion(
                model=f"{provider}/{server.model}", api_base=base, api_key="none", messages=said, max_tokens=5
            )
        except litellm.ContextWindowExceededError:
            continue
        raise AssertionError(f"{provider}: the prompt was taken")


@check
def instructor_in_all_its_modes(server):
    said = [{"role": "user", "content": "A dog of three."}]
    for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(server.openai, mode=mode)
        pet = client.chat.completions.create(
            model=server.model, response_model=Pet, messages=said, max_retries=0, temperature=0, max_tokens=100
        )
        assert isinstance(pet, Pet), mode
    client = instructor.from_openai(server.openai, mode=instructor.Mode.RESPONSES_TOOLS)
    pet = client.responses.create(
        model=server.model, input="A dog of three.", response_model=Pet, max_retries=0, max_output_tokens=100
    )
    assert isinstance(pet, Pet)


@check
def pydantic_ai_gets_its_types(server):
    provider = OpenAIProvider(base_url=server.base, api_key="none")
    settings = {"temperature": 0.0, "max_tokens": 100}
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        for wanted in (Pet, NativeOutput(Pet)):
            agent = Agent(kind(server.model, provider=provider), output_type=wanted, model_settings=settings)
            assert isinstance(agent.run_sync("A dog of three.").output, Pet), (kind, wanted)


@check
def lm_eval_scores_texts(server):
    model = LocalCompletionsAPI(
        model=server.model, base_url=server.base + "/completions", tokenizer_backend="remote", max_length=128,
        num_concurrent=1, max_retries=1,
    )

    def instance(kind, *arguments):
        return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)

    # What the server itself says of the text after the token that the harness puts before it.
    tokens = server.post("/tokenize", {"prompt": STORY, "add_special_tokens": False})["tokens"]
    asked = {"prompt": [model.prefix_token_id, *tokens], "max_tokens": 1, "prompt_logprobs": 0}
    scored = server.post("/v1/completions", asked)["choices"][0]["prompt_logprobs"]
    own = [entry[str(token)]["logprob"] for token, entry in zip(tokens, scored[1:], strict=True)]
    rolling = model.loglikelihood_rolling([instance("loglikelihood_rolling", STORY)], disable_tqdm=True)
    assert abs(rolling[0] - sum(own)) < 1e-3, (rolling, sum(own))
    context, rest = STORY[:40], STORY[40:]
    score, _ = model.loglikelihood([instance("loglikelihood", context, rest)], disable_tqdm=True)[0]
    assert sum(own) < score < 0, (score, sum(own))
    # A text of more than one window.
    long = model.loglikelihood_rolling([instance("loglikelihood_rolling", STORY * 8)], disable_tqdm=True)
    assert long[0] < rolling[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default="", help="only checks with this word in their names")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        server = Server(arguments.program, folder)
        for function in [check for check in CHECKS if arguments.only in check.__name__]:
            start = time.time()
            try:
                function(server)
                print(f"ok    {function.__name__} ({time.time() - start:.1f} s)", flush=True)
            except Exception:
                failed += 1
                print(f"FAIL  {function.__name__}", flush=True)
                traceback.print_exc()
        failed += server.stop() != 0
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    print(f"{', '.join(versions)}: {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
