"""What can go wrong on the terminal's side alone; every class says it in one sentence."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Refusal, RefusalCode
from dbg_wire.ranks import DIED, RankInfo, RankState, describe_exit

_STOPPED = "`stopped` for all that are stopped"
_SETS = {"--release": "`held` for all that are held", "--interrupt": "`running` for all that run"}
"""Targets by state, as a proposal for an action that got no target."""


class NotStopped(DbgError):
    """Say that the target can't be attached to right now, how to wait until it can, and how to stop it if it runs."""

    def __init__(self, what: str, target: str, *, runs: bool = False) -> None:
        super().__init__(what, target)
        self.what = what
        self.target = target
        self.runs = runs

    def __str__(self) -> str:
        typed = printable(shlex.quote(self.target))
        waits = f"{printable(self.what)}; `dbg-attach --wait {typed}` waits for the next stop"
        return f"{waits}, `dbg-attach {typed} -i` breaks in now" if self.runs else waits


class NotHeld(DbgError):
    """Say that none of the ranks waits for others, so that there is nothing to release."""

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__(tuple(addresses))
        self.addresses = tuple(addresses)

    def __str__(self) -> str:
        several = len(self.addresses) > 1
        who = f"none of the {len(self.addresses)} ranks is" if several else f"{printable(self.addresses[0])} is not"
        return f"{who} held, waiting for others; `dbg-attach --list held` shows those that are"


class LostRank(DbgError):
    """Say that the broker has no connection to the rank any more, and that nobody knows whether it lives."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return (
            f"the connection to {printable(self.address)} was lost: its process or its network is gone; "
            f"`dbg-attach --wait {printable(self.address)}` waits in case it comes back"
        )


class RankStayedAway(LostRank):
    """Say that a rank was lost while this terminal was on it and did not come back: most likely it is dead."""

    exit_status = 8


class RankEnded(DbgError):
    """Say that the rank has exited, and how."""

    exit_status = 8

    def __init__(self, rank: RankInfo) -> None:
        super().__init__(rank)
        self.rank = rank

    def __str__(self) -> str:
        address, how = printable(self.rank.address), describe_exit(self.rank)
        if how == DIED:
            return f"{address} died: it was killed, crashed, or called os._exit"
        return f"{address} {'was' if how.startswith('killed') else 'has'} {how}"


class RankVanished(DbgError):
    """Say that the rank left the broker's list between a look at it and the attach."""

    exit_status = 3

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return f"{printable(self.address)} is not there any more; `dbg-attach --list` shows the ranks that are"


class Declined(DbgError):
    """Say what the broker refused to do, in its own words."""

    exit_status = 5

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"the broker refused: {printable(self.text)}"


class CantDial(DbgError):
    """Say why the broker has no connection to a stock debugger, in its own words."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return printable(self.text)


class NeedsTarget(BadInput):
    """Say that an action needs a target."""

    def __init__(self, action: str) -> None:
        super().__init__(f"{action} needs a target", f"name ranks, or write {_SETS.get(action, _STOPPED)}")


class TimedOut(DbgError):
    """Say what did not happen in time."""

    exit_status = 6

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return self.what


class NoTerminal(BadInput):
    """Say that a terminal is needed, and what works without one."""


def why_refused(address: str, refusal: Refusal) -> DbgError:
    """Return the error for a seat that the broker refused."""
    if refusal.code in (RefusalCode.NO_SUCH_RANK, RefusalCode.GONE):
        return RankVanished(address)
    return Declined(refusal.text)


def why_not_stopped(rank: RankInfo, target: str, *, attaching: bool = False) -> DbgError:
    """Return the error for a rank that one can't attach to in its present state; ``attaching``: one wants to."""
    if rank.state is RankState.EXITED:
        return RankEnded(rank)
    if rank.state is RankState.LOST:
        return LostRank(rank.address)
    what = {
        RankState.HELD: "is held, waiting for other ranks",
        RankState.UNRESPONSIVE: "does not answer, and was not stopped",
    }.get(rank.state, "is running")
    return NotStopped(f"{rank.address} {what}", target, runs=attaching and rank.state is RankState.RUNNING)
