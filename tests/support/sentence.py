"""The check of each complaint to a user: it is one sentence, which can do no harm and tells no secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest

from dbg_wire.errors import DbgError

SECRET = "s3cret-T0ken_that-nobody.may.see"  # noqa: S105 - nobody's

HOSTILE = "\x1b]0;pwned\x07\x9b31m\n\u202e"
"""Text that renames a window, colours text, breaks the line and turns it around; no part of it may reach a terminal."""

RAW = re.compile(rb"\x1b\]0;pwned|pwned\x07|\xc2\x9b|\xe2\x80\xae")
"""Any part of HOSTILE as it must not reach a terminal."""


def check_sentence(text: str, pattern: str, secrets: Sequence[str] = (SECRET,)) -> None:
    """Fail unless a text is one harmless line that says what it should, a regular expression, and no secret."""
    assert text.endswith("\n")
    assert text[:-1].isprintable(), text
    assert re.search(pattern, text), text
    assert not any(secret in text for secret in secrets), text


Input = TypeVar("Input")


def refusals(call: Callable[[Input], object], inputs: Iterable[Input]) -> str:
    """Return a line for each input with the harmless sentence of the error by which a call refuses it."""
    lines = []
    for one in inputs:
        with pytest.raises(DbgError) as refused:
            call(one)
        error = refused.value
        assert str(error).isprintable(), repr(str(error))
        lines.append(f"{type(error).__name__} {error.exit_status} for {one!r}: {error}")
    return "\n".join(lines)
