"""What ranks are asked: who waits for the answers, and what becomes of those that are given."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from dbg_broker.net.turns import Turns
from dbg_broker.ranks.link import RankLink
from dbg_broker.ranks.questions import OpenQuestions, Said, broker_says
from dbg_broker.ranks.table import RankTable
from dbg_wire.messages import Action, Kind
from dbg_wire.records.ranks import RankState

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
