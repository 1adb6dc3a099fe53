"""What a rank tells of a value: a text for people, and digests of the whole by which ranks are compared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Described:
    """Describe one value.

    ``text`` may be abbreviated and is at most ``value_text.MAX_VALUE_TEXT`` characters. ``exact`` is the digest of the
    whole value, ``digest`` the same without what differs between equal values of two ranks: memory addresses, and the
    number of the device that holds a tensor. Both are empty if the whole was not looked at; ``text`` then says why.
    """

    text: str
    digest: str
    exact: str


def describe(value: object, *, stats: bool, seconds: float) -> Described:
    """Describe a value within ``seconds``; with ``stats`` tensors and arrays are told by their figures as well.

    Runs ``repr`` of unknown objects in the calling thread, and copies tensors to the CPU; never a collective. Neither
    can be cut short from here, so the caller interrupts what takes too long: nothing that isn't an Exception is caught.
    Raises no Exception.
    """
    # The modules that look at values load hashlib, which a rank that is never asked doesn't need.
    from .budget import Effort, NotCompared, sentence_of
    from .walk import Walk

    effort = Effort(seconds)
    walk = Walk(effort, stats=stats)
    whole = False
    try:
        walk.value(value)
        whole = True
    except NotCompared as error:
        effort.give_up(error.reason)
    except Exception as error:
        effort.give_up(sentence_of(error))
    text = walk.text.compose(whole=whole, remark=effort.reason and f"values not compared: {effort.reason}")
    if effort.reason:
        return Described(text=text, digest="", exact="")
    exact, digest = walk.fingerprint.digests()
    return Described(text=text, digest=digest.hex(), exact=exact.hex())
