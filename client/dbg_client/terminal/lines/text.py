"""Cut a rank's output into lines that can stand above a prompt. Pure."""

from __future__ import annotations

from dbg_wire.sequences import TextFilter

MAX_PARTIAL = 4096
"""Characters of a line without an end that are kept for the prompt's line; a longer one is broken here."""


class Lines:
    """Hand out whole lines; ``partial`` is the one that has begun, and belongs before the prompt."""

    def __init__(self) -> None:
        self._filter = TextFilter()
        self.partial = ""

    def feed(self, data: bytes) -> str:
        """Take the next bytes; return the lines that are complete, each with its end."""
        text = self.partial + self._filter.feed(data)
        whole, end, self.partial = text.rpartition("\n")
        if len(self.partial) > MAX_PARTIAL:
            whole, end, self.partial = text, "\n", ""
        # A progress bar draws over itself: what it said last is its line.
        return "".join(f"{_last(line)}\n" for line in whole.split("\n")) if end else ""

    @property
    def shown(self) -> str:
        """Return the line that has begun, as it looks now."""
        return _last(self.partial)

    def cut(self) -> str:
        """Begin anew after a gap; return the line that had begun, with an end."""
        left, self.partial = self.shown, ""
        self._filter = TextFilter()
        return f"{left}\n" if left else ""


def _last(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
