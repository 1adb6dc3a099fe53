"""What ranks say, and what the broker does about it: one function for each message."""

from __future__ import annotations

import logging
import signal
import struct
from collections.abc import Callable, Mapping
from typing import Any

from dbg_broker.hub import admission, departures, guards, notices
from dbg_broker.hub.links import RankLink
from dbg_broker.hub.state import Hub
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.questions import Said
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire import limits
from dbg_wire.codec import encode
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    Answer,
    Applied,
    Completions,
    Discarded,
    Goodbye,
    Message,
    Notice,
    Probe,
    Pulse,
    Register,
    Replied,
    Report,
    Source,
    Testimony,
)
from dbg_wire.messages.weights import MAX_BYTES
from dbg_wire.tables.collectives import collective_of

logger = logging.getLogger("dbg_broker")

PULSE_BEGINS = encode(Pulse(where=None)).partition(",")[0]
"""How a pulse begins on the wire; one that another agent begins otherwise is read at once."""

OUTPUT_KIND = 1
OUTPUT_HEADER = struct.calcsize(">BIQ")


def receive(hub: Hub, link: RankLink, message: Message) -> None:
    """Do what a rank's message asks. Raise PeerError if it breaks the protocol."""
    if isinstance(message, Testimony):
        guards.testify(hub, link, message)
        return
    if link.guard_of is not None:
        guards.receive(hub, link, message)
        return
    if isinstance(message, Register):
        _register(hub, link, message)
        return
    if link.rank is None:
        raise PeerError("the first message of a rank is not `register`")
    _heard(hub, link.rank)
    _METHODS[type(message)](hub, link.rank, message)


def keeps_unread(hub: Hub, link: RankLink, text: str) -> bool:
    """Take a message as it came, if it is a pulse that changes nothing and that nobody watches; return whether it is.

    What such a pulse tells at once is that its rank's interpreter runs.
    """
    rank = link.rank
    if rank is None or not text.startswith(PULSE_BEGINS) or len(text) > MAX_BYTES[Pulse]:
        return False
    if rank.steps or rank.waits_in or hub.terminals.seats.is_attended(rank.key):
        return False
    _heard(hub, rank)
    rank.keep_pulse(text)
    return True


def receive_output(hub: Hub, link: RankLink, data: bytes) -> None:
    """Pass terminal bytes on, unread. Raise PeerError if they are none."""
    if link.rank is None:
        raise PeerError("terminal bytes before `register`")
    if len(data) < OUTPUT_HEADER or data[0] != OUTPUT_KIND:
        raise PeerError("a binary frame that no agent sends")
    if len(data) > OUTPUT_HEADER + limits.MAX_DATA_BYTES:
        raise PeerError(f"a binary frame of {len(data)} bytes, above {OUTPUT_HEADER + limits.MAX_DATA_BYTES}")
    _heard(hub, link.rank)
    hub.relay_output(link.rank.key, data)


def _register(hub: Hub, link: RankLink, message: Register) -> None:
    now = hub.timers.clock()
    if link.rank is not None and link.rank.key != message.identity.key:
        raise PeerError("a second `register` with another key")
    if admission.is_of_other_job(link, message.identity.key, message) or admission.is_impostor(hub, link, message):
        return
    registration = hub.ranks.registry.register(message, now)
    rank = registration.rank
    if registration.gone is not None:
        departures.forget(hub, registration.gone, f"its process is {rank.address} of job {rank.identity.job} by now")
    former = hub.ranks.links.get(rank.key)
    if former is not None and former is not link:
        _replace(hub, former, rank.key)
    link.rank = rank
    hub.ranks.links[rank.key] = link
    hub.ranks.liveness.probes.add(rank.key, now)
    hub.welcome(link.connection, rank.address, rank.child)
    hub.readdress(registration.renamed)
    hub.ranks.came_back(rank.key)
    hub.rank_changed(rank)
    hub.carry_out(hub.terminals.seats.rank_came(rank.key, message.report.generation))
    if message.report.session is not None and hub.terminals.seats.viewers(rank.key):
        # What it drew while it had no connection has reached no terminal.
        hub.ranks.want_repaint(rank.key)
    logger.info("%s (%s) is %s", rank.address, rank.key, rank.state.value)


def _replace(hub: Hub, former: RankLink, key: str) -> None:
    """Close a rank's former connection after a newer one took over; its open questions stay without an answer."""
    former.rank = None
    former.connection.close(CloseCode.REPLACED, "a newer connection of this rank took over")
    hub.rank_ended(key, "it connected anew", hub.ranks.given_to_guard(key))


def _heard(hub: Hub, rank: RankRecord) -> None:
    now = hub.timers.clock()
    # The rank lives: the program has caught the signal that seemed to end it, as some do with their own faults.
    rank.end.signal = None
    hub.ranks.liveness.probes.heard(rank.key, now)
    if hub.ranks.registry.heard(rank, now):
        hub.rank_changed(rank)


def _report(hub: Hub, rank: RankRecord, message: Report) -> None:
    is_listed_anew = hub.ranks.registry.report(rank, message.report, hub.timers.clock())
    hub.rank_changed(rank, is_listed_anew=is_listed_anew)
    hub.terminals.send(rank.key, message)
    if not rank.steps:
        rank.waits_in = ""
    elif (link := hub.ranks.links.get(rank.key)) is not None:
        # Its stack says whether the step has gone into a collective that waits for others.
        link.connection.send_message(Probe(), "probe")


def _pass_on(hub: Hub, rank: RankRecord, message: Applied | Discarded | Replied | Completions) -> None:
    hub.terminals.send(rank.key, message)


def _notice(hub: Hub, rank: RankRecord, message: Notice) -> None:
    if message.is_log:
        notices.send_log(hub, rank, message)
    else:
        hub.terminals.send(rank.key, message)


def _pulse(hub: Hub, rank: RankRecord, message: Pulse) -> None:
    rank.note_pulse(message)
    waits_in = collective_of(message.frames) if rank.steps else ""
    if waits_in != rank.waits_in:
        rank.waits_in = waits_in
        hub.terminals.listing.changed(rank.key)
    hub.terminals.send(rank.key, message, "pulse")


def _source(hub: Hub, rank: RankRecord, message: Source) -> None:
    hub.terminals.send(rank.key, message, "source")


def _answer(hub: Hub, rank: RankRecord, message: Answer) -> None:
    hub.answer(rank.key, message.request, Said(message.kind, bytes(message.body), message.age))


def _goodbye(hub: Hub, rank: RankRecord, message: Goodbye) -> None:
    hub.ranks.registry.goodbye(rank, message.exit, hub.timers.clock())
    if message.frames or message.detail:
        hub.ranks.registry.last_words(rank, message.frames, message.detail)
    if message.exit == -signal.SIGKILL and rank.end.cause:
        rank.end.signal = signal.SIGKILL
        hub.ranks.registry.killed(rank)
    hub.ranks.liveness.probes.remove(rank.key)
    hub.rank_ended(rank.key, "the process has ended")
    hub.rank_changed(rank)
    departures.note_failure(hub, rank)


_METHODS: Mapping[type[Message], Callable[[Hub, RankRecord, Any], None]] = {
    Report: _report,
    Applied: _pass_on,
    Discarded: _pass_on,
    Replied: _pass_on,
    Completions: _pass_on,
    Source: _source,
    Notice: _notice,
    Pulse: _pulse,
    Answer: _answer,
    Goodbye: _goodbye,
}
