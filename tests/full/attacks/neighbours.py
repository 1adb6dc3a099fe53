"""Attacks of another user of the broker's host: on the port for stock debuggers, and on what lies about on the host."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tests.full.attacks.attacker import Begun
from tests.full.attacks.strangers import Keep, again_and_again, keep
from tests.full.attacks.target import SAME_ADDRESS, Target
from tests.support.time_unit import seconds

NOBODY = 65534
"""The user of nobody in particular."""


def _call(port: int) -> socket.socket:
    return socket.create_connection((SAME_ADDRESS, port), seconds(20))


def calls(_target: Target, begun: Begun, *, port: int, held: int = 300) -> None:
    """Call the port for stock debuggers without a word, and keep the newest calls."""
    kept: Keep = deque()
    again_and_again(lambda: keep(kept, _call(port), held), begun, before=held)


def odd_bytes(_target: Target, begun: Begun, *, port: int) -> None:
    """Send what costs a terminal's emulation most: sequences without an end, and far jumps."""
    odd = b"\x1b]8;;" + b"x" * 4000 + b"\x1b[999;999H" + b"\x1b[" + b"1;" * 2000 + b"("

    def step() -> None:
        with _call(port) as connection:
            for _ in range(100):
                connection.sendall(odd)

    again_and_again(step, begun, before=4)


def tries(home: Path, pid: int) -> Iterator[str]:
    """Yield what a process of another user gets of a broker that it should not; called as that user."""
    for path in (home, home / "tokens" / "driver", home / "driver.json", home / "broker.json", home / "audit.jsonl"):
        with contextlib.suppress(OSError):
            os.listdir(path) if path == home else path.read_bytes()  # noqa: PTH208 - either is an attempt
            yield f"reads {path.name}"
    for part in ("environ", "mem", "maps", "fd"):
        with contextlib.suppress(OSError):
            path = Path(f"/proc/{pid}/{part}")
            if part == "fd":
                os.listdir(path)  # noqa: PTH208
            else:
                with path.open("rb") as file:
                    file.read(1)
            yield f"reads the broker's {part}"
    for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGHUP):
        with contextlib.suppress(OSError):
            os.kill(pid, number)
            yield f"sends {number.name}"
    with contextlib.suppress(OSError):
        (home / "broker.json").write_text("{}")
        yield "replaces broker.json"
    # The kernel lists each command line to all users.
    if any(len(word) > 20 and word.isascii() and "/" not in word for word in _command_line(pid)):
        yield f"sees a token in {_command_line(pid)}"


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def main(home: str, pid: str) -> None:
    """Become another user and print what that user gets."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    print("was another user")  # noqa: T201 - without it a test that sees nothing would have tried nothing
    for got in tries(Path(home), int(pid)):
        print(got)  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(*sys.argv[1:])
