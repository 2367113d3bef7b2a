"""An answer: text as it comes, calls answered by functions, a schema's value at the end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from .schema import parse
from .streams import Stream
from .tools import Tool


@dataclass(slots=True)
class Event:
    """A piece of an answer."""

    text: str = ""
    thinking: str = ""
    #: Tool calls, complete: ``{"id", "name", "arguments"}``.
    calls: list[dict[str, Any]] = field(default_factory=list)
    #: The document that it came with, in OpenAI's shape.
    raw: dict[str, Any] = field(default_factory=dict)


class Answer:
    """An answer that comes while you read it: ``for event in answer``, ``async for event in answer``, ``answer.text``,
    ``answer.parsed``, or ``await answer``. Dropping it, or ``cancel()`` from any thread, cancels the request."""

    def __init__(self, start: Callable[[], Stream], functions: dict[str, Tool], schema: Any) -> None:
        self._start = start
        self._stream: Stream | None = None
        self._functions = functions
        self._schema = schema
        self._over = False
        self._canceled = False
        self._said: list[str] = []
        self._thought: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._finish: str | None = None
        self._usage: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Event]:
        while (document := self._next()) is not None:
            event = self._hear(document)
            for call in self._answered(event):
                self._result(call, self._functions[call["name"]].call(call["arguments"]))
            if event is not None:
                yield event

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (document := await self._next_async()) is not None:
            event = self._hear(document)
            for call in self._answered(event):
                result = await self._functions[call["name"]].call_async(call["arguments"])
                self._result(call, result)
            if event is not None:
                yield event

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._wait().__await__()

    async def _wait(self) -> Answer:
        async for _ in self:
            pass
        return self

    def _opened(self) -> Stream:
        if self._stream is None:
            self._stream = self._start()
            if self._canceled:
                self._stream.cancel()
        return self._stream

    def _next(self) -> str | None:
        return None if self._over else self._opened().next_text()

    async def _next_async(self) -> str | None:
        return None if self._over else await self._opened().next_text_async()

    def _hear(self, text: str) -> Event | None:
        """What a document adds; None if nothing that one reads."""
        document = json.loads(text)
        if document.get("object") == "tool.calls":
            return Event(calls=document["calls"], raw=document)
        self._add_usage(document.get("usage"))
        event = Event(raw=document)
        for choice in document.get("choices", []):
            if choice["index"] != 0:
                continue
            delta = choice.get("delta") or {}
            event.text += delta.get("content") or choice.get("text") or ""
            event.thinking += delta.get("reasoning_content") or ""
            for part in delta.get("tool_calls") or []:
                self._add_call(part)
            self._finish = choice.get("finish_reason") or self._finish
        self._said.append(event.text)
        self._thought.append(event.thinking)
        return event if event.text or event.thinking else None

    def _add_call(self, part: dict[str, Any]) -> None:
        function = part.get("function", {})
        if "id" in part:
            self._calls.append({"id": part["id"], "name": function["name"], "arguments": ""})
        self._calls[-1]["arguments"] += function.get("arguments", "")

    def _add_usage(self, usage: dict[str, Any] | None) -> None:
        for name, number in (usage or {}).items():
            if isinstance(number, int):
                self._usage[name] = self._usage.get(name, 0) + number

    def _answered(self, event: Event | None) -> list[dict[str, Any]]:
        """The calls that functions answer: all of them, or none, and then the answer is over."""
        calls = event.calls if event else []
        if not all(call["name"] in self._functions for call in calls):
            self._over = True
            self._opened().cancel()
            return []
        if calls:
            # What was said before its calls is no part of the answer.
            self._calls.clear()
            self._said.clear()
        return calls

    def _result(self, call: dict[str, Any], result: str) -> None:
        self._opened().tool_result(call["id"], result)

    def cancel(self) -> None:
        """Cancels the request, from any thread, at any time: readers get :class:`strata.Canceled`."""
        self._canceled = True
        if self._stream is not None:
            self._stream.cancel()

    def wait(self) -> Answer:
        """Waits for the end."""
        for _ in self:
            pass
        self._over = True
        return self

    @property
    def text(self) -> str:
        """The whole text. Waits for it."""
        self.wait()
        return "".join(self._said)

    @property
    def thinking(self) -> str:
        """What the model thought. Waits for it."""
        self.wait()
        return "".join(self._thought)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The tool calls that no function has answered, with their arguments parsed. Waits for the end."""
        self.wait()
        return [{**call, "arguments": json.loads(call["arguments"] or "{}")} for call in self._calls]

    @property
    def parsed(self) -> Any:
        """The answer as a value of its schema. Waits for the end."""
        return parse(self._schema if self._schema is not None else {}, self.text)

    @property
    def finish_reason(self) -> str | None:
        """Why it ended."""
        self.wait()
        return self._finish

    @property
    def usage(self) -> dict[str, int]:
        """What it took, all rounds of tool calls together."""
        self.wait()
        return dict(self._usage)

    @property
    def message(self) -> dict[str, Any]:
        """The model's message, to go on with the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self._calls:
            message["tool_calls"] = [
                {"id": call["id"], "type": "function", "function": {k: call[k] for k in ("name", "arguments")}}
                for call in self._calls
            ]
        return message
