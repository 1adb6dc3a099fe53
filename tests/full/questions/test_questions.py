"""Questions to ranks that don't answer, that run, that are stepped, or that somebody sits at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_questions import SCRIPT
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, start_ranks, texts, wait_until_states

LINE = SCRIPT.splitlines().index("    dbg_agent.set_trace()") + 1


@pytest.mark.parametrize("engine", ["pudb", "pdb"])
def test_a_step_is_one_step_everywhere(processes: Processes, home: Path, engine: str) -> None:
    running_broker(processes, home)
    # The ranks live on, since a rank that ends may be gone before its last answer is sent.
    start_ranks(processes, home, f"{SCRIPT}threading.Event().wait()\n", 2, env={"DBG_ENGINE": engine})
    wait_until_states(home, dict.fromkeys(range(2), "stopped"))
    first = texts(ask(home, "command", "all", "n"))
    second = texts(ask(home, "command", "all", "n"))
    (there,), (then,) = first.values(), second.values()
    assert list(first) == ["0-1"]
    # pdb begins at the line after the stop, so its first step ends one line later than PuDB's.
    begin = LINE + (1 if engine == "pudb" else 2)
    assert there.endswith(f":{begin} work")
    assert then.endswith(f":{begin + 1} work")
    assert texts(ask(home, "command", "all", "c")) == {"0-1": "running"}
    wait_until_states(home, dict.fromkeys(range(2), "running"))
