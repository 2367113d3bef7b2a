"""Python functions as tools: their schema from signature and docstring, called when the model calls."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable
from typing import Any

from .schema import schema_of, value_of


class Tool:
    """A tool that a function answers."""

    def __init__(self, function: Callable[..., Any], name: str | None = None, description: str | None = None) -> None:
        self.function = function
        self.name = name or function.__name__
        self.description = description or inspect.getdoc(function) or ""
        self._hints = typing.get_type_hints(function, include_extras=True)
        self._parameters = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]

    def document(self) -> dict[str, Any]:
        """The tool as requests list it."""
        properties = {one.name: schema_of(self._hints.get(one.name, str)) for one in self._parameters}
        required = [one.name for one in self._parameters if one.default is one.empty]
        function = {
            "name": self.name,
            "description": self.description,
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            },
        }
        return {"type": "function", "function": function}

    def _arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        known = {one.name for one in self._parameters}
        return {
            name: value_of(self._hints.get(name, Any), value) for name, value in given.items() if name in known
        }

    def call(self, given: dict[str, Any]) -> str:
        """Calls the function. The model is told of errors."""
        try:
            result = self.function(**self._arguments(given))
        except Exception as error:  # noqa: BLE001: whatever it is, the model may know better
            return f"error: {error}"
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(f"{self.name} is asynchronous: use `async for` or `await`")
        return _text(result)

    async def call_async(self, given: dict[str, Any]) -> str:
        """Calls the function and awaits it if need be."""
        try:
            result = self.function(**self._arguments(given))
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:  # noqa: BLE001
            return f"error: {error}"
        return _text(result)


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if hasattr(result, "model_dump_json"):
        return result.model_dump_json()
    return json.dumps(result, default=lambda value: getattr(value, "__dict__", str(value)), ensure_ascii=False)


def split(tools: list[Any] | None) -> tuple[list[dict[str, Any]], dict[str, Tool]]:
    """The documents of tools, and those that functions answer."""
    documents, functions = [], {}
    for tool in tools or []:
        if isinstance(tool, dict):
            documents.append(tool)
            continue
        one = tool if isinstance(tool, Tool) else Tool(tool)
        functions[one.name] = one
        documents.append(one.document())
    return documents, functions
