from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dbg_wire.messages import Action, Answers, Change, Kind, Question, RankAnswer, Snapshot, Subscribe
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.support.processes import run_command
from tests.support.rank_infos import changed
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_rank

RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)


GONE = make_rank(7, state=RankState.EXITED, exit=1)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "dbg_client", *words]


class Desk:
    """Commands that run against a fake broker, without a terminal."""

    def __init__(self, broker: FakeBroker, environ: dict[str, str]) -> None:
        self.environ = {**environ, **broker.environment}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_command(command(*words), self.environ, 60)


def test_the_list_leaves_exited_ranks_to_all(environ: dict[str, str]) -> None:
    older = changed(GONE, run="0.9", key="older")
    with FakeBroker(make_rank(5), RUNNING, older) as broker:
        desk = Desk(broker, environ)
        usual, everything = desk.run("list"), desk.run("list", "--all")
        both = desk.run("list", "6-7", "--all", "--plain")

    assert [line.split()[0] for line in usual.stdout.splitlines()] == ["RANK", "gpu013:5", "gpu013:6"]
    assert "gpu013:7  exited with status 1" in everything.stdout
    assert [line.split("\t")[0] for line in both.stdout.splitlines()] == ["gpu013:6", "gpu013:7"]
    assert (usual.returncode, usual.stderr) == (0, "")
    assert "\x1b" not in usual.stdout


def test_the_list_shows_who_is_missing_in_a_run_that_lives(environ: dict[str, str]) -> None:
    there, gone = make_rank(5, world_size=8), make_rank(7, state=RankState.EXITED, exit=-11, world_size=8)
    with FakeBroker(there, gone, make_rank(6, world_size=8)) as broker:
        desk = Desk(broker, environ)
        table, plain, document = desk.run("list"), desk.run("list", "--plain"), desk.run("list", "--json")
        some, stopped = desk.run("list", "4-7"), desk.run("list", "stopped")

    lines = table.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["RANK", "gpu013:5", "gpu013:6", "gpu013:7", "0-4"]
    assert "killed by SIGSEGV" in lines[3]
    assert lines[4] == "0-4 never connected"
    assert [line.split("\t")[:2] for line in plain.stdout.splitlines()][2] == ["gpu013:7", "exited"]
    read = json.loads(document.stdout)
    assert [rank["rank"] for rank in read["ranks"]] == [5, 6, 7]
    assert read["missing"] == [
        {"job": "4711.0", "ranks": "0-4", "state": "absent", "text": "never came", "since": None}
    ]
    assert some.stdout.splitlines()[-1] == "4 never connected"
    assert [line.split()[0] for line in stopped.stdout.splitlines()] == ["RANK", "gpu013:5", "gpu013:6"]


def test_a_long_list_is_folded_but_for_programs_and_all_rows(environ: dict[str, str]) -> None:
    with FakeBroker(*(make_rank(number) for number in range(41))) as broker:
        desk = Desk(broker, environ)
        table, rows, plain, document = (
            desk.run("list", *words).stdout for words in ((), ("--all-rows",), ("--plain",), ("--json",))
        )

    assert table.splitlines()[1].split()[:4] == ["gpu013:*", "41", "stopped", "train.py:41"]
    assert [len(text.splitlines()) for text in (table, rows, plain)] == [2, 42, 41]
    assert len(json.loads(document)["ranks"]) == 41
    assert rows.splitlines()[10].split()[0] == "gpu013:9"


def test_all_adds_no_other_jobs_of_the_last_hour(environ: dict[str, str]) -> None:
    older = make_rank(7, job="4710.0", key="older", state=RankState.EXITED, exit=0)
    with FakeBroker(make_rank(5), older) as broker:
        desk = Desk(broker, environ)
        usual, everywhere, job = (
            desk.run("list", *words, "--all", "--plain") for words in ((), ("*/all",), ("4710.0/7",))
        )
        stacks = desk.run("where", "--all", "--json")
    with FakeBroker(older) as broker:
        alone = Desk(broker, environ).run("list", "--all", "--plain")

    shown = [[line.split("\t")[0] for line in done.stdout.splitlines()] for done in (usual, everywhere, job, alone)]
    assert shown == [["gpu013:5"], ["4710.0/gpu013:7", "gpu013:5"], ["4710.0/gpu013:7"], ["gpu013:7"]]
    assert json.loads(stacks.stdout)["asked"] == 1


