"""The identity of this process in its job, and the address that the broker assigns to it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from dbg_agent.launch.claim import FRAMEWORK, NO_PLACE, RAY, VARIABLE, parent_of
from dbg_agent.launch.this_process import Identity, ancestors, this_process
from dbg_agent.process.imports import loaded
from dbg_agent.process.log import Logger
from dbg_agent.settings import coordinates
from dbg_wire import PROTOCOL_MINOR, RELEASE
from dbg_wire.codec import LogForm
from dbg_wire.messages import Register, Welcome
from dbg_wire.records.ranks import SUBRUN, Numbering, Placement, RankIdentity, RankProcess
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_agent.settings import Settings
    from dbg_wire.messages import RankReport

logger = Logger("dbg_agent.rank")

SECRET_BYTES = 16
"""Size of the secret: 128 bits can't be guessed."""


class Membership:
    """The identity of this process in its job, and its registration at the broker.

    The process registers again when a framework changes the identity.
    """

    def __init__(self, settings: Settings, parent: Identity | None) -> None:
        self._mesh = settings.mesh
        self._parent = parent
        self._child: int | None = None
        self.identity = self._identify()
        self._registrations = 0
        self.secret = os.urandom(SECRET_BYTES).hex()
        """Secret that this process shares with its guard and the broker: no other process can register as this rank."""
        self.welcome: Welcome | None = None

    @property
    def number(self) -> int:
        """The rank's global number."""
        return self.identity.rank

    @property
    def address(self) -> str:
        """The rank's address for terminals; before the broker has assigned it, the most likely address."""
        if self.welcome is not None and self.welcome.address:
            return self.welcome.address
        return f"{self.identity.host}:{self.identity.rank}"

    @property
    def place(self) -> str:
        """``job/host:rank`` as this process knows it. Child processes of a rank have the same value as the rank."""
        return f"{self.identity.job}/{self.identity.host}:{self.identity.rank}"

    @property
    def is_launched(self) -> bool:
        """Whether a launcher started this rank; the launcher ends the other ranks when this one ends."""
        return self.identity.launcher != "none"

    def identify(self) -> Identity:
        """Return the current identity of this process.

        A number from a library such as torch.distributed is kept after the library has disconnected.
        """
        now = self._identify()
        return self.identity if self.identity.by_library and not now.by_library else now

    def _identify(self) -> Identity:
        """Return the identity of this process. The child of a rank without a launcher stays in its parent's job."""
        me, parent = this_process(), self._parent
        if parent is not None and parent.by_library:
            # The forked child has a copy of the library that gave its parent the number. The library looks connected in
            # the child, but is not.
            return replace(parent, pid=me.pid, by_library=False)
        above = parent_of(os.environ.get(VARIABLE, ""), me.pid)
        if me.launcher == RAY and above is not None:
            # One Ray driver may start several groups of ranks, so the run's name shows both the driver and the group.
            return replace(me, job=above[0], run=f"{above[1]}{SUBRUN}{me.run}")
        if me.launcher not in (NO_PLACE, FRAMEWORK):
            return me
        if parent is not None and parent.launcher == NO_PLACE:
            above = parent.job, parent.run, parent.rank
        if above is None:
            return me
        job, run, rank = above
        me = replace(me, job=job, run=run)
        if me.by_library or rank == me.rank:
            return me
        return replace(me, rank=rank, local_rank=None, world_size=None)

    @property
    def numbering(self) -> Numbering:
        """The source of this process's number: a library, a launcher, or none."""
        if self.identity.by_library:
            return Numbering.LIBRARY
        return Numbering.NONE if self.identity.launcher == NO_PLACE else Numbering.LAUNCHER

    def registration(self, report: RankReport, *, anew: bool) -> str:
        """Return the frame of a Register for this rank.

        With ``anew`` the identity is read again. Otherwise the frame is for the guard: it has the known identity and no
        ancestors, because the guard finds the ancestors itself.
        """
        from dbg_dial.home import kernel_name
        from dbg_wire.codec import encode

        if anew:
            self._registrations += 1
            if self.has_moved():
                # The broker assigned the child number for the previous identity.
                self._child = None
            self.identity = self.identify()
        me = self.identity
        registration = clamp(
            Register,
            minor=PROTOCOL_MINOR,
            identity=clamp(RankIdentity, key=me.key, job=me.job, run=me.run, host=me.host, rank=me.rank),
            placement=clamp(
                Placement,
                local_rank=me.local_rank,
                world_size=me.world_size,
                coordinates=coordinates(self._mesh, me.rank),
                numbering=self.numbering,
            ),
            child=self._child or (1 if actor_class and self.numbering is Numbering.NONE else None),
            process=clamp(
                RankProcess,
                pid=me.pid,
                script=me.script,
                directory=me.directory,
                release=RELEASE,
                python=sys.version.split()[0],
                name=process_name(),
            ),
            ancestors=ancestors(me.pid) if anew else (),
            kernel=kernel_name() or "unknown",
            report=report,
            secret=self.secret,
            epoch=self._registrations if anew else 0,
        )
        logger.debug("sending %s", LogForm(registration))
        return encode(registration)

    def welcomed(self, welcome: Welcome) -> bool:
        """Store the broker's welcome, which has this rank's address. Return True if it is the first one."""
        is_first, self.welcome, self._child = self.welcome is None, welcome, welcome.child
        return is_first

    def has_moved(self) -> bool:
        """Return True if a framework has changed the identity of this process, so that it must register again."""
        now, me = self.identify(), self.identity
        # If a library only confirms the launcher's number, nothing changes for a rank. But a process that was a child
        # of a rank so far becomes a rank of its own.
        is_numbered = now.by_library > me.by_library and (me.launcher == NO_PLACE or self._child is not None)
        return now.key != me.key or is_numbered


actor_class = ""
"""The class of this process's Ray actor; empty if the process is not an actor."""


def process_name() -> str:
    """Return the name of a multiprocessing process, or the class of an actor; empty for any other process."""
    process = loaded("multiprocessing.process")
    if process is None or process.parent_process() is None:
        return actor_class
    return str(process.current_process().name)
