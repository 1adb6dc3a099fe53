"""The line of a stop after its file was edited. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_wire.limits import MAX_LINE_TEXT


def text_of(lines: Sequence[str], number: int) -> str | None:
    """Return the text of a line without the blanks around it; None if there is no such line, or it is blank."""
    return (lines[number - 1].strip() or None) if 0 < number <= len(lines) else None


def find_again(lines: Sequence[str], number: int, text: str | None) -> int:
    """Return the number that a line with this text has now: the same, or the only other line that has it."""
    if text is None:
        return number
    # A rank reports only so much of a breakpoint's line.
    begin = text[:MAX_LINE_TEXT]
    if (text_of(lines, number) or "")[:MAX_LINE_TEXT] == begin:
        return number
    equal = [at for at, line in enumerate(lines, 1) if line.strip()[:MAX_LINE_TEXT] == begin]
    return equal[0] if len(equal) == 1 else number
