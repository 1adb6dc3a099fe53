"""Guards: what the guards of ranks say and are asked: commands beside a rank, native stacks, and what NCCL tells.

A guard is no rank and is not listed. It tells that its rank is stuck or suspended, was hit by a fatal signal, or was
ended by one. What it says is kept with the rank; while it stays it answers for the rank. A guard dials only when it has
something to say. While it is not connected the rank is asked, and calls its guard. A command is given to one connection
of a guard and to no other, so that it never runs twice.
"""

from __future__ import annotations

import logging
import signal

from dbg_broker.hub import admission, departures
from dbg_broker.hub.links import RankLink, TerminalLink
from dbg_broker.hub.state import Hub, refuse
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.questions import OpenQuestions, Said, broker_says
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_wire.errors import PeerError, printable
from dbg_wire.messages import (
    GUARD_ACTIONS,
    Action,
    Answer,
    AnswerBody,
    Ask,
    Finding,
    Kind,
    Message,
    Probe,
    Question,
    RefusalCode,
    Testimony,
    body_of,
)
from dbg_wire.records.beside import CommandLine
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import decode_record

MAX_OPEN = 4096
"""Questions to guards that are open at once, over all terminals: each may be a process on a host of the job."""

MAX_ASKS = 64
"""Unanswered questions to one guard that are remembered: one each second for a minute."""

MAX_NAMED = 8
"""Ranks that the log names for one command; more are counted."""

MAX_LOGGED = 300
"""Characters of a command in the log."""

WAITS_FOR_RANK = frozenset({Finding.STUCK, Finding.SUSPENDED})
"""Findings with which a guard answers for its rank."""

logger = logging.getLogger("dbg_broker")


def is_too_much(questions: OpenQuestions, question: Question) -> bool:
    """Tell whether too many questions to guards would be open with this one."""
    if question.action not in GUARD_ACTIONS:
        return False
    return questions.waiting_for(GUARD_ACTIONS) + len(question.keys) > MAX_OPEN


def known_answer(*, is_too_much: bool) -> Said | None:
    """Return why the guard of a rank can't be asked, None if it is to be asked."""
    if not is_too_much:
        return None
    text = f"more than {MAX_OPEN} commands would run at once; name fewer ranks, or one of each host by --per-host"
    return broker_says(Kind.ERROR, text)


def is_readable(question: Question) -> bool:
    """Tell whether an ``exec`` has a command; other actions have none."""
    return question.action is not Action.EXEC or isinstance(question.inquiry, CommandLine)


def note_command(registry: Registry, link: TerminalLink, question: Question, asked: list[str]) -> None:
    """Log who runs which command beside which ranks."""
    if question.action is not Action.EXEC or not asked or not isinstance(question.inquiry, CommandLine):
        return
    ranks = [rank.address for key in asked[:MAX_NAMED] if (rank := registry.find(key)) is not None]
    more = f" and {len(asked) - MAX_NAMED} more" if len(asked) > MAX_NAMED else ""
    command = " ".join(question.inquiry.words)
    who, where = printable(link.name or "?"), printable(", ".join(ranks), MAX_LOGGED)
    logger.info("%s at %s runs %s beside %s", who, link.connection.peer, printable(command, MAX_LOGGED), where + more)


_ASKED_ALIKE = tuple(name for name in Ask.__struct_fields__ if name not in ("request", "seconds"))


def ask_of(question: Question, number: int, seconds: float) -> Ask:
    """Return a question as a rank or its guard is asked."""
    return Ask(request=number, seconds=seconds, **{name: getattr(question, name) for name in _ASKED_ALIKE})


def pass_on(hub: Hub, key: str, ask: Ask) -> None:
    """Ask the guard of a rank, or the rank to call its guard."""
    guard = hub.ranks.guards.get(key)
    if guard is None:
        hub.ranks.send(key, ask)
    elif not give(guard, ask):
        text = f"{MAX_ASKS} questions to its guard are open already"
        hub.answer(key, ask.request, broker_says(Kind.ERROR, text))


def give(guard: RankLink, ask: Ask) -> bool:
    """Give a guard a question, unless too many are open or the guard has this one; return whether there was room."""
    if ask.request in guard.asks:
        return True
    if len(guard.asks) >= MAX_ASKS:
        return False
    guard.asks[ask.request] = ask
    guard.connection.send_message(ask)
    return True


