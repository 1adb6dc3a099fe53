"""The beginning of a value's text, without the rest of the walk: lists of variables show many values at once."""

from __future__ import annotations

from dbg_agent.values.budget import Effort, OutOfTime
from dbg_agent.values.fingerprint import NoFingerprint
from dbg_agent.values.text import HEAD, ValueText
from dbg_agent.values.walk import Walk


class _LongEnough(OutOfTime):
    """All characters that will be shown are written."""


class _Beginning(ValueText):
    """A text that ends the walk once it has more than ``most`` characters."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.is_cut = False

    def write(self, piece: str) -> None:
        """Add a piece of any length; raise _LongEnough if nothing more will be shown."""
        super().write(piece)
        if len(self.head) > self._most:
            self.is_cut = True
            raise _LongEnough("")


class _Glimpse(Walk):
    """A walk that writes the beginning of a text and compares nothing."""

    compares = False

    def __init__(self, effort: Effort, most: int) -> None:
        super().__init__(effort, stats=False)
        self.text: _Beginning = _Beginning(most)
        self.fingerprint = NoFingerprint()


def beginning_of(value: object, *, most: int, seconds: float) -> str:
    """Return the text that `describe` gives of a value, cut to ``most`` characters, at most HEAD of them.

    Only what is shown is looked at: large tensors are not read, and the walk through a container ends with the text.
    So the remark that a value was not compared can be missing if another one is the reason. Runs ``repr`` of unknown
    objects in the calling thread; the caller's KeyboardInterrupt is not caught. Raises no Exception.
    """
    most = min(most, HEAD - 1)
    effort = Effort(seconds)
    walk = _Glimpse(effort, most)
    whole = walk.whole(value)
    if walk.text.is_cut:
        text = walk.text.head.encode("utf-8", "replace").decode()
    else:
        text = walk.text.compose(whole=whole, remark=effort.reason and f"values not compared: {effort.reason}")
    return text if len(text) <= most else f"{text[: most - 1]}…"
