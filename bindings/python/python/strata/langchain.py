"""LangChain over a model in this process: needs the package ``langchain-openai``."""

from __future__ import annotations

from typing import Any

from .model import Model
from .openai import connection


def _both(model: Model) -> dict[str, Any]:
    ways = connection(model)
    ways["http_async_client"] = connection(model, asynchronous=True)["http_client"]
    return ways


def chat_model(model: Model, **fields: Any) -> Any:
    """A ``ChatOpenAI``: streams, binds tools, gives structured output."""
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=model.info["name"], **_both(model), **fields)


def embeddings(model: Model, **fields: Any) -> Any:
    """An ``OpenAIEmbeddings``."""
    from langchain_openai import OpenAIEmbeddings

    ways = _both(model)
    return OpenAIEmbeddings(model=model.info["name"], check_embedding_ctx_length=False, **ways, **fields)
