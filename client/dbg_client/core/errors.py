"""Errors of the terminal's side. The text of each is one sentence."""

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


def in_terms_of(error: DbgError, actions: Mapping[str, str]) -> str:
    """Return an error's sentence with shell commands replaced by the actions of another front end.

    ``actions`` maps verbs to actions. ``{ranks}`` in an action is replaced by the target of the command. A command
    without an entry stays.
    """
    return error.worded(
        lambda remedy: (
            actions[remedy.verb].format(ranks=printable(remedy.ranks or "all"))
            if remedy.verb in actions
            else remedy.typed()
        )
    )


def bug(error: Exception) -> str:
    """Return the message to the user about an unexpected error."""
    return f"a bug of dbg-attach: {type(error).__name__}: {printable(str(error), 500)}"


class NotStopped(RemediedError):
    """Raised when a terminal can't attach because the target is not stopped."""

    def __init__(self, what: str, target: str, *, runs: bool = False) -> None:
        super().__init__(what, target)
        self.what = what
        self.target = target
        self.runs = runs

    def worded(self, word: Callable[[Remedy], str]) -> str:
        waits = f"{printable(self.what)}; {word(Remedy('wait', self.target))} waits for the next stop"
        return f"{waits}, {word(Remedy('interrupt', self.target))} stops it now" if self.runs else waits


class RankHeld(NotStopped):
    """Raised when the target is held: it waits for other ranks. ``has_place`` is True if its place is known."""

    def __init__(self, what: str, target: str, *, has_place: bool) -> None:
        super().__init__(what, target)
        self.has_place = has_place

    def worded(self, word: Callable[[Remedy], str]) -> str:
        shown = f", and {word(Remedy('attach', self.target))} shows where it is" if self.has_place else ""
        return f"{printable(self.what)}; {word(Remedy('release', self.target))} resumes it{shown}"


class NeverConnected(NoSuchRank):
    """Raised when the ranks of the target belong to a known job but have never connected."""

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
    """Raised when a connected broker did not respond in time; ``reason`` states what it did not do."""

    def __str__(self) -> str:
        return f"the broker at {printable(self.url)} is slow: {printable(self.reason)}; a longer timeout waits for it"


class NotHeld(RemediedError):
    """Raised when no rank of the target is held. ``others`` is True if other ranks are held."""

    def __init__(self, addresses: Sequence[str], *, others: bool) -> None:
        super().__init__(tuple(addresses), others)
        self.addresses = tuple(addresses)
        self.others = others

    def worded(self, word: Callable[[Remedy], str]) -> str:
        several = len(self.addresses) > 1
        who = f"none of the {len(self.addresses)} ranks is" if several else f"{printable(self.addresses[0])} is not"
        rest = f"{word(Remedy('list', 'held'))} shows the held ranks" if self.others else "no rank is held"
        return f"{who} held; {rest}"


class LostRank(RemediedError):
    """Raised when the rank is disconnected from the broker, and it is unknown whether its process is alive.

    ``target`` is the target that the user types, if that is not the address.
    """

    def __init__(self, address: str, target: str | None = None) -> None:
        super().__init__(address, target)
        self.address = address
        self.target = target or address

    def worded(self, word: Callable[[Remedy], str]) -> str:
        return (
            f"the connection to {printable(self.address)} was lost: its process or its network is gone; "
            f"{word(Remedy('wait', self.target))} waits for it to come back"
        )


class RankStayedAway(LostRank):
    """Raised when a rank was lost while this terminal was attached, and did not reconnect: most likely it is dead."""

    exit_status = 8


class RankEnded(DbgError):
    """Raised when the rank has exited; the text states how."""

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
    """Raised when the rank left the broker's list before the terminal could attach; ``why`` is the broker's reason."""

    exit_status = 3

    def __init__(self, address: str, why: str = "") -> None:
        super().__init__(address, why)
        self.address = address
        self.why = why

    def worded(self, word: Callable[[Remedy], str]) -> str:
        why = f" ({printable(self.why)})" if self.why else ""
        return f"{printable(self.address)} is no longer listed{why}; {word(Remedy('list'))} shows the present ranks"


class Declined(ReasonedError):
    """Raised when the broker refuses a request, with the broker's text."""

    exit_status = 5
    sentence = "the broker refused: {reason}"


class NeedsTarget(BadInput):
    """Raised when a verb needs a target; ``example`` is the verb with a target."""

    def __init__(self, verb: str, example: str) -> None:
        super().__init__(f"{verb} needs a target", f"name ranks, as in `{example}`")


class TimedOut(DbgError):
    """Raised when something did not happen in time."""

    exit_status = 6


class CantWrite(DbgError):
    """Raised when a file could not be written; ``option`` selects another file."""

    def __init__(self, path: str, reason: str, option: str) -> None:
        super().__init__(path, reason, option)
        self.path = path
        self.reason = reason
        self.option = option

    def __str__(self) -> str:
        why = printable(self.reason)
        return f"{printable(self.path)} can't be written ({why}); name another file with {self.option}"


class NoTerminal(BadInput):
    """Raised when a terminal is needed; the text states what works without one."""


def why_refused(address: str, refusal: Refusal) -> DbgError:
    """Return the error for a seat that the broker refused."""
    if refusal.code in (RefusalCode.NO_SUCH_RANK, RefusalCode.GONE):
        return RankVanished(address, refusal.text)
    return Declined(refusal.text)


def why_not_stopped(rank: RankInfo, target: str, *, attaching: bool = False) -> DbgError:
    """Return the error for a rank that is not stopped; ``attaching`` is True if the user wants to attach to it."""
    if rank.state is RankState.EXITED:
        return RankEnded(rank)
    if rank.state is RankState.LOST:
        return LostRank(rank.address, target)
    if rank.state is RankState.HELD:
        what = f"{rank.address} is held, waiting for other ranks"
        return RankHeld(what, target, has_place=rank.where is not None)
    what = {
        RankState.UNRESPONSIVE: "does not answer and was not stopped",
    }.get(rank.state, "is running")
    return NotStopped(f"{rank.address} {what}", target, runs=attaching and rank.state is RankState.RUNNING)
