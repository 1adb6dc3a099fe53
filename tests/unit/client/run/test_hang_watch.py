"""The watch for a hang, with a scripted broker."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dbg_client.after import report
from dbg_client.after.case_file import read_report
from dbg_client.after.report import MAX_REPORTS, last_lines, report_path, write_hang_report
from dbg_client.run import hang_watch
from dbg_client.run.hang_watch import HangWatch, append
from dbg_client.run.job_output import GrowingFile
from dbg_client.run.options import Task
from dbg_client.verbs.verb import BrokerOptions
from dbg_client.why.explain import Explanation, HangEvidence, JobSnapshot
from dbg_client.why.sentences import sentence_of
from dbg_client.why.verdict import Finding, Topic, Verdict, VerdictKind
from dbg_dial.tcp import within
from dbg_wire.errors import BrokerUnreachable
from dbg_wire.messages import Action, Change, DetailLevel, Kind, Question, RankAnswer
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState
from dbg_wire.records.ranks import Place, RankState
from tests.conftest import Approved
from tests.support.processes import USUAL_WAIT
from tests.support.rank_evidence import elsewhere, waiting
from tests.support.rank_infos import changed
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import FakeBroker, make_rank

LIMIT = 0.3

UNKNOWN = Verdict(kind=VerdictKind.UNKNOWN, job="")
MISSING = Verdict(kind=VerdictKind.MISSING, job="", finding=Finding(topic=Topic.NO_DUMP, ranks=(1,)), ranks=(1,))

RUNNING = [make_rank(number, state=RankState.RUNNING, reason=None, where=None) for number in (0, 1)]
ROWS = (CollectiveSeen(group="0", name="all_reduce", state=CollectiveState.STARTED, sequence=7),)

OTHER = make_rank(7, key="other/0/gpu013:7/1", job="other", run="0")


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeBroker]:
    monkeypatch.setattr(hang_watch, "SHORTEST_SECONDS", LIMIT / 3)
    # The verdict looks for some seconds, and has tests of its own.
    answer_why(monkeypatch, [UNKNOWN] * 10)
    with FakeBroker(*RUNNING, OTHER) as serving:
        for name, value in {**serving.environment, "DBG_HOME": str(tmp_path / "home")}.items():
            monkeypatch.setenv(name, value)
        stand_at(serving, 1)
        yield serving


def answer_why(monkeypatch: pytest.MonkeyPatch, verdicts: list[Verdict]) -> None:
    """Have these verdicts, one after the other, for those of real looks."""

    async def judge(*_: object, **__: object) -> tuple[HangEvidence, Explanation]:
        verdict = verdicts.pop(0)
        found = Explanation(verdicts=(verdict,), asked=2, answered=2, missing=(), is_settled=True)
        return HangEvidence(snapshots=[JobSnapshot(at=0.0, everybody=[waiting(0), elsewhere(1)])], now=1.0), found

    monkeypatch.setattr(hang_watch, "judge", judge)


def watch(output: Path, job: str = "4711.0", **task: object) -> HangWatch:
    """Return the watch of a job."""
    values: dict[str, object] = {"job": job, "output": str(output), "hang_after": LIMIT, **task}
    return HangWatch(BrokerOptions(), Task(**values))  # type: ignore[arg-type]


def stand_at(broker: FakeBroker, line: int, call: CollectiveSeen = ROWS[0]) -> None:
    frames = (Place(file="/home/me/train.py", line=line, function="step"),)
    broker.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.VALUE, text="running", frames=frames, rows=(call,))


@asynccontextmanager
async def going(*watches: HangWatch) -> AsyncIterator[None]:
    """Let watches run until the block ends."""
    tasks = [asyncio.ensure_future(watching.go()) for watching in watches]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def until(path: Path, text: str, count: int = 1) -> str:
    """Return what stands in a file once it holds a text so many times."""
    read, enough = bytearray(), asyncio.Event()

    def take(data: bytes) -> None:
        read.extend(data)
        if read.count(text.encode()) >= count:
            enough.set()

    file = GrowingFile(str(path), take)
    file.start()
    try:
        await within(seconds(USUAL_WAIT), enough.wait())
    finally:
        file.close()
    return read.decode()


HANG = "dbg-attach: "
"""Begin of what a watch reports of a hang."""


async def test_hang_is_reported_once_and_again_after_a_move(broker: FakeBroker, tmp_path: Path) -> None:
    output = tmp_path / "job.out"
    output.write_text("epoch 3\n 50%|####")
    async with going(watch(output)):
        written = await until(output, HANG)
        assert written.startswith("epoch 3\n 50%|####\ndbg-attach: no rank of 4711.0 has moved for 0 s\n")
        assert "step train.py:1" in output.read_text()
        # Several looks later nothing has been added.
        await broker.heard(Question, count=len(broker.received) + 6)
        assert output.read_text().count(HANG) == 1
        stand_at(broker, 2)
        await until(output, HANG, 2)
        assert "step train.py:2" in output.read_text()
    question = broker.wait_for(Question, lambda it: it.look is DetailLevel.COLLECTIVES)
    assert set(question.keys) == {rank.key for rank in RUNNING}


async def test_job_that_moves_after_all_is_not_reported(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "job.out"
    output.touch()
    verdicts = [Verdict(kind=VerdictKind.BUSY, job=""), MISSING]
    answer_why(monkeypatch, verdicts)
    async with going(watch(output)):
        written = await until(output, "unknown\n")
    assert written == f"dbg-attach: no rank of 4711.0 has moved for 0 s\n{sentence_of(MISSING)}\n"
    assert verdicts == []


async def test_a_job_with_a_stopped_rank_is_not_asked(broker: FakeBroker, tmp_path: Path) -> None:
    stopped, running = tmp_path / "stopped.out", tmp_path / "running.out"
    for path in (stopped, running):
        path.touch()
    async with going(watch(stopped, "other"), watch(running)):
        # The job beside it goes through two hangs meanwhile.
        await until(running, HANG)
        stand_at(broker, 2)
        await until(running, HANG, 2)
        assert not any(isinstance(item, Question) and OTHER.key in item.keys for item in broker.received)
        broker.send_all(Change(rank=changed(OTHER, state=RankState.RUNNING, where=None)))
        await until(stopped, HANG)


async def test_unreachable_broker_is_reported(
    approved: Approved, broker: FakeBroker, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hang_watch, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(hang_watch, "DIAL_EVERY_SECONDS", 0.01)
    broker.stop()
    async with going(watch(output)):
        text = await until(output, HANG)
        approved(re.sub(r"for \d[\d.]* \w+", "for SOME TIME", text))
        # It is watched once the broker is there.
        with FakeBroker(*RUNNING, port=broker.port) as again:
            stand_at(again, 1)
            await until(output, HANG, 2)


async def test_refused_token_is_reported_once(
    approved: Approved,
    broker: FakeBroker,
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DBG_TOKEN", "another-token-of-nobody")
    await watch(output).go()
    approved(capsys.readouterr().err.replace(str(broker.port), "PORT"))


async def test_hang_is_reported_on_stderr_without_a_writable_output(
    broker: FakeBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = ""
    async with going(watch(tmp_path / "gone.out")):
        while "has moved" not in errors:
            await broker.heard(Question, count=len(broker.received) + 1)
            errors += capsys.readouterr().err


async def watched(watching: HangWatch, output: Path, text: str, then: asyncio.Event | None = None) -> str:
    """Return what stands in the output once it holds a text, and what is to happen then has happened."""
    async with going(watching):
        written = await until(output, text)
        if then is not None:
            await within(seconds(USUAL_WAIT), then.wait())
    return written


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Return the output of a job that has printed a line."""
    path = tmp_path / "train-1.out"
    path.write_text("epoch 3 loss 0.25\n")
    return path


