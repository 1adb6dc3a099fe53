"""The magic of notebooks, in a real kernel of IPython."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from dbg_client.api.answers import Answer
from dbg_client.notebook import CellError, RanksMagic
from dbg_wire.messages import Action, Kind, Question, RankAnswer
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import FakeBroker, make_rank

HOSTILE = "<script>alert(1)</script>\x1b[2J"


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(make_rank(0), make_rank(1)) as running:
        running.answers[Action.EVAL] = RankAnswer(key="", kind=Kind.VALUE, text=HOSTILE, digest="d")
        yield running


@pytest.fixture
def kernel(broker: FakeBroker, environ: dict[str, str]) -> Iterator[BlockingKernelClient]:
    # A path of a socket has 107 bytes at most, and that of a test's own folder may be longer. With ports, which are
    # chosen before the kernel binds them, another test may be faster.
    with tempfile.TemporaryDirectory() as folder:
        manager = KernelManager(kernel_name="python3", transport="ipc", connection_file=f"{folder}/kernel.json")
        manager.start_kernel(env={**os.environ, **environ, **broker.environment})
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=seconds(60))
            yield client
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def run(kernel: BlockingKernelClient, cell: str) -> list[dict[str, str]]:
    """Run a cell and return what it shows, each thing in all its forms."""
    shown: list[dict[str, str]] = []

    def note(message: dict[str, dict[str, dict[str, str]]]) -> None:
        if "data" in message["content"]:
            shown.append(message["content"]["data"])

    reply = kernel.execute_interactive(cell, output_hook=note, timeout=seconds(60))
    assert reply["content"]["status"] == "ok", reply["content"]
    return shown


def test_a_cell_is_evaluated_on_ranks_and_shown_as_a_table(kernel: BlockingKernelClient) -> None:
    run(kernel, "%load_ext dbg_client")
    first, second = run(kernel, "%%ranks 0-1\nloss\n# not this one\nlr")
    assert first["text/plain"].startswith("loss: 2 of 2 ranks answered, 1 value")
    assert second["text/plain"].startswith("lr: ")


def test_an_error_in_a_cell_names_python_calls(kernel: BlockingKernelClient) -> None:
    run(kernel, "%load_ext dbg_client\nimport dbg_client")
    messages: list[dict[str, Any]] = []
    cell = "dbg_client.connect().job()['7'].where()"
    kernel.execute_interactive(cell, output_hook=messages.append, timeout=seconds(60))
    (shown,) = [message["content"] for message in messages if message["msg_type"] == "error"]
    assert shown["ename"] == "NoSuchRank"
    assert "`dbg_client.connect().ranks`" in shown["evalue"]
    assert "dbg-attach" not in "".join(shown["traceback"])


def test_a_job_with_a_numeric_name_can_be_asked(
    broker: FakeBroker, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (0, 1):
        rank = make_rank(number, key=f"4712/{number}", job="4712")
        broker.ranks[rank.key] = rank
    for name, value in {**environ, **broker.environment}.items():
        monkeypatch.setenv(name, value)
    shown: list[Answer] = []
    with closing(RanksMagic(shown.append)) as magic:
        for line in ("4712/0-1", "4712/", "4712/0,1", "4712/0-1/1"):
            magic(line, "loss")
        asked = [item for item in broker.received if isinstance(item, Question)]
        assert [item.keys for item in asked] == [("4712/0", "4712/1")] * 4
        magic("--live --timeout=7 --frame step 4712/0-1", "loss")
        last = [item for item in broker.received if isinstance(item, Question)][-1]
        assert not asked[-1].live
        assert (last.live, last.seconds) == (True, 7.0)
        for wrong in ("--deep 4712/0", "--timeout much 4712/0", "4712/'0"):
            with pytest.raises(CellError):
                magic(wrong, "loss")
