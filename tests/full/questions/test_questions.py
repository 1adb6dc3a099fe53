"""One question to several ranks: differing, large and late answers, and what ranks without torch wait for."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from dbg_wire.limits import MAX_ANSWER_BYTES
from dbg_wire.messages import Action, Answers, DetailLevel, Kind, Question, RankAnswer
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import size_of
from tests.e2e.test_questions import SCRIPT
from tests.support.answers import answers_of
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, attach_list, start_ranks, texts, wait_until_states
from tests.support.raw_terminal import listed, raw_terminal
from tests.support.time_unit import seconds

LINE = SCRIPT.splitlines().index("    dbg_agent.set_trace()") + 1


@pytest.mark.parametrize("engine", ["pudb", "pdb"])
def test_a_step_command_moves_each_rank_by_one_line(processes: Processes, home: Path, engine: str) -> None:
    running_broker(processes, home)
    # The ranks live on, since a rank that ends may be gone before its last answer is sent.
    start_ranks(processes, home, f"{SCRIPT}threading.Event().wait()\n", 2, env={"DBG_ENGINE": engine})
    wait_until_states(home, dict.fromkeys(range(2), "stopped"))
    first = texts(ask(home, "command", "all", "n"))
    second = texts(ask(home, "command", "all", "n"))
    (there,), (then,) = first.values(), second.values()
    assert list(first) == ["0-1"]
    # pdb begins at the line after the stop, so its first step ends one line later than PuDB's.
    start = LINE + (1 if engine == "pudb" else 2)
    assert there.endswith(f":{start} work")
    assert then.endswith(f":{start + 1} work")
    assert texts(ask(home, "command", "all", "c")) == {"0-1": "running"}
    wait_until_states(home, dict.fromkeys(range(2), "running"))


NESTED = """\
import os
import dbg_agent
v = [[0] * 60 for _ in range(256)]
v[200][30] = int(os.environ["RANK"])
dbg_agent.install()
dbg_agent.set_trace()
"""

DEEP = """\
import sys, threading
import dbg_agent
dbg_agent.install()
sys.setrecursionlimit(10_000)
ended, there = threading.Event(), threading.Semaphore(0)
names = {"ended": ended, "there": there}
source = "def deep(n):\\n    deep(n - 1) if n else (there.release(), ended.wait())\\n"
exec(compile(source, "/" + "p" * 249, "exec"), names)
for _ in range(63):
    threading.Thread(target=names["deep"], args=(60,), daemon=True).start()
for _ in range(63):
    there.acquire()
dbg_agent.set_trace()
"""

LOGS = "import json; print(json.dumps([{'loss': 0.5, 'path': 'C:\\\\runs'}] * 3000))"
"""Prints 96 KB full of quotes, brackets and backslashes."""


def test_json_output_and_nested_values_are_answered_in_full(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, NESTED, 2)
    before = wait_until_states(home, {0: "stopped", 1: "stopped"})

    done = attach(home, "exec", "0", "--json", "--", sys.executable, "-c", LOGS)
    (printed,) = json.loads(done.stdout)["groups"]
    assert printed["kind"] == "value", printed
    assert printed["text"].startswith('[{"loss": 0.5, "path": "C:\\\\runs"}, ')
    assert 96 * 1024 < len(printed["text"]) < len(json.dumps([{"loss": 0.5, "path": "C:\\runs"}] * 3000))

    same, other = ask(home, "eval", "all", "v")["groups"]
    assert (same["ranks"], other["ranks"]) == ("0", "1")
    assert [one["since"] for one in attach_list(home)] == [one["since"] for one in before]


def test_stacks_of_many_deep_threads_mark_omitted_frames(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    start_ranks(processes, home, DEEP, 1)
    wait_until_states(home, {0: "stopped"})

    answer = asyncio.run(where(broker))

    assert answer.kind is Kind.VALUE, answer.text
    assert size_of(answer) <= MAX_ANSWER_BYTES
    assert len(answer.threads) == 64
    for thread in answer.threads[1:]:
        assert thread.frames[-1].function == "wait"
        assert any("frames left out]" in place.function for place in thread.frames)
    wait_until_states(home, {0: "stopped"})


async def where(broker: RunningBroker) -> RankAnswer:
    async with raw_terminal(broker) as peer:
        key = (await listed(peer, lambda rank: rank.state is RankState.STOPPED)).key
        question = Question(
            request=1, keys=(key,), action=Action.WHERE, seconds=seconds(20), threads=True, look=DetailLevel.EVIDENCE
        )
        await peer.send(question)
        (answer,) = answers_of(await peer.expect(Answers))
        return answer