def test_a_list_of_a_target_and_its_formats(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), RUNNING) as broker:
        desk = Desk(broker, environ)
        plain, document = desk.run("list", "stopped", "--plain"), desk.run("list", "--json")
        nothing = desk.run("list", "9")

    assert plain.stdout.split("\t")[:2] == ["gpu013:5", "stopped"]
    assert [rank["address"] for rank in json.loads(document.stdout)["ranks"]] == ["gpu013:5", "gpu013:6"]
    assert nothing.returncode == 3
    assert "'9'" in nothing.stderr


def test_an_empty_list_is_no_error_and_says_why(approved: Approved, environ: dict[str, str]) -> None:
    with FakeBroker() as broker:
        desk = Desk(broker, environ)
        table, document = desk.run("list"), desk.run("list", "--json")

    assert (table.returncode, table.stdout) == (0, "")
    approved(table.stderr)
    assert json.loads(document.stdout) == {"schema": 1, "ranks": [], "missing": []}


def test_a_list_may_wait_for_the_first_stop(environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING) as broker:
        listing = subprocess.Popen(
            command("list", "--wait"), stdout=subprocess.PIPE, text=True, env=Desk(broker, environ).environ
        )
        with listing:
            broker.wait_for(Subscribe)
            broker.tell(Change(rank=make_rank(6)))
            assert listing.stdout is not None
            assert "gpu013:6  stopped" in listing.stdout.read()
            assert listing.wait(60) == 0


def test_waiting_has_an_end(approved: Approved, environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING) as broker:
        done = Desk(broker, environ).run("list", "6", "--wait", "--for", "0.2")

    assert done.returncode == 6
    approved(done.stderr)


def test_a_screen_is_printed_as_text(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), make_rank(6)) as broker:
        broker.answers[Action.SCREEN] = RankAnswer(key="", kind=Kind.VALUE, text="", rows=("PuDB  ", "\x1b[1mx"))
        desk = Desk(broker, environ)
        text, document = desk.run("screen", "5"), desk.run("screen", "5", "--json")
        several = desk.run("screen", "all")

    assert (text.returncode, text.stdout) == (0, "PuDB\n\\x1b[1mx\n")
    assert json.loads(document.stdout)["screen"] == ["PuDB  ", "\x1b[1mx"]
    assert several.returncode == 2
    assert "`dbg-attach screen gpu013:5`, `dbg-attach screen gpu013:6`" in several.stderr


