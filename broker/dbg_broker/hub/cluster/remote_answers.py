"""Answers of other brokers: those of their ranks to a question of a terminal of this one.

They come as any terminal gets them, a page at a time, and are entered as texts among the answers of the own ranks, each
unread but for its rank and its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeVar

import msgspec

from dbg_broker.hub import departures
from dbg_broker.ranks.questions import MIN_SECONDS, body_in, body_of, with_age, without_age
from dbg_wire.codec import decode
from dbg_wire.errors import PeerError
from dbg_wire.messages import Answers, Kind, Progress, RankAnswer, Sender
from dbg_wire.records.record import name_of

if TYPE_CHECKING:
    from dbg_broker.hub.state import Hub

_Read = TypeVar("_Read")

SPARE_SECONDS = 0.25
"""Seconds by which another broker's deadline is shorter, so that its answers come before the own one."""

PREFIXES = tuple(f'{{"type":"{name_of(kind)}"'.encode() for kind in (Answers, Progress))
"""How the messages begin that are about a question, as all brokers write them."""


@dataclass(slots=True)
class RemoteQuestion:
    """A question as another broker was asked it: the ranks that have not answered, and the seconds that all have."""

    number: int
    missing: dict[str, None]
    seconds: float


class _Page(msgspec.Struct):
    """An Answers whose answers are not read."""

    request: int
    answers: tuple[msgspec.Raw, ...] = ()
    last: bool = True


class _Head(msgspec.Struct):
    """What is read of an answer."""

    key: str
    kind: Kind
    also: tuple[str, ...] = ()
    ages: tuple[float | None, ...] = ()


def seconds_there(left: float) -> float:
    """Return the seconds that another broker has for a question of which so many are left here."""
    return max(MIN_SECONDS, left - min(SPARE_SECONDS, left / 4))


def take(hub: Hub, questions: dict[int, RemoteQuestion], text: bytes) -> None:
    """Take a message about one of these questions, and take out one that has all its answers. Raise PeerError."""
    if text.startswith(PREFIXES[1]):
        progress = decode(text, Sender.BROKER)
        if isinstance(progress, Progress) and (remote := questions.get(progress.request)) is not None:
            hub.ranks.questions.note_progress(remote.number, remote.missing, progress)
        return
    page = _read(_pages, text)
    remote = questions.get(page.request)
    if remote is None:
        return
    for raw in page.answers:
        _enter(hub, remote, bytes(raw))
    if page.last:
        hub.ranks.questions.note_progress(remote.number, remote.missing, None)
        settle_all(hub, remote, "its broker has no answer of it")
        questions.pop(page.request, None)


def settle_all(hub: Hub, remote: RemoteQuestion, why: str) -> None:
    """Answer for the ranks that have not answered, and will not."""
    missing, remote.missing = remote.missing, {}
    for key in missing:
        hub.settle(remote.number, RankAnswer(key=key, kind=Kind.LOST, text=why))


def _enter(hub: Hub, remote: RemoteQuestion, text: bytes) -> None:
    head = _read(_heads, text)
    body = None if head.also else body_in(text, head.key)
    if body is None:
        body = body_of(_read(_answers, text))
    for key, age in zip_longest((head.key, *head.also), head.ages):
        if key not in remote.missing:
            continue
        del remote.missing[key]
        if head.kind is Kind.SILENT:
            # The seconds that it names are those of the other broker.
            hub.settle(remote.number, RankAnswer(key=key, kind=Kind.SILENT, text=f"no answer in {remote.seconds:g} s"))
            continue
        own = body if age is None else with_age(without_age(body)[0], msgspec.json.encode(age))
        departures.enter_answer(hub, key, remote.number, own)


_pages, _heads = msgspec.json.Decoder(_Page), msgspec.json.Decoder(_Head)
_answers = msgspec.json.Decoder(RankAnswer)


def _read(decoder: msgspec.json.Decoder[_Read], text: bytes) -> _Read:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise PeerError(f"answers that can't be read ({error})") from None
