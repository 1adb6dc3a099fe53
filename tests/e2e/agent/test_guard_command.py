"""A command as a guard runs it; what becomes of it with its asker is seen through test_exec."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time

import pytest

from dbg_agent.guard.command import CantStart, Command, Output
from dbg_wire.records.beside import MAX_FIRST, MAX_LAST, CommandEnd
from tests.conftest import Approved


class Heard(Output):
    """An output that tells when it has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.something = asyncio.Event()

    def feed(self, data: bytes) -> None:
        super().feed(data)
        self.something.set()


async def run(*words: str, seconds: float = 20.0) -> tuple[CommandEnd, str]:
    command = Command(words, {"PATH": os.environ["PATH"]}, "/")
    end = await command.finish(seconds)
    return end, command.output.text()


async def test_output_and_status_are_told() -> None:
    assert await run("sh", "-c", "echo out; echo err >&2; pwd; exit 7") == (CommandEnd(status=7), "out\nerr\n/\n")
    end, _ = await run("sh", "-c", "kill -TERM $$")
    assert end == CommandEnd(status=-signal.SIGTERM)


@pytest.mark.parametrize("program", ["no-such-program", "/"])
async def test_what_can_not_be_started_says_why(approved: Approved, program: str) -> None:
    with pytest.raises(CantStart) as caught:
        await run(program)
    approved(str(caught.value))


async def test_a_time_limit_ends_all_that_was_started() -> None:
    end, text = await run("sh", "-c", "trap '' TERM; sleep 1000 & echo $$ $!; wait; sleep 1000", seconds=0.5)
    assert end.ended == "after 0.5 s"
    for pid in map(int, text.split()):
        assert_ends(pid)


async def test_a_cancelled_command_ends() -> None:
    command = Command(["sh", "-c", "echo $$; sleep 1000"], {"PATH": os.environ["PATH"]}, "/")
    command.output = printed = Heard()
    task = asyncio.ensure_future(command.finish(1000))
    await printed.something.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert_ends(int(command.output.text()))


async def test_what_is_left_in_the_background_does_not_delay_the_answer() -> None:
    began = time.monotonic()
    end, text = await run("sh", "-c", "sleep 1000 & echo $!", seconds=1000)
    assert (end.status, time.monotonic() - began < 100) == (0, True)
    assert_ends(int(text))


def assert_ends(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([handle], [], [], 10)[0], f"{pid} still runs"
    os.close(handle)


def test_long_output_keeps_its_ends_and_counts_the_rest() -> None:
    output = Output()
    for number in range(100_000):
        output.feed(f"{number}\n".encode())
    text = output.text()
    assert text.startswith("0\n1\n")
    assert text.endswith("99998\n99999\n")
    assert output.left_out == sum(len(f"{n}\n") for n in range(100_000)) - MAX_FIRST - MAX_LAST
    assert f"[{output.left_out:,} bytes are left out]" in text
    whole = Output()
    whole.feed(b"x" * MAX_FIRST + b"y" * MAX_LAST)
    assert (whole.left_out, len(whole.text())) == (0, MAX_FIRST + MAX_LAST)
