"""What can go wrong on the terminal's side alone; every class says it in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dbg_wire.errors import (
    BadInput,
    BrokerUnreachable,
    DbgError,
    NoSuchRank,
    ReasonedError,
    RemediedError,
    Remedy,
    printable,
)
from dbg_wire.messages import Refusal, RefusalCode
from dbg_wire.records.ranks import RankInfo, RankState


def in_words_of(error: DbgError, words: Mapping[str, str]) -> str:
    """Return an error's sentence with what the user of one interface does in place of a command of the shell.

    ``words`` has it by the verb; ``{ranks}`` stands for the ranks. A command that they don't have stays.
    """
    return error.worded(
        lambda remedy: (
            words[remedy.verb].format(ranks=printable(remedy.ranks or "all"))
            if remedy.verb in words
            else remedy.typed()
        )
    )


def bug(error: Exception) -> str:
    """Return what a user is told of an error that nobody has foreseen."""
    return f"a bug of dbg-attach: {type(error).__name__}: {printable(str(error), 500)}"


class NotStopped(RemediedError):
    """Say that the target can't be attached to right now, how to wait until it can, and how to stop it if it runs."""

    def __init__(self, what: str, target: str, *, runs: bool = False) -> None:
        super().__init__(what, target)
        self.what = what
        self.target = target
        self.runs = runs

    def worded(self, word: Callable[[Remedy], str]) -> str:
        waits = f"{printable(self.what)}; {word(Remedy('wait', self.target))} waits for the next stop"
        return f"{waits}, {word(Remedy('interrupt', self.target))} breaks in now" if self.runs else waits


class HeldBack(NotStopped):
    """Say that the target waits for other ranks, and how it goes on. ``has_place`` tells whether its place is known."""

    def __init__(self, what: str, target: str, *, has_place: bool) -> None:
        super().__init__(what, target)
        self.has_place = has_place

    def worded(self, word: Callable[[Remedy], str]) -> str:
        shown = f", and {word(Remedy('attach', self.target))} shows where it is" if self.has_place else ""
        return f"{printable(self.what)}; {word(Remedy('release', self.target))} lets it go on{shown}"


class NeverCame(NoSuchRank):
    """Say that the ranks of the target belong to a job and have not connected, and how many of it have."""

    def __init__(self, target: str, job: str, names: str, connected: int, world: int) -> None:
        super().__init__(target, connected)
        self.job = job
        self.names = names
        self.world = world

    def worded(self, word: Callable[[Remedy], str]) -> str:
        several = not self.names.isdecimal()
        who = f"rank{'s' if several else ''} {self.names} of {printable(self.job)} {'have' if several else 'has'}"
        return (
            f"{who} not connected, {self.known} of {self.world} ranks have; {word(Remedy('wait', self.target))} waits "
            f"until {'one of them' if several else 'it'} stops"
        )


class SlowBroker(BrokerUnreachable):
    """Say what the broker, which is there, did not do in time."""

    def __str__(self) -> str:
        return f"the broker at {printable(self.url)} is slow: {printable(self.reason)}; a longer timeout waits for it"


class NotHeld(RemediedError):
    """Say that none of the ranks is held. ``others`` tells whether ranks outside the target are."""

    def __init__(self, addresses: Sequence[str], *, others: bool) -> None:
        super().__init__(tuple(addresses), others)
        self.addresses = tuple(addresses)
        self.others = others

    def worded(self, word: Callable[[Remedy], str]) -> str:
        several = len(self.addresses) > 1
        who = f"none of the {len(self.addresses)} ranks is" if several else f"{printable(self.addresses[0])} is not"
        rest = f"{word(Remedy('list', 'held'))} shows those that are" if self.others else "no rank is"
        return f"{who} held, waiting for others; {rest}"


class LostRank(RemediedError):
    """Say that the broker has no connection to the rank any more, and that nobody knows whether it lives.

    ``target`` is what the user types for it, if that is not the address.
    """

    def __init__(self, address: str, target: str | None = None) -> None:
        super().__init__(address, target)
        self.address = address
        self.target = target or address

    def worded(self, word: Callable[[Remedy], str]) -> str:
        return (
            f"the connection to {printable(self.address)} was lost: its process or its network is gone; "
            f"{word(Remedy('wait', self.target))} waits in case it comes back"
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
        address, end = printable(self.rank.address), self.rank.end
        if end.is_unexplained:
            return f"{address} died: it was killed, crashed, or called os._exit"
        if end.error and not end.signal:
            return f"{address} ended with {printable(end.error)} (status {end.exit})"
        return f"{address} {end.sentence}"


class RankVanished(RemediedError):
    """Say that the rank left the broker's list between a look at it and the attach; ``why`` is what the broker says."""

    exit_status = 3

    def __init__(self, address: str, why: str = "") -> None:
        super().__init__(address, why)
        self.address = address
        self.why = why

    def worded(self, word: Callable[[Remedy], str]) -> str:
        why = f" ({printable(self.why)})" if self.why else ""
        return f"{printable(self.address)} is not there any more{why}; {word(Remedy('list'))} shows the ranks that are"


class Declined(ReasonedError):
    """Say what the broker refused to do, in its own words."""

    exit_status = 5
    sentence = "the broker refused: {reason}"


class NeedsTarget(BadInput):
    """Say that a verb needs a target; ``example`` is the verb with one."""

    def __init__(self, verb: str, example: str) -> None:
        super().__init__(f"{verb} needs a target", f"name ranks, as in `{example}`")


class TimedOut(DbgError):
    """Say what did not happen in time."""

    exit_status = 6


class CantWrite(DbgError):
    """Say which file could not be written, and why; ``option`` names another one."""

    def __init__(self, path: str, reason: str, option: str) -> None:
        super().__init__(path, reason, option)
        self.path = path
        self.reason = reason
        self.option = option

    def __str__(self) -> str:
        why = printable(self.reason)
        return f"{printable(self.path)} can't be written ({why}); name another file with {self.option}"


class NoTerminal(BadInput):
    """Say that a terminal is needed, and what works without one."""


def why_refused(address: str, refusal: Refusal) -> DbgError:
    """Return the error for a seat that the broker refused."""
    if refusal.code in (RefusalCode.NO_SUCH_RANK, RefusalCode.GONE):
        return RankVanished(address, refusal.text)
    return Declined(refusal.text)


def why_not_stopped(rank: RankInfo, target: str, *, attaching: bool = False) -> DbgError:
    """Return the error for a rank that one can't attach to in its present state; ``attaching``: one wants to."""
    if rank.state is RankState.EXITED:
        return RankEnded(rank)
    if rank.state is RankState.LOST:
        return LostRank(rank.address, target)
    if rank.state is RankState.HELD:
        what = f"{rank.address} is held, waiting for other ranks"
        return HeldBack(what, target, has_place=rank.where is not None)
    what = {
        RankState.UNRESPONSIVE: "does not answer, and was not stopped",
    }.get(rank.state, "is running")
    return NotStopped(f"{rank.address} {what}", target, runs=attaching and rank.state is RankState.RUNNING)
