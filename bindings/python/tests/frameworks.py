"""LangChain and LlamaIndex over a model in this process. Needs their packages; `check.py` tests all else."""

import asyncio
import os
import typing

import pydantic

import strata
import strata.langchain
import strata.llama_index

STORY = os.environ["STRATA_STORY"]
ASKED = "Tell me a story about a fox."


class Animal(pydantic.BaseModel):
    """An animal of a story."""

    kind: typing.Literal["fox", "owl"]


def langchain(model: strata.Model) -> None:
    chat = strata.langchain.chat_model(model, temperature=0, max_tokens=32)
    assert chat.invoke(ASKED).content == STORY
    assert "".join(chunk.content for chunk in chat.stream(ASKED)) == STORY
    assert asyncio.run(chat.ainvoke(ASKED)).content == STORY
    structured = chat.with_structured_output(Animal, method="json_schema")
    assert structured.invoke("Which animal?").kind in ("fox", "owl")
    assert len(strata.langchain.embeddings(model).embed_query("a fox")) == len(model.embed("a fox"))


def llama_index(model: strata.Model) -> None:
    llm = strata.llama_index.llm(model, temperature=0, max_tokens=32)
    from llama_index.core.llms import ChatMessage

    asked = [ChatMessage(role="user", content=ASKED)]
    assert llm.chat(asked).message.content == STORY
    assert "".join(piece.delta or "" for piece in llm.stream_chat(asked)) == STORY
    vector = strata.llama_index.embeddings(model).get_text_embedding("a fox")
    assert len(vector) == len(model.embed("a fox"))


def main() -> None:
    model = strata.load("tale")
    langchain(model)
    print("feature langchain")
    llama_index(model)
    print("feature llama_index")


main()
