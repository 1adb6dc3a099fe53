"""The Python library and the adapter for IDEs on real ranks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import dbg_client
from tests.support.broker import running_broker
from tests.support.environment import clean_environment
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
    """Return a tree without for how long ranks have been where they are, which is told from the first second on."""
    return re.sub(r"(, the longest)? for \d+ s", "", tree)


@pytest.mark.usefixtures("ranks")
def test_a_program_asks_ranks_what_a_terminal_asks(home: Path) -> None:
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
        assert [rank.rank for rank in job[0:2].list()] == [rank.rank for rank in job[[0, 1]].list()] == [0, 1]
        assert list(job[2].eval("1 / 0").errors.values()) == ["ZeroDivisionError: division by zero"]
        assert set(job.eval("'\\x1b[2J'.join('ab') + '\\n'").values.values()) == {repr("a\x1b[2Jb\n")}
        assert "&lt;b&gt;1&lt;/b&gt;" in job[1].eval("name")._repr_html_()

        where = job.where()
        assert ageless(where.tree()) == ageless(attach(home, "where", "all").stdout)
        assert {frame.function for group in where.groups for frame in group.frames} >= {"<module>", "step"}
        verdict = job.why().verdicts[0]
        assert (verdict.kind, verdict.ranks) == ("waiting", "0-2")
        with job[0].attach() as stop:
            assert stop.command("!print('\\x1b[2J')") == "\\x1b[2J"
            assert stop.locals()["loss"] == "0.25"


class Adapter:
    """An adapter and a client of it that knows no more of the protocol than a header and a JSON document."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._sent = 0
        self._events: list[dict[str, Any]] = []

    def request(self, command: str, **arguments: object) -> dict[str, Any]:
        """Send a request and return the body of its response."""
        assert self._process.stdin is not None
        self._sent += 1
        document = {"seq": self._sent, "type": "request", "command": command, "arguments": arguments}
        data = json.dumps(document).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self._process.stdin.flush()
        while (said := self._next())["type"] != "response" or said["request_seq"] != self._sent:
            self._events.append(said)
        assert said["success"], said
        return dict(said.get("body") or {})

    def event(self, name: str) -> dict[str, Any]:
        """Take the first event of this name, of those that have come or will come."""
        while not (found := [one for one in self._events if one.get("event") == name]):
            self._events.append(self._next())
        self._events.remove(found[0])
        return dict(found[0].get("body") or {})

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        said: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return said


@contextmanager
def adapter(home: Path) -> Iterator[Adapter]:
    environment = {**clean_environment({}, home), "DBG_HOME": str(home)}
    command = [sys.executable, "-m", "dbg_client", "dap"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Adapter(process)
        finally:
            process.kill()


def test_an_ide_looks_steps_and_stops_at_its_breakpoint(ranks: list[Child], home: Path) -> None:
    script = str(home / "rank_script.py")
    with adapter(home) as ide:
        ide.request("initialize", adapterID="debugpy")
        ide.request("attach", target="2")
        ide.event("initialized")
        rows = ide.request("setBreakpoints", source={"path": script}, breakpoints=[{"line": STOP + 2}])["breakpoints"]
        assert [(row["verified"], row["line"]) for row in rows] == [(True, STOP + 2)]
        ide.request("configurationDone")
        thread = ide.event("stopped")["threadId"]
        top = ide.request("stackTrace", threadId=thread)["stackFrames"][0]
        assert (top["name"], top["source"]["path"]) == ("step", script)
        assert ide.request("evaluate", expression="loss + 1", frameId=top["id"], context="watch")["result"] == "1.75"
        ide.request("next", threadId=thread)
        assert ide.event("stopped")["reason"] == "step"
        ide.request("continue", threadId=thread)
        assert ide.event("stopped")["reason"] == "breakpoint"
        top = ide.request("stackTrace", threadId=thread)["stackFrames"][0]
        assert top["line"] == STOP + 2
        ide.request("disconnect")
    # What the IDE has set is gone with it, and the rank is where it was.
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    attach(home, "continue", "stopped")
    assert [rank.wait(seconds(20)) for rank in ranks] == [0, 0, 0]
