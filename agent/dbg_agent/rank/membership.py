"""Who this process is in its job, and what the broker calls it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from dbg_wire.messages import Welcome

from ..launch.claim import BY_LIBRARY, FRAMEWORK, NO_PLACE, VARIABLE, claim, has_claimed, parent_of
from ..launch.this_process import Identity, this_process

IDENTITY_SECONDS = 2.0
"""Seconds between two looks at who this process is: 100 µs each, and ranks that it starts take longer to begin."""


class RegisteredRank(Protocol):
    """Say what is needed of the rank that a broker knows."""

    @property
    def is_watched(self) -> bool:
        """Tell whether the rank is stopped, or a terminal sits at it."""

    def reconnect(self) -> None:
        """Have the rank register anew."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the link's thread after some seconds."""


class Membership:
    """Know what this process is called, and register it anew when a framework has given it another place."""

    def __init__(self, rank: RegisteredRank, parent: Identity | None) -> None:
        self._rank = rank
        self._parent = parent
        self.identity = self.identify()
        self.welcome: Welcome | None = None

    @property
    def address(self) -> str:
        """Return what terminals call this rank; before the broker has said so, what it will most likely be."""
        if self.welcome is not None and self.welcome.address:
            return self.welcome.address
        return f"{self.identity.host}:{self.identity.rank}"

    @property
    def is_launched(self) -> bool:
        """Tell whether a launcher started this rank, and would end the others with it."""
        return self.identity.launcher != "none"

    def identify(self) -> Identity:
        """Return who this process is now; the child of a rank without a launcher stays in its parent's job."""
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

    def note_stop(self) -> None:
        """Register anew, and tell children, if a framework has given this process another place; in its thread."""
        if self._has_moved():
            self._rank.reconnect()
        if has_claimed():
            claim()

    def welcomed(self, welcome: Welcome) -> None:
        """Take in what the broker calls this rank; in the link's thread."""
        is_first, self.welcome = self.welcome is None, welcome
        if is_first:
            self._look_again()

    def _has_moved(self) -> bool:
        return self.identify().key != self.identity.key

    def _look_again(self) -> None:
        """Register anew once this process is another rank than it said, and look again later; in the link's thread.

        Only where no launcher has named it: a library that starts ranks itself, or connects them, does so in the midst
        of the program.
        """
        if self.identity.launcher not in (NO_PLACE, BY_LIBRARY):
            return
        # A terminal that looks at it now would lose it.
        if not self._rank.is_watched and self._has_moved():
            self._rank.reconnect()
        self._rank.call_later(IDENTITY_SECONDS, self._look_again)
