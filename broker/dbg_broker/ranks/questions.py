"""Questions that are open: which terminal asked, and which ranks have not answered. Pure.

A question ends when all its ranks have answered or are lost, or when its terminal withdraws it. The answers themselves
are not kept here.
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


class Said(NamedTuple):
    """The answer of a rank, or of the broker in its place; ``body`` is the JSON text of an AnswerBody."""

    kind: Kind
    body: bytes
    age: float | None = None


def broker_says(kind: Kind, text: str, frames: tuple[Place, ...] = (), age: float | None = None) -> Said:
    """Return an answer of the broker itself."""
    return Said(kind, bytes(body_of(AnswerBody(text=text, frames=frames))), age)


class Asker(Protocol):
    """One who asks, with a number of its own and a number for each of its questions."""

    @property
    def number(self) -> int:
        """Return the number by which its questions are found."""

    def answer(self, request: int, key: str, said: Said, *, is_last: bool) -> None:
        """Take the answer of a rank to a question, which ends with the last one."""

    def end(self, request: int) -> None:
        """Note that a question has ended without further answers."""


class Answered(NamedTuple):
    """An answer of a rank was awaited by who asked, under the number ``request``; ``is_last`` ends the question."""

    asker: Asker
    request: int
    is_last: bool
    action: Action


@dataclass(slots=True)
class OpenQuestion:
    """One open question; ``missing`` are the ranks that have not answered, and ``ends`` is when they give up."""

    question: Question
    asker: Asker
    ends: float
    missing: dict[str, None]


class OpenQuestions:
    """All open questions, each under a number that the broker gives it."""

    def __init__(self) -> None:
        self._open: dict[int, OpenQuestion] = {}
        self._asked: dict[str, set[int]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    def is_asked(self, key: str) -> bool:
        """Tell whether a question to this rank is open."""
        return key in self._asked

    def of(self, client: int) -> list[int]:
        """Return the numbers of a terminal's open questions."""
        return [number for number, one in self._open.items() if one.asker.number == client]

    def number_of(self, client: int, request: int) -> int | None:
        """Return the number of the question to which a terminal has given the number ``request``; None if it ended."""
        return next((number for number in self.of(client) if self._open[number].question.request == request), None)

    def ask(self, asker: Asker, question: Question, now: float) -> tuple[int, Sequence[str]]:
        """Open a question, and return its number and the ranks that are to be asked, each once."""
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
        """Tell whether a question is open and has no answer of this rank."""
        return number in self._asked.get(key, ())

    def answered(self, key: str, number: int) -> Answered | None:
        """Note that a rank has answered; None if no answer of it was waited for, as it came late or is foreign."""
        if not self.waits_for(number, key):
            return None
        one = self._open[number]
        del one.missing[key]
        self._forget(number, key)
        if not one.missing:
            del self._open[number]
        return Answered(one.asker, one.question.request, not one.missing, one.question.action)

    def end(self, number: int) -> OpenQuestion | None:
        """End a question now; None if it has ended before."""
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
    """The open questions to the ranks of a table."""

    def __init__(self, table: RankTable, turns: Turns) -> None:
        self._table, self._turns = table, turns
        self.questions = OpenQuestions()

    def answer(self, key: str, number: int, said: Said) -> None:
        """Pass a rank's answer to a question on to who asked; one that is not waited for is dropped."""
        answered = self.questions.answered(key, number)
        if answered is None:
            return
        self._is_over(key, number)
        if answered.action is Action.INTERRUPT:
            self._table.broke_in(key, is_pending=said.kind is Kind.RUNNING)
        answered.asker.answer(answered.request, key, said, is_last=answered.is_last)

    def rank_ended(self, key: str, text: str) -> None:
        """Tell all who wait for a rank's answers that it is lost; its guard still carries out what it was given."""
        said, given = broker_says(Kind.LOST, text), self._table.given_to_guard(key)
        for number, _ in self.questions.open_about(key):
            if number not in given:
                self.answer(key, number, said)

    def rank_left(self, link: RankLink) -> None:
        """Note that a rank's connection has ended, and so what it was asked; a second call does nothing."""
        rank, link.rank = link.rank, None
        if rank is None:
            return
        self._table.left(rank)
        self.rank_ended(rank.key, "the process has ended" if rank.state is RankState.EXITED else "its connection ended")
        logger.info("%s (%s) is %s", rank.address, rank.key, rank.state.value)

    def end(self, number: int) -> None:
        """End a question that may be open, without the ranks that have not answered."""
        ended = self.questions.end(number)
        if ended is not None:
            ended.asker.end(ended.question.request)
            self._turns.begin(self._withdrawing(number, ended.missing))

    def _withdrawing(self, number: int, keys: Iterable[str]) -> Iterator[None]:
        for key in keys:
            self._is_over(key, number)
            yield

    def _is_over(self, key: str, number: int) -> None:
        """Note that a question to a rank has an answer or has ended; it was probed for the last one."""
        self._table.withdraw(key, number)
        if not self.questions.is_asked(key):
            self._table.probes.ask_ended(key)
