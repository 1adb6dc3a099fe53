"""Options of verbs, declared at a record's fields, for the parser, the help, completion and schemas. Pure.

::

    frame: Annotated[str, Option("--frame", metavar="FRAME", help="in this frame", read=read_frame)] = ""
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from dbg_wire import limits
from dbg_wire.errors import BadInput, printable


class Heading(enum.Enum):
    """Title of a group of options in the help."""

    ASKING = "asking many ranks"
    ATTACH = "attaching"
    RUNNING = "running a job"
    NUMBERS = "watching numbers"
    OTHER = "other options"


class Operands(enum.Enum):
    """The words that follow a verb, as the usage line shows them."""

    NONE = ""
    TARGET = "TARGET"
    MAYBE_TARGET = "[TARGET]"
    MAYBE_FILES = "[TARGET|FILE…]"
    EXPRESSION = "[TARGET] EXPR"
    COMMAND = "TARGET CMD"
    WATCH = "nan|different|off [TARGET]"
    TWO_RUNS = "[TARGET]|A B"
    SHELL = "bash|zsh|fish"
    PROGRAM = "TARGET -- CMD..."
    JOB = "-- CMD..."
    PROCESSES = "PID…|--mine"
    VERB = "[VERB]"


@dataclass(frozen=True, slots=True, init=False)
class Option:
    """One option of a field.

    Without ``metavar`` it is a switch that sets the field to ``const``. ``read`` parses the typed text, and raises
    BadInput. ``repeats`` allows the option several times, ``in_session`` allows it in a session, too.
    """

    flags: tuple[str, ...]
    help: str
    heading: Heading
    metavar: str | None
    const: object
    choices: tuple[str, ...]
    read: Callable[[str], object]
    repeats: bool
    in_session: bool

    def __init__(
        self,
        *flags: str,
        help: str,  # noqa: A002 - argparse calls it so
        heading: Heading = Heading.OTHER,
        metavar: str | None = None,
        const: object = True,
        choices: tuple[str, ...] = (),
        read: Callable[[str], object] = str,
        repeats: bool = False,
        in_session: bool = False,
    ) -> None:
        for name, value in {**locals(), "flags": flags}.items():
            if name in self.__slots__:
                object.__setattr__(self, name, value)

    @property
    def takes_value(self) -> bool:
        """Whether a value follows the option."""
        return self.metavar is not None


@dataclass(frozen=True, slots=True)
class Preferred:
    """Environment variable that sets a field if no option does.

    ``usual`` is read if the variable is not set; None leaves the field's default. With ``empty_counts``, an empty
    variable is read like any other; otherwise it is treated as not set.
    """

    variable: str
    read: Callable[[str], object] = str
    usual: str | None = None
    empty_counts: bool = False


NO_FLAGS = "no flags"
"""Marks a nested record whose options are not offered, because users set its fields only by preferences."""


MAX_PORT = 65535

LONGEST_WAIT = 30 * 24 * 3600.0
"""Maximum of ``--for``, in seconds. No job is queued for longer, and event loops time such a wait exactly."""


def read_seconds(text: str, name: str, most: float, least: float = 0.0) -> float:
    """Return a number of seconds between two bounds. Raise BadInput, which names the option."""
    seconds = read_number(text)
    if not (seconds > 0 and least <= seconds <= most):
        raise BadInput(f"{name} {printable(text)!r} is not a number of seconds", f"use a number from 0.1 to {most:.0f}")
    return seconds


def read_frame(text: str) -> str:
    """Return the frame, without surrounding spaces. Raise BadInput for an empty or a long text."""
    frame = text.strip()
    if not frame:
        raise BadInput("--frame needs a function or a number, but its text is empty", "write e.g. `--frame train_step`")
    if len(frame) > limits.MAX_FRAME_NAME:
        raise BadInput(
            f"--frame has {len(frame):,} characters, but at most {limits.MAX_FRAME_NAME} are allowed",
            "write a number, e.g. `--frame -2`",
        )
    return frame


Frame = Annotated[
    str,
    Option(
        "--frame",
        heading=Heading.ASKING,
        metavar="FRAME",
        in_session=True,
        help="in this frame: a function name or a number such as -2 (default: the innermost of your code)",
        read=read_frame,
    ),
]


def read_number(text: str) -> float:
    """Return a number, or NaN for a text that is not a number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_port(text: str) -> int:
    """Return the port of an IDE or a page. Raise BadInput for an invalid port."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 5 or int(text) > MAX_PORT:
        raise BadInput(f"--port {printable(text, 20)} is not a port", f"use 1024 to {MAX_PORT}, or 0 for a free port")
    return int(text)
