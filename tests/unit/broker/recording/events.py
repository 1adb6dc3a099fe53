"""What tests feed to recordings, and how they read the lines again."""

from __future__ import annotations

import json

from dbg_broker.recording.stop_cast import About, ScreenInfo, Shown
from dbg_wire.codec import Output, encode_data
from dbg_wire.messages import PromptInfo, PromptState

ABOUT = About(job="4711.0", address="gpu013:5", stop=3, began=1_760_000_000.0, reason="breakpoint", place="a.py:7")

Line = tuple[float, str, str]


def seen(
    at: float, engine: str = "pudb", rows: int = 24, columns: int = 80, prompt: PromptInfo | None = None
) -> ScreenInfo:
    return ScreenInfo(at, 1, engine, rows, columns, prompt)


def shown(at: float, data: bytes, offset: int = 0, session: int = 1) -> Shown:
    return Shown(at, encode_data(Output(session, offset, data)))


def prompt(number: int, offset: int, text: str = "(Pdb) ") -> PromptInfo:
    return PromptInfo(number=number, offset=offset, text=text, state=PromptState.COMMAND)


def events(lines: bytes) -> list[Line]:
    return [tuple(json.loads(line)) for line in lines.splitlines()]


def output(lines: bytes) -> str:
    return "".join(data for _, code, data in events(lines) if code == "o")


def marks(lines: bytes) -> list[str]:
    return [data for _, code, data in events(lines) if code == "m"]
