"""The verbs of ``dbg-attach``: which ranks each of them asks, and with what status it ends."""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
from collections.abc import Iterator
from types import FrameType

import pytest

from dbg_client.verbs.values import refuse_for_sets
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Change, DetailLevel, Kind, RankAnswer, Subscribe
from dbg_wire.records.ranks import Place, RankState
from tests.conftest import Approved
from tests.support.rank_evidence import call, done, group
from tests.support.rank_infos import changed
from tests.support.sentence import HOSTILE, RAW
from tests.unit.client.fake_broker import FakeBroker, make_rank
from tests.unit.client.shell.desk import NOW, Desk, gone, meanwhile, questions

RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)
HELD = make_rank(7, state=RankState.HELD, reason=None)
SILENT = make_rank(9, state=RankState.UNRESPONSIVE, where=None, reason=None)


def value(text: str, kind: Kind = Kind.VALUE) -> RankAnswer:
    return RankAnswer(key="", kind=kind, text=text, digest=f"d{text}")


def stack(file: str, line: int) -> RankAnswer:
    frames = (Place(file="/t.py", line=1, function="main"), Place(file=file, line=line, function="f"))
    return RankAnswer(key="", kind=Kind.VALUE, text="running", frames=frames)


def answering(broker: FakeBroker, **texts: RankAnswer) -> None:
    """Have rank 5 give the answer that is passed as ``_5``."""
    broker.answers_by_key = {make_rank(int(name[1:])).key: answer for name, answer in texts.items()}


@pytest.fixture(autouse=True)
def _at_the_time_of_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)


@pytest.fixture
def broker(desk: Desk) -> Iterator[FakeBroker]:
    """A broker with ranks in each state, which do as they are asked."""
    with desk.at(FakeBroker(make_rank(4), make_rank(5), RUNNING, HELD, gone(), SILENT)) as serving:
        for action in Action:
            serving.answers[action] = value("done")
        serving.answers[Action.WHERE] = stack("/a.py", 7)
        serving.answers[Action.SCREEN] = RankAnswer(key="", kind=Kind.VALUE, text="", rows=("PuDB  ", "\x1b[1mx"))
        yield serving


ASKED = [
    ("continue 4-5", 0, Action.CONTINUE, [4, 5]),
    ("continue 6", 0, Action.INTERRUPT, [6]),
    ("continue 7", 1, None, []),
    ("continue 7-8", 1, None, []),
    ("continue 20", 3, None, []),
    ("release all", 0, Action.RELEASE, [7]),
    ("release 5-6", 1, None, []),
    ("release", 2, None, []),
    ("kill 5", 2, None, []),
    ("kill 5 -y", 0, Action.KILL, [5]),
    ("kill all -y", 0, Action.KILL, [4, 5, 6, 7, 9]),
    ("kill 8 -y", 8, None, []),
    ("interrupt all", 2, None, []),
    ("interrupt all -y", 0, Action.INTERRUPT, [4, 5, 6, 7, 9]),
    ("interrupt 6", 0, Action.INTERRUPT, [6]),
    ("interrupt 8", 8, None, []),
    ("interrupt", 2, None, []),
    ("eval all x", 0, Action.EVAL, [4, 5, 6, 7, 9]),
    ("eval x", 0, Action.EVAL, [4, 5, 7]),
    ("eval 8 x", 8, None, []),
    ("eval 20 x", 3, None, []),
    ("command all n", 0, Action.COMMAND, [4, 5, 6, 7, 9]),
    ("command all q", 2, None, []),
    ("where", 0, Action.WHERE, [4, 5, 6, 7, 9]),
    ("where --all", 0, Action.WHERE, [4, 5, 6, 7, 8, 9]),
    ("screen 5", 0, Action.SCREEN, [5]),
    ("screen all", 2, None, []),
    ("screen 6", 1, None, []),
    ("screen 8", 8, None, []),
    ("list", 0, None, []),
    ("list 20", 3, None, []),
    ("list 6 --wait --for 0.2", 6, None, []),
]


@pytest.mark.parametrize(("line", "status", "action", "ranks"), ASKED, ids=[row[0] for row in ASKED])
def test_a_verb_asks_its_target_ranks(
    approved: Approved, broker: FakeBroker, desk: Desk, line: str, status: int, action: Action | None, ranks: list[int]
) -> None:
    done = desk.run(*line.split())

    assert done.status == status
    assert [one.action for one in questions(broker)] == ([action] if action is not None else [])
    assert sorted(broker.ranks[key].rank for one in questions(broker) for key in one.keys) == ranks
    approved(done.text)


