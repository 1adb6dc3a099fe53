"""The sweeper's work by the clock: probes, silent ranks, and processes that are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dbg_wire.messages import (
    Change,
    Subscribe,
)
from dbg_wire.records.ranks import RankState
from tests.unit.broker.peers import Broker
from tests.unit.broker.ranks.test_from_ranks import KERNEL, KEY, quick

__all__ = ["quick"]


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that lives until it is killed; its status is collected when the test ends."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


async def test_killed_process_of_this_host_is_listed_as_exited(quick: Broker, process: subprocess.Popen[bytes]) -> None:
    rank = await quick.rank(pid=process.pid, kernel=KERNEL)
    driver = await quick.seated(KEY)
    await rank.cut()
    await driver.expect(Change, lambda change: change.rank.state is RankState.LOST)
    os.kill(process.pid, signal.SIGKILL)
    # The process stays a zombie here, as under a launcher that has not collected its status yet.
    change = await driver.expect(Change, lambda change: change.rank.state is RankState.EXITED)
    assert change.rank.exit is None


async def test_process_id_of_another_kernel_is_ignored(quick: Broker, process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    rank = await quick.rank(pid=process.pid, kernel="boot/another-namespace")
    await rank.cut()
    await state_is_settled(quick, RankState.LOST)


async def state_is_settled(broker: Broker, wanted: RankState) -> None:
    terminal = await broker.terminal("list@h")
    await terminal.send(Subscribe())
    await broker.rank(1)
    await terminal.expect(Change, lambda change: change.rank.rank == 1)
    rank = broker.parts.ranks.registry.find(KEY)
    assert rank is not None
    assert rank.state is wanted
