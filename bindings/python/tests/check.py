"""What every binding must do, in Python. Says `feature NAME` for each thing that it has seen work.

`cargo xtask test-bindings python` sets what is expected in the environment.
"""

import asyncio
import dataclasses
import gc
import json
import os
import random
import sys
import threading
import time
import typing

import strata

STORY = os.environ["STRATA_STORY"]
EMBEDDING = json.loads(os.environ["STRATA_EMBEDDING"])
ADAPTERS = [os.environ["STRATA_ADAPTER_ONE"], os.environ["STRATA_ADAPTER_TWO"]]
SECONDS = float(os.environ.get("STRATA_STRESS_SECONDS", "3"))
ASKED = "Tell me a story about a fox."
SETTINGS = {"temperature": 0, "max_tokens": 32}
LONG = {"max_tokens": 4000, "ignore_eos": True}


def feature(name: str) -> None:
    print("feature", name, flush=True)


def greedy(model: strata.Model) -> None:
    assert model.chat(ASKED, **SETTINGS).text == STORY
    feature("greedy")
    answer = model.chat([{"role": "user", "content": ASKED}], **SETTINGS)
    events = list(answer)
    assert "".join(event.text for event in events) == STORY and len(events) > 5
    assert answer.finish_reason == "length" and answer.usage["completion_tokens"] == 32
    assert answer.message == {"role": "assistant", "content": STORY}
    assert "".join(model.stream("Once upon a time", **SETTINGS))

    async def read() -> str:
        pieces = [event.text async for event in model.chat(ASKED, **SETTINGS)]
        whole = await model.chat(ASKED, **SETTINGS)
        assert whole.text == STORY
        return "".join(pieces)

    assert asyncio.run(read()) == STORY
    feature("stream")


def cancel(model: strata.Model) -> None:
    answer = model.complete("Once upon a time", **LONG)
    timer = threading.Timer(0.05, answer.cancel)
    timer.start()
    try:
        print(answer.text)
        raise AssertionError("it ended")
    except strata.Canceled as error:
        assert error.code == "canceled"

    async def task() -> None:
        seen = asyncio.Event()

        async def read() -> None:
            async for _ in model.complete("Once upon a time", **LONG):
                seen.set()

        running = asyncio.create_task(read())
        await seen.wait()
        running.cancel()
        try:
            await running
            raise AssertionError("it ended")
        except asyncio.CancelledError:
            pass
        # In a prompt's computation, too: the loop goes on meanwhile.
        prompt = asyncio.create_task(model.complete("fox owl " * 900, max_tokens=1)._wait())
        await asyncio.sleep(0.02)
        prompt.cancel()
        ticks = 0
        while not prompt.done():
            await asyncio.sleep(0.001)
            ticks += 1
        assert prompt.cancelled() and ticks < 500

    asyncio.run(task())
    early = model.complete("Once", **LONG)
    early.cancel()
    try:
        early.wait()
        raise AssertionError("it ended")
    except strata.Canceled:
        pass
    # Others compute while a thread waits: the GIL is free.
    waiting = threading.Thread(target=lambda: model.complete("Once", max_tokens=200, ignore_eos=True).wait())
    waiting.start()
    turns = 0
    while waiting.is_alive():
        turns += 1
        time.sleep(0.001)
    assert turns > 10, turns
    feature("cancel")


@dataclasses.dataclass
class Hero:
    name: typing.Annotated[str, "what it is called"]
    animal: typing.Literal["fox", "owl", "hare"]
    age: int | None
    friends: list[str] = dataclasses.field(default_factory=list)


def schema(model: strata.Model) -> None:
    hero = model.chat("Who is the hero?", schema=Hero, temperature=0, max_tokens=200).parsed
    assert isinstance(hero, Hero) and hero.animal in ("fox", "owl", "hare"), hero
    try:
        import pydantic
    except ImportError:
        pass
    else:

        class Animal(pydantic.BaseModel):
            kind: typing.Literal["fox", "owl"]
            age: int = pydantic.Field(ge=1, le=9)

        animal = model.chat("Which animal?", schema=Animal, temperature=0).parsed
        assert isinstance(animal, Animal) and 1 <= animal.age <= 9, animal
    plain = model.chat("?", schema={"enum": ["yes", "no"]}, temperature=0).parsed
    assert plain in ("yes", "no")
    feature("schema")


