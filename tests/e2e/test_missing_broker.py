"""Training goes on with a faulty broker, with one line, and without a wait where no wait would mend it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.smoke.test_missing_broker import pass_by
from tests.support import fake_brokers as fake
from tests.support.broker import running_broker
from tests.support.fake_brokers import TOKEN, Answer, FakeBroker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, start_ranks, wait_until, wait_until_stopped
from tests.support.reach import PIN

LONG_SECONDS = 1000.0
"""Timeout in seconds of ranks that give up at once: far more than their end is waited for."""


@dataclass(frozen=True)
class Place:
    """The place where a test arranges a missing or faulty broker."""

    processes: Processes
    home: Path


Make = Callable[[Place], AbstractContextManager[dict[str, str]]]
"""A function that sets up the fault, and gives the variables that lead a rank to it."""


@contextlib.contextmanager
def black_hole(place: Place) -> Iterator[dict[str, str]]:
    """Name a port that drops every dial, since the queue of its listener is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as stack:
        for _ in range(8):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield {"DBG_BROKER": f"127.0.0.1:{listener.getsockname()[1]}#{PIN}", "DBG_TOKEN": TOKEN}


@contextlib.contextmanager
def wrong_token(place: Place) -> Iterator[dict[str, str]]:
    """Run a broker, and give the token of another broker."""
    running_broker(place.processes, place.home)
    yield {"DBG_TOKEN": TOKEN}


def faked(answer: Answer) -> Make:
    @contextlib.contextmanager
    def make(place: Place) -> Iterator[dict[str, str]]:
        with FakeBroker(answer) as broker:
            yield broker.variables

    return make


FINAL: dict[str, Make] = {
    "wrong token": wrong_token,
    "another service": faked(fake.answer_bytes(b"SSH-2.0-OpenSSH_9.2\r\n")),
}
"""Faults that no wait ends: a rank names them at once."""


def test_a_loop_waits_once_for_a_network_that_swallows_everything(processes: Processes, home: Path) -> None:
    with black_hole(Place(processes, home)) as variables:
        waited, _ = pass_by(processes, home, {"DBG_CONNECT_TIMEOUT": "0.3", **variables})
    assert waited == "[0]"


@pytest.mark.parametrize("case", FINAL)
def test_a_loop_does_not_wait_for_what_waiting_would_not_mend(case: str, processes: Processes, home: Path) -> None:
    with FINAL[case](Place(processes, home)) as variables:
        pass_by(processes, home, {"DBG_CONNECT_TIMEOUT": str(LONG_SECONDS), **variables})


def test_a_broker_that_comes_later_is_found(processes: Processes, home: Path) -> None:
    gate = home / "gate"
    os.mkfifo(gate)
    script = f"""\
from dbg_agent import set_trace
set_trace()
print("before", flush=True)
open({str(gate)!r}).close()
set_trace()
print("after")
"""
    (rank,) = start_ranks(processes, home, script, 1, env={"DBG_CONNECT_TIMEOUT": "0.1"})
    rank.wait_for_output("before")
    running_broker(processes, home)
    wait_until(home, bool, "the rank")
    # A listed rank may not know yet that it is; one that answers does.
    assert ask(home, "where", "0")["answered"] == 1
    gate.write_bytes(b"")
    wait_until_stopped(home, 1)
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait() == 0
    assert rank.text() == "before\nafter\n"
    assert rank.text("stderr").count("\n") == 2, "one line without a broker, one about the stop"
