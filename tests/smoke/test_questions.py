"""One question to all ranks of a job: real ranks, a real broker, and `dbg-attach` as a script would call it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import ask, attach, start_ranks, texts, wait_until_states

SCRIPT = """\
import os
import threading
import dbg_agent
dbg_agent.install()
rank = int(os.environ["RANK"])
gate = os.environ["DBG_HOME"] + "/gate"

def work(batch):
    loss = 0.25 if rank != 2 else float("nan")
    thing = object()
    dbg_agent.set_trace()
    first = 1
    second = 2
    print("went on", first, second)

def load():
    open(gate).read()

def prints():
    print("printed by the question")
    return rank

def waits():
    threading.Event().wait()

def fails():
    raise ValueError("on one rank") if rank == 1 else KeyError("elsewhere")

load() if rank == 4 else work(batch=[1, 2])
"""
"""Ranks 0 to 3 stop in ``work``; rank 4 runs, and waits in ``load`` until somebody opens the gate."""

LINE = SCRIPT.splitlines().index("    dbg_agent.set_trace()") + 1


@dataclass(frozen=True)
class Standing:
    """Ranks for tests that leave them as they are."""

    home: Path
    ranks: list[Child]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    folder = tmp_path_factory.mktemp("standing")
    home = folder / "dbg"
    home.mkdir(0o700)
    started = Processes(folder / "logs")
    try:
        running_broker(started, home)
        os.mkfifo(home / "gate")
        ranks = start_ranks(started, home, SCRIPT, 5)
        wait_until_states(home, {**dict.fromkeys(range(4), "stopped"), 4: "running"})
        yield Standing(home, ranks)
        # Nothing that was evaluated or printed in them meanwhile has changed what they do and write.
        assert attach(home, "continue", "stopped").returncode == 0
        (home / "gate").write_text("")
        assert [rank.wait() for rank in ranks] == [0] * 5
        assert [rank.text() for rank in ranks] == [*["went on 1 2\n"] * 4, ""]
    finally:
        started.end_all()


together = pytest.mark.xdist_group("questions to standing ranks")
"""The mark of tests of the standing ranks: each worker would start its own."""


@together
def test_equal_answers_are_one_group_and_the_odd_one_stands_out(standing: Standing) -> None:
    frame = {"file": str(standing.home / "rank_script.py"), "line": LINE, "function": "work"}
    assert ask(standing.home, "eval", "0-3", "loss") == {
        "schema": 1,
        "command": "loss",
        "asked": 4,
        "answered": 4,
        "groups": [
            {"id": "@1", "kind": "value", "ranks": "0-1,3", "count": 3, "text": "0.25", "frame": frame},
            {"id": "@2", "kind": "value", "ranks": "2", "count": 1, "text": "nan", "frame": frame},
        ],
        "missing": [],
    }


@together
def test_object_addresses_do_not_split_groups(standing: Standing) -> None:
    assert len(ask(standing.home, "eval", "0-3", "thing")["groups"]) == 1


@together
def test_an_expression_sees_locals_also_in_inner_scopes_and_changes_nothing(standing: Standing) -> None:
    assert texts(ask(standing.home, "eval", "0-3", "[x * len(batch) for x in batch]")) == {"0-3": "[2, 4]"}
    # The end of the standing ranks shows that nothing of this is in their output.
    assert "printed by the question" in texts(ask(standing.home, "eval", "0", "prints()"))["0"]


@together
def test_an_exception_is_an_answer_and_no_answer_is_dropped(standing: Standing) -> None:
    document = ask(standing.home, "eval", "0-3", "fails()")
    assert document["answered"] == 4
    assert texts(document) == {"0,2-3": "KeyError: 'elsewhere'", "1": "ValueError: on one rank"}
    assert {group["kind"] for group in document["groups"]} == {"error"}
    assert attach(standing.home, "eval", "0-3", "fails()").returncode == 0


@together
def test_an_endless_expression_is_interrupted_at_its_deadline_without_harm(standing: Standing) -> None:
    document = ask(standing.home, "eval", "0-1", "waits() if rank == 1 else rank", "--timeout", "2")
    by_rank = texts(document)
    assert by_rank["0"] == "0"
    assert "interrupted" in by_rank["1"]
    assert texts(ask(standing.home, "eval", "0-1", "loss")) == {"0-1": "0.25"}


@together
def test_where_merges_running_and_stopped_ranks(standing: Standing) -> None:
    document = ask(standing.home, "where", "all")
    stacks = {group["ranks"]: [frame["function"] for frame in group["frames"]] for group in document["groups"]}
    assert stacks == {"0-3": ["<module>", "work"], "4": ["<module>", "load"]}
    assert document["answered"] == 5
    place = {"file": str(standing.home / "rank_script.py"), "line": LINE, "function": "work"}
    assert document["groups"][0]["frames"][1] == place
    assert "load" in attach(standing.home, "where", "all").stdout


def test_a_rank_that_dies_during_a_question_is_lost_at_once(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    job = start_ranks(processes, home, SCRIPT, 3)
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    dies = "__import__('os').kill(__import__('os').getpid(), 9) if rank == 2 else rank // 4"
    by_kind = {group["kind"]: group["ranks"] for group in ask(home, "eval", "all", dies)["groups"]}
    assert by_kind == {"value": "0-1", "lost": "2"}
    job[2].wait()
    assert attach(home, "continue", "all").returncode == 0
    assert [job[rank].wait() for rank in (0, 1)] == [0, 0]
