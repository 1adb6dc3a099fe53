"""Answers that wait for one terminal until it can receive them. Pure.

The body of an answer is stored once, regardless of how many ranks gave this answer. It is sent once, with their keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from dbg_broker.ranks.questions import EncodedAnswer, broker_answer
from dbg_wire import limits
from dbg_wire.messages import Answers, Kind, SameAnswer

PAGE_BYTES = 64 * limits.KIB
"""Maximum size of a message of several answers, in bytes: encoding it takes a millisecond."""

PAGE_ANSWERS = 50
"""Maximum number of different answers in one message: encoding them takes a millisecond."""

KEYS_OF_ONE = 256
"""Maximum number of ranks with the same answer in one message: their keys take some ten KiB."""

RANK_BYTES = 150
"""Bytes of one rank's answer in addition to its body: a key, an age, and their entries in lists."""

MAX_WAITING_BYTES = 64 * limits.MIB
"""Maximum size of the answers that wait for one terminal, in bytes: enough for 4096 ranks with a different PuDB screen
each, of 150 by 50 characters.
"""


@dataclass(slots=True)
class _Same:
    """Ranks that gave the same answer, and the ages of their answers."""

    keys: list[str] = field(default_factory=list)
    ages: list[float | None] = field(default_factory=list)


@dataclass(slots=True)
class _Waiting:
    """Answers to one question that have not been sent."""

    same: dict[tuple[Kind, bytes], _Same] = field(default_factory=dict)
    is_ended: bool = False


class AnswerQueue:
    """Answers that wait for a terminal, in the order of their questions."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Waiting] = {}
        self.size = 0
        """Bytes of all waiting answers."""
        self._is_gathered = False

    @property
    def ended(self) -> int:
        """Number of questions that have ended, but whose last answers still wait to be sent."""
        return sum(one.is_ended for one in self._waiting.values())

    @property
    def may_send(self) -> bool:
        """Whether to send now: a question has ended, the wait for equal answers is over, or a message is full."""
        return bool(self.ended) or self._is_gathered or self.size >= PAGE_BYTES

    def gathered(self) -> None:
        """End the wait for equal answers of other ranks."""
        self._is_gathered = bool(self._waiting)

    def add(self, request: int, key: str, reply: EncodedAnswer) -> None:
        """Queue an answer of a rank. If it does not fit, queue an error instead."""
        waiting = self._waiting.setdefault(request, _Waiting())
        same = waiting.same.get((reply.kind, reply.body))
        if same is None:
            if self.size + len(reply.body) > MAX_WAITING_BYTES:
                text = f"left out because {MAX_WAITING_BYTES >> 20} MiB of answers already wait; ask fewer ranks"
                reply = broker_answer(Kind.ERROR, text)
            same = waiting.same.get((reply.kind, reply.body))
        if same is None:
            same = waiting.same[reply.kind, reply.body] = _Same()
            self.size += len(reply.body)
        same.keys.append(key)
        same.ages.append(reply.age)
        self.size += RANK_BYTES

    def end(self, request: int) -> None:
        """Record that no more answers to a question follow."""
        self._waiting.setdefault(request, _Waiting()).is_ended = True

    def page(self) -> Answers | None:
        """Remove and return the next message, or None if no answer waits."""
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
            # The rest of the answers follows later, so that a question with many answers does not delay the other
            # questions.
            self._waiting[request] = waiting
        self._is_gathered = self._is_gathered and bool(self._waiting)
        return Answers(request=request, answers=tuple(answers), last=waiting.is_ended and not waiting.same)
