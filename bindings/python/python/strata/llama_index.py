"""LlamaIndex over a model in this process: needs ``llama-index-llms-openai-like`` and ``…-embeddings-openai-like``."""

from __future__ import annotations

from typing import Any

from .model import Model
from .openai import connection


def _ways(model: Model) -> dict[str, Any]:
    ways = connection(model)
    return {
        "http_client": ways["http_client"],
        "async_http_client": connection(model, asynchronous=True)["http_client"],
        "api_base": ways["base_url"],
        "api_key": ways["api_key"],
        "max_retries": 0,
    }


def llm(model: Model, **fields: Any) -> Any:
    """An ``OpenAILike`` that chats."""
    from llama_index.llms.openai_like import OpenAILike

    info = model.info
    known = {"model": info["name"], "is_chat_model": True, "context_window": info["context"]}
    return OpenAILike(**{**known, **_ways(model), **fields})


def embeddings(model: Model, **fields: Any) -> Any:
    """An ``OpenAILikeEmbedding``."""
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding

    return OpenAILikeEmbedding(**{"model_name": model.info["name"], **_ways(model), **fields})