def test_continue_withdraws_pending_interrupts(broker: FakeBroker, desk: Desk) -> None:
    done = desk.run("continue", "all")

    asked = [(one.action, one.withdrawn, [broker.ranks[key].rank for key in one.keys]) for one in questions(broker)]
    assert asked == [(Action.INTERRUPT, True, [6, 9]), (Action.CONTINUE, False, [4, 5])]
    assert "4-5  done" in done.text


@pytest.mark.parametrize(
    ("line", "statuses"),
    [
        ("continue 5 --json", {Kind.VALUE: 0, Kind.ERROR: 1, Kind.SILENT: 6, Kind.LOST: 6}),
        ("release 7", {Kind.VALUE: 0, Kind.ERROR: 1, Kind.SILENT: 6, Kind.LOST: 6}),
        ("kill 5 -y", {Kind.VALUE: 0, Kind.ERROR: 1, Kind.SILENT: 6}),
        ("interrupt 6", {Kind.VALUE: 0, Kind.ERROR: 1, Kind.SILENT: 6, Kind.LOST: 6}),
        ("screen 5", {Kind.VALUE: 0, Kind.ERROR: 1, Kind.RUNNING: 1, Kind.SILENT: 6, Kind.LOST: 6}),
        ("eval 4-5 x", {Kind.VALUE: 0, Kind.ERROR: 0, Kind.RUNNING: 1, Kind.SILENT: 6, Kind.LOST: 6}),
    ],
)
def test_the_exit_status_reflects_the_answers(
    broker: FakeBroker, desk: Desk, line: str, statuses: dict[Kind, int]
) -> None:
    found = {}
    for kind in statuses:
        for action in Action:
            broker.answers[action] = value("", kind)
        found[kind] = desk.run(*line.split()).status

    assert found == statuses


def test_options_of_a_question_are_passed_on(broker: FakeBroker, desk: Desk) -> None:
    desk.run("eval", "5", "x", "--live", "--frame", "-2", "--timeout", "7")
    desk.run("eval", "5", "x")
    desk.run("command", "5", "p x", "--frame", "step")
    desk.run("interrupt", "5", "--json", "--frame", "step")

    asked = [(one.live, one.frame) for one in questions(broker)]
    assert asked == [(True, "-2"), (False, ""), (False, "step"), (False, "step")]
    assert questions(broker)[0].seconds == 7.0


@pytest.mark.parametrize(
    "text",
    ["q", " quit ", "exit()", "EOF", "interact", "debug f()", "commands 1", "run", "restart a", "n ;; q", "n;;q"],
)
def test_commands_for_a_single_terminal_are_refused_for_a_set(text: str) -> None:
    refuse_for_sets(text, 1)
    with pytest.raises(BadInput):
        refuse_for_sets(text, 8)
    for other in ("n", "c", "p q", "!q = 1", "quiet()", "b t.py:5, rank == 3", "pp run"):
        refuse_for_sets(other, 8)


def test_a_group_of_an_answer_can_be_the_next_target(approved: Approved, broker: FakeBroker, desk: Desk) -> None:
    early = desk.run("where", "@err")
    answering(broker, _4=value("1"), _5=value("NameError: x", Kind.ERROR))
    desk.run("eval", "4-5", "x")
    desk.run("eval", "@err", "y")
    unknown = desk.run("where", "@7")

    assert questions(broker)[-1].keys == (make_rank(5).key,)
    assert (early.status, unknown.status) == (3, 3)
    approved(early.err + unknown.err)
    assert desk.run("list", "@err").out.splitlines()[1].split()[0] == "gpu013:5"


def test_where_names_the_collective_and_its_missing_ranks_are_a_target(approved: Approved, desk: Desk) -> None:
    members = group(members="3-5", at=6)
    waits = stack("/c.py", 9).replace(rows=(members, call(7, age=250.0)), age=252.0)
    ranks = [make_rank(number, state=RankState.RUNNING, reason=None) for number in (3, 4, 5)]
    with desk.at(FakeBroker(*ranks)) as broker:
        answering(broker, _3=waits, _4=waits, _5=stack("/data.py", 17).replace(rows=(members, done(6))))
        approved(desk.run("where").out)
        groups = json.loads(desk.run("where", "--json").out)["groups"]
        desk.run("where", "@missing")
        # That answer knows of no collective, and the next command is still about the same ranks.
        desk.run("eval", "@missing", "step", "--live")
        desk.run("eval", "all", "step", "--live")
        assert desk.run("where", "@missing").status == 3

    asked = questions(broker)
    assert (asked[0].look, asked[2].keys, asked[3].keys) == (DetailLevel.COLLECTIVES, *[(make_rank(5).key,)] * 2)
    assert [(one["collective"] is None, one["age"]) for one in groups] == [(False, 252.0), (True, None)]


