"""What watchers ask of a rank, so seldom that it doesn't slow the rank down. Pure: time is an argument.

A stack costs a running rank time. For all watchers together a rank is asked a few times a second at most; in between
they get its last answer.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from dbg_broker.quotas import LruMap, TokenBucket
from dbg_wire import limits
from dbg_wire.messages import Action, Ask

GLANCE_SECONDS = 0.5
"""Seconds between two questions to a rank for watchers: a stack costs it a millisecond or less."""

FRESH_SECONDS = 1.0
"""Age in seconds up to which watchers get an earlier answer of a rank: a person doesn't notice the difference."""

MAX_BYTES = 16 * limits.MIB
"""Bytes of the last answers of all ranks: a thousand deep stacks; beyond it the oldest are forgotten."""

FOR_WATCHERS = frozenset({Action.SCREEN, Action.WHERE, Action.SAMPLE})
"""Questions that only look."""


@dataclass(slots=True)
class _OpenGlance:
    """Numbers of the questions that the next answer is for, if it comes before ``until``."""

    numbers: list[int]
    until: float


@dataclass(frozen=True, slots=True)
class _LastAnswer:
    """The text of an answer, and when it came."""

    text: bytes
    at: float


class Glances:
    """For each rank its last answers, the questions that wait for its next ones, and when it may be asked again.

    The length is the number of answers that are kept.
    """

    def __init__(self) -> None:
        self._said: LruMap[str, dict[Hashable, _LastAnswer]] = LruMap(
            limits.MAX_RANKS, size_of=lambda said: sum(len(one.text) for one in said.values()), most_size=MAX_BYTES
        )
        self._open: dict[str, dict[Hashable, _OpenGlance]] = {}
        self._asks: dict[str, TokenBucket] = {}

    def __len__(self) -> int:
        return sum(len(self._said.get(key) or ()) for key in self._said)

    @property
    def size(self) -> int:
        """Return the bytes of all answers that are kept."""
        return self._said.size

    def known(self, key: str, ask: Ask, now: float) -> bytes | None:
        """Return what a rank said lately to the same question, or None."""
        said = (self._said.get(key) or {}).get(_name(ask))
        return said.text if said is not None and _is_fresh(said, now) else None

    def seconds_until_ask(self, key: str, ask: Ask, now: float) -> float | None:
        """Return the delay before a rank is asked; None means don't ask.

        It isn't asked if the same question is on its way, whose answer then counts for this one, too, or if the answer
        would be too late.
        """
        asked = self._open.setdefault(key, {})
        same = asked.get(_name(ask))
        if same is not None and now < same.until:
            same.numbers.append(ask.request)
            return None
        asks = self._asks.setdefault(key, TokenBucket(now, 1 / GLANCE_SECONDS, 1))
        delay = asks.seconds_until(1, now)
        if delay > ask.seconds:
            return None
        asks.spend(1, now)
        asked[_name(ask)] = _OpenGlance([ask.request], now + delay + ask.seconds)
        return delay

    def answered(self, key: str, number: int, text: bytes, now: float) -> list[int]:
        """Keep the answer to the question of this number, as a text.

        Return the numbers of all questions that it is for, even of terminals that have left.
        """
        asked = self._open.get(key, {})
        name = next((name for name, same in asked.items() if same.numbers[0] == number), None)
        if name is None:
            return [number]
        fresh = {other: said for other, said in (self._said.get(key) or {}).items() if _is_fresh(said, now)}
        self._said.put(key, {**fresh, name: _LastAnswer(text, now)})
        while (oldest := next(iter(self._said), None)) is not None and not self._has_fresh(oldest, now):
            self._said.drop(oldest)
        return asked.pop(name).numbers

    def changed(self, key: str) -> None:
        """Forget the answers of a rank whose state has changed."""
        self._said.drop(key)

    def forget(self, key: str) -> None:
        """Forget a rank that is not connected any more; its open questions are ended elsewhere."""
        self.changed(key)
        self._open.pop(key, None)
        self._asks.pop(key, None)

    def _has_fresh(self, key: str, now: float) -> bool:
        return any(_is_fresh(said, now) for said in (self._said.get(key) or {}).values())


def _is_fresh(said: _LastAnswer, now: float) -> bool:
    return now - said.at <= FRESH_SECONDS


def _name(question: Ask) -> Hashable:
    """Return what is equal in questions that get the same answer."""
    return question.replace(request=0, seconds=0.0, asked=0)