def tools(model: strata.Model) -> None:
    asked: list[str] = []

    def weather(city: typing.Literal["Bern", "Oslo"]) -> dict[str, int]:
        """Tells the weather in a city."""
        asked.append(city)
        return {"degrees": 18}

    answer = model.chat("Is it warm in Oslo?", tools=[weather], tool_choice="required", temperature=0, max_tokens=60)
    assert answer.text and asked and answer.calls == [], (answer.text, asked)

    async def slow(city: typing.Literal["Bern", "Oslo"]) -> str:
        """Tells the weather in a city, in its own time."""
        await asyncio.sleep(0.01)
        asked.append("slow " + city)
        raise ValueError("no thermometer")

    async def run() -> None:
        asking = model.chat("Is it warm?", tools=[slow], tool_choice="required", temperature=0, max_tokens=60)
        assert (await asking).text

    asyncio.run(run())
    assert asked[-1].startswith("slow")
    # A tool without a function is left to the program.
    document = strata.Tool(weather).document()
    calls = model.chat("Warm?", tools=[document], tool_choice="required", temperature=0, max_tokens=60).calls
    assert calls and calls[0]["arguments"]["city"] in ("Bern", "Oslo")
    feature("tools")


def embeddings(model: strata.Model) -> None:
    vector = model.embed("a fox and an owl")
    assert [float(value) for value in vector] == [struct_float(value) for value in EMBEDDING]
    rows = model.embed(["a fox", "an owl"])
    assert len(rows) == 2
    try:
        import numpy
    except ImportError:
        pass
    else:
        assert isinstance(rows, numpy.ndarray) and rows.dtype == numpy.float32 and rows.shape[0] == 2
    assert list(asyncio.run(model.embed_async("a fox and an owl"))) == list(vector)
    feature("embeddings")


def struct_float(value: float) -> float:
    """A number as 32 bits hold it."""
    import struct

    return struct.unpack("<f", struct.pack("<f", value))[0]


def adapters() -> None:
    model = strata.load("tale", adapters=ADAPTERS)
    assert [one["id"] for one in model.adapters] == [0, 1]

    def ask(**more: typing.Any) -> strata.Answer:
        return model.complete("Once upon a time", temperature=0, max_tokens=16, **more)

    plain, one, two = ask().text, ask(adapters={0: 1.0}).text, ask(adapters={1: 1.0}).text
    assert len({plain, one, two}) == 3

    async def together() -> list[str]:
        asked = [ask(), ask(adapters={0: 1.0}), ask(adapters={1: 1.0})]
        return [answer.text for answer in await asyncio.gather(*(one._wait() for one in asked))]

    assert asyncio.run(together()) == [plain, one, two]
    model.set_adapters({1: 1.0})
    assert ask().text == two
    feature("adapters")


def sessions(model: strata.Model) -> None:
    with model.session() as session:
        session.append("Once upon a time")
        fork = session.fork()
        said = session.run(max_tokens=6, temperature=0).text
        assert session.text == "Once upon a time" + said == model.restore(session.save()).text
        assert fork.run(max_tokens=6, temperature=0).text == said
    feature("sessions")
    held = model.session().append("Once upon a time").constrain(guided_regex="(yes|no)", never_to_disk=True)
    assert held.run(temperature=0, max_tokens=6).text in ("yes", "no")
    assert held.fork().run(max_tokens=6).text in ("yes", "no")
    for act in (held.save, lambda: held.constrain(colour="red"), lambda: held.constrain(model="tale")):
        try:
            act()
            raise AssertionError("no error")
        except strata.Error as error:
            assert error.code == "invalid_argument", error
    feature("constraints")


def others(model: strata.Model) -> None:
    tokens = model.tokenize("Once upon a time")
    assert "upon a time" in model.detokenize(tokens)
    feature("tokenize")
    plan = strata.plan("tale", context=512)
    assert plan["fits"] and plan["total"] > plan["weights"] > 0
    feature("plan")
    for act, code in [
        (lambda: strata.load("nowhere.gguf"), "not_found"),
        (lambda: strata.load("tale", memory="1k"), "out_of_memory"),
        (lambda: strata.load("tale", contxt=1), "invalid_argument"),
        (lambda: model.chat("a", tempreature=1).text, "invalid_argument"),
        (lambda: model.rerank("a", ["b"]), "unsupported"),
        (lambda: model.request("/v1/audio/transcriptions", {"file": ""}), "unsupported"),
        (lambda: model.complete("fox " * 9000).text, "context_exceeded"),
    ]:
        try:
            act()
            raise AssertionError(code)
        except strata.Error as error:
            assert error.code == code, (error, error.code)

    async def load() -> strata.Model:
        return await strata.Load("tale")

    with asyncio.run(load()) as other:
        assert other.info["name"] == "tale"
    try:
        other.tokenize("a")
        raise AssertionError("closed")
    except strata.Error as error:
        assert error.code == "closed"
    feature("errors")