def test_where_succeeds_with_the_last_stacks_of_an_ended_job(desk: Desk) -> None:
    with desk.at(FakeBroker(gone())) as broker:
        broker.answers[Action.WHERE] = stack("/a.py", 7).replace(kind=Kind.LOST, text="exited with status 1")
        done = desk.run("where")

    assert done.status == 0
    assert "f a.py:7" in done.out


def test_different_answers_set_the_exit_status_on_request(broker: FakeBroker, desk: Desk) -> None:
    answering(broker, _4=value("0.5"), _5=value("0.5000001"))
    asked = ("eval", "4-5", "x")

    assert desk.run(*asked, "--fail-if-differ").status == 1
    assert desk.run(*asked).status == 0


LISTED = [
    "list",
    "list --all",
    "list 4-7",
    "list stopped",
    "list */all --all",
    "list 4710.0/7",
]


@pytest.mark.parametrize("line", LISTED)
def test_list_hides_exited_ranks_without_all_and_shows_missing_ranks(approved: Approved, desk: Desk, line: str) -> None:
    ranks = [
        make_rank(5, world_size=8),
        changed(RUNNING, world_size=8),
        gone(7, exit=-11, world_size=8),
        changed(gone(7), run="0.9", key="older"),
        make_rank(7, job="4710.0", key="other", state=RankState.EXITED, exit=0),
    ]
    with desk.at(FakeBroker(*ranks)):
        done = desk.run(*line.split())

    assert done.status == 0
    approved(re.sub(r"\d{10}\.\d+", "SINCE", done.out))


def test_an_empty_list_is_explained_and_is_no_error(approved: Approved, desk: Desk) -> None:
    with desk.at(FakeBroker()):
        done = desk.run("list")

    assert (done.status, done.out) == (0, "")
    approved(done.err)


def test_list_can_wait_for_the_first_stop(desk: Desk) -> None:
    with desk.at(FakeBroker(RUNNING)) as broker:

        def stop() -> None:
            broker.wait_for(Subscribe)
            broker.send_all(Change(rank=make_rank(6)))

        with meanwhile(stop):
            done = desk.run("list", "--wait")

    assert (done.status, done.out.splitlines()[1].split()[:2]) == (0, ["gpu013:6", "stopped"])


@pytest.mark.parametrize("kind", [Kind.VALUE, Kind.ERROR])
@pytest.mark.parametrize("words", [("eval", "5", "x"), ("command", "5", "p x"), ("continue", "5"), ("where", "5")])
def test_answers_with_control_characters_are_printed_escaped(
    broker: FakeBroker, desk: Desk, words: tuple[str, ...], kind: Kind
) -> None:
    answering(broker, _5=value(HOSTILE, kind))
    done = desk.run(*words)
    output = f"{done.out}{done.err}".encode()
    assert b"pwned" in output
    assert not RAW.search(output), output


HANDS_ON = frozenset(
    {
        "command_line.main",
        "command_line.reading",
        "verbs.table",
        "shell.streams",
        "verbs.verb",
        "verbs.values",
        "shell.ask",
        "shell.output",
        "core.choose",
        "core.asking",
        "core.switchboard",
        "core.link",
        "views.groups",
        "views.naming",
    }
)
"""The way of a question from the shell to the broker and back."""

BESIDE = frozenset({"core.brokers", "core.directory", "core.wait_progress", "views.ages", "views.table"})
"""What stands beside the way: reading a target, the list of ranks, the line for people who wait, ages and widths."""


def test_a_question_from_the_shell_passes_few_modules(desk: Desk, broker: FakeBroker) -> None:
    passed = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        package, _, module = frame.f_globals.get("__name__", "").partition(".")
        is_of_function = frame.f_code.co_flags & inspect.CO_NEWLOCALS and not frame.f_code.co_name.startswith("<")
        if event == "call" and package == "dbg_client" and is_of_function:
            passed.add(module)

    desk.run("eval", "all", "loss")  # what is loaded at the first time has been
    sys.setprofile(note)
    try:
        desk.run("eval", "all", "loss")
    finally:
        sys.setprofile(None)

    assert passed - BESIDE <= HANDS_ON
    assert len(HANDS_ON) <= 14
