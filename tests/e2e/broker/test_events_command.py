"""A real command gets each event on its stdin, nothing else of ours, and no more time and room than it is due."""

from __future__ import annotations

import json
import logging
import os
import shlex
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbg_broker.events import command
from dbg_broker.events.command import OnEvent
from dbg_broker.events.event import Event, EventKind
from tests.conftest import Approved
from tests.support.time_unit import seconds

HOSTILE = "$(touch broken); `id` \\ '\" \x1b[2J\nsecond line"


def event(number: int = 0) -> Event:
    return Event(kind=EventKind.STOP, at=float(number), sentence=HOSTILE, job=HOSTILE)


class Told(logging.Handler):
    """What the broker's log says, and a semaphore that counts it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []
        self.count = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelname, record.getMessage()))
        self.count.release()

    def wait(self, count: int = 1) -> list[tuple[str, str]]:
        for _ in range(count):
            assert self.count.acquire(timeout=seconds(20)), self.lines
        return self.lines


@pytest.fixture
def log() -> Iterator[Told]:
    told, logger = Told(), logging.getLogger("dbg_broker")
    level = logger.level
    logger.addHandler(told)
    logger.setLevel(logging.INFO)
    yield told
    logger.removeHandler(told)
    logger.setLevel(level)


def script(path: Path, body: str) -> list[str]:
    """Write a shell script; return the words that run it."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [str(path)]


def pipe(path: Path) -> Path:
    """Make a named pipe, whose end tells a test that a script has come to a line."""
    os.mkfifo(path)
    return path


def test_a_command_gets_the_event_alone(tmp_path: Path, log: Told) -> None:
    done = pipe(tmp_path / "done")
    body = f"cat; env; echo args=$#; ls /proc/self/fd | wc -l; ps -o sid= $$; echo >{shlex.quote(str(done))}"
    environ = {**os.environ, "DBG_TOKEN": "secret", "DBG_TOKEN_FILE": "secret", "NOTIFY_SOCKET": "secret", "MINE": "1"}
    read, write = os.pipe()
    os.set_inheritable(write, True)
    on_event = OnEvent(script(tmp_path / "notify", f"({body}) >{tmp_path}/out 2>&1"), environ)
    on_event.emit(event())
    done.read_bytes()
    on_event.close()
    os.close(read)
    os.close(write)
    first, *others = (tmp_path / "out").read_text().splitlines()
    assert json.loads(first)["sentence"] == HOSTILE.encode("unicode_escape").decode().replace("\\\\", "\\")
    assert not any("secret" in line or "broken" in line for line in others)
    assert "MINE=1" in others
    assert "args=0" in others
    # 0, 1, 2, and the directory that `ls` reads.
    assert "4" in [line.strip() for line in others]
    assert str(os.getsid(0)) != others[-1].strip()
    assert log.lines == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo all is well; exit 0", ("INFO", "--on-event says: all is well")),
        ("echo no such host >&2; exit 7", ("WARNING", "--on-event: {} exited with status 7: no such host")),
        ("exit 7", ("WARNING", "--on-event: {} exited with status 7")),
        ("kill -9 $$", ("WARNING", "--on-event: {} was ended by signal 9")),
        ("printf '\\033[2Jhostile'; exit 1", ("WARNING", "--on-event: {} exited with status 1: \\x1b[2Jhostile")),
    ],
)
def test_what_it_says_and_how_it_fails_is_in_the_log(
    body: str, said: tuple[str, str], tmp_path: Path, log: Told
) -> None:
    words = script(tmp_path / "notify", body)
    on_event = OnEvent(words, os.environ)
    on_event.emit(event())
    level, text = said
    log.wait()
    on_event.close()
    warnings = [line for line in log.lines if line[0] == "WARNING"]
    assert (level, text.format(words[0])) in log.lines
    assert len(warnings) == (level == "WARNING")


def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(
    approved: Approved, tmp_path: Path, log: Told
) -> None:
    begun = pipe(tmp_path / "begun")
    # Its child ignores SIGTERM and holds the output open.
    body = f"trap '' TERM; (echo >{shlex.quote(str(begun))}; exec sleep 1000) & echo waits; wait"
    on_event = OnEvent(script(tmp_path / "notify", body), os.environ, limit=seconds(1), grace=0.2)
    on_event.emit(event())
    begun.read_bytes()
    ((level, text),) = log.wait()
    assert level == "WARNING"
    approved(text)
    on_event.close()


def test_a_command_that_is_not_there_is_one_warning(tmp_path: Path, log: Told) -> None:
    on_event = OnEvent([str(tmp_path / "none")], os.environ)
    on_event.emit(event())
    assert log.wait() == [("WARNING", f"--on-event: {tmp_path}/none can't be run (No such file or directory)")]
    on_event.close()


def test_no_more_run_at_once_than_may_and_too_many_are_left_out_and_counted(
    tmp_path: Path, log: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MAX_WAITING", 3)
    gate, begun, out = pipe(tmp_path / "gate"), pipe(tmp_path / "begun"), tmp_path / "out"
    body = f"echo >>{begun}; head -c1 <{gate} >/dev/null; cat >>{out}; echo told"
    # Both ends stay open here, so that no script meets the end of a pipe.
    begins, gates = os.open(begun, os.O_RDWR), os.open(gate, os.O_RDWR)
    on_event = OnEvent(script(tmp_path / "notify", body), os.environ)
    for number in range(command.AT_ONCE):
        on_event.emit(event(number))
        assert os.read(begins, 1)
    for number in range(10):
        on_event.emit(event(100 + number))
    os.write(gates, b"." * (command.AT_ONCE + 3))
    log.wait(command.AT_ONCE + 3)
    on_event.close()
    os.close(begins)
    os.close(gates)
    told: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(one["at"] for one in told) == [0, 1, 2, 3, 100, 101, 102]
    assert sum(one["left_out"] for one in told) == 7


def test_the_end_of_the_broker_ends_commands_and_waits_for_none(tmp_path: Path, log: Told) -> None:
    begun = pipe(tmp_path / "begun")
    ended = pipe(tmp_path / "ended")
    body = f"trap 'echo >{ended}; exit 0' TERM; echo >{begun}; sleep 1000 & wait"
    on_event = OnEvent(script(tmp_path / "notify", body), os.environ)
    on_event.emit(event())
    begun.read_bytes()
    on_event.emit(event(1))
    begun.read_bytes()
    on_event.close()
    ended.read_bytes()
    assert not [line for line in log.lines if line[0] == "WARNING"]
