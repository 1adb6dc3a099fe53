"""An IDE, by a client of its protocol that is not ours, on real ranks: values, stops, moves, a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dbg_client.dap.breakpoints import NO_RANK
from dbg_client.dap.verb import entry_for
from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.ide import Ide, Refused, ide
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_command, start_ranks, wait_until_states
from tests.support.sessions import detach
from tests.support.time_unit import seconds

TRAIN = """\
import dbg_agent, os
rank = int(os.environ["RANK"])
def step(batch):
    loss = 0.25 if rank else 0.75
    seen = {"batch": batch, "rank": rank}
    # Nothing is done here.
    return loss
dbg_agent.set_trace()
for batch in range(100):
    step(batch)
"""


def test_an_ide_inspects_steps_and_stops_at_its_breakpoints(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, TRAIN, 3)
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    script = home / "rank_script.py"
    with ide(home) as window:
        rows = window.attach({script: [{"line": 6, "condition": "batch == 3"}, {"line": 7000}]}, target="all")
        # The comment has no code: the breakpoint is at the line behind it, in all ranks.
        assert [(row["verified"], row["line"]) for row in rows] == [(True, 7), (False, 7000)]
        assert rows[1]["message"]
        thread = window.stop_of(1)
        look(window, thread)
        window.go_on(thread)
        assert window.stopped(thread)["reason"] == "breakpoint"
        top = window.top(thread)
        assert (top["line"], top["name"], top["source"]["path"]) == (7, "step", str(script))
        assert window.evaluate("batch", top["id"], "watch") == "3"
        assign(window, top["id"])
        move(window, thread)
        stops_of_the_others(window, script, thread)
        window.leave()
    # What the IDE has set is gone with it, and the ranks are where they were.
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    attach(home, "continue", "stopped")
    assert [rank.wait(seconds(20)) for rank in ranks] == [0, 0, 0]


def look(window: Ide, thread: int) -> None:
    """Look at the first stop of rank 1, and at the others without going there."""
    top = window.top(thread)
    assert top["name"] == "<module>"
    assert window.variables(top["id"])["rank"]["value"] == "1"
    assert window.evaluate("rank + 1", top["id"], "hover") == "2"
    assert re.search(r"0\b.*\n(.*\n)*.*2", window.evaluate("eval all rank"))
    assert "set_trace" in window.evaluate("where all") or "<module>" in window.evaluate("where all")
    with pytest.raises(Refused):
        window.request("source", {"sourceReference": 999})
    with pytest.raises(Refused):
        window.request("restartFrame", {"frameId": top["id"]})


def assign(window: Ide, frame: int) -> None:
    """Assign to a variable, and see it in the terminal as well."""
    scope = window.request("scopes", {"frameId": frame})["scopes"][0]["variablesReference"]
    body = window.request("setVariable", {"variablesReference": scope, "name": "loss", "value": "0.125"})
    assert body["value"] == "0.125"
    assert window.evaluate("loss", frame, "watch") == "0.125"
    seen = window.variables(frame)["seen"]
    inner = window.request("variables", {"variablesReference": seen["variablesReference"]})["variables"]
    assert {"'batch'": "3", "'rank'": "1"}.items() <= {one["name"]: one["value"] for one in inner}.items()


def move(window: Ide, thread: int) -> None:
    """Step out of the function and into it again."""
    window.request("stepOut", {"threadId": thread})
    window.stopped(thread)
    # A step ends neither at a function's `def` nor at its return.
    assert window.top(thread)["name"] == "<module>"
    while window.top(thread)["name"] != "step":
        window.request("stepIn", {"threadId": thread})
        window.stopped(thread)
    assert window.top(thread)["line"] == 4
    for _ in range(3):
        window.request("next", {"threadId": thread})
        window.stopped(thread)
    assert window.top(thread)["name"] == "<module>"


def stops_of_the_others(window: Ide, script: Path, thread: int) -> None:
    """Change the breakpoint to one that logs and one that counts, in the ranks that stand at their first stop, too."""
    rows = window.set_breakpoints(
        script,
        {"line": 4, "hitCondition": "20"},
        {"line": 5, "logMessage": "at {batch} of {rank}", "condition": "batch == 7"},
    )
    assert [row["verified"] for row in rows] == [True, True], rows
    other = window.threads()
    zero = next(number for name, number in other.items() if name.split()[0].endswith(":0"))
    window.forget("stopped")
    window.go_on(zero)
    window.stopped(zero)
    assert window.evaluate("batch", window.top(zero)["id"], "watch") in ("19", "20")
    # The text of the log point has come to the console without a terminal at the rank.
    assert window.printed(": at 7 of").endswith(":0: at 7 of 0\n")


HANDLES = """\
import dbg_agent
try:
    {}["lr"]
