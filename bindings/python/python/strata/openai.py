"""Code written for the ``openai`` package, in-process.

``strata.OpenAI("tale")`` has the calls that most programs use and needs nothing else. For the package itself, with all its
types and helpers, give it a transport: ``openai.OpenAI(**strata.openai.connection(model))``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from ._errors import Error
from .model import Model, load
from .streams import Stream

_STATUS = {"not_found": 404, "timed_out": 408, "overloaded": 503, "closed": 503, "internal": 500, "canceled": 499}


class Record(dict):
    """A JSON object whose fields are attributes too; one that is missing is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The object as a plain dictionary."""
        return json.loads(json.dumps(self))

    def model_dump_json(self, **_: Any) -> str:
        """The object as JSON."""
        return json.dumps(self, ensure_ascii=False)

    def to_dict(self, **_: Any) -> dict[str, Any]:
        """The object as a plain dictionary."""
        return self.model_dump()


def _record(text: str) -> Any:
    return json.loads(text, object_hook=Record)


class Chunks:
    """A streamed answer: ``for chunk in …``, ``async for chunk in …``, ``with …``."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Any]:
        while (text := self._stream.next_text()) is not None:
            yield _record(text)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (text := await self._stream.next_text_async()) is not None:
            yield _record(text)

    def close(self) -> None:
        """Cancels the request."""
        self._stream.cancel()

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Chunks:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _body(fields: dict[str, Any]) -> dict[str, Any]:
    fields = {**fields, **(fields.get("extra_body") or {})}
    left_out = ("extra_body", "extra_headers", "extra_query", "timeout")
    return {name: value for name, value in fields.items() if name not in left_out and value is not None}


class _Route:
    def __init__(self, model: Model, path: str) -> None:
        self._model = model
        self._path = path

    def create(self, **fields: Any) -> Any:
        """Asks, as with the ``openai`` package."""
        body = _body(fields)
        stream = self._model.request(self._path, body)
        if body.get("stream"):
            return Chunks(stream)
        return _record(stream.next_text() or "null")


class _AsyncRoute(_Route):
    async def create(self, **fields: Any) -> Any:
        """Asks, as with the ``openai`` package."""
        body = _body(fields)
        stream = self._model.request(self._path, body)
        if body.get("stream"):
            return Chunks(stream)
        return _record(await stream.next_text_async() or "null")


class _Chat:
    def __init__(self, completions: _Route) -> None:
        self.completions = completions


class _Models:
    def __init__(self, model: Model) -> None:
        self._model = model

    def list(self) -> Any:
        """The one model there is."""
        return _record(self._model.request("/v1/models").next_text() or "null")


class OpenAI:
    """A client with the calls of ``openai.OpenAI``, answered by a model in this process. ``model`` is one, or what
    :func:`strata.load` takes. Keys, addresses and other arguments of the package are taken and not needed."""

    _route: Callable[[Model, str], _Route] = _Route

    def __init__(self, model: Model | str = "tale", **_: Any) -> None:
        self.model = model if isinstance(model, Model) else load(model)
        self.chat = _Chat(self._route(self.model, "/v1/chat/completions"))
        self.completions = self._route(self.model, "/v1/completions")
        self.embeddings = self._route(self.model, "/v1/embeddings")
        self.responses = self._route(self.model, "/v1/responses")
        self.models = _Models(self.model)

    def close(self) -> None:
        """Lets go of the model."""
        self.model.close()

    def __enter__(self) -> OpenAI:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncOpenAI(OpenAI):
    """Like :class:`OpenAI`, with calls to await."""

    _route = _AsyncRoute


def _httpx() -> Any:
    """The HTTP library of the ``openai`` package that is installed: httpx, or httpx2 for newer versions."""
    import importlib
    from importlib import metadata

    try:
        needs = metadata.requires("openai") or []
    except metadata.PackageNotFoundError:
        needs = []
    newer = any(need.startswith("httpx2") for need in needs)
    return importlib.import_module("httpx2" if newer else "httpx")


def transport(model: Model) -> Any:
    """A transport for ``httpx``, synchronous and asynchronous, whose server is a model in this process."""
    httpx = _httpx()

    def failed(error: Error) -> Any:
        what = {"message": str(error), "type": "invalid_request_error", "param": None, "code": error.code}
        return httpx.Response(_STATUS.get(error.code, 400), json={"error": what})

    def asked(request: Any, body: bytes) -> tuple[Stream, bool]:
        fields = json.loads(body) if body else None
        streams = bool(fields and fields.get("stream"))
        return model.request(request.url.raw_path.decode(), fields), streams

    def framed(text: str | None) -> bytes:
        return f"data: {text or '[DONE]'}\n\n".encode()

    class Events(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __init__(self, first: str | None, stream: Stream) -> None:
            self._first, self._stream = first, stream

        def __iter__(self) -> Iterator[bytes]:
            text = self._first
            while text is not None:
                yield framed(text)
                text = self._stream.next_text()
            yield framed(None)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            text = self._first
            while text is not None:
                yield framed(text)
                text = await self._stream.next_text_async()
            yield framed(None)

        def close(self) -> None:
            self._stream.cancel()

        async def aclose(self) -> None:
            self._stream.cancel()

    def answered(first: str | None, stream: Stream, streams: bool) -> Any:
        if streams:
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Events(first, stream))
        return httpx.Response(200, headers={"content-type": "application/json"}, content=(first or "").encode())

    class Transport(httpx.BaseTransport, httpx.AsyncBaseTransport):
        def handle_request(self, request: Any) -> Any:
            try:
                stream, streams = asked(request, request.read())
                return answered(stream.next_text(), stream, streams)
            except Error as error:
                return failed(error)

        async def handle_async_request(self, request: Any) -> Any:
            try:
                stream, streams = asked(request, await request.aread())
                return answered(await stream.next_text_async(), stream, streams)
            except Error as error:
                return failed(error)

    return Transport()


def connection(model: Model, asynchronous: bool = False) -> dict[str, Any]:
    """Arguments for ``openai.OpenAI`` or ``openai.AsyncOpenAI``: no socket, no key."""
    httpx = _httpx()
    client = httpx.AsyncClient if asynchronous else httpx.Client
    return {
        "http_client": client(transport=transport(model)),
        "base_url": "http://strata/v1",
        "api_key": "none",
        "max_retries": 0,
    }
