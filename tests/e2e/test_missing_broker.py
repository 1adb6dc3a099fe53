"""Training goes on without a working broker: a rank prints one line, and waits only once."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from websockets.sync.server import serve

from tests.support import fake_brokers as fake
from tests.support.broker import running_broker
from tests.support.fake_brokers import TOKEN, Answer, FakeBroker
from tests.support.processes import Child, Processes
from tests.support.ranks import ask, attach, attach_list, start_ranks, wait_until, wait_until_stopped
from tests.support.reach import PIN
from tests.support.time_unit import seconds

PASSES = """\
import threading, time
from dbg_agent import set_trace
wait, waited = threading.Condition.wait, []
def counted(condition, timeout=None):
    if threading.current_thread() is threading.main_thread() and number not in waited:
        waited.append(number)
    return wait(condition, timeout)
threading.Condition.wait = counted
print("before", flush=True)
began = time.monotonic()
for number in range(1000):
    set_trace()
print(f"waited in {waited} for {time.monotonic() - began:.3f} s")
print("after")
"""
"""Passes 1,000 calls, and prints the numbers of those that waited."""

WAIT_SECONDS = seconds(1)
"""Timeout in seconds of ranks that wait until it is over."""

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
def nobody(place: Place) -> Iterator[dict[str, str]]:
    """Give a rank no address of a broker."""
    yield {}


@contextlib.contextmanager
def closed_port(place: Place) -> Iterator[dict[str, str]]:
    """Name a port without a listener, and hold it so that no process gets it."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield {"DBG_BROKER": f"127.0.0.1:{holder.getsockname()[1]}#{PIN}", "DBG_TOKEN": TOKEN}


@contextlib.contextmanager
def mute_port(place: Place) -> Iterator[dict[str, str]]:
    """Name a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        yield {"DBG_BROKER": f"127.0.0.1:{listener.getsockname()[1]}#{PIN}", "DBG_TOKEN": TOKEN}


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
def dead_broker(place: Place) -> Iterator[dict[str, str]]:
    """Leave the files of a broker that was killed."""
    running_broker(place.processes, place.home).kill()
    yield {}


@contextlib.contextmanager
def wrong_token(place: Place) -> Iterator[dict[str, str]]:
    """Run a broker, and give the token of another broker."""
    running_broker(place.processes, place.home)
    yield {"DBG_TOKEN": TOKEN}


@contextlib.contextmanager
def terminals_token(place: Place) -> Iterator[dict[str, str]]:
    """Run a broker, and give its token for terminals."""
    yield {"DBG_TOKEN": running_broker(place.processes, place.home).tokens["driver"]}


@contextlib.contextmanager
def other_certificate(place: Place) -> Iterator[dict[str, str]]:
    """Run a broker, and give the fingerprint of another broker."""
    yield {"DBG_BROKER": f"127.0.0.1:{running_broker(place.processes, place.home).port}#{PIN}"}


@contextlib.contextmanager
def only_version_2(place: Place) -> Iterator[dict[str, str]]:
    """Run a WebSocket server that knows only the subprotocol ``dbg.v2``."""
    fake_broker = FakeBroker(fake.hang_up)
    fake_broker.close()
    context = fake_broker.context
    with serve(lambda _: None, "127.0.0.1", 0, ssl=context, subprotocols=["dbg.v2"]) as server:  # type: ignore[list-item]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.socket.getsockname()[1]
        yield {"DBG_BROKER": f"127.0.0.1:{port}#{fake_broker.fingerprint}", "DBG_TOKEN": TOKEN}
        server.shutdown()
        thread.join()


def faked(answer: Answer) -> Make:
    @contextlib.contextmanager
    def make(place: Place) -> Iterator[dict[str, str]]:
        with FakeBroker(answer) as broker:
            yield broker.variables

    return make


def written(name: str, text: str, mode: int = 0o600, **variables: str) -> Make:
    """Write a file in the home; ``%`` in a variable stands for its path."""

    @contextlib.contextmanager
    def make(place: Place) -> Iterator[dict[str, str]]:
        path = place.home / name
        path.write_text(text)
        path.chmod(mode)
        yield {variable: value.replace("%", str(path)) for variable, value in variables.items()}

    return make


def piped(name: str, **variables: str) -> Make:
    """Make a named pipe in the home that has no writer; ``%`` in a variable stands for its path."""

    @contextlib.contextmanager
    def make(place: Place) -> Iterator[dict[str, str]]:
        os.mkfifo(place.home / name, 0o600)
        yield {variable: value.replace("%", str(place.home / name)) for variable, value in variables.items()}

    return make


def named(**variables: str) -> Make:
    """Set these variables, and nothing else."""

    @contextlib.contextmanager
    def make(place: Place) -> Iterator[dict[str, str]]:
        yield variables

    return make


VERSION_2 = "this broker speaks protocol version 2, and you offer protocol version 1; install the same release"

ABSENT = {
    "nobody": (nobody, "no broker is known"),
    "closed port": (closed_port, "Connection refused"),
    "mute port": (mute_port, "no answer within"),
    "black hole": (black_hole, "no answer within"),
    "dead broker": (dead_broker, "Connection refused"),
    "hangs up": (faked(fake.hang_up), "it hung up"),
    "says nothing": (faked(fake.say_nothing), "no answer within"),
    "accepts and says nothing": (faked(fake.accept_and_send()), "does not take this rank in"),
    "garbage": (faked(fake.answer_bytes(bytes(range(256)) * 64)), "it hung up"),
    "garbage text": (faked(fake.accept_and_send(fake.frame(fake.TEXT, b"hello"))), "does not take this rank in"),
    "garbage binary": (faked(fake.accept_and_send(fake.frame(fake.BINARY, b"\xff" * 64))), "not take this rank in"),
    "no welcome": (faked(fake.accept_and_send(fake.message(type="future"))), "does not take this rank in"),
    "broken welcome": (faked(fake.accept_and_send(fake.message(type="welcome", minor="x"))), "not take this rank in"),
    "closes": (faked(fake.accept_and_send(fake.frame(fake.CLOSE, b"\x03\xf3"))), "does not take this rank in"),
}
"""Faults that a broker's start may still end: a rank waits until its timeout."""

