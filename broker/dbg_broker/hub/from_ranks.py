"""What ranks say, and what the broker does about it: one function for each message."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dbg_broker.hub import from_guards as witnesses
from dbg_broker.hub.links import RankLink
from dbg_broker.ranks.registry import Rank
from dbg_wire import limits
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    Answer,
    Applied,
    Completions,
    Discarded,
    Goodbye,
    Message,
    Notice,
    Pulse,
    Register,
    Replied,
    Report,
    Source,
    Testimony,
)
from dbg_wire.ranks import RankState

if TYPE_CHECKING:
    from dbg_broker.hub.hub import Hub

logger = logging.getLogger("dbg_broker")

OUTPUT_KIND = 1
OUTPUT_HEADER = struct.calcsize(">BIQ")

CLOSE_REPLACED = 4000


def take(hub: Hub, link: RankLink, message: Message) -> None:
    """Do what a rank's message asks. Raise PeerError if it breaks the protocol."""
    if isinstance(message, Testimony):
        witnesses.testify(hub, link, message)
        return
    if link.witness_of is not None:
        witnesses.take(hub, link, message)
        return
    if isinstance(message, Register):
        _register(hub, link, message)
        return
    if link.rank is None:
        raise PeerError("the first message of a rank is not `register`")
    _heard(hub, link.rank)
    _METHODS[type(message)](hub, link.rank, message)


def take_output(hub: Hub, link: RankLink, data: bytes) -> None:
    """Pass terminal bytes on, unread. Raise PeerError if they are none."""
    if link.rank is None:
        raise PeerError("terminal bytes before `register`")
    if len(data) < OUTPUT_HEADER or data[0] != OUTPUT_KIND:
        raise PeerError("a binary frame that no agent sends")
    if len(data) > OUTPUT_HEADER + limits.MAX_DATA_BYTES:
        raise PeerError(f"a binary frame of {len(data)} bytes, above {OUTPUT_HEADER + limits.MAX_DATA_BYTES}")
    _heard(hub, link.rank)
    hub.relay_output(link.rank.key, data)


def left(hub: Hub, link: RankLink) -> None:
    """Note that a rank's connection ended, or its guard's."""
    witnesses.left(hub, link)
    rank = link.rank
    if rank is None:
        return
    hub.registry.disconnected(rank, hub.clock())
    del hub.ranks[rank.key]
    hub.glances.forget(rank.key)
    hub.probes.remove(rank.key)
    if rank.state is RankState.LOST:
        hub.sweeper.lost(rank)
    ended = "the process has ended" if rank.state is RankState.EXITED else "its connection ended"
    for finished in hub.gather.rank_ended(rank.key, ended):
        hub.deliver(finished)
    hub.rank_changed(rank)
    hub.listing.changed(rank.key)
    logger.info("%s (%s) is %s", rank.address, rank.key, rank.state.value)


def _register(hub: Hub, link: RankLink, message: Register) -> None:
    now = hub.clock()
    if link.rank is not None and link.rank.key != message.key:
        raise PeerError("a second `register` with another key")
    registration = hub.registry.register(message, now, link.mark)
    rank = registration.rank
    if registration.gone is not None:
        hub.sweeper.forget(registration.gone, f"its process is {rank.address} of job {rank.said.job} by now")
    former = hub.ranks.get(rank.key)
    if former is not None and former is not link:
        _replace(hub, former, rank.key)
    link.rank = rank
    hub.ranks[rank.key] = link
    hub.probes.add(rank.key, now)
    hub.welcome(link.connection, rank.address, rank.child)
    for child in registration.renamed:
        if (below := hub.ranks.get(child.key)) is not None:
            hub.welcome(below.connection, child.address, child.child)
        hub.listing.changed(child.key)
    hub.listing.changed(rank.key)
    hub.holds.came_back(rank.key)
    hub.crashes.came_back(rank.key)
    hub.rank_changed(rank)
    hub.carry_out(hub.sessions.rank_came(rank.key, message.report.generation))
    if message.report.session is not None and hub.sessions.viewers(rank.key):
        # What it drew while it had no connection has reached nobody.
        hub.want_repaint(rank.key)
    logger.info("%s (%s) is %s", rank.address, rank.key, rank.state.value)


def _replace(hub: Hub, former: RankLink, key: str) -> None:
    """Close the connection from which a newer one took a rank over; what it was asked it will not answer."""
    former.rank = None
    former.connection.close(CLOSE_REPLACED, "a newer connection of this rank took over")
    for finished in hub.gather.rank_ended(key, "it connected anew"):
        hub.deliver(finished)


def _heard(hub: Hub, rank: Rank) -> None:
    now = hub.clock()
    # A signal that seemed to end it was caught by the program, as some do with their own faults.
    rank.signal = None
    hub.probes.heard(rank.key, now)
    if hub.registry.heard(rank, now):
        hub.rank_changed(rank)
        hub.listing.changed(rank.key)


def _report(hub: Hub, rank: Rank, message: Report) -> None:
    if hub.registry.report(rank, message.report, hub.clock()):
        hub.listing.changed(rank.key)
        hub.glances.changed(rank.key)
    hub.rank_changed(rank)
    hub.tell_terminals(rank.key, message)


def _pass_on(hub: Hub, rank: Rank, message: Applied | Discarded | Replied | Completions | Notice) -> None:
    hub.tell_terminals(rank.key, message)


def _pulse(hub: Hub, rank: Rank, message: Pulse) -> None:
    rank.place, rank.frames = message.where, message.frames
    hub.tell_terminals(rank.key, message, "pulse")


def _source(hub: Hub, rank: Rank, message: Source) -> None:
    hub.tell_terminals(rank.key, message, "source")


def _answer(hub: Hub, rank: Rank, message: Answer) -> None:
    for number in hub.glances.answered(rank.key, message, hub.clock()):
        finished = hub.gather.answer(rank.key, replace(message, request=number))
        hub.bound_answers()
        if finished is not None:
            hub.deliver(finished)


def _goodbye(hub: Hub, rank: Rank, message: Goodbye) -> None:
    hub.registry.goodbye(rank, message.exit, hub.clock())
    if message.frames:
        hub.registry.last_words(rank, message.frames, message.detail)
    hub.probes.remove(rank.key)
    for finished in hub.gather.rank_ended(rank.key, "the process has ended"):
        hub.deliver(finished)
    hub.rank_changed(rank)
    hub.listing.changed(rank.key)


_METHODS: Mapping[type[Message], Callable[[Hub, Rank, Any], None]] = {
    Report: _report,
    Applied: _pass_on,
    Discarded: _pass_on,
    Replied: _pass_on,
    Completions: _pass_on,
    Source: _source,
    Notice: _pass_on,
    Pulse: _pulse,
    Answer: _answer,
    Goodbye: _goodbye,
}
