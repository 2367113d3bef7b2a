"""Run language models in your own process: no daemon, the same bytes everywhere.

    import strata

    model = strata.load("tale")
    for event in model.chat("Tell me a story about a fox."):
        print(event.text, end="")
"""

from ._errors import Canceled, Error
from ._strata import FEATURES, __version__
from .chat import Answer, Event
from .model import Load, Model, Session, load, plan
from .openai import AsyncOpenAI, OpenAI
from .streams import Stream
from .tools import Tool

__all__ = [
    "FEATURES",
    "Answer",
    "AsyncOpenAI",
    "Canceled",
    "Error",
    "Event",
    "Load",
    "Model",
    "OpenAI",
    "Session",
    "Stream",
    "Tool",
    "__version__",
    "load",
    "plan",
]
