"""Streams of JSON documents, pulled by ``for`` or ``async for``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ._errors import translate
from ._strata import Error as RawError
from ._strata import RawStream


class Stream:
    """The documents of a request, as dictionaries. Dropping it cancels the request; so does leaving ``with``."""

    def __init__(self, raw: RawStream) -> None:
        self._raw = raw

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        document = self.next_text()
        if document is None:
            raise StopIteration
        return json.loads(document)

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return self

    async def __anext__(self) -> dict[str, Any]:
        document = await self.next_text_async()
        if document is None:
            raise StopAsyncIteration
        return json.loads(document)

    def next_text(self) -> str | None:
        """Waits for the next document, as it is; None after the last. The GIL is free meanwhile."""
        try:
            return self._raw.next()
        except RawError as error:
            raise translate(error) from None

    async def next_text_async(self) -> str | None:
        """Awaits the next document. No thread waits for it: the engine wakes the event loop. Canceling the task that
        awaits it cancels the request."""
        import asyncio  # A twentieth of a second, for those who need it.

        try:
            while True:
                there, document = self._raw.poll()
                if there:
                    return document
                await _readable(self._raw.fileno())
        except RawError as error:
            raise translate(error) from None
        except asyncio.CancelledError:
            self._raw.cancel()
            raise

    def wait(self, seconds: float) -> tuple[bool, dict[str, Any] | None]:
        """Waits so long at most: whether anything came, and the document, or None for the end."""
        try:
            there, document = self._raw.wait(seconds)
        except RawError as error:
            raise translate(error) from None
        return there, json.loads(document) if document is not None else None

    def cancel(self) -> None:
        """Cancels the request, from any thread, at any time."""
        self._raw.cancel()

    def tool_result(self, call: str, text: str) -> None:
        """Gives the result of a tool call."""
        try:
            self._raw.tool_result(call, text)
        except RawError as error:
            raise translate(error) from None

    def fileno(self) -> int:
        """A descriptor that can be read while there is something to take, for ``select`` and event loops."""
        return self._raw.fileno()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


async def _readable(descriptor: int) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(descriptor, wake)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