def testify(hub: Hub, link: RankLink, message: Testimony) -> None:
    """Take what a guard has found. Raise PeerError if it breaks the protocol."""
    if link.rank is not None or link.guard_of not in (None, message.key):
        raise PeerError("a `testimony` from somebody else's connection")
    if admission.is_of_other_job(link, message.key, message.registration):
        return
    known = hub.ranks.registry.find(message.key)
    if known is not None and not known.is_same_process(message.secret):
        refuse(link.connection, RefusalCode.TAKEN, f"another process is {known.address}, and this is not its guard")
        link.connection.close(CloseCode.DONE, "it is not the guard of this rank's process")
        return
    rank = known or _enter_unregistered(hub, message)
    if rank is None:
        refuse(link.connection, RefusalCode.NO_SUCH_RANK, f"no rank has the key {message.key!r}")
        link.connection.close(CloseCode.DONE, "this broker does not know the rank")
        return
    if link.guard_of is None:
        link.guard_of = message.key
        hub.welcome(link.connection, rank.address, rank.child)
    former, hub.ranks.guards[message.key] = hub.ranks.guards.get(message.key), link
    if former is not None and former is not link:
        departures.settle_orphaned_asks(hub, former)
    spoke_for_rank, link.finding = link.finding in WAITS_FOR_RANK, message.kind
    logger.info("%s (%s) is found %s by its guard", rank.address, rank.key, message.kind.value)
    if message.kind in WAITS_FOR_RANK:
        departures.fell_silent(hub, rank)
    elif message.kind is not Finding.CALLED:
        _note_signal(rank, message)
    elif spoke_for_rank:
        # The rank goes on, and its guard stays for what it was asked.
        hub.ranks.send(rank.key, Probe(), "probe")
    _take_over(hub, link, message.key)
    hub.ranks.registry.last_words(rank, message.frames or rank.frames, rank.end.detail)
    if message.kind is Finding.ENDED:
        _ended(hub, rank)
        link.connection.close(CloseCode.DONE, "the rank has ended")


def _enter_unregistered(hub: Hub, message: Testimony) -> RankRecord | None:
    """Enter a rank that has not registered, and may never do so."""
    if message.registration is None:
        return None
    registered = hub.ranks.registry.register(message.registration, hub.timers.clock())
    hub.readdress(registered.renamed)
    hub.rank_changed(registered.rank)
    return registered.rank


def receive(hub: Hub, link: RankLink, message: Message) -> None:
    """Take anything else that a guard says. Raise PeerError if it is no answer."""
    if not isinstance(message, Answer) or link.guard_of is None:
        raise PeerError("a guard says nothing but `testimony` and `answer`")
    if message.kind not in (Kind.VALUE, Kind.ERROR):
        raise PeerError(f"an answer of kind {message.kind.value!r} from a guard")
    ask = link.asks.pop(message.request, None)
    said = Said(message.kind, bytes(message.body), message.age)
    rank = hub.ranks.registry.find(link.guard_of)
    if rank is not None and (ask is None or ask.action not in GUARD_ACTIONS):
        # It tells of the Python stack that the rank is remembered by.
        said = _with_stack(hub, rank, said)
    hub.answer(link.guard_of, message.request, said)


def _with_stack(hub: Hub, rank: RankRecord, said: Said) -> Said:
    """Remember the stack of a guard's answer, or return the answer with the one that is known."""
    try:
        body: AnswerBody = decode_record(AnswerBody, said.body)
    except InvalidMessage as error:
        raise PeerError(f"an answer of a guard that can't be read: {error}") from None
    if body.frames:
        hub.ranks.registry.last_words(rank, body.frames, rank.end.detail)
        return said
    return said._replace(body=bytes(body_of(body.replace(frames=rank.frames))))


def _take_over(hub: Hub, guard: RankLink, key: str) -> None:
    """Ask the guard what is the guard's, and the stacks of a rank that fell silent before it could answer."""
    if guard.finding is Finding.ENDED:
        return
    actions = GUARD_ACTIONS | {Action.WHERE} if guard.finding in WAITS_FOR_RANK else GUARD_ACTIONS
    now = hub.timers.clock()
    for number, one in hub.ranks.questions.open_about(key):
        if one.question.action in actions:
            pass_on(hub, key, ask_of(one.question, number, max(0.0, one.ends - now)))


def _note_signal(rank: RankRecord, message: Testimony) -> None:
    cause = message.cause or (rank.end.cause if message.signal == signal.SIGKILL else "")
    rank.end.signal, rank.end.cause, rank.end.status = message.signal, cause, message.exit
    if message.core.startswith("|"):
        rank.end.core = f"core handed to {message.core[1:]}"
    elif message.core:
        rank.end.core = f"core likely at {message.core}"


def _ended(hub: Hub, rank: RankRecord) -> None:
    """Enter how a rank's process has ended; the guard knows it from the kernel, so it counts for more."""
    own = hub.ranks.links.get(rank.key)
    if own is not None:
        # Its connection ends in a moment, too; all that the rank had to say came before its guard's message.
        own.connection.abort()
        departures.connection_closed(hub, own.connection)
    elif rank.is_live:
        departures.mark_disconnected(hub, rank)
    if rank.state is RankState.LOST:
        hub.ranks.registry.found_dead(rank, hub.timers.clock())
        hub.rank_changed(rank)
    hub.ranks.registry.killed(rank)
    hub.terminals.listing.changed(rank.key)
    departures.note_failure(hub, rank)