@pytest.mark.parametrize(("kind", "status"), [(Kind.ERROR, 1), (Kind.RUNNING, 1), (Kind.SILENT, 6), (Kind.LOST, 6)])
def test_a_screen_that_does_not_come_has_a_status(kind: Kind, status: int, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        broker.answers[Action.SCREEN] = RankAnswer(key="", kind=kind, text="no debugger is open")
        done = Desk(broker, environ).run("screen", "5")

    assert (done.returncode, done.stdout) == (status, "")
    assert "gpu013:5" in done.stderr


@pytest.mark.parametrize(("rank", "status"), [(RUNNING, 1), (GONE, 8), (make_rank(4, state=RankState.LOST), 1)])
def test_a_rank_without_a_screen_is_refused(rank: RankInfo, status: int, environ: dict[str, str]) -> None:
    with FakeBroker(rank) as broker:
        done = Desk(broker, environ).run("screen", str(rank.rank))

    assert done.returncode == status


def test_continue_asks_the_stopped_ranks_alone(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(4), make_rank(5), RUNNING, GONE) as broker:
        done = Desk(broker, environ).run("continue", "all")
        question = broker.wait_for(Question)

    assert done.returncode == 0
    assert done.stdout.splitlines() == ["gpu013:4 continued", "gpu013:5 continued"]
    assert question.action is Action.CONTINUE
    assert question.keys == (make_rank(4).key, make_rank(5).key)


def test_continue_with_nothing_stopped_is_refused(environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING, GONE) as broker:
        desk = Desk(broker, environ)
        one, several, none = desk.run("continue", "6"), desk.run("continue", "6-7"), desk.run("continue", "9")

    assert (one.returncode, several.returncode, none.returncode) == (1, 1, 3)


@pytest.mark.parametrize(("kind", "status"), [(Kind.SILENT, 6), (Kind.LOST, 6), (Kind.ERROR, 1)])
def test_ranks_that_did_not_go_on_show_in_the_status(kind: Kind, status: int, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        broker.answers[Action.CONTINUE] = RankAnswer(key="", kind=kind, text="")
        done = Desk(broker, environ).run("continue", "5", "--json")

    assert done.returncode == status
    assert json.loads(done.stdout)["answers"][0]["kind"] == kind.value


def test_thousands_are_asked_in_several_questions(environ: dict[str, str]) -> None:
    ranks = [make_rank(number) for number in range(2001)]
    with FakeBroker(*ranks) as broker:
        done = Desk(broker, environ).run("continue", "all")
        broker.wait_for(Question, count=2)

    assert (done.returncode, done.stdout) == (0, "2001 ranks continued\n")


def test_answers_come_in_pages_and_a_silent_broker_has_an_end(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(4), make_rank(5)) as broker:
        broker.silent.add(Question)
        asking = subprocess.Popen(
            command("continue", "all"), stdout=subprocess.PIPE, text=True, env=Desk(broker, environ).environ
        )
        with asking:
            question = broker.wait_for(Question)
            for key, last in zip(question.keys, (False, True), strict=True):
                answer = RankAnswer(key=key, kind=Kind.VALUE, text="continued")
                broker.tell(Answers(request=question.request, answers=(answer,), last=last))
            assert asking.stdout is not None
            assert asking.stdout.read().count("continued") == 2
            assert asking.wait(60) == 0


def test_a_broker_that_dies_before_it_answers_is_status_6(approved: Approved, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        broker.silent.add(Question)
        asking = subprocess.Popen(
            command("continue", "5"), stderr=subprocess.PIPE, text=True, env=Desk(broker, environ).environ
        )
        with asking:
            broker.wait_for(Question)
            broker.stop()
            assert asking.stderr is not None
            approved(asking.stderr.read())
            assert asking.wait(60) == 6


def test_kill_without_a_terminal_needs_y(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        desk = Desk(broker, environ)
        refused = desk.run("kill", "5")
        assert not any(isinstance(item, Question) for item in broker.received)
        done = desk.run("kill", "5", "-y")

        assert broker.wait_for(Question).action is Action.KILL
    assert (refused.returncode, done.returncode) == (2, 0)
    assert "-y" in refused.stderr


@pytest.mark.parametrize(("reply", "status", "asked"), [("y\n", 0, True), ("\n", 1, False), ("\x03", 130, False)])
def test_kill_asks_on_a_terminal(reply: str, status: int, asked: bool, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(4), make_rank(5), RUNNING, GONE) as broker:
        with Terminal(command("kill", "all"), env=Desk(broker, environ).environ) as terminal:
            terminal.wait_for("End 3 ranks (gpu013:4, gpu013:5, gpu013:6)? [y/N]")
            terminal.send(reply)
            assert terminal.exit_status() == status
        assert any(isinstance(item, Question) for item in broker.received) is asked


def test_a_rank_that_is_gone_can_not_be_killed(environ: dict[str, str]) -> None:
    with FakeBroker(GONE) as broker:
        assert Desk(broker, environ).run("kill", "7", "-y").returncode == 8


def test_ranks_told_in_pages_are_all_listed(environ: dict[str, str]) -> None:
    with FakeBroker() as broker:
        broker.silent.add(Subscribe)
        listing = subprocess.Popen(
            command("list", "--plain"), stdout=subprocess.PIPE, text=True, env=Desk(broker, environ).environ
        )
        with listing:
            broker.wait_for(Subscribe)
            broker.tell(Snapshot(ranks=(make_rank(1),), last=False))
            broker.tell(Snapshot(ranks=(make_rank(2),), last=True))
            assert listing.stdout is not None
            assert [line.split("\t")[0] for line in listing.stdout] == ["gpu013:1", "gpu013:2"]
