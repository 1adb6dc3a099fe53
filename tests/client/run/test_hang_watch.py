"""The watch for a hang, with a scripted broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_client.actions.many import ShownAnswers
from dbg_client.hang.verdict import BUSY_STATUS, UNKNOWN_STATUS
from dbg_client.run import hang_watch
from dbg_client.run.hang_watch import HangWatch, append
from dbg_client.run.job_output import GrowingFile
from dbg_client.words.settings import BrokerOptions
from dbg_dial.waiting import within
from dbg_wire.messages import Action, Change, Kind, Look, Question, RankAnswer
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState
from dbg_wire.records.ranks import Place, RankState
from tests.client.fake_broker import FakeBroker, make_rank
from tests.support.processes import USUAL_WAIT
from tests.support.time_unit import seconds

LIMIT = 0.3

RUNNING = [make_rank(number, state=RankState.RUNNING, reason=None, where=None) for number in (0, 1)]
ROWS = (CollectiveSeen(group="0", name="all_reduce", state=CollectiveState.STARTED, sequence=7),)

OTHER = make_rank(7, key="other/0/gpu013:7/1", job="other", run="0")


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeBroker]:
    monkeypatch.setattr(hang_watch, "SHORTEST_SECONDS", LIMIT / 3)
    monkeypatch.setattr(hang_watch, "SLACK_SECONDS", 0.0)
    # The verdict looks for some seconds, and has tests of its own.
    answer_why(monkeypatch, [ShownAnswers("it can't be told\n", UNKNOWN_STATUS)] * 10)
    with FakeBroker(*RUNNING, OTHER) as serving:
        for name, value in {**serving.environment, "DBG_HOME": str(tmp_path / "home")}.items():
            monkeypatch.setenv(name, value)
        stand_at(serving, 1)
        yield serving


def answer_why(monkeypatch: pytest.MonkeyPatch, verdicts: list[ShownAnswers]) -> None:
    """Have these verdicts, one after the other, for those of real looks."""

    async def show_why(*_: object, **__: object) -> ShownAnswers:
        return verdicts.pop(0)

    monkeypatch.setattr(hang_watch, "show_why", show_why)


def stand_at(broker: FakeBroker, line: int) -> None:
    frames = (Place(file="/home/me/train.py", line=line, function="step"),)
    broker.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.VALUE, text="running", frames=frames, rows=ROWS)


async def until_lines(path: Path, count: int) -> None:
    """Wait until a file tells of so many hangs."""
    read, enough = bytearray(), asyncio.Event()

    def take(data: bytes) -> None:
        read.extend(data)
        if read.count(b"dbg-broker: ") >= count:
            enough.set()

    file = GrowingFile(str(path), take)
    file.start()
    try:
        await within(seconds(USUAL_WAIT), enough.wait())
    finally:
        file.close()


async def test_a_job_that_stands_still_is_told_once_and_again_after_a_move(broker: FakeBroker, tmp_path: Path) -> None:
    output = tmp_path / "job.out"
    output.write_text("epoch 3\n 50%|####")
    watching = asyncio.ensure_future(HangWatch(BrokerOptions(), "4711.0", str(output), LIMIT).go())
    await until_lines(output, 1)
    assert output.read_text().startswith("epoch 3\n 50%|####\ndbg-broker: no rank of 4711.0 has moved for 0 s\n")
    assert "step train.py:1" in output.read_text()
    # Several looks later nothing has been added.
    await broker.heard(Question, count=len(broker.received) + 6)
    assert output.read_text().count("dbg-broker: ") == 1
    stand_at(broker, 2)
    await until_lines(output, 2)
    assert "step train.py:2" in output.read_text()
    question = broker.wait_for(Question, lambda it: it.look is Look.COLLECTIVES)
    assert set(question.keys) == {rank.key for rank in RUNNING}
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_job_that_moves_after_all_is_not_told(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "job.out"
    output.touch()
    verdicts = [ShownAnswers("everybody is busy\n", BUSY_STATUS), ShownAnswers("rank 1 has not come\n", 1)]
    answer_why(monkeypatch, verdicts)
    watching = asyncio.ensure_future(HangWatch(BrokerOptions(), "4711.0", str(output), LIMIT).go())
    await until_lines(output, 1)
    assert output.read_text() == "dbg-broker: no rank of 4711.0 has moved for 0 s\nrank 1 has not come\n"
    assert verdicts == []
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_job_with_a_stopped_rank_is_not_asked(broker: FakeBroker, tmp_path: Path) -> None:
    stopped, running = tmp_path / "stopped.out", tmp_path / "running.out"
    for path in (stopped, running):
        path.touch()
    watches = [
        asyncio.ensure_future(HangWatch(BrokerOptions(), job, str(path), LIMIT).go())
        for job, path in (("other", stopped), ("4711.0", running))
    ]
    # The job beside it goes through two hangs meanwhile.
    await until_lines(running, 1)
    stand_at(broker, 2)
    await until_lines(running, 2)
    assert not any(isinstance(item, Question) and OTHER.key in item.keys for item in broker.received)
    broker.tell(Change(rank=make_rank(7, key=OTHER.key, job="other", run="0", state=RankState.RUNNING, where=None)))
    await until_lines(stopped, 1)
    for watching in watches:
        watching.cancel()
    await asyncio.gather(*watches, return_exceptions=True)


async def test_a_broker_that_can_not_be_reached_is_told(
    broker: FakeBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.stop()
    await HangWatch(BrokerOptions(), "4711.0", str(tmp_path / "job.out"), LIMIT).go()
    assert "hangs are not told" in capsys.readouterr().err


async def test_an_output_that_can_not_be_written_is_told_on_stderr(
    broker: FakeBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watching = asyncio.ensure_future(HangWatch(BrokerOptions(), "4711.0", str(tmp_path / "gone.out"), LIMIT).go())
    said = ""
    while "has moved" not in said:
        await broker.heard(Question, count=len(broker.received) + 1)
        said += capsys.readouterr().err
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.parametrize(("before", "after"), [("", "why\n"), ("a\n", "a\nwhy\n"), ("a", "a\nwhy\n")])
def test_a_text_is_appended_on_a_line_of_its_own(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "job.out"
    path.write_text(before)
    append(str(path), "why\n")
    assert path.read_text() == after