except KeyError:
    dbg_agent.set_trace()
    loss = 0.5
dbg_agent.set_trace()
loss = 0.25
"""


def test_a_handled_exception_is_reported_while_it_is_handled(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, HANDLES, 1)
    wait_until_states(home, {0: "stopped"})
    with ide(home) as window:
        window.attach()
        thread = window.stop_of(0)
        info = window.request("exceptionInfo", {"threadId": thread})
        assert (info["exceptionId"], info["description"], info["breakMode"]) == ("KeyError", "'lr'", "always")
        assert 'line 3, in <module>\n    {}["lr"]' in info["details"]["stackTrace"]
        window.go_on(thread)
        window.stopped(thread)
        with pytest.raises(Refused):
            window.request("exceptionInfo", {"threadId": thread})
        window.leave()


def test_ranks_that_connect_later_get_the_breakpoints(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    with ide(home) as window:
        script = home / "rank_script.py"
        (row,) = window.attach({script: [{"line": 7, "condition": "batch == 2"}]}, target="all")
        assert row["verified"] is False
        assert NO_RANK in row["message"]
        ranks = start_ranks(processes, home, TRAIN, 2)
        changed = window.event("breakpoint", lambda body: body["breakpoint"]["verified"])
        assert (changed["reason"], changed["breakpoint"]["id"]) == ("changed", row["id"])
        for thread in [window.stop_of(rank) for rank in range(2)]:
            window.go_on(thread)
            window.stopped(thread)
            assert window.evaluate("batch", window.top(thread)["id"], "watch") == "2"
        window.leave()
    attach(home, "continue", "stopped")
    assert [rank.wait(seconds(20)) for rank in ranks] == [0, 0]


FIVE_LINES = """\
import dbg_agent
dbg_agent.set_trace()
one = 1
two = 2
three = 3
four = 4
five = 5
"""

TAKE = b"\x1dw"


def test_ide_and_terminal_share_a_stop(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, FIVE_LINES, 1)
    wait_until_states(home, {0: "stopped"})
    with ide(home) as window:
        window.attach()
        thread = window.stop_of(0)
        window.request("next", {"threadId": thread})
        window.stopped(thread)
        line = window.top(thread)["line"]
        terminal = open_terminal(attach_command("0"), rows=30, cols=140)
        terminal.wait_for("(VS Code) types")
        terminal.send(TAKE)
        window.printed("`take`")
        with pytest.raises(Refused):
            window.request("next", {"threadId": thread})
        window.stopped(thread)  # where it still stands
        terminal.send(b"n\r")
        window.stopped(thread)
        assert window.top(thread)["line"] == line + 1
        terminal.send(b"b 7\r")
        terminal.wait_for("Breakpoint 1")
        assert "keyboard" in window.evaluate("take")
        terminal.wait_for("(VS Code) types")
        window.forget("stopped")
        window.go_on(thread)
        window.stopped(thread)
        assert window.top(thread)["line"] == 7
        detach(terminal)
        window.leave()
    wait_until_states(home, {0: "stopped"})


THREE_LINES = "import dbg_agent\nloss = 0.5\ndbg_agent.set_trace()\nloss += 1\nloss += 1\n"


def test_vs_code_starts_the_adapter_by_its_path_and_a_watcher_only_inspects(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, THREE_LINES, 1)
    wait_until_states(home, {0: "stopped"})
    watcher = {"DBG_TOKEN_FILE": str(home / "tokens" / "watcher")}
    # The extension starts the interpreter with the path, and with words of its own behind it.
    path = str(entry_for("all")["debugAdapterPath"])
    with ide(home, path, "--log-dir", "/nowhere", variables=watcher) as window:
        rows = window.attach({home / "rank_script.py": [{"line": 5}]}, target="0")
        assert rows[0]["verified"] is False
        assert "watcher" in rows[0]["message"]
        thread = window.stop_of(0)
        assert window.top(thread)["line"] in (3, 4)
        for request in ("next", "continue"):
            with pytest.raises(Refused):
                window.request(request, {"threadId": thread})
        window.leave()
    wait_until_states(home, {0: "stopped"})
