"""The runs that hold the broker of a home, by a real named pipe, and the moment when an unused broker leaves."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.unit.broker.home.test_in_use import Watched, held_in, watched

__all__ = ["watched"]


HOLD = """
import sys
from pathlib import Path
from dbg_broker.home.in_use import hold
hold(Path(sys.argv[1]))
sys.stdin.read()
"""


WAIT = "import sys; sys.stdin.read()"


async def test_a_run_that_is_killed_lets_go(watched: Watched, made_home: Path) -> None:
    run = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, str(made_home), stdin=subprocess.PIPE)
    assert await watched.change()
    run.kill()
    assert not await watched.change()
    await run.communicate()


async def test_a_child_that_has_inherited_the_hold_keeps_it(watched: Watched, made_home: Path) -> None:
    descriptor = held_in(made_home)
    assert await watched.change()
    keeper = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WAIT, stdin=subprocess.PIPE, pass_fds=(descriptor,)
    )
    os.close(descriptor)
    assert watched.users.held
    await keeper.communicate(b"")
    assert not await watched.change()