FINAL = {
    "wrong token": (wrong_token, "does not take this token"),
    "terminal's token": (terminals_token, "does not take this token"),
    "other certificate": (other_certificate, "not the broker that was pinned"),
    "other major": (faked(fake.answer_status("426 Upgrade Required", VERSION_2)), "another protocol version"),
    "only dbg.v2": (only_version_2, "refused"),
    "no subprotocol": (faked(fake.accept_and_send(subprotocol=None)), "another protocol version"),
    "status 500": (faked(fake.answer_status("500 Oops", "\x1b[31mred\n\nsecond line")), "red"),
    "another service": (faked(fake.answer_bytes(b"SSH-2.0-OpenSSH_9.2\r\n")), "does not answer as a broker does"),
    "endless head": (faked(fake.flood_headers), "does not answer as a broker does"),
    "bad address": (named(DBG_BROKER="login1:port"), "has a port that is not a number"),
    "no pin": (named(DBG_BROKER="login1:6900", DBG_TOKEN=TOKEN), "without a fingerprint"),
    "no token": (named(DBG_BROKER=f"login1:6900#{PIN}"), "no rank token is known"),
    "token file missing": (named(DBG_BROKER=f"h:1#{PIN}", DBG_TOKEN_FILE="/nowhere/token"), "can't be read"),  # noqa: S106
    "token file open": (
        written("token", TOKEN, 0o644, DBG_BROKER=f"h:1#{PIN}", DBG_TOKEN_FILE="%"),  # noqa: S106
        "is open to others (mode 644)",
    ),
    "token file a pipe": (piped("token", DBG_BROKER=f"h:1#{PIN}", DBG_TOKEN_FILE="%"), "is not a regular file"),  # noqa: S106
    "broker.json a pipe": (piped("broker.json"), "is not a regular file"),
    "broker.json open": (written("broker.json", "{}", 0o644), "is open to others (mode 644)"),
    "broker.json empty": (written("broker.json", ""), "is not a JSON object"),
    "broker.json newer": (written("broker.json", '{"schema":2}'), "has schema 2"),
}
"""Faults that no wait ends: a rank names them at once."""


