"""Texts that fit into an answer: of what a command printed, and of an exception."""

from __future__ import annotations

from dbg_wire.limits import MAX_TEXT

MAX_ANSWER = MAX_TEXT // 4
"""Characters of one answer's text: a screenful or two; longer answers of hundreds of ranks are not read."""


def error_text(error: BaseException) -> str:
    """Return the class and the message of an exception, whatever its ``str`` does; of any length."""
    try:
        text = str(error)
    except BaseException as worse:
        # A str() that raises SystemExit, or that never ends and is interrupted, gets an answer as well.
        text = f"its str raises {type(worse).__name__}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def abridged(text: str) -> str:
    """Return a text that fits into an answer, without its middle if it is too long."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    if len(clean) <= MAX_ANSWER:
        return clean
    half = MAX_ANSWER // 2 - 20
    return f"{clean[:half]} … [{len(clean)} characters] … {clean[-half:]}"
