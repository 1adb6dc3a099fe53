"""The output of one command at PuDB's command line, cut to what can be drawn."""

from __future__ import annotations

from dbg_agent.stop.capture import Capture

MAX_ENTRY = 64 * 1024
"""Characters of one text at the command line: many screens. The layout of a longer text takes long."""


class PrintedTail(Capture):
    """The end of what one command prints: the result usually stands at the end."""

    def write(self, text: str) -> int:
        """Keep text, and drop the oldest if it becomes too much."""
        self._parts.append(text)
        self._kept += len(text)
        if self._kept > 2 * MAX_ENTRY:
            self._cut()
        return len(text)

    def shown(self) -> str:
        """Return the end of what was printed, after a line that says how much is missing."""
        self._cut()
        return f"[{self.lost} lines before these are left out]\n{self.text}" if self.lost else self.text

    def _cut(self) -> None:
        whole = "".join(self._parts)
        cut = max(0, len(whole) - MAX_ENTRY // 2)
        if cut:
            # The cut is at the end of a line, unless no line ends there.
            cut = whole.find("\n", cut) + 1 or cut
        self.lost += whole.count("\n", 0, cut)
        self._parts, self._kept = [whole[cut:]], len(whole) - cut
