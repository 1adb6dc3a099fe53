"""``dbg-attach why FILE``: what words are taken for, the answer, and its status. There is no broker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection

import dbg_client
from dbg_client.words.settings import Why
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Kind, Question, RankAnswer
from dbg_wire.records.samples import RankSample, SampleQuestion
from tests.conftest import Approved
from tests.support.recorded import pickled, raw
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.client.hang.slow.simulated import Group, Job
from tests.unit.client.words.typed import settled


class Sampled(FakeBroker):
    """A broker whose ranks have sampled themselves, and tell the time at once."""

    def __init__(self, job: Job) -> None:
        ranks = job.ranks()
        super().__init__(*ranks)
        self._told = dict(zip((rank.key for rank in ranks), job.answers(), strict=True))
        self._ahead = {rank.key: job.ahead.get(rank.host, 0.0) for rank in ranks}

    def __enter__(self) -> Sampled:
        super().__enter__()
        return self

    async def _answer_question(self, connection: ServerConnection, question: Question) -> None:
        if isinstance(question.inquiry, SampleQuestion) and not question.inquiry.seconds:
            self.said = {key: self._clock(key) for key in question.keys}
        else:
            self.said = self._told
        await super()._answer_question(connection, question)

    def _clock(self, key: str) -> RankAnswer:
        now = round(1e6 * (time.time() + self._ahead[key]))
        return RankAnswer(key=key, kind=Kind.VALUE, text="", rows=(RankSample(clock=now),))

    @property
    def questions(self) -> list[Question]:
        """Return what the terminal has asked."""
        return [item for item in self.received if isinstance(item, Question)]


def run(broker: FakeBroker, environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dbg_client", *words],
        capture_output=True,
        text=True,
        env={**environ, **broker.environment},
        timeout=60,
        check=False,
    )


def test_the_late_rank_is_named_and_is_the_status(environ: dict[str, str]) -> None:
    with Sampled(Job([Group("dp_0", range(4), lambda rank, step: 0.3 * (rank == 2), pause=1.0)])) as broker:
        done = run(broker, environ, "slow", "--for", "3")
        document = run(broker, environ, "slow", "0", "--json")

    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == (
        "4711.0: rank 2 (h1) comes last in 50 of 50 all_reduce of dp_0, by 300 ms; a step takes 1.3 s instead of 1.0"
    )
    assert (done.returncode, document.returncode) == (1, 1)
    told = json.loads(document.stdout)
    assert (told["schema"], told["asked"], told["answered"], told["seconds"]) == (1, 4, 4, 10.0)
    assert [(one["kind"], one["ranks"]) for one in told["verdicts"]] == [("late", "2")]
    # All ranks of the run are asked, whichever was named; on one host nobody is asked for the time.
    assert [(one.action, len(one.keys)) for one in broker.questions] == [(Action.SAMPLE, 4)] * 2
    asked = [one.inquiry for one in broker.questions]
    assert [one.seconds for one in asked if isinstance(one, SampleQuestion)] == [3.0, 10.0]
    assert broker.questions[0].seconds > 3.0


def test_nobody_is_late_is_success(environ: dict[str, str]) -> None:
    with Sampled(Job([Group("dp_0", range(4))])) as broker:
        done = run(broker, environ, "slow")
    assert "nobody is late" in done.stdout
    assert done.returncode == 0


def test_a_job_that_tells_nothing_has_its_own_status(approved: Approved, environ: dict[str, str]) -> None:
    with Sampled(Job([Group("dp_0", range(2))], silent=[0, 1])) as broker:
        done = run(broker, environ, "slow")
    approved(done.stdout)
    assert done.returncode == 6


def test_hosts_are_asked_for_their_time_before(environ: dict[str, str]) -> None:
    # The clock of h2 is ahead by 5 s, by which its ranks would seem to come last.
    job = Job(
        [Group("dp_0", range(4), lambda rank, step: 2.0 * (rank == 1), pause=1.0)],
        hosts=("h1", "h1", "h2", "h2"),
        ahead={"h2": 5.0},
    )
    with Sampled(job) as broker:
        done = run(broker, environ, "slow")
    assert "rank 1 (h1) comes last in 50 of 50" in done.stdout
    clocks = [one for one in broker.questions if isinstance(one.inquiry, SampleQuestion) and not one.inquiry.seconds]
    assert {len(one.keys) for one in clocks} == {1}
    assert len({one.keys for one in clocks}) == 2


@pytest.mark.parametrize("seconds", ["0", "301", "soon"])
def test_a_time_that_makes_no_sense_is_refused(environ: dict[str, str], seconds: str) -> None:
    with Sampled(Job([Group("dp_0", range(2))])) as broker:
        done = run(broker, environ, "slow", "--for", seconds)
    assert done.returncode == 2
    assert "--for" in done.stderr
    assert broker.questions == []


def test_a_program_gets_the_same_verdict_and_a_notebook_the_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    with Sampled(Job([Group("dp_0", range(4), lambda rank, step: 0.3 * (rank == 2), pause=1.0)])) as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        with dbg_client.connect() as broker:
            found = broker.job().slow(1.0)
            with pytest.raises(dbg_client.DbgError, match="give up to 300"):
                broker.job().slow(301.0)
    (verdict,) = found.verdicts
    assert (verdict.kind, verdict.ranks, verdict.next) == ("late", "2", "dbg-attach interrupt 2")
    assert str(found).startswith(f"4711.0: {verdict.sentence}\n")
    assert "arrivals in dp_0" in found._repr_html_()
    assert found.document["seconds"] == 1.0


def leave_dumps(folder: Path, *ranks: int, last: int = 2) -> None:
    """Write the dumps of ranks that wait in a collective to which rank ``last`` has not come."""
    for rank in ranks:
        done = raw(4, "nccl:all_reduce", state="completed", retired=True)
        entries = [done] if rank == last else [done, raw(5, "nccl:all_reduce", state="started")]
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickled(*entries))


def why(environ: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Type the command in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "dbg_client", "why", *words],
        capture_output=True,
        text=True,
        env=environ,
        cwd=folder,
        timeout=60,
        check=False,
    )


def test_a_directory_of_dumps_names_the_culprit(approved: Approved, environ: dict[str, str], tmp_path: Path) -> None:
    leave_dumps(tmp_path, 0, 1, 2, 3)
    (tmp_path / "nccl_trace_rank_4").write_bytes(b"\x80\x02]q")
    done = why(environ, tmp_path, ".")

    assert done.stdout.startswith("rank 2 has not come to all_reduce #5 of default; 3 of 4 ranks wait\n")
    assert "try:" not in done.stdout
    approved(done.stderr)
    assert done.returncode == 1


def test_files_are_named_one_by_one_and_answer_as_json(
    approved: Approved, environ: dict[str, str], tmp_path: Path
) -> None:
    leave_dumps(tmp_path, 0, 3)
    names = [f"nccl_trace_rank_{rank}" for rank in (0, 3)]
    done = why(environ, tmp_path, *names, "--json")
    document = json.loads(done.stdout)

    assert (document["schema"], document["asked"], document["answered"]) == (1, 4, 2)
    assert document["verdicts"][0]["kind"] == "unknown"
    approved(document["verdicts"][0]["evidence"])
    assert done.returncode == 6


def test_a_word_that_is_a_file_here_is_no_target_and_that_is_told(
    approved: Approved, environ: dict[str, str], tmp_path: Path
) -> None:
    leave_dumps(tmp_path, 0)
    (tmp_path / "nccl_trace_rank_0").rename(tmp_path / "0")
    done = why(environ, tmp_path, "0")
    approved(done.stderr)
    assert done.returncode == 6


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["gone.txt"], 2),
        (["./gone.txt"], 1),
        (["gone/rank_0", "gone/rank_1"], 1),
        (["."], 1),
        (["./train.py"], 1),
        (["./train.py", "--every", "2"], 2),
        (["0", "1"], 2),
        (["job/0-3"], 4),
        (["list"], 2),
    ],
)
def test_what_can_not_be_read_is_told(
    approved: Approved, environ: dict[str, str], tmp_path: Path, words: list[str], status: int
) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    done = why(environ, tmp_path, *words)
    approved(done.stderr)
    assert (done.returncode, done.stdout) == (status, "")


def test_hostile_names_are_shown_in_one_line(environ: dict[str, str], tmp_path: Path) -> None:
    name = "x\x1b[2J\nrank_1"
    (tmp_path / name).write_bytes(b"\x80\x02]q")
    done = why(environ, tmp_path, f"./{name}")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def test_many_broken_files_are_told_in_a_few_lines(approved: Approved, environ: dict[str, str], tmp_path: Path) -> None:
    leave_dumps(tmp_path, 0, 1)
    for rank in range(10, 60):
        (tmp_path / f"rank_{rank}").write_bytes(b"\x80\x02]q")
    done = why(environ, tmp_path, ".")
    approved(done.stderr)
    assert done.stderr.count("\n") < 20


def test_words_with_a_slash_or_another_letter_are_files() -> None:
    for line in ("./5", "/tmp", "rank_0", "rank_0 rank_1", "hang.txt"):
        found = settled(f"why {line}", Why)
        assert (found.files, found.target) == (tuple(line.split()), None)
    for line in ("job/0-3", "gpu013:5", "all"):
        found = settled(f"why {line}", Why)
        assert (found.files, found.target) == ((), line)
    with pytest.raises(BadInput):
        settled("why 5 list", Why)