def openai(model: strata.Model) -> None:
    client = strata.OpenAI(model, api_key="none")
    messages = [{"role": "user", "content": ASKED}]
    answer = client.chat.completions.create(model="tale", messages=messages, temperature=0, max_tokens=32)
    assert answer.choices[0].message.content == STORY and answer.usage.completion_tokens == 32
    with client.chat.completions.create(messages=messages, stream=True, **SETTINGS) as chunks:
        said = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(said) == STORY
    assert client.embeddings.create(input="a fox").data[0].embedding[0] != 0
    assert client.models.list().data[0].id == "tale"

    async def run() -> str:
        other = strata.AsyncOpenAI(model)
        stream = await other.chat.completions.create(messages=messages, stream=True, **SETTINGS)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(run()) == STORY
    try:
        import openai as package
    except ImportError:
        feature("openai")
        return
    from strata.openai import connection

    real = package.OpenAI(**connection(model))
    answer = real.chat.completions.create(model="tale", messages=messages, **SETTINGS)
    assert isinstance(answer, package.types.chat.ChatCompletion) and answer.choices[0].message.content == STORY
    stream = real.chat.completions.create(model="tale", messages=messages, stream=True, **SETTINGS)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == STORY
    try:
        real.chat.completions.create(model="tale", messages=[], temperature=99)
        raise AssertionError("no error")
    except package.BadRequestError as error:
        assert "temperature" in str(error) or "messages" in str(error)

    async def run_real() -> str:
        other = package.AsyncOpenAI(**connection(model, asynchronous=True))
        stream = await other.chat.completions.create(model="tale", messages=messages, stream=True, **SETTINGS)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(run_real()) == STORY
    feature("openai")


def images() -> None:
    question = json.loads(os.environ["STRATA_QUESTION"])
    model = strata.load(os.environ["STRATA_SEEING_MODEL"], projector=os.environ["STRATA_EYES"])
    (document,) = model.request("/v1/chat/completions", question)
    assert document["choices"][0]["logprobs"] == json.loads(os.environ["STRATA_SEEN"])
    answer = model.chat(question["messages"], temperature=0, max_tokens=6, ignore_eos=True)
    assert answer.text == document["choices"][0]["message"]["content"]
    blind = strata.load(os.environ["STRATA_SEEING_MODEL"])
    try:
        print(blind.chat(question["messages"]).text)
        raise AssertionError("it sees")
    except strata.Error as error:
        assert "cannot see" in str(error), error
    feature("images")


def speech() -> None:
    model = strata.load(os.environ["STRATA_HEARING_MODEL"], threads=2)
    heard, sound = json.loads(os.environ["STRATA_HEARD"]), os.environ["STRATA_SOUND"]
    told = model.transcribe(sound, response_format="verbose_json")
    assert {name: told[name] for name in heard} == heard and told["text"], told
    with open(sound, "rb") as file:
        assert model.transcribe(file.read())["text"] == heard["text"]
    assert asyncio.run(model.transcribe_async(sound))["text"] == heard["text"]
    *pieces, last = model.request("/v1/audio/transcriptions", {"file": sound, "stream": True})
    assert "".join(piece["delta"] for piece in pieces) == last["text"] == heard["text"]
    for act, code in [
        (lambda: model.transcribe("/nowhere.wav"), "not_found"),
        (lambda: model.transcribe(b"no sound"), "invalid_argument"),
        (lambda: model.chat("a").text, "unsupported"),
        (lambda: model.tokenize("a"), "unsupported"),
        (lambda: model.session(), "unsupported"),
    ]:
        try:
            act()
            raise AssertionError(code)
        except strata.Error as error:
            assert error.code == code, (error.code, error)
    feature("speech")


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def stress() -> None:
    model = strata.load("tale", context=64, requests=16)
    end, early = time.monotonic() + SECONDS, 0
    counts = {"ended": 0, "canceled": 0}
    shared: list[strata.Answer | None] = [None] * 64

    def work(number: int) -> None:
        dice = random.Random(number)
        while time.monotonic() < end:
            answer = model.complete(f"Once upon a time {dice.randrange(50)}", max_tokens=dice.randrange(1, 24))
            shared[dice.randrange(64)] = answer
            try:
                for _ in answer:
                    if dice.randrange(16) == 0:
                        other = shared[dice.randrange(64)]
                        if other is not None:
                            other.cancel()
                    if dice.randrange(64) == 0:
                        break
                counts["ended"] += 1
            except strata.Canceled:
                counts["canceled"] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    time.sleep(SECONDS / 3)
    gc.collect()
    early = resident()
    for thread in threads:
        thread.join()
    gc.collect()
    late = resident()
    assert counts["ended"] and counts["canceled"], counts
    assert late < early + (65_536 if SECONDS < 10 else 24_576), (early, late)
    print(counts, early, "kB, then", late, "kB", file=sys.stderr)
    feature("stress")


def main() -> None:
    model = strata.load("tale")
    greedy(model)
    cancel(model)
    schema(model)
    tools(model)
    embeddings(model)
    adapters()
    sessions(model)
    others(model)
    openai(model)
    images()
    speech()
    stress()


main()
