"""What an error offers to type is right where the error comes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dbg_client
from dbg_client.api.broker import open_broker
from dbg_client.core.errors import Declined, RankVanished
from dbg_client.mcp.server import McpServer
from dbg_dial.tcp import within
from dbg_wire.errors import DbgError, Refused
from dbg_wire.messages import Attach, Greet, Message, Question, Refusal, RefusalCode
from tests.e2e.client.desk import Desk
from tests.e2e.client.test_terminal_raw import Window
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import FakeBroker, make_rank

HANGS = """\
import socket, sys, threading
really = socket.getaddrinfo
def hanging(host, *arguments, **options):
    if host == "login1" and not options.get("flags"):
        threading.Event().wait()
    return really(host, *arguments, **options)
socket.getaddrinfo = hanging
from dbg_client.command_line.main import main
sys.argv[0] = "dbg-attach"
sys.exit(main())
"""


def test_a_name_server_that_hangs_does_not_outlast_the_timeout(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "DBG_HOME": str(tmp_path),
        "DBG_BROKER": "login1:6900#sha256:" + "0" * 64,
        "DBG_TOKEN": "t" * 43,
    }
    begun = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", HANGS, "list", "--timeout", "1"],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(30),
    )
    assert (result.returncode, result.stdout) == (4, "")
    assert "no name server answers" in result.stderr
    assert time.monotonic() - begun < seconds(10)


TEXT = "the moon\x1b[2J is full"
SHOWN = r"the moon\x1b[2J is full"
PATIENCE = seconds(30)
"""Seconds after which a client would report by itself that the broker is silent: a test that gets there has failed."""


@pytest.fixture(scope="module")
def serving() -> Iterator[FakeBroker]:
    with FakeBroker(make_rank(5)) as broker:
        yield broker


@pytest.fixture
def broker(serving: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """Return a broker with configurable refusals, which this program finds."""
    serving.refusals = {}
    for name, value in serving.environment.items():
        monkeypatch.setenv(name, value)
    return serving


def refuse(broker: FakeBroker, kind: type[Message], code: str) -> None:
    broker.refusals = {kind: Refusal(code=code, text=TEXT)}


@pytest.mark.parametrize("kind", [Greet, Question])
def test_a_refusal_is_one_line_of_a_command(kind: type[Message], broker: FakeBroker, environ: dict[str, str]) -> None:
    refuse(broker, kind, RefusalCode.FULL)
    asked = Desk(broker, environ).run("eval", "all", "loss")
    assert (asked.returncode, asked.stdout) == (5, "")
    assert asked.stderr.count("\n") == 1
    assert SHOWN in asked.stderr


@pytest.mark.parametrize("code", [RefusalCode.GONE, RefusalCode.FULL])
def test_a_terminal_reports_a_refusal_and_ends(code: str, broker: FakeBroker, environ: dict[str, str]) -> None:
    refuse(broker, Attach, code)
    with Window(broker, environ, "5", "--take") as window:
        assert window.exit_status() == (3 if code == RefusalCode.GONE else 5)
        assert SHOWN in window.text
        assert window.text.count("dbg-attach: ") == 1


@pytest.mark.parametrize("code", [RefusalCode.GONE, RefusalCode.FULL])
def test_a_program_gets_a_refusal_as_an_exception(code: str, broker: FakeBroker) -> None:
    with dbg_client.connect(timeout=PATIENCE) as connected:
        refuse(broker, Question, code)
        for question in (connected.job().eval, connected.job().command):
            with pytest.raises(Declined) as declined:
                question("loss")
            assert SHOWN in str(declined.value)
        refuse(broker, Attach, code)
        with pytest.raises((Declined, RankVanished)) as vanished, connected.job()[5].attach(take=True):
            pytest.fail("it has a seat")
        assert SHOWN in str(vanished.value)
    refuse(broker, Greet, code)
    with pytest.raises(Refused) as refused:
        dbg_client.connect(timeout=PATIENCE)
    assert SHOWN in str(refused.value)
    assert isinstance(refused.value, DbgError)


def test_an_agent_gets_a_refusal_as_the_answer_of_the_tool(broker: FakeBroker) -> None:
    async def call(server: McpServer, written: list[bytes], tool: str, **given: str) -> None:
        line = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": given}}
        written.clear()
        await server.receive(json.dumps(line).encode())
        await within(PATIENCE, asyncio.gather(*server._open._tasks.values()))
        (answer,) = [json.loads(one) for one in written]
        assert answer["result"]["isError"], answer
        assert SHOWN in answer["result"]["content"][0]["text"]

    async def calls() -> None:
        written: list[bytes] = []
        server = McpServer(lambda program: open_broker(timeout=PATIENCE, program=program), written.append)
        refuse(broker, Greet, RefusalCode.FULL)
        await call(server, written, "eval", expression="loss")
        refuse(broker, Question, RefusalCode.FULL)
        await call(server, written, "eval", expression="loss")
        await call(server, written, "where")
        await call(server, written, "continue", ranks="5")
        await server.end()

    asyncio.run(calls())