async def test_a_report_is_written_beside_the_output(approved: Approved, broker: FakeBroker, output: Path) -> None:
    written = await watched(watch(output, on_hang="report"), output, "read it again")

    path = output.with_name("train-1.hang.txt")
    approved(written)
    text = path.read_text()
    assert "epoch 3 loss 0.25" in text
    assert "train_step train.py:41" in text
    assert "reached all_reduce #5 of dp_0" in sentence_of(read_report(text.encode()).case.explanation().verdicts[0])
    assert path.stat().st_mode & 0o777 == 0o600


async def test_full_disk_prevents_only_the_report(
    approved: Approved, broker: FakeBroker, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, _: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "_write_new", full)
    written = await watched(watch(output, on_hang="report"), output, "all there is")
    where = output.with_name("train-1.hang.txt")
    assert f"dbg-attach: no report: {where} can't be written (No space left on device)" in written
    approved(written)


async def test_hanging_job_is_ended_if_requested(approved: Approved, broker: FakeBroker, output: Path) -> None:
    ended = asyncio.Event()
    task = Task(job="4711.0", output=str(output), hang_after=LIMIT, on_hang="end")
    written = await watched(HangWatch(BrokerOptions(), task, ended.set), output, "ending 4711.0", ended)
    approved(written)


async def test_a_job_that_moves_while_the_report_is_written_is_not_ended(
    approved: Approved, broker: FakeBroker, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []
    writing = report.write_hang_report

    def write(path: str, text: str) -> str:
        stand_at(broker, 2)
        return writing(path, text)

    monkeypatch.setattr(hang_watch, "write_hang_report", write)
    task = Task(job="4711.0", output=str(output), hang_after=LIMIT, on_hang="end")
    written = await watched(HangWatch(BrokerOptions(), task, lambda: ended.append(True)), output, "is not ended")
    approved(written)
    assert ended == []


async def test_silent_broker_is_reported_once(
    broker: FakeBroker, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hang_watch, "SILENT_SECONDS", LIMIT)
    watching = watch(output)

    async def silent(*_: object) -> list[RankAnswer]:
        raise BrokerUnreachable("login1:6900", "no answer")

    monkeypatch.setattr(hang_watch, "ask_where", silent)
    written = await watched(watching, output, "would not be noticed")
    assert written.count("a hang of 4711.0 would not be noticed") == 1


@pytest.mark.parametrize(("before", "after"), [("", "why\n"), ("a\n", "a\nwhy\n"), ("a", "a\nwhy\n")])
def test_a_text_is_appended_on_a_line_of_its_own(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "job.out"
    path.write_text(before)
    append(str(path), "why\n")
    assert path.read_text() == after


def test_a_job_that_hangs_again_and_again_keeps_its_first_reports(tmp_path: Path) -> None:
    output = str(tmp_path / "train-7.out")
    for number in range(MAX_REPORTS + 3):
        write_hang_report(output, f"hang {number}")
    assert len(list(tmp_path.iterdir())) == MAX_REPORTS
    assert (tmp_path / "train-7.hang.txt").read_text() == "hang 0"
    assert (tmp_path / f"train-7.hang-{MAX_REPORTS}.txt").read_text() == f"hang {MAX_REPORTS + 2}"
    assert report_path("/logs/one.log", 2) == Path("/logs/one.log.hang-2.txt")


def test_progress_bar_is_read_as_it_is_seen_and_is_printable(tmp_path: Path) -> None:
    output = tmp_path / "train.out"
    output.write_text(
        "".join(f"step {number}\n" for number in range(100)) + "10%\r20%\r30%\n\x1b[2Jloss\x1b]0;title\x07\n"
    )
    written = last_lines(str(output))
    assert (written[0], written[-2]) == ("step 62", "30%")
    assert all(line.isprintable() for line in written)


def test_unreadable_output_has_no_last_lines(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert last_lines(str(tmp_path / "pipe")) == []
    assert last_lines(str(tmp_path / "gone")) == []
