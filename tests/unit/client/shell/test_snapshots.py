"""``why``, ``collectives``, ``slow`` and ``report``: what is asked, what they write and send, and their statuses."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import dbg_client
from dbg_client.after.report import write_report
from dbg_client.core.errors import CantWrite
from dbg_client.shell.output import fits, is_usable
from dbg_client.verbs.verb import Verb
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.questions import report_hangs
from dbg_client.why.sentences import sentence_of
from dbg_client.why.verb import Why
from dbg_client.why.verdict import Verdict, VerdictKind
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, DetailLevel, Hang, Kind, Message, RankAnswer
from dbg_wire.records.ranks import CRASH, RankState
from dbg_wire.records.samples import SampleQuestion
from tests.conftest import Approved
from tests.support.rank_evidence import elsewhere, silent, waiting
from tests.support.recorded import pickled, raw
from tests.unit.client.command_line.typed import settled
from tests.unit.client.fake_broker import HERE, TOKEN, FakeBroker, make_rank
from tests.unit.client.shell.desk import Desk, Looked, Sampled, questions
from tests.unit.client.slow.simulated import Group, Job

WAIT = waiting(0), waiting(1)
MISSING_RANK_2 = [*WAIT, waiting(3), elsewhere(2)]


def test_why_names_the_missing_rank_asks_once_and_remembers_it(approved: Approved, desk: Desk) -> None:
    with desk.at(Looked(MISSING_RANK_2)) as broker:
        done, document = desk.run("why"), desk.run("why", "--json")
        part = desk.run("why", "0-1")
        listed = desk.run("list", "@missing")

    assert (done.status, document.status, done.err) == (1, 1, "")
    approved(done.out)
    parsed = json.loads(document.out)
    assert (parsed["schema"], parsed["asked"], parsed["answered"]) == (1, 4, 4)
    assert [(one["kind"], one["ranks"], one["others"]) for one in parsed["verdicts"]] == [("missing", "2", "0-1,3")]
    assert part.out == done.out
    assert listed.out.splitlines()[1].startswith("gpu013:2 ")
    asked = [(one.action, one.look, len(one.keys)) for one in questions(broker)]
    assert asked == [(Action.WHERE, DetailLevel.EVIDENCE, 4)] * 3


@pytest.mark.parametrize(
    ("looks", "status", "kinds"),
    [
        ([[elsewhere(n, step, age=0.1) for n in range(4)] for step in (5, 8)], 0, ["busy"]),
        ([[*WAIT, silent(2), elsewhere(3, state=RankState.EXITED, exit=0)]], 1, ["missing", "unknown"]),
        ([[*WAIT, silent(2), silent(3)]], 6, ["unknown"]),
    ],
)
def test_the_exit_status_reflects_the_verdict(
    desk: Desk, looks: list[list[RankEvidence]], status: int, kinds: list[str]
) -> None:
    with desk.at(Looked(*looks)) as broker:
        done = desk.run("why", "--json")

    assert done.status == status
    assert [one["kind"] for one in json.loads(done.out)["verdicts"]] == kinds
    assert len(questions(broker)) >= len(looks)


def test_collectives_are_shown_as_a_table_and_as_json(approved: Approved, desk: Desk) -> None:
    with desk.at(Looked(MISSING_RANK_2)) as broker:
        done, document = desk.run("collectives", "0-1"), desk.run("collectives", "--json")
        listed = desk.run("list", "@missing")

    assert (done.status, done.err) == (0, "")
    approved(done.out)
    assert json.loads(document.out)["groups"][0]["missing"] == "2"
    assert listed.out.splitlines()[1].startswith("gpu013:2 ")
    assert {one.look for one in questions(broker)} == {DetailLevel.COLLECTIVES}


LATE = Job([Group("dp_0", range(4), lambda rank, step: 0.3 * (rank == 2), pause=1.0)])


def test_a_late_rank_is_named_and_gives_status_1(desk: Desk) -> None:
    with desk.at(Sampled(LATE)) as broker:
        done, document = desk.run("slow", "--for", "3"), desk.run("slow", "0", "--json")

    assert (done.status, document.status, done.err) == (1, 1, "")
    parsed = json.loads(document.out)
    assert (parsed["schema"], parsed["asked"], parsed["answered"], parsed["seconds"]) == (1, 4, 4, 10.0)
    assert [(one["kind"], one["ranks"]) for one in parsed["verdicts"]] == [("late", "2")]
    # All ranks of the run are asked, whichever was named; on one host nobody is asked for the time.
    assert [(one.action, len(one.keys)) for one in questions(broker)] == [(Action.SAMPLE, 4)] * 2
    asked = [one.inquiry for one in questions(broker)]
    assert [one.seconds for one in asked if isinstance(one, SampleQuestion)] == [3.0, 10.0]
    assert questions(broker)[0].seconds > 3.0


@pytest.mark.parametrize(("silent", "status"), [([], 0), ([0, 1], 6)])
def test_a_job_without_late_ranks_succeeds_and_one_without_samples_does_not(
    approved: Approved, desk: Desk, silent: list[int], status: int
) -> None:
    with desk.at(Sampled(Job([Group("dp_0", range(2))], silent=silent))):
        done = desk.run("slow")

    assert done.status == status
    approved(done.out)


def test_hosts_are_first_asked_for_their_time(desk: Desk) -> None:
    # The clock of h2 is ahead by 5 s, by which its ranks would seem to come last.
    job = Job(
        [Group("dp_0", range(4), lambda rank, step: 2.0 * (rank == 1), pause=1.0)],
        hosts=("h1", "h1", "h2", "h2"),
        ahead={"h2": 5.0},
    )
    with desk.at(Sampled(job)) as broker:
        done = desk.run("slow", "--json")

    assert [one["ranks"] for one in json.loads(done.out)["verdicts"]] == ["1"]
    inquiries = [one for one in questions(broker) if isinstance(one.inquiry, SampleQuestion)]
    clocks = [one.keys for one in inquiries if isinstance(one.inquiry, SampleQuestion) and not one.inquiry.seconds]
    assert {len(keys) for keys in clocks} == {1}
    assert len(set(clocks)) == 2


def test_a_program_gets_the_same_verdict(desk: Desk) -> None:
    with desk.at(Sampled(LATE)), dbg_client.connect() as broker:
        found = broker.job().slow(1.0)
        with pytest.raises(dbg_client.DbgError):
            broker.job().slow(301.0)

    (verdict,) = found.verdicts
    assert (verdict.kind, verdict.ranks, verdict.next) == ("late", "2", "dbg-attach interrupt 2")
    assert str(found).startswith(f"4711.0: {verdict.sentence}\n")
    assert found.document["seconds"] == 1.0


@pytest.fixture
def folder(desk: Desk, tmp_path: Path) -> Path:
    """Return an empty folder, in which the user is."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    desk.variables.chdir(folder)
    return folder


