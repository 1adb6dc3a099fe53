"""What the guards of ranks say: a rank is stuck or suspended, was hit by a fatal signal, or was ended by one.

A guard is no rank and is not listed. What it says is kept with the rank; while it stays it answers for the rank.
"""

from __future__ import annotations

import logging

from dbg_broker.hub import close_codes, departures, lost_ranks, other_jobs, to_guards
from dbg_broker.hub.links import RankLink
from dbg_broker.hub.state import Hub
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.errors import PeerError
from dbg_wire.messages import GUARD_ACTIONS, Action, Answer, Ask, Finding, Kind, Message, Probe, RefusalCode, Testimony
from dbg_wire.records.ranks import RankState

logger = logging.getLogger("dbg_broker")


def testify(hub: Hub, link: RankLink, message: Testimony) -> None:
    """Take what a guard has found. Raise PeerError if it breaks the protocol."""
    if link.rank is not None or link.guard_of not in (None, message.key):
        raise PeerError("a `testimony` from somebody else's connection")
    if other_jobs.is_turned_away(hub, link, message.key, message.registration):
        return
    known = hub.registry.find(message.key)
    if known is not None and not known.is_same_process(message.secret):
        hub.refuse(link.connection, RefusalCode.TAKEN, f"another process is {known.address}, and this is not its guard")
        link.connection.close(close_codes.DONE, "it is not the guard of this rank's process")
        return
    rank = known or _enter(hub, message)
    if rank is None:
        hub.refuse(link.connection, RefusalCode.NO_SUCH_RANK, f"no rank has the key {message.key!r}")
        link.connection.close(close_codes.DONE, "this broker does not know the rank")
        return
    if link.guard_of is None:
        link.guard_of = message.key
        hub.welcome(link.connection, rank.address, rank.child)
    former, hub.guards[message.key] = hub.guards.get(message.key), link
    if former is not None and former is not link:
        to_guards.lose(hub, former)
    spoke_for_rank, link.finding = link.finding in to_guards.WAITS_FOR_RANK, message.kind
    logger.info("%s (%s) is found %s by its guard", rank.address, rank.key, message.kind.value)
    if message.kind in to_guards.WAITS_FOR_RANK:
        lost_ranks.fell_silent(hub, rank)
    elif message.kind is not Finding.CALLED:
        _note_signal(rank, message)
    elif spoke_for_rank:
        # The rank goes on, and its guard stays for what it was asked.
        hub.tell_rank(rank.key, Probe(), "probe")
    _take_over(hub, link, message.key)
    hub.registry.last_words(rank, message.frames or rank.frames, rank.detail)
    if message.kind is Finding.ENDED:
        _ended(hub, rank)
        link.connection.close(close_codes.DONE, "the rank has ended")


def _enter(hub: Hub, message: Testimony) -> RankRecord | None:
    """Enter a rank that has not registered, and may never do so."""
    if message.registration is None:
        return None
    registered = hub.registry.register(message.registration, hub.clock())
    for child in registered.renamed:
        hub.listing.changed(child.key)
    hub.rank_changed(registered.rank)
    hub.listing.changed(registered.rank.key)
    return registered.rank


def take(hub: Hub, link: RankLink, message: Message) -> None:
    """Take anything else that a guard says. Raise PeerError if it is no answer."""
    if not isinstance(message, Answer) or link.guard_of is None:
        raise PeerError("a guard says nothing but `testimony` and `answer`")
    if message.kind not in (Kind.VALUE, Kind.ERROR):
        raise PeerError(f"an answer of kind {message.kind.value!r} from a guard")
    ask = link.asks.pop(message.request, None)
    rank = hub.registry.find(link.guard_of)
    if ask is not None and ask.action in GUARD_ACTIONS:
        # What these tell is not the Python stack that the rank is remembered by.
        pass
    elif rank is not None and message.frames:
        hub.registry.last_words(rank, message.frames, rank.detail)
    elif rank is not None:
        message = message.replace(frames=rank.frames)
    departures.settle(hub, link.guard_of, message)


def _take_over(hub: Hub, guard: RankLink, key: str) -> None:
    """Ask the guard what is the guard's, and the stacks of a rank that fell silent before it could answer."""
    if guard.finding is Finding.ENDED:
        return
    actions = GUARD_ACTIONS | {Action.WHERE} if guard.finding in to_guards.WAITS_FOR_RANK else GUARD_ACTIONS
    now = hub.clock()
    for number, question in hub.questions.open_about(key):
        if question.action in actions:
            left = max(0.0, hub.questions.deadline(number) - now)
            about = Ask(
                request=number,
                action=question.action,
                rows=24,
                columns=80,
                seconds=left,
                text=question.text,
                inquiry=question.inquiry,
                threads=question.threads,
                look=question.look,
            )
            to_guards.pass_on(hub, key, about)


def _note_signal(rank: RankRecord, message: Testimony) -> None:
    rank.signal, rank.cause = message.signal, message.cause
    if message.core.startswith("|"):
        rank.core = f"core handed to {message.core[1:]}"
    elif message.core:
        rank.core = f"core likely at {message.core}"


def _ended(hub: Hub, rank: RankRecord) -> None:
    """Enter how a rank's process has ended; the guard knows it from the kernel, so it counts for more."""
    own = hub.ranks.get(rank.key)
    if own is not None:
        # Its connection ends in a moment, too; all that the rank had to say came before its guard's message.
        own.connection.abort()
        departures.lost(hub, own.connection)
    elif rank.is_live:
        departures.lose(hub, rank)
    if rank.state is RankState.LOST:
        hub.registry.found_dead(rank, hub.clock())
        hub.rank_changed(rank)
    hub.registry.killed(rank)
    hub.listing.changed(rank.key)
    lost_ranks.note_failure(hub, rank)
