"""The types of the package, as a type checker sees them: nothing of this runs."""

import dataclasses
import typing

import strata


@dataclasses.dataclass
class Hero:
    name: str
    animal: typing.Literal["fox", "owl"]


def weather(city: str) -> str:
    """Tells the weather in a city."""
    return city


async def typed() -> None:
    model: strata.Model = strata.load("tale", memory="6G", threads=2)
    for event in model.chat("Who?", schema=Hero, tools=[weather], adapters={0: 0.5}, temperature=0):
        text: str = event.text
    async for event in model.complete("Once"):
        text = event.text
    answer = model.chat([{"role": "user", "content": "Hello"}])
    whole: str = answer.text
    tokens: list[int] = model.tokenize(whole)
    text = model.detokenize(tokens)
    ranked: list[tuple[int, float]] = model.rerank("a", ["b"])
    heard: dict[str, typing.Any] = await model.transcribe_async("talk.wav", language="en")
    with model.session() as session:
        session.constrain(guided_regex="(yes|no)", deadline_ms=1000)
        saved: bytes = session.append(text).fork().save()
    model.restore(saved).run(max_tokens=3).cancel()
    model.tokenize(3)  # type: ignore[arg-type]
    model.restore("text")  # type: ignore[arg-type]
    model.chatt("a")  # type: ignore[attr-defined]
    try:
        other: strata.Model = await strata.Load("tale")
        other.close()
    except strata.Error as error:
        code: str = error.code
        print(code, ranked, heard, strata.FEATURES)
