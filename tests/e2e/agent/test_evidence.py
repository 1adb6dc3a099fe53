"""All libraries together: order, number, and what is left when one of them can't be read."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from typing import NamedTuple

import pytest

from dbg_agent.host.descriptors import waits_in
from dbg_agent.host.process import SystemCall
from dbg_wire.records.evidence import Target
from tests.conftest import Approved
from tests.support.time_unit import seconds
from tests.unit.agent.evidence import waiting_threads
from tests.unit.agent.evidence.waiting_threads import CASES


class ThreadRow(NamedTuple):
    thread: str
    kind: str
    text: str
    cycle: int
    is_main: bool
    frames: list[tuple[str, int]]


@pytest.fixture(scope="module")
def reported() -> dict[str, ThreadRow]:
    ran = subprocess.run(
        [sys.executable, waiting_threads.__file__], capture_output=True, timeout=seconds(60), check=True, text=True
    )
    assert ran.stderr == ""
    rows = [ThreadRow(*json.loads(line)) for line in ran.stdout.splitlines()]
    return {row.thread: row for row in rows}


def test_each_thread_is_reported_with_what_it_waits_for(approved: Approved, reported: dict[str, ThreadRow]) -> None:
    assert {name: reported[name].kind for name in CASES} == {name: case.kind for name, case in CASES.items()}
    text = "\n".join(f"{name}: {reported[name].text}" for name in CASES)
    for pattern, stand_in in ((r"(?<=[.]py:)\d+", "<line>"), (r"`python.*`", "`python`"), (r"/\S+/(?=\w)", "<tmp>/")):
        text = re.sub(pattern, stand_in, text)
    approved(text)


def test_a_forked_main_thread_is_read_from_its_own_kernel_thread() -> None:
    program = """\
import os, signal, threading
if os.fork(): raise SystemExit(os.wait()[1])
signal.alarm(60)
from dbg_agent.evidence.threads import threads_seen
from dbg_wire.records.evidence import Target

def look():
    while (target := threads_seen(None)[0].does.target) is not Target.INPUT:
        pass
    print(target.value, flush=True)
    os.write(ours, b"\\n")

theirs, ours = os.pipe()
os.dup2(theirs, 0)
threading.Thread(target=look).start()
input()
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=seconds(60), check=True)
    assert ran.stdout.decode() == "input\n"


def test_a_program_that_is_exiting_is_reported_with_its_atexit_function() -> None:
    program = """\
import atexit, os, threading, time
from dbg_agent.evidence.threads import threads_seen

def look():
    while not (does := threads_seen(None)[0].does).at_exit:
        pass
    os.write(1, f"{does.at_exit} {does.what.value}".encode())
    os._exit(0)

@atexit.register
def upload_log():
    time.sleep(3600)

threading.Thread(target=look, daemon=True).start()
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=seconds(60), check=True)
    assert ran.stdout.decode() == "upload_log sleep.sleep"


@pytest.mark.parametrize(
    ("family", "address", "host"),
    [
        (socket.AF_INET6, "::1", "[::1]"),
        (socket.AF_INET6, "::ffff:127.0.0.1", "127.0.0.1"),
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
    ],
)
def test_socket_addresses_are_read_for_each_family(family: int, address: str, host: str) -> None:
    with socket.socket(family) as server, socket.socket(family) as client:
        server.bind((address, 0))
        server.listen()
        client.connect(server.getsockname())
        here, there = client.getsockname()[1], server.getsockname()[1]
        found = waits_in(SystemCall("recvfrom", (client.fileno(), 0, 0, 0, 0, 0)))
    assert found is not None
    assert (found[0].target, found[0].name) == (Target.SOCKET, f"{host}:{here} → {host}:{there}")


def test_threads_that_wait_for_each_other_share_a_number(reported: dict[str, ThreadRow]) -> None:
    circles: dict[str, set[int]] = {}
    for name, case in CASES.items():
        circles.setdefault(case.cycle, set()).add(reported[name].cycle)
    assert circles.pop("") == {0}
    numbers = [number for (number,) in circles.values()]
    assert sorted(numbers) == list(range(1, len(circles) + 1))


def test_the_main_thread_is_first_circles_have_frames_and_agent_threads_are_left_out(
    approved: Approved, reported: dict[str, ThreadRow]
) -> None:
    first = next(iter(reported.values()))
    approved(first.text)
    assert [row.thread for row in reported.values() if row.is_main] == [first.thread] == ["MainThread"]
    assert reported["a_then_b"].frames[-1][0] == "a_then_b"
    others = {name for name in set(reported) - set(CASES) if not name.startswith(("Thread-", "QueueFeeder"))}
    assert others == {"MainThread", "in_pool_0", "of_events_0", "task sleep"}
    approved(reported["of_events_0"].text)
    assert (reported["in_pool_0"].kind, reported["in_pool_0"].text) == ("sleep", "sleeps (time.sleep)")
