"""Open questions: the terminal that asked, and the ranks that have not answered. Pure.

A question ends when all its ranks have answered or are lost, or when its terminal withdraws it. The answers are not
stored here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dbg_broker.net.outbox import Turns
from dbg_broker.ranks.rank_record import RankLink
from dbg_broker.ranks.table import RankTable
from dbg_wire import limits
from dbg_wire.messages import Action, AnswerBody, Kind, Question, body_of
from dbg_wire.records.ranks import Place, RankState


class EncodedAnswer(NamedTuple):
    """Answer of a rank, or of the broker in its place; ``body`` is the JSON text of an AnswerBody."""

    kind: Kind
    body: bytes
    age: float | None = None


def broker_answer(kind: Kind, text: str, frames: tuple[Place, ...] = (), age: float | None = None) -> EncodedAnswer:
    """Return an answer of the broker itself, encoded like an answer of a rank."""
    return EncodedAnswer(kind, bytes(body_of(AnswerBody(text=text, frames=frames))), age)


class Asker(Protocol):
    """Sender of questions. The sender has a number, and each of its questions has a number of its own."""

    @property
    def number(self) -> int:
        """Number that identifies this sender."""

    def answer(self, request: int, key: str, reply: EncodedAnswer, *, is_last: bool) -> None:
        """Receive the answer of a rank to a question. The last answer ends the question."""

    def end(self, request: int) -> None:
        """Handle the end of a question that gets no further answers."""


class Answered(NamedTuple):
    """Receiver of an expected answer: ``asker``, which has sent the question under the number ``request``.

    ``is_last`` is True if the question has ended with this answer.
    """

    asker: Asker
    request: int
    is_last: bool
    action: Action


@dataclass(slots=True)
class OpenQuestion:
    """One open question; ``missing`` are the ranks that have not answered, and ``ends`` is the time of its timeout."""

    question: Question
    asker: Asker
    ends: float
    missing: dict[str, None]


class OpenQuestions:
    """All open questions by the number that the broker gave to each."""

    def __init__(self) -> None:
        self._open: dict[int, OpenQuestion] = {}
        self._asked: dict[str, set[int]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    def is_asked(self, key: str) -> bool:
        """Return True if a question to this rank is open."""
        return key in self._asked

    def of(self, client: int) -> list[int]:
        """Return the numbers of a terminal's open questions."""
        return [number for number, one in self._open.items() if one.asker.number == client]

    def number_of(self, client: int, request: int) -> int | None:
        """Return the number of the question that a terminal sent as ``request``, or None if it has ended."""
        return next((number for number in self.of(client) if self._open[number].question.request == request), None)

    def ask(self, asker: Asker, question: Question, now: float) -> tuple[int, Sequence[str]]:
        """Open a question. Return its number and the ranks to ask, each once."""
        self._last += 1
        missing = dict.fromkeys(question.keys)
        ends = now + min(question.seconds, limits.MAX_ASK_SECONDS)
        self._open[self._last] = OpenQuestion(question, asker, ends, missing)
        for key in missing:
            self._asked.setdefault(key, set()).add(self._last)
        return self._last, tuple(missing)

    def open_about(self, key: str) -> list[tuple[int, OpenQuestion]]:
        """Return the open questions that wait for this rank's answer, with their numbers."""
        return [(number, self._open[number]) for number in sorted(self._asked.get(key, ()))]

    def waits_for(self, number: int, key: str) -> bool:
        """Return True if the question is open and this rank has not answered it yet."""
        return number in self._asked.get(key, ())

    def answered(self, key: str, number: int) -> Answered | None:
        """Record an answer of a rank. Return None if the answer is late or belongs to no open question."""
        if not self.waits_for(number, key):
            return None
        one = self._open[number]
        del one.missing[key]
        self._forget(number, key)
        if not one.missing:
            del self._open[number]
        return Answered(one.asker, one.question.request, not one.missing, one.question.action)

    def end(self, number: int) -> OpenQuestion | None:
        """End a question. Return None if it has already ended."""
        one = self._open.pop(number, None)
        for key in one.missing if one is not None else ():
            self._forget(number, key)
        return one

    def _forget(self, number: int, key: str) -> None:
        numbers = self._asked[key]
        numbers.discard(number)
        if not numbers:
            del self._asked[key]


logger = logging.getLogger("dbg_broker")


class Asked:
    """Open questions to the ranks of a table."""

    def __init__(self, table: RankTable, turns: Turns) -> None:
        self._table, self._turns = table, turns
        self.questions = OpenQuestions()

    def answer(self, key: str, number: int, reply: EncodedAnswer) -> None:
        """Pass a rank's answer to the sender of the question; drop an answer that is not expected."""
        answered = self.questions.answered(key, number)
        if answered is None:
            return
        self._is_over(key, number)
        if answered.action is Action.INTERRUPT:
            self._table.broke_in(key, is_pending=reply.kind is Kind.RUNNING)
        answered.asker.answer(answered.request, key, reply, is_last=answered.is_last)

    def rank_ended(self, key: str, text: str) -> None:
        """Answer all open questions to a rank as lost, except questions that its guard still executes."""
        reply, given = broker_answer(Kind.LOST, text), self._table.given_to_guard(key)
        for number, _ in self.questions.open_about(key):
            if number not in given:
                self.answer(key, number, reply)

    def rank_left(self, link: RankLink) -> None:
        """Record that a rank's connection has ended, and end its open questions. A second call does nothing."""
        rank, link.rank = link.rank, None
        if rank is None:
            return
        self._table.left(rank)
        self.rank_ended(rank.key, "the process has ended" if rank.state is RankState.EXITED else "its connection ended")
        logger.info("%s (%s) is %s", rank.address, rank.key, rank.state.value)

    def end(self, number: int) -> None:
        """End an open question without waiting for the missing answers. Ignore a question that has ended."""
        ended = self.questions.end(number)
        if ended is not None:
            ended.asker.end(ended.question.request)
            self._turns.start(self._withdrawing(number, ended.missing))

    def _withdrawing(self, number: int, keys: Iterable[str]) -> Iterator[None]:
        for key in keys:
            self._is_over(key, number)
            yield

    def _is_over(self, key: str, number: int) -> None:
        """Record that a question to a rank has ended. A rank without open questions is probed less often."""
        self._table.withdraw(key, number)
        if not self.questions.is_asked(key):
            self._table.probes.ask_ended(key)
