"""A rank's description of a value: a text for users, and digests of the whole value by which ranks are compared."""

from __future__ import annotations

from dataclasses import dataclass


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
    # These modules load hashlib, which a rank doesn't need until it is asked for a value.
    from dbg_agent.values.budget import Effort
    from dbg_agent.values.walk import Walk

    effort = Effort(seconds)
    walk = Walk(effort, stats=stats)
    whole = walk.whole(value)
    text = walk.text.compose(whole=whole, remark=effort.reason and f"values not compared: {effort.reason}")
    if effort.reason:
        return Described(text=text, digest="", exact="")
    exact, digest = walk.fingerprint.digests()
    return Described(text=text, digest=digest.hex(), exact=exact.hex())
