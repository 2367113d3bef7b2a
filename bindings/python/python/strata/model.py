"""Models: opened, planned, asked."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

from . import _strata
from ._errors import Error, translate
from ._strata import Error as RawError
from .chat import Answer
from .schema import schema_of
from .streams import Stream
from .tools import split

Messages = str | list[dict[str, Any]]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _options(options: dict[str, Any]) -> bytes:
    return _json({name: value for name, value in options.items() if value is not None})


def load(model: str, **options: Any) -> Model:
    """Opens a model: a GGUF file, a Hugging Face folder, a name in the store, or ``tale``, which is built in.

    Options: ``memory`` ("6G"), ``threads``, ``context``, ``requests``, ``batch``, ``kv``, ``stream``, ``quantize``,
    ``adapters`` (paths), ``draft_model``, ``max_draft``, ``drafts`` ("mtp", "auto"), ``projector`` (for images), ``device``,
    ``gpu_layers`` (an int), ``device_lost`` ("stop", "cpu"), ``cache``, ``sessions``,
    ``image_urls`` (fetch images from https addresses), ``peers`` (machines with some of the layers).
    """
    try:
        return Model(_strata.open(str(model), _options(options)))
    except RawError as error:
        raise translate(error) from None


def plan(model: str, **options: Any) -> dict[str, Any]:
    """What a model would take in bytes, without loading it: ``plan("big.gguf", memory="6G")["fits"]``."""
    try:
        return json.loads(_strata.plan(str(model), _options(options)))
    except RawError as error:
        raise translate(error) from None


class Load(Stream):
    """A model on its way: ``async for progress in Load("big.gguf")``, then ``.model``."""

    def __init__(self, model: str, **options: Any) -> None:
        try:
            super().__init__(_strata.load(str(model), _options(options)))
        except RawError as error:
            raise translate(error) from None
        self._model: Model | None = None

    @property
    def model(self) -> Model:
        """The model, once the stream has ended."""
        if self._model is None:
            raw = self._raw.model()
            if raw is None:
                raise Error("the model is not loaded yet: read the stream to its end")
            self._model = Model(raw)
        return self._model

    def __await__(self) -> Generator[Any, Any, Model]:
        return self._wait().__await__()

    async def _wait(self) -> Model:
        async for _ in self:
            pass
        return self.model


class Model:
    """A model in memory. Any number of threads and tasks may ask it at once."""

    def __init__(self, raw: _strata.RawModel) -> None:
        self._raw: _strata.RawModel | None = raw

    @property
    def _open(self) -> _strata.RawModel:
        if self._raw is None:
            raise Error("the model was closed", "closed")
        return self._raw

    def close(self) -> None:
        """Lets go of the model. It leaves memory when its last stream and session are gone too."""
        self._raw = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(self, path: str, body: dict[str, Any] | None = None) -> Stream:
        """Asks what ``strata serve`` is asked at a path: the documents that it would send."""
        try:
            return Stream(self._open.request(path, b"" if body is None else _json(body)))
        except RawError as error:
            raise translate(error) from None

    def chat(
        self,
        messages: Messages,
        *,
        tools: list[Any] | None = None,
        schema: Any = None,
        adapters: dict[int, float] | None = None,
        **fields: Any,
    ) -> Answer:
        """Asks for the next message of a conversation. ``tools`` are functions, which are called by themselves, or
        documents in OpenAI's shape; ``schema`` is a dataclass, a pydantic model, a type or a JSON schema; ``adapters`` are
        numbers with strengths. All other fields are those of ``/v1/chat/completions``."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        documents, functions = split(tools)
        body = {"messages": messages, **_common(adapters, fields)}
        if documents:
            body["tools"] = documents
        if schema is not None:
            form = {"name": "answer", "schema": schema_of(schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if not functions:
            return Answer(lambda: self.request("/v1/chat/completions", body), functions, schema)

        def start() -> Stream:
            try:
                return Stream(self._open.chat_tools(_json(body)))
            except RawError as error:
                raise translate(error) from None

        return Answer(start, functions, schema)

    def complete(self, prompt: str, *, adapters: dict[int, float] | None = None, **fields: Any) -> Answer:
        """Continues a text as it is. All other fields are those of ``/v1/completions``."""
        body = {"prompt": prompt, **_common(adapters, fields)}
        return Answer(lambda: self.request("/v1/completions", body), {}, None)

    def stream(self, prompt: str, **fields: Any) -> Iterator[str]:
        """The pieces of a text's continuation."""
        return (event.text for event in self.complete(prompt, **fields))

    async def stream_async(self, prompt: str, **fields: Any) -> AsyncIterator[str]:
        """The pieces of a text's continuation."""
        async for event in self.complete(prompt, **fields):
            yield event.text

    def embed(self, texts: str | list[str], **fields: Any) -> Any:
        """Vectors of length 1: a numpy array of 32-bit floats with a row for each text, or one row for one text. Without
        numpy, lists."""
        return _vectors(texts, next(self._embed(texts, fields)))

    async def embed_async(self, texts: str | list[str], **fields: Any) -> Any:
        """Like :meth:`embed`."""
        return _vectors(texts, await anext(self._embed(texts, fields)))

    def _embed(self, texts: str | list[str], fields: dict[str, Any]) -> Stream:
        return self.request("/v1/embeddings", {"input": texts, **fields, "encoding_format": "base64"})

    def rerank(self, query: str, documents: list[str], **fields: Any) -> list[tuple[int, float]]:
        """Documents by how well they answer a query, the best first: their numbers and scores."""
        stream = self.request("/v1/rerank", {"query": query, "documents": documents, **fields})
        return [(one["index"], one["relevance_score"]) for one in next(stream)["results"]]

    def transcribe(self, file: Any, **fields: Any) -> dict[str, Any]:
        """What is said in a WAV, FLAC, MP3 or Ogg Vorbis file, with a model for speech: ``model.transcribe("talk.wav")["text"]``.
        ``file`` is a path or the file's bytes; the fields are those of ``/v1/audio/transcriptions``. Piece by piece:
        ``model.request("/v1/audio/transcriptions", {"file": path, "stream": True})``."""
        return next(self._transcribe(file, fields))

    async def transcribe_async(self, file: Any, **fields: Any) -> dict[str, Any]:
        """Like :meth:`transcribe`."""
        return await anext(self._transcribe(file, fields))

    def _transcribe(self, file: Any, fields: dict[str, Any]) -> Stream:
        if isinstance(file, (bytes, bytearray, memoryview)):
            file = "data:;base64," + base64.b64encode(file).decode()
        return self.request("/v1/audio/transcriptions", {"file": str(file), **fields})

    def tokenize(self, text: str) -> list[int]:
        """The tokens of a text, with those that the model wants around one."""
        try:
            return self._open.tokenize(text)
        except RawError as error:
            raise translate(error) from None

    def detokenize(self, tokens: list[int]) -> str:
        """The text of tokens."""
        try:
            return self._open.detokenize(list(tokens))
        except RawError as error:
            raise translate(error) from None

    def session(self) -> Session:
        """An empty session."""
        try:
            return Session(self._open.session())
        except RawError as error:
            raise translate(error) from None

    def restore(self, saved: bytes) -> Session:
        """A session that was saved, perhaps by another process."""
        try:
            return Session(self._open.restore(saved))
        except RawError as error:
            raise translate(error) from None

    @property
    def info(self) -> dict[str, Any]:
        """What is known of the model."""
        return json.loads(self._open.info())

    @property
    def adapters(self) -> list[dict[str, Any]]:
        """The adapters that it was opened with, by number."""
        return json.loads(self._open.adapters())

    def set_adapters(self, scales: dict[int, float]) -> None:
        """Sets the strength of adapters for requests that name none; those that are not listed are left out."""
        try:
            self._open.set_adapters(_json([{"id": id, "scale": scale} for id, scale in scales.items()]))
        except RawError as error:
            raise translate(error) from None


class Session:
    """A text that grows over many requests."""

    def __init__(self, raw: _strata.RawSession) -> None:
        self._raw = raw

    def append(self, text: str) -> Session:
        """Appends to the text. Control tokens in it are read as such."""
        try:
            self._raw.append(text)
        except RawError as error:
            raise translate(error) from None
        return self

    def constrain(self, **constraints: Any) -> Session:
        """Holds all later runs, and those of forks, to constraints: ``deadline_ms``, ``first_token_ms``, ``token_ms``,
        ``memory`` in bytes, a format (``response_format``, ``guided_regex``, ``guided_choice``, ``grammar``), ``never_to_disk``,
        ``never_off_machine``."""
        try:
            self._raw.constrain(_json(constraints))
        except RawError as error:
            raise translate(error) from None
        return self

    def run(self, **fields: Any) -> Answer:
        """Continues the text; the fields are those of ``/v1/completions``."""

        def start() -> Stream:
            try:
                return Stream(self._raw.run(_json(_common(None, fields))))
            except RawError as error:
                raise translate(error) from None

        return Answer(start, {}, None)

    @property
    def text(self) -> str:
        """The text so far."""
        return self._raw.text()

    def fork(self) -> Session:
        """Another session with the same text; both share what was computed of it."""
        return Session(self._raw.fork())

    def save(self) -> bytes:
        """The session as bytes, for :meth:`Model.restore`."""
        try:
            return self._raw.save()
        except RawError as error:
            raise translate(error) from None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _common(adapters: dict[int, float] | None, fields: dict[str, Any]) -> dict[str, Any]:
    body = {"stream": True, "stream_options": {"include_usage": True}, **fields}
    if adapters is not None:
        body["lora"] = [{"id": id, "scale": scale} for id, scale in adapters.items()]
    return body


def _vectors(texts: str | list[str], document: dict[str, Any]) -> Any:
    packed = [base64.b64decode(one["embedding"]) for one in document["data"]]
    try:
        import numpy
    except ImportError:
        rows = [list(struct.unpack(f"<{len(row) // 4}f", row)) for row in packed]
        return rows[0] if isinstance(texts, str) else rows
    rows = numpy.stack([numpy.frombuffer(row, dtype="<f4") for row in packed])
    return rows[0] if isinstance(texts, str) else rows
