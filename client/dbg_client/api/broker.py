"""A program's connection to a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from dbg_client.api.ranks import AsyncJob, Memory, Wanted, any_target, first_stop
from dbg_client.core.switchboard import Switchboard, switchboard_to
from dbg_wire.errors import BadInput, first_of, printable
from dbg_wire.records.ranks import LIVE_STATES, RankInfo

TIMEOUT = 10.0
"""Timeout in seconds for the broker and for answers, as on the command line."""


class AsyncBroker:
    """A connection to a broker that reconnects by itself; belongs to one event loop."""

    def __init__(self, switchboard: Switchboard) -> None:
        self._switchboard = switchboard
        self._memory = Memory()

    @property
    def url(self) -> str:
        """URL of the broker."""
        return self._switchboard.url

    @property
    def role(self) -> str | None:
        """Role that the token grants: ``driver`` or ``watcher``; None while disconnected."""
        welcome = self._switchboard.welcome
        return welcome.role if welcome is not None else None

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """All ranks of all jobs as the broker lists them now, including exited ranks."""
        return self._switchboard.directory.ranks

    def jobs(self) -> tuple[AsyncJob, ...]:
        """Return the jobs that have live ranks."""
        return tuple(self._job(name) for name in self._living())

    def job(self, name: str | None = None) -> AsyncJob:
        """Return the job of this name, or the only live job.

        Raises BadInput if no job has this name. Without ``name``, raises BadInput if no job is live, or several are.
        The error names the live jobs.
        """
        known = {rank.job for rank in self._switchboard.directory.ranks}
        living = self._living()
        if name is not None and name not in known:
            raise BadInput(f"there is no job {printable(name)!r}", _named(living))
        if name is None and len(living) != 1:
            raise BadInput("a job name is needed", _named(living))
        return self._job(living[0] if name is None else name)

    async def wait(self, selector: Wanted = "stopped", seconds: float | None = None) -> RankInfo:
        """Wait until one of these ranks is stopped, and return it.

        The ranks may be of any job, and may connect later. Raises TimedOut after ``seconds``.
        """
        return await first_stop(self._switchboard, self._memory, any_target(selector, self._memory.groups), seconds)

    async def close(self) -> None:
        """Close the connection and all stops that use it; the ranks stay as they are."""
        await self._switchboard.close()

    def __repr__(self) -> str:
        return f"<broker at {self.url}>"

    async def __aenter__(self) -> AsyncBroker:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _job(self, name: str) -> AsyncJob:
        return AsyncJob(self._switchboard, self._memory, name)

    def _living(self) -> list[str]:
        ranks = self._switchboard.directory.ranks
        return list(dict.fromkeys(rank.job for rank in ranks if rank.state in LIVE_STATES))


def _named(living: Sequence[str]) -> str:
    if not living:
        return "no job is live: wait until its ranks have connected"
    return f"{first_of(living)} {'is live' if len(living) == 1 else 'are live'}"


async def open_broker(broker: str | None = None, timeout: float = TIMEOUT, *, program: str = "Python") -> AsyncBroker:
    """Connect to a broker and wait until its ranks are known; the caller closes the connection.

    ``program`` is shown to other users after the user's name. Raises NoBroker, BrokerUnreachable, or a Refused.
    """
    switchboard = switchboard_to(broker, timeout, program=program)
    await switchboard.open()
    return AsyncBroker(switchboard)


@asynccontextmanager
async def aconnect(broker: str | None = None, *, timeout: float = TIMEOUT) -> AsyncIterator[AsyncBroker]:
    """Connect to a broker until the block ends.

    ``broker`` is an address as in ``$DBG_BROKER``; without it, the broker is found as on the command line.
    ``timeout`` is in seconds, for the broker and for answers. Raises NoBroker, BrokerUnreachable, or a Refused.
    """
    async with await open_broker(broker, timeout) as opened:
        yield opened
