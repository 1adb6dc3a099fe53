"""The identity of this process in its job, and the address that the broker gives it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from dbg_agent.launch.claim import BY_LIBRARY, FRAMEWORK, NO_PLACE, VARIABLE, claim, has_claimed, parent_of
from dbg_agent.launch.this_process import Identity, ancestors, this_process
from dbg_agent.process.log import Logger, Shown
from dbg_agent.settings import coordinates
from dbg_wire.messages import Register, Welcome
from dbg_wire.records.ranks import Placement, RankIdentity, RankProcess
from dbg_wire.records.record import fitted
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

if TYPE_CHECKING:
    from dbg_agent.rank.rank import Rank

logger = Logger("dbg_agent.rank")

IDENTITY_SECONDS = 2.0
"""Seconds between two looks at the identity: each takes 100 µs, and ranks that this one starts need longer to begin."""


SECRET_BYTES = 16
"""128 bits, which nobody can guess."""


class Membership:
    """The identity of this process, which registers anew when a framework has given it another place in the job."""

    def __init__(self, rank: Rank, parent: Identity | None) -> None:
        self._rank = rank
        self._parent = parent
        self.identity = self.identify()
        self._registrations = 0
        self.secret = os.urandom(SECRET_BYTES).hex()
        """Known to this process, its guard and the broker: nobody else can register as this rank."""
        self.welcome: Welcome | None = None

    @property
    def address(self) -> str:
        """Return the rank's address for terminals; before the broker has given it, the most likely one."""
        if self.welcome is not None and self.welcome.address:
            return self.welcome.address
        return f"{self.identity.host}:{self.identity.rank}"

    @property
    def place(self) -> str:
        """Return ``job/host:rank`` as this process knows it, which it has in common with its children."""
        return f"{self.identity.job}/{self.identity.host}:{self.identity.rank}"

    @property
    def is_launched(self) -> bool:
        """Tell whether a launcher started this rank, and would end the others with it."""
        return self.identity.launcher != "none"

    def identify(self) -> Identity:
        """Return the identity of this process now; the child of a rank without a launcher stays in its parent's job."""
        me = this_process()
        if me.launcher not in (NO_PLACE, FRAMEWORK):
            return me
        if self._parent is not None:
            return replace(me, job=self._parent.job, run=self._parent.run) if me.launcher == NO_PLACE else me
        parent = parent_of(os.environ.get(VARIABLE, ""), me.pid)
        if parent is None:
            return me
        job, run, rank = parent
        me = replace(me, job=job, run=run)
        if me.launcher == FRAMEWORK or rank == me.rank:
            return me
        return replace(me, rank=rank, local_rank=None, world_size=None)

    def registration(self, *, anew: bool) -> str:
        """Return the frame of a Register, with the identity read ``anew``, or the known one for the guard.

        The guard finds the ancestors itself.
        """
        from dbg_dial.kernel import kernel_name
        from dbg_wire.codec import encode

        if anew:
            self._registrations += 1
            self.identity = self.identify()
        me = self.identity
        registration = fitted(
            Register,
            minor=PROTOCOL_MINOR,
            identity=fitted(RankIdentity, key=me.key, job=me.job, run=me.run, host=me.host, rank=me.rank),
            placement=fitted(
                Placement,
                local_rank=me.local_rank,
                world_size=me.world_size,
                coordinates=coordinates(self._rank.settings.mesh, me.rank),
            ),
            child=self.welcome.child if self.welcome is not None else None,
            process=fitted(
                RankProcess,
                pid=me.pid,
                script=me.script,
                directory=me.directory,
                release=RELEASE,
                python=sys.version.split()[0],
            ),
            ancestors=ancestors(me.pid) if anew else (),
            kernel=kernel_name() or "unknown",
            report=self._rank.rank_report(),
            secret=self.secret,
            dial=self._registrations if anew else 0,
        )
        logger.debug("says %s", Shown(registration))
        return encode(registration)

    def note_stop(self) -> None:
        """Register anew, and tell children, if a framework has given this process another place; in its thread."""
        if self._has_moved():
            self._rank.link.reconnect()
        if has_claimed():
            claim()

    def welcomed(self, welcome: Welcome) -> None:
        """Note the broker's welcome with this rank's address; in the link's thread."""
        is_first, self.welcome = self.welcome is None, welcome
        if is_first:
            self._poll_identity()

    def _has_moved(self) -> bool:
        return self.identify().key != self.identity.key

    def _poll_identity(self) -> None:
        """Register anew if the identity has changed, and look again later; in the link's thread.

        A launcher sets the identity before the start. Without a launcher, a library that starts or connects ranks
        changes it while the program runs.
        """
        if self.identity.launcher not in (NO_PLACE, BY_LIBRARY):
            return
        # A terminal that looks at the rank now would lose it.
        rank = self._rank
        is_watched = rank.stops.current[0] is not None or rank.debuggers.terminal.viewers > 0
        if not is_watched and self._has_moved():
            self._rank.link.reconnect()
        self._rank.call_later(IDENTITY_SECONDS, self._poll_identity)
