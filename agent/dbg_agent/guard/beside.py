"""What the broker asks of a guard beside its rank: commands, native stacks, what NCCL tells; each ends with its asker.

All of it runs in the guard's event loop, several at a time, while the guard goes on watching its rank.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dbg_agent.guard.command import CantStart, Command
from dbg_agent.guard.native import NoStack, native_stack
from dbg_agent.guard.ras import NoRas, ask_ras
from dbg_agent.settings import FORBIDDEN
from dbg_wire.errors import PeerError, printable
from dbg_wire.finding.environment import AUTOSTART
from dbg_wire.messages import Action, Answer, Ask, Kind, sendable
from dbg_wire.records.beside import CommandEnd, CommandLine, output_rows
from dbg_wire.records.ras import status_rows
from dbg_wire.records.record import fitted

MAX_AT_ONCE = 4
"""Questions that a guard works on at once: several people look at one rank, and each command may be a profiler."""

STAY_SECONDS = 30.0
"""Seconds for which a guard stays at the broker for the next question: people ask several in a row."""

ANSWER_SECONDS = 1.0
"""Seconds of a question's time that are kept for the way of its answer."""

PID, RANK = "DBG_PID", "DBG_RANK"
"""Variables by which a command knows its rank: the process id and the global number."""

Say = Callable[[Answer], Awaitable[None]]


class Beside:
    """The questions that a guard works on."""

    def __init__(self, about: Mapping[str, Any], pid: int, has_changed: Callable[[], None], own: Sequence[str]) -> None:
        """Begin without any; ``has_changed`` is called when :attr:`is_wanted` may have changed.

        ``own`` are the folders of our packages, whose frames are left out of stacks.
        """
        self._own = own
        self._about = about
        self._pid = pid
        self._has_changed = has_changed
        self._working: dict[int, asyncio.Task[None]] = {}
        self._stays_until = 0.0

    @property
    def is_wanted(self) -> bool:
        """Tell whether a question is open, or the next one may come soon."""
        return bool(self._working) or time.monotonic() < self._stays_until

    def stay(self) -> None:
        """Expect a question within :data:`STAY_SECONDS`."""
        self._stays_until = time.monotonic() + STAY_SECONDS
        asyncio.get_running_loop().call_later(STAY_SECONDS + 0.1, self._has_changed)

    def take(self, ask: Ask, say: Say) -> None:
        """Begin to work on a question, or end that if it is withdrawn; ``say`` sends the answer."""
        if ask.withdrawn:
            task = self._working.get(ask.request)
            if task is not None:
                task.cancel()
        elif ask.request not in self._working:
            task = asyncio.ensure_future(self._work(ask, say))
            self._working[ask.request] = task
            task.add_done_callback(partial(self._done, ask.request))

    async def end(self) -> None:
        """End all work, and wait until nothing is left of it."""
        tasks = list(self._working.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---------------------------------------------------------------------------------------------------------- inner

    def _done(self, request: int, task: asyncio.Task[None]) -> None:
        del self._working[request]
        if not task.cancelled():
            # An answer that could not be sent: the connection has ended, which others notice.
            task.exception()
        self.stay()
        self._has_changed()

    async def _work(self, ask: Ask, say: Say) -> None:
        seconds = max(ask.seconds - ANSWER_SECONDS, ask.seconds / 2)
        try:
            answer = await self._answer(ask, seconds)
        except (CantStart, NoRas, NoStack, PeerError) as error:
            answer = _error(ask, str(error))
        except Exception as error:
            answer = _error(ask, f"its guard failed ({type(error).__name__}: {printable(str(error))})")
        await say(sendable(answer))

    async def _answer(self, ask: Ask, seconds: float) -> Answer:
        if len(self._working) > MAX_AT_ONCE:
            return _error(ask, f"{MAX_AT_ONCE} commands run beside it already")
        if ask.action is Action.RAS:
            status = await ask_ras(os.environ, seconds)
            return fitted(Answer, request=ask.request, kind=Kind.VALUE, text="", rows=status_rows(status))
        if not self._about["exec"]:
            return _error(ask, FORBIDDEN)
        if ask.action is Action.NATIVE:
            frames = await native_stack(self._pid, self.environ(), seconds, self._own)
            return fitted(Answer, request=ask.request, kind=Kind.VALUE, text="read by py-spy", frames=frames)
        return await self._exec(ask, seconds)

    async def _exec(self, ask: Ask, seconds: float) -> Answer:
        if not isinstance(ask.inquiry, CommandLine):
            return _error(ask, "an `exec` without a command")
        command = Command(ask.inquiry.words, self.environ(), f"/proc/{self._pid}/cwd")
        end = await command.finish(seconds)
        end = fitted(CommandEnd, status=end.status, ended=end.ended, left_out=command.output.left_out)
        kind = Kind.VALUE if end.status == 0 else Kind.ERROR
        rows = output_rows(end, command.output.text())
        return fitted(Answer, request=ask.request, kind=kind, text=_sentence(end), rows=rows)

    def environ(self) -> dict[str, str]:
        """Return the environment of a command: the rank's when its guard began, and who the rank is."""
        # The variable would make a rank of the command if that is Python.
        environ = {name: value for name, value in os.environ.items() if name != AUTOSTART}
        return environ | {PID: str(self._pid), RANK: str(self._about["rank"])}


def ignore_but_let_pass() -> None:
    """Go on ignoring the signals that are meant for the job, but let the commands that are started have them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # An ignored signal would be ignored by each command, too; one with a handler is not.
        signal.signal(number, _ignore)


def _ignore(*_: object) -> None:
    """Do nothing."""


def _sentence(end: CommandEnd) -> str:
    if end.ended:
        return f"ended {end.ended}"
    return f"exit status {end.status}" if (end.status or 0) >= 0 else f"killed by signal {-(end.status or 0)}"


def _error(ask: Ask, text: str) -> Answer:
    return fitted(Answer, request=ask.request, kind=Kind.ERROR, text=text)
