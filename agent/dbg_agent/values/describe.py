"""A rank's description of a value: a text for users, and digests of the whole value by which ranks are compared."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_agent.values.record import HEAD, Effort, NoFingerprint, OutOfTime, ValueText
from dbg_agent.values.walk import Walk


@dataclass(frozen=True, slots=True)
class Described:
    """The description of one value.

    ``text`` may be abbreviated and has at most :data:`.text.MAX_VALUE_TEXT` characters. ``exact`` is the digest of the
    whole value. ``digest`` leaves out what differs between equal values of two ranks: memory addresses, and the number
    of the device that holds a tensor. Both are empty if the value was not looked at whole; ``text`` then says why.
    """

    text: str
    digest: str
    exact: str


def describe(value: object, *, stats: bool, seconds: float) -> Described:
    """Describe a value within ``seconds``; with ``stats`` the text has figures of tensors and arrays, too.

    Runs ``repr`` of unknown objects in the calling thread, and copies tensors to the CPU, but runs no collective. A
    ``repr`` or a copy that takes too long can only be interrupted by the caller: its KeyboardInterrupt is not caught.
    Raises no Exception.
    """
    effort = Effort(seconds)
    walk = Walk(effort, stats=stats)
    whole = walk.whole(value)
    text = walk.text.compose(whole=whole, remark=effort.reason and f"values not compared: {effort.reason}")
    if effort.reason:
        return Described(text=text, digest="", exact="")
    exact, digest = walk.fingerprint.digests()
    return Described(text=text, digest=digest.hex(), exact=exact.hex())


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
