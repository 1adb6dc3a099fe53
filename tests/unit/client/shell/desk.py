"""Commands of ``dbg-attach`` that run in the test's process, and scripted brokers that answer them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import pytest
from websockets.asyncio.server import ServerConnection

from dbg_client.command_line.main import main
from dbg_client.why.process_groups import RankEvidence
from dbg_wire.messages import Kind, Question, RankAnswer
from dbg_wire.records.evidence import EvidenceRecord
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.samples import RankSample, SampleQuestion
from tests.unit.client.fake_broker import FakeBroker, make_rank
from tests.unit.client.slow.simulated import Job

B = TypeVar("B", bound=FakeBroker)

NOW = 1760000090.0
"""90 s after the ranks of ``FakeBroker`` stopped: the time of commands that print ages."""


@dataclass(frozen=True)
class Done:
    """What a command has left behind."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Return all that it has written."""
        return f"{self.out}{self.err}"


@dataclass
class Desk:
    """A terminal at which no person sits; its variables are this process's."""

    captured: pytest.CaptureFixture[str]
    variables: pytest.MonkeyPatch

    @contextmanager
    def at(self, broker: B) -> Iterator[B]:
        """Have commands ask this broker, which serves until the block ends."""
        with broker:
            for name, value in broker.environment.items():
                self.variables.setenv(name, value)
            yield broker

    def run(self, *words: str) -> Done:
        """Run a command."""
        self.captured.readouterr()
        status = main(words)
        return Done(status, *self.captured.readouterr())


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    """Do something in another thread while a command runs."""
    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()


def gone(number: int = 8, **changes: object) -> RankInfo:
    """Return a rank that failed three days before ``NOW``."""
    return make_rank(number, **{"state": RankState.EXITED, "exit": 1, "since": NOW - 3 * 86400, **changes})


def questions(broker: FakeBroker) -> list[Question]:
    """Return what ranks were asked."""
    return [item for item in broker.received if isinstance(item, Question)]


def answer_of(one: RankEvidence) -> RankAnswer:
    """Return the answer of a rank as it goes over the wire."""
    if one.evidence is None:
        return one.answer
    evidence = one.evidence
    records: list[EvidenceRecord] = [*evidence.sources, *evidence.groups, *evidence.collectives, *evidence.waits]
    return one.answer.replace(rows=tuple(records))


class Looked(FakeBroker):
    """A broker whose ranks answer each question by the next of these looks, and then by the last."""

    def __init__(self, *snapshots: Sequence[RankEvidence]) -> None:
        super().__init__(*(one.rank for one in snapshots[0]))
        self._looks = list(snapshots)

    async def _answer_question(self, connection: ServerConnection, question: Question) -> None:
        look = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        self.answers_by_key = {one.rank.key: answer_of(one) for one in look}
        await super()._answer_question(connection, question)


class Sampled(FakeBroker):
    """A broker whose ranks have sampled themselves, and report the time at once."""

    def __init__(self, job: Job) -> None:
        ranks = job.ranks()
        super().__init__(*ranks)
        self._samples = dict(zip((rank.key for rank in ranks), job.answers(), strict=True))
        self._ahead = {rank.key: job.ahead.get(rank.host, 0.0) for rank in ranks}

    async def _answer_question(self, connection: ServerConnection, question: Question) -> None:
        if isinstance(question.inquiry, SampleQuestion) and not question.inquiry.seconds:
            self.answers_by_key = {key: self._clock(key) for key in question.keys}
        else:
            self.answers_by_key = self._samples
        await super()._answer_question(connection, question)

    def _clock(self, key: str) -> RankAnswer:
        now = round(1e6 * (time.time() + self._ahead[key]))
        return RankAnswer(key=key, kind=Kind.VALUE, text="", rows=(RankSample(clock=now),))
