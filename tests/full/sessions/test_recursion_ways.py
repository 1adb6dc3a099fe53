"""Close to the recursion limit a program stops where it would in stock pdb, and finds its own limit afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_recursion import HEAD, NESTED, TAIL, let_go
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, start_ranks, texts, wait_until_states

OTHER_WAYS = {
    "post_mortem": """\
def fail():
    try:
        1 / 0
    except ZeroDivisionError:
        dbg_agent.post_mortem(lease=600)
with_left(50, fail)
""",
    "stop point": """\
def nothing():
    pass  # the stop
with_left(50, nothing)
""",
    "hold": "with_left(50, lambda: dbg_agent.set_trace(ranks=1, hold_grace=600))\n",
}


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_other_ways_to_stop(way: str, processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = f"import dbg_agent\n{OTHER_WAYS[way]}"
    line = f"{HEAD}{script}".splitlines().index("    pass  # the stop") + 1 if way == "stop point" else 0
    stops = {"DBG_AUTOSTART": "1", "DBG_STOP_AT": f"{home / 'rank_script.py'}:{line}"} if line else {}
    ranks = start_ranks(processes, home, f"{HEAD}{script}{TAIL}", 1, env=stops, world_size=2)
    wait_until_states(home, {0: "held" if way == "hold" else "stopped"})
    assert texts(ask(home, "eval", "0", NESTED)) == {"0": "0"}
    let_go(home, ranks[0], "release" if way == "hold" else "continue")
