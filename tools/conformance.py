"""Holds a running `strata serve` to the official clients of OpenAI, Anthropic and Ollama.

    pip install openai anthropic ollama jsonschema
    python tools/conformance.py PROGRAM [MODEL] [--only WORD]

PROGRAM is the `strata` program; MODEL is what it serves (default: tale). The server is started on a free port of the
loopback address and stopped at the end. Each check is a function below; the last line counts them.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
from typing import Literal

import anthropic
import jsonschema
import ollama
import openai

import strata_server

CHECKS = []
ROOT = pathlib.Path(__file__).resolve().parent.parent
SPEECH = ROOT / "crates/model/tests/golden_speech/whisper.gguf"
SOUNDS = ROOT / "crates/fuzz/seeds"


def check(function):
    CHECKS.append(function)
    return function


class Server(strata_server.StrataServer):
    """A server under test, and a client of each kind for it."""

    def __init__(self, program, model, arguments=()):
        self.model = model
        self.folder = tempfile.TemporaryDirectory()
        # Models that nobody knows are an error to each client.
        arguments = [model, "--any-model", "false", "--speech", str(SPEECH), *arguments]
        super().__init__(program, self.folder.name, arguments)
        self.openai = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0)
        self.ollama = ollama.Client(host=self.url)

    def post(self, path, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def metric(self, name):
        text = urllib.request.urlopen(self.url + "/metrics", timeout=5).read().decode()
        values = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(name + "{")]
        return sum(float(value) for value in values)

    def stop(self):
        code = super().stop()
        self.folder.cleanup()
        return code


SAID = [{"role": "user", "content": "Tell me about a small dog."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Looks a word up.",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string", "maxLength": 12}, "count": {"type": "integer"}},
            "required": ["word"],
            "additionalProperties": False,
        },
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 16},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "kind": {"enum": ["cat", "dog"]},
    },
    "required": ["name", "age", "kind"],
    "additionalProperties": False,
}


@check
def openai_chat(server):
    answer = server.openai.chat.completions.create(
        model=server.model, messages=SAID, temperature=0, max_completion_tokens=24
    )
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert answer.usage.completion_tokens <= 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@check
def openai_the_same_seed_gives_the_same_answer(server):
    def ask(seed):
        answer = server.openai.chat.completions.create(
            model=server.model, messages=SAID, temperature=1, seed=seed, max_tokens=32
        )
        return answer.choices[0].message.content

    assert ask(7) == ask(7)
    assert ask(7) != ask(8)


@check
def openai_stream_is_the_whole_in_pieces(server):
    fields = dict(model=server.model, messages=SAID, temperature=0, max_tokens=48)
    whole = server.openai.chat.completions.create(**fields)
    stream = server.openai.chat.completions.create(
        **fields, stream=True, stream_options={"include_usage": True}
    )
    text, last, usage = "", None, None
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            last = choice.finish_reason or last
        usage = chunk.usage or usage
    assert text == whole.choices[0].message.content
    assert last == whole.choices[0].finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens > 0, "the prompt was computed before"


@check
def openai_choices_stop_and_logprobs(server):
    answer = server.openai.chat.completions.create(
        model=server.model, messages=SAID, temperature=1, seed=1, n=3, max_tokens=12, logprobs=True, top_logprobs=4
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) > 1
    for token in answer.choices[0].logprobs.content:
        assert len(token.top_logprobs) == 4 and token.logprob <= 0
    whole = server.openai.chat.completions.create(model=server.model, messages=SAID, temperature=0, max_tokens=40)
    word = whole.choices[0].message.content.split()[4]
    cut = server.openai.chat.completions.create(
        model=server.model, messages=SAID, temperature=0, max_tokens=40, stop=[word]
    )
    assert word not in cut.choices[0].message.content
    assert cut.choices[0].finish_reason == "stop"


@check
def openai_tools_are_called_when_required(server):
    for choice in ("required", {"type": "function", "function": {"name": "look_up"}}):
        answer = server.openai.chat.completions.create(
            model=server.model, messages=SAID, tools=[TOOL], tool_choice=choice, seed=3, max_tokens=200
        )
        assert answer.choices[0].finish_reason == "tool_calls", answer.choices[0]
        call = answer.choices[0].message.tool_calls[0]
        assert call.function.name == "look_up"
        jsonschema.validate(json.loads(call.function.arguments), TOOL["function"]["parameters"])
    messages = SAID + [
        {"role": "assistant", "tool_calls": [call.model_dump()]},
        {"role": "tool", "tool_call_id": call.id, "content": "A dog is an animal."},
    ]
    answer = server.openai.chat.completions.create(
        model=server.model, messages=messages, tools=[TOOL], tool_choice="none", max_tokens=16
    )
    assert answer.choices[0].message.tool_calls is None


@check
def openai_tool_calls_stream(server):
    stream = server.openai.chat.completions.create(
        model=server.model, messages=SAID, tools=[TOOL], tool_choice="required", stream=True, seed=3, max_tokens=200,
        parallel_tool_calls=False,
    )
    name, arguments, reason, pieces = None, "", None, 0
    for chunk in stream:
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or []:
                assert call.index == 0
                name = call.function.name or name
                arguments += call.function.arguments or ""
                pieces += bool(call.function.arguments)
    assert name == "look_up" and reason == "tool_calls"
    assert pieces > 2, "the arguments came all at once"
    jsonschema.validate(json.loads(arguments), TOOL["function"]["parameters"])


WORDS = "漢字 e\u0301 😀👨\u200d👩\u200d👧 \"ß\""


@check
def streams_are_the_whole_in_pieces_in_every_dialect_and_script(server):
    shape = {
        "type": "object",
        "properties": {"said": {"const": WORDS}},
        "required": ["said"],
        "additionalProperties": False,
    }
    fields = dict(model=server.model, max_tokens=200)
    options = {"num_predict": 200, "temperature": 0}

    def chat(stream):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": shape}}
        answer = server.openai.chat.completions.create(
            **fields, messages=SAID, response_format=form, temperature=0, stream=stream
        )
        if not stream:
            return answer.choices[0].message.content
        return "".join(choice.delta.content or "" for chunk in answer for choice in chunk.choices)

    def responses(stream):
        form = {"format": {"type": "json_schema", "name": "x", "schema": shape}}
        answer = server.openai.responses.create(
            model=server.model, max_output_tokens=200, input="Hello", text=form, temperature=0, stream=stream
        )
        if not stream:
            return answer.output_text
        return "".join(event.delta for event in answer if event.type == "response.output_text.delta")

    def messages(stream):
        form = {"output_config": {"format": {"type": "json_schema", "schema": shape}}, "temperature": 0}
        answer = server.anthropic.messages.create(**fields, messages=SAID, extra_body=form, stream=stream)
        if not stream:
            return answer.content[0].text
        deltas = [event.delta for event in answer if event.type == "content_block_delta"]
        return "".join(delta.text for delta in deltas)

    def ollama_chat(stream):
        answer = server.ollama.chat(
            model=server.model, messages=SAID, format=shape, options=options, stream=stream
        )
        return "".join(piece.message.content for piece in answer) if stream else answer.message.content

    def ollama_generate(stream):
        answer = server.ollama.generate(
            model=server.model, prompt="Hello", format=shape, options=options, stream=stream
        )
        return "".join(piece.response for piece in answer) if stream else answer.response

    def completion(stream):
        body = {"prompt": "Hello", "n_predict": 200, "json_schema": shape, "temperature": 0, "stream": stream}
        status, reply = server.post("/completion", body)
        assert status == 200, reply
        if not stream:
            return json.loads(reply)["content"]
        lines = [line[6:] for line in reply.decode().splitlines() if line.startswith("data: ")]
        return "".join(json.loads(line)["content"] for line in lines)

    for dialect in (chat, responses, messages, ollama_chat, ollama_generate, completion):
        whole, pieces = dialect(False), dialect(True)
        assert json.loads(whole) == {"said": WORDS}, (dialect.__name__, whole)
        assert pieces == whole, (dialect.__name__, pieces, whole)


@check
def tool_arguments_stream_in_every_dialect_and_script(server):
    shape = {
        "type": "object",
        "properties": {"said": {"const": WORDS}},
        "required": ["said"],
        "additionalProperties": False,
    }
    function = {"name": "say", "description": "Says it.", "parameters": shape}
    expected = {"said": WORDS}
    chat = dict(
        model=server.model, messages=SAID, tools=[{"type": "function", "function": function}], tool_choice="required",
        max_tokens=300, parallel_tool_calls=False, temperature=0,
    )
    whole = server.openai.chat.completions.create(**chat).choices[0].message.tool_calls[0].function.arguments
    stream = server.openai.chat.completions.create(**chat, stream=True)
    deltas = [choice.delta for chunk in stream for choice in chunk.choices]
    told = [call.function.arguments for delta in deltas for call in delta.tool_calls or [] if call.function.arguments]
    assert "".join(told) == whole and len(told) > 2 and json.loads(whole) == expected, (told, whole)

    fields = dict(
        model=server.model, input="Hello", tools=[{"type": "function", **function}], tool_choice="required",
        max_output_tokens=300, parallel_tool_calls=False, temperature=0,
    )
    whole = next(item for item in server.openai.responses.create(**fields).output if item.type == "function_call")
    events = list(server.openai.responses.create(**fields, stream=True))
    told = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert "".join(told) == whole.arguments and len(told) > 2 and json.loads(whole.arguments) == expected

    tool = {"name": "say", "description": "Says it.", "input_schema": shape}
    fields = dict(model=server.model, messages=SAID, tools=[tool], tool_choice={"type": "any"}, max_tokens=300)
    answer = server.anthropic.messages.create(**fields)
    assert next(block for block in answer.content if block.type == "tool_use").input == expected
    with server.anthropic.messages.stream(**fields) as stream:
        told = [event.delta.partial_json for event in stream if getattr(getattr(event, "delta", None), "type", "") == "input_json_delta"]
        final = stream.get_final_message()
    calls = [block for block in final.content if block.type == "tool_use"]
    assert all(call.input == expected for call in calls) and len(told) > 2, told


@check
def openai_structured_output_validates(server):
    for seed in range(4):
        answer = server.openai.chat.completions.create(
            model=server.model,
            messages=SAID,
            seed=seed,
            max_tokens=200,
            response_format={"type": "json_schema", "json_schema": {"name": "pet", "schema": SCHEMA, "strict": True}},
        )
        assert answer.choices[0].finish_reason == "stop"
        jsonschema.validate(json.loads(answer.choices[0].message.content), SCHEMA)


@check
def openai_completions_and_other_scripts(server):
    answer = server.openai.completions.create(
        model=server.model, prompt="漢字 😀 Once upon a time", max_tokens=8, temperature=0, echo=True
    )
    assert answer.choices[0].text.startswith("漢字 😀 Once upon a time")
    several = server.openai.completions.create(model=server.model, prompt=["One", "Two"], max_tokens=4, n=2)
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]


@check
def openai_embeddings(server):
    answer = server.openai.embeddings.create(model=server.model, input=["a dog", "a dog", "the moon"])
    vectors = [item.embedding for item in answer.data]
    assert vectors[0] == vectors[1] != vectors[2]
    assert abs(sum(x * x for x in vectors[0]) - 1) < 1e-3
    plain = server.openai.embeddings.create(model=server.model, input="a dog", encoding_format="float")
    assert max(abs(a - b) for a, b in zip(plain.data[0].embedding, vectors[0])) < 1e-6


@check
def openai_transcriptions(server):
    """A tiny random Whisper: what it hears means nothing, but every way to ask for it works."""
    ask, texts = server.openai.audio.transcriptions.create, set()
    for sound in ["wav/wav-16-bits.wav", "flac/flac-16-bits.flac"]:
        texts.add(ask(model="whisper-1", file=SOUNDS / sound).text)
    assert len(texts) == 1, texts
    for sound in ["mp3/mp3.mp3", "ogg/ogg-vorbis.ogg"]:
        assert isinstance(ask(model="whisper", file=SOUNDS / sound, language="de").text, str)
    sound, text = SOUNDS / "wav/wav-16-bits.wav", texts.pop()
    verbose = ask(model="whisper-1", file=sound, response_format="verbose_json",
                  timestamp_granularities=["word", "segment"])
    assert verbose.text == text and abs(verbose.duration - 0.19) < 0.01, verbose
    assert "".join(segment.text for segment in verbose.segments).strip() == text
    assert ask(model="whisper-1", file=sound, response_format="vtt").startswith("WEBVTT")
    assert ask(model="whisper-1", file=sound, response_format="text").strip() == text
    assert isinstance(ask(model="whisper-1", file=sound, response_format="srt"), str)
    events = list(ask(model="whisper-1", file=sound, stream=True))
    assert events[-1].type == "transcript.text.done" and events[-1].text == text
    assert "".join(event.delta for event in events[:-1]).strip() == text
    translated = server.openai.audio.translations.create(model="whisper-1", file=sound)
    assert isinstance(translated.text, str)
    for wrong in [dict(file=("a.wav", b"no sound")), dict(file=sound, language="xx"), dict(file=sound, temperature=7)]:
        try:
            ask(model="whisper-1", **wrong)
        except openai.BadRequestError:
            continue
        raise AssertionError(f"{wrong} was taken")


@check
def openai_models(server):
    names = [model.id for model in server.openai.models.list()]
    assert server.model in names
    assert server.openai.models.retrieve(server.model).id == server.model


@check
def openai_responses(server):
    first = server.openai.responses.create(model=server.model, input="Hello there.", max_output_tokens=16, temperature=0)
    assert first.status in ("completed", "incomplete") and first.output_text
    second = server.openai.responses.create(
        model=server.model, input="And then?", previous_response_id=first.id, max_output_tokens=16
    )
    assert second.usage.input_tokens > first.usage.input_tokens
    text = ""
    with server.openai.responses.stream(
        model=server.model, input="Hello there.", max_output_tokens=16, temperature=0
    ) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                text += event.delta
    assert text == first.output_text
    assert server.openai.responses.retrieve(first.id).id == first.id
    items = list(server.openai.responses.input_items.list(second.id, order="asc"))
    assert [item.role for item in items] == ["user", "assistant", "user"]
    assert items[0].content[0].text == "Hello there." and items[1].content[0].text == first.output_text
    server.openai.responses.delete(first.id)
    try:
        server.openai.responses.retrieve(first.id)
        raise AssertionError("it was deleted")
    except openai.NotFoundError:
        pass


@check
def openai_errors(server):
    chat = server.openai.chat.completions
    for fields, error in [
        ({"model": "nobody"}, openai.NotFoundError),
        ({"temperature": -1}, openai.BadRequestError),
        ({"messages": []}, openai.BadRequestError),
        ({"extra_body": {"no_such_field": 1}}, openai.BadRequestError),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 3}}}}, openai.BadRequestError),
        ({"messages": [{"role": "user", "content": "word " * 20000}]}, openai.BadRequestError),
    ]:
        try:
            chat.create(**{"model": server.model, "messages": SAID, "max_tokens": 1, **fields})
        except error as caught:
            assert caught.body.get("message"), fields
            if "extra_body" in fields:
                assert "no_such_field" in caught.message
        else:
            raise AssertionError(f"no error for {fields}")


@check
def a_client_that_goes_away_frees_its_work(server):
    for _ in range(4):
        stream = server.openai.chat.completions.create(
            model=server.model, messages=SAID, stream=True, max_tokens=3000, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        stream.close()
    deadline = time.time() + 10
    while server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") > 0:
        assert time.time() < deadline, "requests of clients that have gone still run"
        time.sleep(0.1)


@check
def anthropic_messages(server):
    fields = dict(
        model=server.model, max_tokens=24, system="Be brief.", messages=SAID, extra_body={"temperature": 0}
    )
    answer = server.anthropic.messages.create(**fields)
    assert answer.content[0].type == "text" and answer.content[0].text
    assert answer.stop_reason in ("end_turn", "max_tokens")
    with server.anthropic.messages.stream(**fields) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == answer.content[0].text
    assert final.usage.output_tokens == answer.usage.output_tokens


@check
def anthropic_tools(server):
    tool = {
        "name": "look_up",
        "description": "Looks a word up.",
        "input_schema": TOOL["function"]["parameters"],
    }
    answer = server.anthropic.messages.create(
        model=server.model, max_tokens=200, messages=SAID, tools=[tool], tool_choice={"type": "any"}
    )
    assert answer.stop_reason == "tool_use"
    call = next(block for block in answer.content if block.type == "tool_use")
    jsonschema.validate(call.input, tool["input_schema"])


@check
def anthropic_counts_and_errors(server):
    count = server.anthropic.messages.count_tokens(model=server.model, messages=SAID)
    answer = server.anthropic.messages.create(model=server.model, max_tokens=1, messages=SAID)
    assert count.input_tokens == answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)
    try:
        server.anthropic.messages.create(model="nobody", max_tokens=1, messages=SAID)
        raise AssertionError("no error")
    except anthropic.NotFoundError as error:
        assert error.body["type"] == "error"


@check
def ollama_chat_and_generate(server):
    options = {"temperature": 0, "num_predict": 24}
    whole = server.ollama.chat(model=server.model, messages=SAID, options=options)
    assert whole.done and whole.message.content and whole.eval_count <= 24
    pieces = list(server.ollama.chat(model=server.model, messages=SAID, options=options, stream=True))
    assert "".join(piece.message.content for piece in pieces) == whole.message.content
    assert pieces[-1].done and pieces[-1].eval_count == whole.eval_count and pieces[-1].total_duration > 0
    answer = server.ollama.generate(model=server.model, prompt="Hello", options=options)
    assert answer.response and answer.context
    going_on = server.ollama.generate(model=server.model, prompt="And you?", context=answer.context, options=options)
    assert going_on.prompt_eval_count > len(answer.context)
    shaped = server.ollama.chat(
        model=server.model, messages=SAID, format=SCHEMA, options={"seed": 5, "num_predict": 200}
    )
    jsonschema.validate(json.loads(shaped.message.content), SCHEMA)


@check
def ollama_models_and_embeddings(server):
    names = [model.model.removesuffix(":latest") for model in server.ollama.list().models]
    assert server.model in names
    shown = server.ollama.show(server.model)
    assert shown.details.family and "completion" in shown.capabilities
    vectors = server.ollama.embed(model=server.model, input=["a dog", "the moon"]).embeddings
    assert len(vectors) == 2 and vectors[0] != vectors[1]
    assert any(model.model.removesuffix(":latest") == server.model for model in server.ollama.ps().models)
    try:
        server.ollama.chat(model="nobody", messages=SAID)
        raise AssertionError("no error")
    except ollama.ResponseError as error:
        assert error.status_code == 404


@check
def ollama_store(server):
    weights = pathlib.Path(__file__).parent.parent / "models/tale/tale-q4_k_m.gguf"
    recipe = pathlib.Path(server.folder.name) / "Modelfile"
    recipe.write_text(f"FROM {weights}\n")
    subprocess.run([server.program, "create", "pet", "-f", recipe], env=server.environment, check=True, capture_output=True)
    listed = lambda: sorted(model.model for model in server.ollama.list().models)
    assert "pet:latest" in listed()
    server.ollama.copy("pet", "animal")
    assert "animal:latest" in listed()
    answer = server.ollama.chat(model="animal", messages=SAID, options={"temperature": 0, "num_predict": 8})
    assert answer.message.content
    assert server.ollama.show("pet").details.family == "llama"
    server.ollama.delete("pet")
    server.ollama.delete("animal")
    assert "pet:latest" not in listed() and "animal:latest" not in listed()
    try:
        server.ollama.pull("127.0.0.1:9/nobody/nothing", insecure=True)
        raise AssertionError("a client reached this machine's own ports")
    except ollama.ResponseError:
        pass


@check
def llama_server_routes(server):
    status, body = server.post("/tokenize", {"content": "Once upon", "with_pieces": True})
    pieces = json.loads(body)["tokens"]
    assert status == 200 and len(pieces) > 0
    tokens = [piece["id"] for piece in pieces]
    status, body = server.post("/detokenize", {"tokens": tokens})
    assert json.loads(body)["content"].strip() == "Once upon"
    status, body = server.post("/apply-template", {"messages": SAID})
    assert "small dog" in json.loads(body)["prompt"]
    status, body = server.post("/completion", {"prompt": "Once upon", "n_predict": 8, "temperature": 0, "n_probs": 3})
    answer = json.loads(body)
    assert status == 200 and answer["content"] and answer["tokens_evaluated"] > 0
    assert len(answer["completion_probabilities"]) == answer["timings"]["predicted_n"]
    status, body = server.post("/completion", {"prompt": "x", "n_predict": 1, "grammar": "root ::= ("})
    assert status == 400 and "error" in json.loads(body)


@check
def what_is_malformed_gets_a_4xx(server):
    bodies = [b"", b"{", b"[]", b"null", b'{"model":3}', b'{"messages":"x"}', b'{"prompt":{}}', b"\xff\xfe", b'{"n":1e99}']
    paths = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages"]
    paths += ["/api/chat", "/api/generate", "/api/embed", "/completion", "/tokenize", "/infill", "/rerank"]
    for path in paths:
        for body in bodies:
            status, reply = server.post(path, body)
            assert 400 <= status < 500 or (status == 200 and path == "/api/generate"), (path, body, status, reply)
            if status >= 400:
                assert "error" in json.loads(reply), (path, body, reply)


@check
def anthropic_tool_runner(server):
    cities = []

    @anthropic.beta_tool
    def weather(city: Literal["Oslo", "Rome"]) -> str:
        """The weather of a city."""
        cities.append(city)
        return "Rain."

    said = [{"role": "user", "content": "Do I need an umbrella in Oslo?"}]
    # Over a thread that the server keeps, streamed, and with the whole conversation each time.
    for fields in ({}, {"stream": True}, {"thread": False}):
        cities.clear()
        runner = server.anthropic.beta.messages.tool_runner(
            model=server.model, max_tokens=100, messages=said, tools=[weather], tool_choice={"type": "any"},
            max_iterations=2, **fields,
        )
        turns = [turn.get_final_message() if "stream" in fields else turn for turn in runner]
        assert [turn.stop_reason for turn in turns] == ["tool_use", "tool_use"], turns
        assert cities and set(cities) <= {"Oslo", "Rome"}, cities
    told = server.anthropic.messages.create(
        model=server.model, max_tokens=8, messages=[*said, {"role": "system", "content": "Be brief."}],
        inference_geo="eu", diagnostics={"previous_message_id": None},
    )
    assert told.content and told._request_id
    try:
        server.anthropic.messages.create(model="nobody", max_tokens=8, messages=said)
        raise AssertionError("there is no such model")
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error", error.body


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model", nargs="?", default="tale")
    parser.add_argument("--only", default="", help="only checks whose name contains this")
    arguments = parser.parse_args()
    server = Server(arguments.program, arguments.model)
    passed = failed = 0
    for function in CHECKS:
        if arguments.only not in function.__name__:
            continue
        start = time.time()
        try:
            function(server)
            passed += 1
            print(f"ok    {function.__name__} ({time.time() - start:.1f} s)")
        except Exception:
            failed += 1
            print(f"FAIL  {function.__name__}")
            traceback.print_exc()
    code = server.stop()
    if code != 0:
        failed += 1
        print(f"FAIL  the server ended with {code}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