def pass_by(place: Place, variables: dict[str, str], timeout: float) -> tuple[str, float, str]:
    """Run a rank that passes 1,000 calls; return which of them waited, how long, and its one line on stderr."""
    variables = {"DBG_CONNECT_TIMEOUT": str(timeout), **variables}
    (rank,) = start_ranks(place.processes, place.home, PASSES, 1, env=variables)
    assert rank.wait(seconds(30)) == 0
    passed = re.fullmatch(r"before\nwaited in (\[.*\]) for ([0-9.]+) s\nafter\n", rank.text())
    assert passed, rank.text()
    return passed[1], float(passed[2]), one_line(rank)


def one_line(rank: Child) -> str:
    """Return the only line that a rank has written to stderr."""
    text = rank.text("stderr")
    assert text.startswith("dbg-agent: ")
    assert text.endswith("\n")
    line = text[:-1]
    assert line.isprintable(), "more than a line, or characters that act on a terminal"
    assert TOKEN not in line
    return line


@pytest.mark.parametrize("case", ABSENT)
def test_a_loop_waits_once_for_a_broker_that_may_come(case: str, processes: Processes, home: Path) -> None:
    make, said = ABSENT[case]
    place = Place(processes, home)
    with make(place) as variables:
        waited, took, line = pass_by(place, variables, WAIT_SECONDS)
    assert said in line
    assert waited == "[0]"
    assert took >= WAIT_SECONDS - 0.1


@pytest.mark.parametrize("case", FINAL)
def test_a_loop_does_not_wait_for_what_waiting_would_not_mend(case: str, processes: Processes, home: Path) -> None:
    make, said = FINAL[case]
    place = Place(processes, home)
    with make(place) as variables:
        _, _, line = pass_by(place, variables, LONG_SECONDS)
    assert said in line


def test_a_name_server_that_does_not_answer_delays_neither_a_stop_nor_the_end(processes: Processes, home: Path) -> None:
    script = f"""\
import socket, threading
def hang(*arguments, **options):
    threading.Event().wait({LONG_SECONDS})
socket.getaddrinfo = hang
{PASSES}"""
    variables = {"DBG_BROKER": f"login1:6900#{PIN}", "DBG_TOKEN": TOKEN, "DBG_CONNECT_TIMEOUT": str(WAIT_SECONDS)}
    (rank,) = start_ranks(processes, home, script, 1, env=variables)
    assert rank.wait(seconds(20)) == 0
    assert f"no answer within {WAIT_SECONDS:g} s" in one_line(rank)


@pytest.mark.parametrize(("broker", "wait"), [("", WAIT_SECONDS), (f"login1:6900#{PIN}", 3 * WAIT_SECONDS)])
def test_a_file_that_never_opens_delays_neither_stop_nor_fork_nor_end(
    processes: Processes, home: Path, broker: str, wait: float
) -> None:
    script = f"""\
import logging, os, sys, threading
from dbg_dial import find
find._open_without_waiting = lambda *_: threading.Event().wait({LONG_SECONDS})
{PASSES}
sys.stdout.flush()
child = os.fork()
if child == 0:
    set_trace()
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    file = "token" if broker else "broker.json"
    variables = {"DBG_BROKER": broker, "DBG_TOKEN_FILE": str(home / "token"), "DBG_CONNECT_TIMEOUT": str(wait)}
    (rank,) = start_ranks(processes, home, script, 1, env={**variables, "PYTHONWARNINGS": "ignore"})
    assert rank.wait(seconds(35)) == 0
    assert re.search(r"^waited in \[0\] .*\nafter\n3\n", rank.text(), re.MULTILINE), rank.text()
    assert f"{home / file} does not let itself be opened" in one_line(rank)


def test_an_installed_rank_tells_of_a_file_that_never_opens(processes: Processes, home: Path) -> None:
    script = f"""\