def leave_dumps(folder: Path, *ranks: int, last: int = 2) -> None:
    """Write the dumps of ranks that wait in a collective to which rank ``last`` has not come."""
    for rank in ranks:
        done = raw(4, "nccl:all_reduce", state="completed", retired=True)
        entries = [done] if rank == last else [done, raw(5, "nccl:all_reduce", state="started")]
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickled(*entries))


def test_a_directory_of_dumps_names_the_culprit(approved: Approved, desk: Desk, folder: Path) -> None:
    leave_dumps(folder, 0, 1, 2, 3)
    (folder / "nccl_trace_rank_4").write_bytes(b"\x80\x02]q")
    done = desk.run("why", ".")

    assert done.status == 1
    assert "try:" not in done.out
    approved(done.text)


def test_a_word_that_names_a_file_is_read_as_a_file_with_a_note(approved: Approved, desk: Desk, folder: Path) -> None:
    leave_dumps(folder, 0)
    (folder / "nccl_trace_rank_0").rename(folder / "0")
    done = desk.run("why", "0")

    assert done.status == 6
    approved(done.err)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("gone.txt", 2),
        ("./gone.txt", 1),
        ("gone/rank_0 gone/rank_1", 1),
        (".", 1),
        ("./train.py", 1),
        ("./train.py --wait", 2),
        ("0 1", 2),
        ("job/0-3", 4),
        ("list", 2),
    ],
)
def test_unreadable_input_is_reported(approved: Approved, desk: Desk, folder: Path, line: str, status: int) -> None:
    (folder / "train.py").write_text("import torch\n")
    done = desk.run("why", *line.split())

    approved(done.err)
    assert (done.status, done.out) == (status, "")


def test_hostile_names_take_one_line_and_many_broken_files_take_few(desk: Desk, folder: Path) -> None:
    name = "x\x1b[2J\nrank_1"
    (folder / name).write_bytes(b"\x80\x02]q")
    done = desk.run("why", f"./{name}")

    assert done.err.count("\n") == 1
    assert "\x1b" not in done.err
    leave_dumps(folder, 0, 1)
    for rank in range(10, 60):
        (folder / f"rank_{rank}").write_bytes(b"\x80\x02]q")
    assert 5 < desk.run("why", ".").err.count("\n") < 20


@pytest.mark.parametrize(
    ("line", "is_files"),
    [
        *((line, True) for line in ("./5", "/tmp", "rank_0", "rank_0 rank_1", "hang.txt")),
        *((line, False) for line in ("job/0-3", "gpu013:5", "all")),
    ],
)
def test_words_that_cannot_be_targets_are_files(line: str, is_files: bool) -> None:
    found = settled(f"why {line}", Why)
    assert (found.files, found.target) == ((tuple(line.split()), None) if is_files else ((), line))


@pytest.mark.parametrize(
    "line",
    [
        "why 5 list",
        "slow --for 0",
        "slow --for 301",
        "report where",
    ],
)
def test_invalid_command_lines_are_refused(line: str) -> None:
    with pytest.raises(BadInput):
        settled(line, Verb)


