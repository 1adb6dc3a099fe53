"""Values that are read from texts of a command line. Pure."""

from __future__ import annotations

import math

from dbg_wire import limits
from dbg_wire.errors import BadInput, printable

MAX_PORT = 65535

LONGEST_WAIT = 30 * 24 * 3600.0
"""Seconds that ``--for`` takes at most: no job is in a queue for longer, and event loops still count them exactly."""


def read_seconds(text: str, name: str, most: float, least: float = 0.0) -> float:
    """Return a number of seconds between two bounds. Raise BadInput, naming the option."""
    seconds = read_number(text)
    if not (seconds > 0 and least <= seconds <= most):
        raise BadInput(f"{name} {printable(text)!r} is not a number of seconds", f"give one from 0.1 to {most:.0f}")
    return seconds


def read_frame(text: str) -> str:
    """Return the frame that is meant. Raise BadInput for an empty or a long text."""
    frame = text.strip()
    if not frame:
        raise BadInput("--frame needs a function or a number, and has an empty text", "write e.g. `--frame train_step`")
    if len(frame) > limits.MAX_FRAME_NAME:
        raise BadInput(
            f"--frame has {len(frame):,} characters, and {limits.MAX_FRAME_NAME} are the most",
            "write a number, e.g. `--frame -2`",
        )
    return frame


def read_tolerance(text: str) -> float:
    """Return how much floats may differ. Raise BadInput for what is not a number."""
    tolerance = read_number(text)
    if not 0 <= tolerance < math.inf:
        raise BadInput(f"--tol {printable(text)!r} is not a tolerance", "give a number such as 1e-6")
    return tolerance


def read_number(text: str) -> float:
    """Return a number, NaN for a text that is not one."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def check_question(text: str, verb: str, needed: str, example: str) -> None:
    """Raise BadInput for an expression or a command that is empty or too long."""
    if not text.strip():
        raise BadInput(f"{verb} needs {needed}, e.g. `{example}`, and has an empty one", "write one")
    if len(text) > limits.MAX_TEXT:
        raise BadInput(
            f"{verb} has {len(text):,} characters, and {limits.MAX_TEXT:,} are the most", "put it into a module"
        )


def read_port(text: str) -> int:
    """Return the port of an IDE or a page. Raise BadInput for what is not a port."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 5 or int(text) > MAX_PORT:
        raise BadInput(f"--port {printable(text, 20)} is no port", f"write 1024 to {MAX_PORT}, or 0 for a free one")
    return int(text)