import threading
from dbg_agent import install
from dbg_agent.process import stderr
from dbg_dial import find
find._open_without_waiting = lambda *_: threading.Event().wait({LONG_SECONDS})
told = threading.Event()
import dbg_agent.rank.rank
dbg_agent.rank.rank.say = lambda text: (print("told", flush=True), stderr.say(text), told.set())
install(connect_timeout={3 * WAIT_SECONDS}, guard=False)
print("installed", flush=True)
told.wait()
"""
    (rank,) = start_ranks(processes, home, script, 1)
    assert rank.wait(seconds(20)) == 0
    assert rank.text() == "installed\ntold\n"
    assert "broker.json does not let itself be opened" in one_line(rank)


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
    told = rank.text("stderr").splitlines()
    assert len(told) == 2
    assert "no broker is known" in told[0]
    assert told[0].endswith("The rank keeps trying; once it is connected, its next set_trace() stops")
    assert "stopped at" in told[1]


def test_an_installed_rank_that_a_broker_comes_to_later_is_broken_into_as_it_said(
    processes: Processes, home: Path
) -> None:
    script = """\
import threading
from dbg_agent import install
install(guard=False)
while True:
    threading.Event().wait(0.1)
"""
    (rank,) = start_ranks(processes, home, script, 1, env={"DBG_CONNECT_TIMEOUT": "0.1"})
    said = "The rank keeps trying; once it is connected, `dbg-attach interrupt 0` stops it"
    rank.wait_for_output(said, stream="stderr")
    running_broker(processes, home)
    wait_until(home, bool, "the rank")
    assert attach(home, "interrupt", "0", "--json").returncode == 0
    wait_until_stopped(home, 1)


ASKED = """\
import os
with open(os.environ["GATE"]):
    pass
total = 1
with open(os.environ["GATE"]):
    pass
breakpoint()
"""
"""A program that waits before its fourth line, at which somebody has asked it to stop, and behind that line."""


def test_a_stop_that_was_passed_is_told_once_there_is_a_broker(processes: Processes, home: Path) -> None:
    gate = home / "gate"
    broker = running_broker(processes, home)
    broker.kill()
    os.mkfifo(gate)
    stop = f"{home / 'asked_script.py'}:4"
    environ = {"DBG_AUTOSTART": "1", "DBG_STOP_AT": stop, "GATE": str(gate), "DBG_CONNECT_TIMEOUT": "0.1"}
    (rank,) = start_ranks(processes, home, ASKED, 1, env=environ, name="asked")
    gate.write_bytes(b"")
    rank.wait_for_output("the program goes on without stopping. The rank keeps trying", stream="stderr")
    broker.restart()
    wait_until(home, bool, "the rank")
    assert "passed asked_script.py:4 without stopping, because no broker answered" in attach(home, "list").stdout
    assert "passed without stopping, because no broker answered" in attach(home, "stops").stdout
    assert "passed asked_script.py:4 without stopping, because no broker answered" in attach(home, "why").stdout
    gate.write_bytes(b"")
    wait_until_stopped(home, 1)
    assert attach_list(home)[0]["passed"] == ""
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait() == 0
    assert f"--stop-at {stop} was passed without stopping, because" in rank.text("stderr")


def test_a_program_run_by_us_ends_as_it_would_by_itself(processes: Processes, home: Path) -> None:
    gate = home / "gate"
    os.mkfifo(gate)
    script = home / "script.py"
    script.write_text(
        f"import sys\nbreakpoint()\nprint('before', flush=True)\nopen({str(gate)!r}).close()\nsys.exit(3)\n"
    )
    env = {**os.environ, "DBG_HOME": str(home), "DBG_CONNECT_TIMEOUT": "0.1"}
    program = processes.start("program", [sys.executable, "-m", "dbg_agent", str(script)], env=env)
    program.wait_for_output("before")
    gate.write_bytes(b"")
    assert program.wait() == 3
    assert "no broker is known" in one_line(program)
