"""What a recording says in words: for a search in it, and for a reader without a terminal. Pure."""

from __future__ import annotations

import re

from ..terminal.sequences import TextFilter

_MOVES = re.compile(r"\x1b\[\d{0,5}(?:;\d{0,5})?[Hf]|\x1b\[\d{0,5}[ABEFd]")
_COLORS = re.compile(r"\x1b\[[0-9:;]{0,40}m")
_SPACES = re.compile(r"[ \t]+(?=\n)")
_BLANK = re.compile(r"\n{3,}")


class PlainText:
    """Turn output into lines: text and line ends stay, another place on the screen begins a line."""

    def __init__(self) -> None:
        self._filter = TextFilter()

    def feed(self, data: str) -> str:
        """Return the text of the next output."""
        moved = _MOVES.sub("\n", data).encode("utf-8", "replace")
        text = _COLORS.sub("", self._filter.feed(moved)).replace("\r\n", "\n").replace("\r", "")
        return _BLANK.sub("\n\n", _SPACES.sub("", text))


def clock(seconds: float) -> str:
    """Return a time of a replay, e.g. ``1:02`` or ``1:00:02``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
