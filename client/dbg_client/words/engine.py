"""Which debugger a terminal asks for, and which of them is spoken to in lines. Pure."""

from __future__ import annotations

from dataclasses import dataclass

LINE_ENGINE = "pdb"
"""The debugger that is spoken to in lines; every other one draws a screen."""

ENGINES = {"pudb": "PuDB", "pdb": "pdb"}
"""The debuggers, and what people call them."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Hold the debugger that the user asked for, and the one to open where neither stop nor rank has a wish."""

    asked: str | None = None
    default: str | None = None


NO_WISH = Wish()
