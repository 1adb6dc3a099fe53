"""Attacks of terminals, which have a watcher's or a driver's token; each a function for ``attacker.py``.

``crowd`` are ranks that the attacker brings along, so that there is much to ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbg_wire.codec import Input, Output, encode_data
from dbg_wire.messages import (
    Action,
    Message,
    Mode,
    Question,
    Subscribe,
    Take,
)
from tests.full.attacks.attacker import Begun
from tests.full.attacks.flood import GREETING, Load, binary, flood, text
from tests.full.attacks.ranks import rank_load
from tests.full.attacks.target import Target
from tests.unit.broker.peers import STOPPED, attach, registration

CROWD = 500


def keys_of(count: int) -> tuple[str, ...]:
    """Return the keys of a crowd."""
    return tuple(registration(number).identity.key for number in range(count))


def crowd(count: int, **changes: Any) -> list[Load]:
    """Return ranks that only register."""
    return [rank_load(number, **changes) for number in range(count)]


def terminals(role: str, count: int, *again: Message, first: Sequence[Message] = (), reads: bool = True) -> list[Load]:
    """Return terminals that all send the same over and over."""
    start = GREETING + b"".join(map(text, first))
    return [Load(role, start, b"".join(map(text, again)), reads=reads)] * count


def question(action: Action, keys: tuple[str, ...], **asked: Any) -> Question:
    """Return a question to a crowd."""
    return Question(request=1, keys=keys, action=action, seconds=1.0, **asked)


def lists(target: Target, begun: Begun, *, role: str, count: int = 64, reads: bool = True) -> None:
    """Ask for the list of all ranks, again and again."""
    wanted = terminals(role, count, *([Subscribe(once=False)] * 20), reads=reads)
    flood(target, begun, crowd(CROWD) + wanted)


def questions(target: Target, begun: Begun, *, role: str, action: str, count: int = 30, reads: bool = True) -> None:
    """Ask all ranks of a crowd, and others that don't exist, on many connections."""
    asked = question(Action(action), (*keys_of(CROWD), *(f"none/{number}" for number in range(2000))), text="x")
    flood(target, begun, crowd(CROWD) + terminals(role, count, asked, reads=reads))


def takes(target: Target, begun: Begun, *, count: int = 60) -> None:
    """Take the keyboard of one rank from one another."""
    key = keys_of(1)[0]
    taking = terminals("driver", count, *([Take()] * 20), first=[attach(key, Mode.WATCH)])
    flood(target, begun, crowd(1) + taking)


def shown_to_many(target: Target, begun: Begun, *, count: int = 60, size: int = 1, times: int = 200) -> None:
    """Watch a rank that draws in pieces of one size, which each of the watchers gets."""
    piece = binary(encode_data(Output(session=1, offset=0, data=b"x" * size))) * times
    first = text(registration(0, report=STOPPED))
    watching = terminals("watcher", count, first=[attach(keys_of(1)[0], Mode.WATCH)])
    flood(target, begun, [Load("rank", first, piece), *watching])


def keys(target: Target, begun: Begun, *, role: str, count: int = 60) -> None:
    """Type at ranks that echo as much, a driver each; watchers type though they may not."""
    typed = binary(encode_data(Input(session=1, stop=1, generation=1, offset=0, data=b"x"))) * 200
    drawn = binary(encode_data(Output(session=1, offset=0, data=b"x"))) * 200
    mode = Mode.WATCH if role == "watcher" else Mode.TAKE
    ranks = [Load("rank", text(registration(n, report=STOPPED)), drawn) for n in range(count)]
    typing = [Load(role, GREETING + text(attach(key, mode)), typed) for key in keys_of(count)]
    flood(target, begun, ranks + typing)
