"""Answers that wait for one terminal until it takes them. Pure.

A body is kept once, however many ranks have answered it: their keys are sent with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from dbg_broker.ranks.questions import Said, broker_says
from dbg_wire import limits
from dbg_wire.messages import Answers, Kind, SameAnswer

PAGE_BYTES = 64 * limits.KIB
"""Bytes of one message of answers, unless one answer is larger: it is made in a millisecond."""

PAGE_ANSWERS = 50
"""Bodies in one message: they are made in a millisecond."""

KEYS_OF_ONE = 256
"""Ranks of one body in a message: their keys are some ten KiB."""

RANK_BYTES = 150
"""Bytes that the answer of one rank takes beside its body: a key, an age and their places."""

MAX_WAITING_BYTES = 64 * limits.MIB
"""Bytes of answers that wait for one terminal: those of 4096 ranks with a PuDB screen of 150 by 50 each."""


@dataclass(slots=True)
class _Same:
    """The ranks that have given one answer, and their ages."""

    keys: list[str] = field(default_factory=list)
    ages: list[float | None] = field(default_factory=list)


@dataclass(slots=True)
class _Waiting:
    """The answers to one question that have not been sent."""

    same: dict[tuple[Kind, bytes], _Same] = field(default_factory=dict)
    is_ended: bool = False


class AnswerQueue:
    """The answers that wait for a terminal, in the order of their questions."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Waiting] = {}
        self.size = 0
        """Bytes of all that waits."""
        self._is_gathered = False

    @property
    def ended(self) -> int:
        """Return how many questions have ended whose last answers wait."""
        return sum(one.is_ended for one in self._waiting.values())

    @property
    def may_send(self) -> bool:
        """Tell whether a message is to be sent now: a question has ended, or no equal answers are waited for."""
        return bool(self.ended) or self._is_gathered or self.size >= PAGE_BYTES

    def gathered(self) -> None:
        """Note that what waits has waited long enough for equal answers of other ranks."""
        self._is_gathered = bool(self._waiting)

    def add(self, request: int, key: str, said: Said) -> None:
        """Let an answer of a rank wait; one that does not fit is left out, which is told in its place."""
        waiting = self._waiting.setdefault(request, _Waiting())
        same = waiting.same.get((said.kind, said.body))
        if same is None:
            if self.size + len(said.body) > MAX_WAITING_BYTES:
                text = f"left out, as {MAX_WAITING_BYTES >> 20} MiB of answers wait for this terminal; ask fewer ranks"
                said = broker_says(Kind.ERROR, text)
            same = waiting.same.get((said.kind, said.body))
        if same is None:
            same = waiting.same[said.kind, said.body] = _Same()
            self.size += len(said.body)
        same.keys.append(key)
        same.ages.append(said.age)
        self.size += RANK_BYTES

    def end(self, request: int) -> None:
        """Note that no more answers to a question come."""
        self._waiting.setdefault(request, _Waiting()).is_ended = True

    def page(self) -> Answers | None:
        """Take out what the next message says; None if nothing waits."""
        if not self._waiting:
            return None
        request = next(iter(self._waiting))
        waiting = self._waiting.pop(request)
        answers: list[SameAnswer] = []
        size = 0
        while waiting.same and len(answers) < PAGE_ANSWERS:
            kind, body = name = next(iter(waiting.same))
            same = waiting.same[name]
            keys, ages = same.keys[:KEYS_OF_ONE], same.ages[:KEYS_OF_ONE]
            cost = len(body) + RANK_BYTES * len(keys)
            if answers and size + cost > PAGE_BYTES:
                break
            del same.keys[:KEYS_OF_ONE], same.ages[:KEYS_OF_ONE]
            if not same.keys:
                del waiting.same[name]
                self.size -= len(body)
            self.size -= RANK_BYTES * len(keys)
            size += cost
            has_ages = any(age is not None for age in ages)
            answers.append(
                SameAnswer(keys=tuple(keys), kind=kind, body=msgspec.Raw(body), ages=tuple(ages) if has_ages else ())
            )
        if waiting.same:
            # Behind the answers to other questions: a long one delays no short one.
            self._waiting[request] = waiting
        self._is_gathered = self._is_gathered and bool(self._waiting)
        return Answers(request=request, answers=tuple(answers), last=waiting.is_ended and not waiting.same)