@pytest.fixture
def broker(desk: Desk) -> Iterator[FakeBroker]:
    ranks = make_rank(0), make_rank(1, state=RankState.EXITED, exit=-9), make_rank(7, job="other")
    with desk.at(FakeBroker(*ranks)) as serving:
        serving.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.VALUE, text="", frames=(HERE,))
        yield serving


def test_a_report_asks_only_for_stacks_and_contains_no_token(broker: FakeBroker, desk: Desk) -> None:
    done, narrow = desk.run("report"), desk.run("report", "4711.0/all")

    assert (done.status, done.err) == (0, "")
    assert TOKEN not in done.out
    for section in ("\nWhy it hangs\n  4711.0: rank 1 ", "\nStacks\n"):
        assert section in done.out
        assert section in narrow.out
    assert {item.action for item in questions(broker)} == {Action.WHERE}


def test_a_report_on_one_rank_asks_all_ranks(desk: Desk) -> None:
    ranks = [make_rank(number, state=RankState.RUNNING, reason=None, world_size=3) for number in range(3)]
    with desk.at(FakeBroker(*ranks)) as serving:
        serving.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.VALUE, text="", frames=(HERE,))

        done = desk.run("report", "1")

    assert (done.status, "never connected" in done.out) == (0, False)
    assert [len(item.keys) for item in questions(serving)] == [3, 3]


def test_a_report_file_is_private_and_never_replaced_without_consent(
    approved: Approved, broker: FakeBroker, desk: Desk, tmp_path: Path
) -> None:
    path = tmp_path / "hang.txt"

    first, again = (desk.run("report", "-o", str(path)) for _ in range(2))

    assert (first.status, first.out, again.status) == (0, "", 2)
    approved(first.err + again.err)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    path.write_text("old")
    assert desk.run("report", "-o", str(path), "-y").status == 0
    assert path.read_text().startswith("dbg-attach report, ")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_unwritable_report_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(BadInput):
        write_report(str(tmp_path / "link"), "", replace_it=False)
    for path in (tmp_path / "no" / "file", tmp_path / "link", Path("/dev/null")):
        with pytest.raises(CantWrite):
            write_report(str(path), "", replace_it=True)
    assert not (tmp_path / "elsewhere").exists()


def verdict(kind: VerdictKind, job: str = "a", **fields: object) -> Verdict:
    return Verdict(**{"kind": kind, "job": job, **fields})  # type: ignore[arg-type]


def test_the_worst_verdict_on_each_job_is_sent() -> None:
    sent: list[Message] = []
    verdicts = [
        verdict(VerdictKind.MISSING, ranks=(3, 4, 5)),
        verdict(VerdictKind.DEAD),
        verdict(VerdictKind.STUCK, job="b"),
        verdict(VerdictKind.BUSY, job="c"),
        verdict(VerdictKind.UNKNOWN, job="d"),
    ]
    report_hangs(sent.append, verdicts)
    assert sent == [
        Hang(job="a", kind="missing", sentence=sentence_of(verdicts[0]), ranks="3-5"),
        Hang(job="b", kind="stuck", sentence=sentence_of(verdicts[2])),
    ]


def test_stopped_ranks_are_not_reported_as_a_hang() -> None:
    sent: list[Message] = []
    known = [make_rank(3, job="a"), make_rank(4, job="a", state=RankState.RUNNING)]
    report_hangs(sent.append, [verdict(VerdictKind.WAITING, ranks=(3,))], known)
    assert sent == []
    report_hangs(sent.append, [verdict(VerdictKind.WAITING, ranks=(3, 4))], known)
    assert len(sent) == 1
    # Nobody has stopped a rank that is kept after a crash.
    report_hangs(sent.append, [verdict(VerdictKind.MISSING, ranks=(3,))], [make_rank(3, job="a", reason=CRASH)])
    assert len(sent) == 2


def test_a_hang_without_a_known_cause_is_sent_if_no_rank_moves() -> None:
    sent: list[Message] = []
    unknown = verdict(VerdictKind.UNKNOWN, job="d")
    report_hangs(sent.append, [unknown, verdict(VerdictKind.BUSY, job="c")], unmoved=True)
    assert sent == [Hang(job="d", kind="unknown", sentence=sentence_of(unknown))]


def test_a_pager_needs_a_terminal_with_a_cursor_and_must_be_installed(tmp_path: Path) -> None:
    (tmp_path / "less").write_text("#!/bin/sh\n")
    (tmp_path / "less").chmod(0o700)
    there = {"TERM": "xterm", "PATH": str(tmp_path)}

    assert is_usable("less", there)
    assert not is_usable("less", {**there, "PATH": "/nowhere"})
    assert is_usable("more", there)
    assert not is_usable("cat", there)
    assert not is_usable("", there)
    assert not is_usable("more", {**there, "TERM": "dumb"})


def test_text_fits_if_a_row_is_left_for_the_prompt() -> None:
    assert fits("line\n" * 23, 24, 80)
    assert not fits("line\n" * 24, 24, 80)
    assert not fits("x" * 81 + "\n" + "line\n" * 22, 24, 80)
    assert fits("\x1b[31m" * 100 + "x\n" + "line\n" * 22, 24, 80)
