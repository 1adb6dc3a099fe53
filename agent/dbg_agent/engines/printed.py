"""What one command prints at PuDB's command line, as much of it as can be drawn."""

from __future__ import annotations

from ..stop.capture import Capture

MAX_ENTRY = 64 * 1024
"""Characters of one text at the command line: many screens. More would take long to be laid out."""


class PrintedTail(Capture):
    """Keep the end of what one command prints, which is what its reader waits for."""

    def write(self, text: str) -> int:
        """Keep text."""
        self._parts.append(text)
        self._kept += len(text)
        if self._kept > 2 * MAX_ENTRY:
            self._cut()
        return len(text)

    def shown(self) -> str:
        """Return the end of what was printed, and before it how much is missing."""
        self._cut()
        return f"[{self.lost} lines before these are left out]\n{self.text}" if self.lost else self.text

    def _cut(self) -> None:
        whole = "".join(self._parts)
        cut = max(0, len(whole) - MAX_ENTRY // 2)
        if cut:
            # A line is left out whole, unless it is all there is.
            cut = whole.find("\n", cut) + 1 or cut
        self.lost += whole.count("\n", 0, cut)
        self._parts, self._kept = [whole[cut:]], len(whole) - cut
