"""Gives the recorded answers of the OpenAI, Anthropic and Ollama dialects to the official clients.

    python3 -m venv V && V/bin/pip install openai anthropic ollama
    V/bin/python tools/wire_check.py crates/wire/tests

Each pair under <tests>/<dialect>/pairs is asked for with the client, over a transport that checks nothing and answers
with the recorded bytes, so that the client's own types judge them (strictly) and its own code joins the streams.
"""

import json
import pathlib
import sys

import anthropic
import httpx as ollama_httpx
import ollama
import openai

try:  # newer clients come with it
    import httpx2 as httpx
except ImportError:
    import httpx


def body(pair):
    """The recorded answer as bytes, with its media type."""
    if "response" in pair:
        return json.dumps(pair["response"]).encode(), "application/json"
    if pair["path"].startswith("/api/"):
        lines = "".join(json.dumps(line) + "\n" for line in pair["stream"])
        return lines.encode(), "application/x-ndjson"
    text = ""
    for event in pair["stream"]:
        if isinstance(event, dict) and "event" in event:
            text += f"event: {event['event']}\n"
            event = event["data"]
        data = event if isinstance(event, str) else json.dumps(event)
        text += f"data: {data}\n\n"
    return text.encode(), "text/event-stream"


def transport(pair):
    content, kind = body(pair)

    def answer(_):
        return httpx.Response(pair["status"], content=content, headers={"content-type": kind})

    return httpx.Client(transport=httpx.MockTransport(answer))


def ask_openai(pair):
    request = dict(pair.get("request", {}))
    # The client's types have no place for the null that the API itself sends until a completion's last piece and for
    # the first token of an echo, for custom tools in streams, nor for the base64 that the client itself asks for.
    completion = pair["path"] == "/v1/completions"
    custom = pair["path"] == "/v1/chat/completions" and any(t["type"] == "custom" for t in request.get("tools", []))
    loose = (
        completion and (request.get("stream") or request.get("echo"))
        or custom and request.get("stream")
        or "encoding_format" in request
    )
    client = openai.OpenAI(
        api_key="k", base_url="http://test/v1", max_retries=0, http_client=transport(pair),
        _strict_response_validation=not loose,
    )
    if request.get("encoding_format") == "base64":
        # The client asks for it by itself, and then gives numbers.
        del request["encoding_format"]
    known = {
        "/v1/chat/completions": client.chat.completions,
        "/v1/completions": client.completions,
        "/v1/embeddings": client.embeddings,
        "/v1/responses": client.responses,
    }
    path = pair["path"]
    if path == "/v1/models":
        # Both clients ask this one.
        return [client.models.list(), anthropic_client(pair).models.list()]
    if path.startswith("/v1/models/"):
        return [client.models.retrieve("tale")]
    if path == "/v1/responses/input_tokens":
        return [client.responses.input_tokens.count(**request)]
    if path not in known or pair["method"] != "POST":
        return None
    extra = {k: request.pop(k) for k in list(request) if k in EXTRAS}
    answer = known[path].create(**request, extra_body=extra)
    return list(answer) if request.get("stream") else [answer]


# What the client has no argument for.
EXTRAS = {
    "return_tokens",
    "return_token_ids",
    "chat_template_kwargs",
    "frobnicate",
    "prompt_logprobs",
    "return_progress",
    "timings_per_token",
}


def anthropic_client(pair):
    return anthropic.Anthropic(
        api_key="k", base_url="http://test", max_retries=0, http_client=transport(pair),
        _strict_response_validation=True,
    )


def ask_anthropic(pair):
    client = anthropic_client(pair)
    request = dict(pair["request"])
    if pair["path"].endswith("count_tokens"):
        return [client.messages.count_tokens(**request)]
    extra = {k: request.pop(k) for k in list(request) if k == "mcp_servers"}
    if "max_tokens" not in request:
        extra["max_tokens"] = None
        request["max_tokens"] = 1
    if request.pop("stream", False):
        with client.messages.stream(**request, extra_body=extra) as stream:
            events = list(stream)
            return [*events, stream.get_final_message()]
    return [client.messages.create(**request, extra_body=extra)]


def ask_ollama(pair):
    request = dict(pair.get("request", {}))
    content, kind = body(pair)

    def answer(_):
        return ollama_httpx.Response(pair["status"], content=content, headers={"content-type": kind})

    client = ollama.Client(host="http://test", transport=ollama_httpx.MockTransport(answer))
    known = {
        "/api/chat": client.chat,
        "/api/generate": client.generate,
        "/api/embed": client.embed,
        "/api/embeddings": client.embeddings,
        "/api/show": client.show,
        "/api/tags": client.list,
        "/api/ps": client.ps,
        "/api/pull": client.pull,
        "/api/push": client.push,
        "/api/create": client.create,
        "/api/copy": client.copy,
        "/api/delete": client.delete,
    }
    path = pair["path"]
    # The client has no way to ask these.
    unasked = pair["status"] != 200 and (pair["method"] == "GET" or "options" in request)
    if path not in known or unasked:
        return None
    # The client's default is not to stream, the API's is.
    if path in ("/api/chat", "/api/generate", "/api/pull", "/api/push", "/api/create"):
        request["stream"] = "stream" in pair
    if path in ("/api/show", "/api/pull"):
        allowed = ("stream", "insecure")
        request = {"model": "tale", **{k: v for k, v in request.items() if k in allowed}}
    if "from" in request:
        request["from_"] = request.pop("from")
    made = known[path](**request)
    if "stream" in pair:
        return list(made)
    if path in ("/api/copy", "/api/delete"):
        return [made.status == "success"]
    return [made]


def fits(pair, answer, error):
    """Whether the client made of it what was meant: answers of 200, an error of everything else."""
    failed = any(
        isinstance(event, dict) and ("error" in event or event.get("event") == "error")
        for event in pair.get("stream", [])
    )
    if pair["status"] == 200 and not failed:
        return answer and error is None
    if failed and error is None:
        return any(getattr(event, "type", "") == "response.failed" for event in answer)
    return error is not None and type(error).__name__ not in ("APIResponseValidationError", "TypeError")


def main(tests):
    wrong = checked = 0
    for dialect, ask in (("openai", ask_openai), ("anthropic", ask_anthropic), ("ollama", ask_ollama)):
        for file in sorted((pathlib.Path(tests) / dialect / "pairs").glob("*.json")):
            pair = json.loads(file.read_text())
            answer = error = None
            try:
                answer = ask(pair)
                if answer is None:
                    continue
            except Exception as caught:  # what the client raises is what is judged
                error = caught
            checked += 1
            if not fits(pair, answer, error):
                wrong += 1
                print(f"{file}: {type(error).__name__}: {error}")
    print(f"{checked} answers, {wrong} not as the clients expect")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1]) else 0)
