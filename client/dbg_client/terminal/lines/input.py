"""The keyboard of a line debugger: single keys, or whole lines where several come at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TextIO

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

ENTER = frozenset({Keys.ControlM, Keys.ControlJ})

AT_ONCE = 2
"""Lines in one read that nobody types so fast: they were typed ahead, or pasted into a plain terminal."""


class LineInput(Vt100Input):
    """Read keys; hand whole lines of plain text that came in one read to ``take``, if ``takes`` says so.

    A prompt takes a millisecond for every key, and begins anew for every line: a thousand lines took half a minute.
    """

    def __init__(self, stdin: TextIO, takes: Callable[[], bool], take: Callable[[list[str]], None]) -> None:
        super().__init__(stdin)
        self._takes = takes
        self._take = take

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that are to be looked at one by one."""
        keys = super().read_keys()
        lines, rest = whole_lines(keys)
        if len(lines) < AT_ONCE or not self._takes():
            return keys
        self._take(lines)
        return rest


def whole_lines(keys: Iterable[KeyPress]) -> tuple[list[str], list[KeyPress]]:
    """Return the lines that these keys begin with, up to a key that is neither a character nor Enter; and the rest."""
    lines: list[str] = []
    rest = list(keys)
    begun: list[str] = []
    for number, press in enumerate(tuple(rest)):
        if press.key in ENTER:
            lines.append("".join(begun))
            begun.clear()
            done = number + 1
        elif len(press.key) == 1 and press.key.isprintable():
            begun.append(press.key)
        else:
            break
    return lines, rest[done:] if lines else rest
