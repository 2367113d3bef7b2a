"""Python types as JSON schemas, and JSON as Python types: dataclasses, pydantic models, enums, and what is built in."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from typing import Any

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type. A dictionary is one already."""
    if isinstance(kind, dict):
        return kind
    if kind is Any:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if hasattr(kind, "model_json_schema"):
        return _inline(kind.model_json_schema())
    if dataclasses.is_dataclass(kind):
        return _of_dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        schema = schema_of(arguments[0])
        notes = [note for note in arguments[1:] if isinstance(note, str)]
        return {**schema, "description": notes[0]} if notes else schema
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(one) for one in arguments]}
    if kind is list or origin in (list, set, frozenset):
        return {"type": "array", "items": schema_of(arguments[0]) if arguments else {}}
    if origin is tuple and arguments:
        each = [schema_of(one) for one in arguments]
        return {"type": "array", "prefixItems": each, "items": False, "minItems": len(each)}
    if kind is dict or origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1]) if arguments else True}
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return _object({name: schema_of(hint) for name, hint in hints.items()}, sorted(kind.__required_keys__))
    raise TypeError(f"there is no JSON schema for {kind!r}")


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _of_dataclass(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    missing = dataclasses.MISSING
    required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
    return _object({field.name: schema_of(hints[field.name]) for field in fields}, required)


def _inline(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of pydantic's that allows nothing else, as answers should."""
    if schema.get("type") == "object" and "properties" in schema:
        schema = {"additionalProperties": False, **schema}
    return schema


def parse(kind: Any, text: str) -> Any:
    """A JSON text as a value of a type; of a schema in a dictionary it is what ``json`` makes of it."""
    if hasattr(kind, "model_validate_json"):
        return kind.model_validate_json(text)
    return value_of(kind, json.loads(text))


def value_of(kind: Any, value: Any) -> Any:
    """A parsed JSON value as a value of a type."""
    if isinstance(kind, dict) or kind is Any:
        return value
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        return kind(**{name: value_of(hints[name], one) for name, one in value.items()})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return value_of(arguments[0], value)
    if origin in (list, set, frozenset) and arguments:
        return origin(value_of(arguments[0], one) for one in value)
    if origin is tuple:
        return tuple(value_of(one, item) for one, item in zip(arguments, value))
    if origin is dict and arguments:
        return {key: value_of(arguments[1], one) for key, one in value.items()}
    if origin in (typing.Union, types.UnionType):
        return _value_of_union(arguments, value)
    if kind is float and isinstance(value, int):
        return float(value)
    return value


def _value_of_union(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds:
        plain = kind if isinstance(kind, type) and kind in _PLAIN else None
        if plain is not None and not isinstance(value, plain):
            continue
        try:
            return value_of(kind, value)
        except (TypeError, ValueError, KeyError):
            continue
    return value
