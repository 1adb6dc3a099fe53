"""The Python library on real ranks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dbg_client
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, start_ranks, wait_until_states
from tests.support.time_unit import seconds

TRAIN = """\
import dbg_agent, os

def step(rank):
    loss = 0.25 if rank < 2 else 0.75
    name = "<b>%d</b>" % rank
    dbg_agent.set_trace()
    loss = loss + 1
    return loss

print(step(int(os.environ["RANK"])))
"""

STOP = TRAIN.splitlines().index("    dbg_agent.set_trace()") + 1


@pytest.fixture
def ranks(processes: Processes, home: Path) -> list[Child]:
    running_broker(processes, home)
    started = start_ranks(processes, home, TRAIN, 3)
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    return started


def ageless(tree: str) -> str:
    """Return a tree without the durations of waits, which are shown from the first second on."""
    return re.sub(r"(, the longest)? for \d+ s", "", tree)


@pytest.mark.usefixtures("ranks")
def test_a_program_gets_the_same_answers_as_a_terminal(home: Path) -> None:
    with dbg_client.connect(timeout=seconds(20)) as broker:
        job = broker.job()
        answer = job.eval("loss")
        assert [(group.id, group.ranks, group.text) for group in answer.groups] == [
            ("@1", "0-1", "0.25"),
            ("@2", "2", "0.75"),
        ]
        assert sorted(answer.values.values()) == ["0.25", "0.25", "0.75"]
        assert answer.missing == answer.errors == {}
        assert str(answer) == attach(home, "eval", "all", "loss").stdout
        assert answer.document == json.loads(attach(home, "eval", "all", "loss", "--json").stdout)

        assert [rank.rank for rank in job["@2"].list()] == [2]
        assert [rank.rank for rank in job[[0, 1]].list()] == [0, 1]
        assert list(job[2].eval("1 / 0").errors.values()) == ["ZeroDivisionError: division by zero"]
        assert set(job.eval("'\\x1b[2J'.join('ab') + '\\n'").values.values()) == {repr("a\x1b[2Jb\n")}

        where = job.where()
        assert ageless(where.tree()) == ageless(attach(home, "where", "all").stdout)
        assert {frame.function for group in where.groups for frame in group.frames} >= {"<module>", "step"}
        verdict = job.why().verdicts[0]
        assert (verdict.kind, verdict.ranks) == ("waiting", "0-2")
        with job[0].attach() as stop:
            assert stop.command("!print('\\x1b[2J')") == "\\x1b[2J"
            assert stop.locals()["loss"] == "0.25"
