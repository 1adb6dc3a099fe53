"""The text of a log point, in which ``{expression}`` stands for a value, with a format as in f-strings; pure."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import NamedTuple

MAX_VALUE = 1000
"""Characters of one value in a log: a line that is longer is not read."""


class NoLogText(Exception):
    """A text with braces that hold no expression; the exception's text names them."""


class _Value(NamedTuple):
    code: CodeType
    is_repr: bool
    spec: str


class LogText:
    """A text with values. Raise NoLogText if what stands in braces is no expression."""

    def __init__(self, text: str) -> None:
        self._parts: list[str | _Value] = []
        literal, rest = "", text
        while rest:
            if rest[:2] in ("{{", "}}"):
                literal, rest = literal + rest[0], rest[2:]
            elif rest[0] == "{":
                value, rest = _value_at(rest)
                self._parts += [literal, value]
                literal = ""
            else:
                literal, rest = literal + rest[0], rest[1:]
        self._parts.append(literal)

    def filled(self, evaluate: Callable[[CodeType], object]) -> str:
        """Return the text with its values. An error stands in the place of a value that can't be told."""
        return "".join(part if isinstance(part, str) else _shown(part, evaluate) for part in self._parts)


def _value_at(text: str) -> tuple[_Value, str]:
    """Return the value at the begin of a text, and the text behind its closing brace."""
    end = text.find("}")
    while end > 0:
        value = _compiled(text[1:end])
        if value is not None:
            return value, text[end + 1 :]
        # This brace may belong to the expression, as that of a dictionary does.
        end = text.find("}", end + 1)
    raise NoLogText(f"`{text[: text.find('}') + 1] or text}` holds no expression; `{{{{` stands for a brace")


def _compiled(inside: str) -> _Value | None:
    whole = _code(inside)
    if whole is not None:
        return _Value(whole, False, "")
    colon = inside.rfind(":")
    for expression, spec in ((inside, ""), (inside[:colon], inside[colon + 1 :])):
        bare = expression.removesuffix("!r")
        code = _code(bare)
        if code is not None and (colon >= 0 or bare != expression):
            return _Value(code, bare != expression, spec)
    return None


def _code(text: str) -> CodeType | None:
    try:
        return compile(text.strip(), "<log point>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _shown(value: _Value, evaluate: Callable[[CodeType], object]) -> str:
    try:
        found = evaluate(value.code)
        text = (
            format(repr(found) if value.is_repr else found, value.spec) if value.spec or value.is_repr else str(found)
        )
    except (Exception, SystemExit) as error:
        text = f"<{type(error).__name__}: {error}>"
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
