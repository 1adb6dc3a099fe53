"""The text of a log point: an f-string, whose expressions are evaluated where the program comes by; pure."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType

MAX_VALUE = 1000
"""Characters of one value in a log: a line that is longer is not read."""


class NoLogText(Exception):
    """A text with braces that hold no expression; the exception's text says so."""


class LogText:
    """A text with values. Raise NoLogText if what stands in braces is no expression."""

    def __init__(self, text: str) -> None:
        self._parts = [_part(part) for part in _parsed(text)]

    def filled(self, evaluate: Callable[[CodeType], object]) -> str:
        """Return the text with its values. An error stands in the place of a value that can't be told."""
        return "".join(part if isinstance(part, str) else _shown(part, evaluate) for part in self._parts)


def _parsed(text: str) -> list[ast.expr]:
    """Return the texts and values of an f-string."""
    if "{" not in text:
        # A brace that closes nothing stands for itself.
        return [ast.Constant(text.replace("}}", "}"))]
    # A raw string takes backslashes as they are; the blank behind keeps one of them, or a quote, from the quotes.
    quotes = "'''" if "'''" not in text else '"""'
    try:
        parsed = ast.parse(f"rf{quotes}{text} {quotes}", "<log point>", "eval").body
        if not isinstance(parsed, ast.JoinedStr):
            raise NoLogText(f"`{text}` is no text with values in braces")
        for part in parsed.values:
            compile(_formatted(part), "<log point>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoLogText(f"`{text}` holds no expression between braces; `{{{{` and `}}}}` stand for braces") from None
    *_, last = parsed.values
    if isinstance(last, ast.Constant):
        last.value = str(last.value)[:-1]
    return parsed.values


def _part(part: ast.expr) -> str | CodeType:
    """Return a text as it is, and for a value the code that makes its text."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    return compile(_formatted(part), "<log point>", "eval", dont_inherit=True)


def _formatted(part: ast.expr) -> ast.Expression:
    return ast.fix_missing_locations(ast.Expression(ast.JoinedStr([part])))


def _shown(value: CodeType, evaluate: Callable[[CodeType], object]) -> str:
    try:
        text = str(evaluate(value))
    except (Exception, SystemExit) as error:
        text = f"<{type(error).__name__}: {error}>"
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
