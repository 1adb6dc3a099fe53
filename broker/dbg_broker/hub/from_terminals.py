"""What terminals say, and what the broker does about it: one function for each message.

A watcher's token gets no further than looking, whatever its terminal sends.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dbg_broker.home.tokens import Role
from dbg_broker.hub import from_guards as witnesses
from dbg_broker.hub import from_line_terminals as prompts
from dbg_broker.hub.from_line_terminals import FOR_DRIVERS
from dbg_broker.hub.links import TerminalLink
from dbg_broker.ranks.questions import TooMuchWaits
from dbg_broker.ranks.registry import Rank
from dbg_broker.terminals.glances import FOR_WATCHERS
from dbg_broker.terminals.seats import Verdict
from dbg_wire import limits
from dbg_wire.codec import Input, decode_data
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    Action,
    Ask,
    Attach,
    Complete,
    Detach,
    Dial,
    Discarded,
    Greet,
    Interrupt,
    Kind,
    Message,
    Mode,
    Question,
    RankAnswer,
    RefusalCode,
    Repaint,
    Replay,
    Reply,
    Resize,
    Sender,
    Subscribe,
    Take,
)
from dbg_wire.ranks import RankState
from dbg_wire.records import fitted

if TYPE_CHECKING:
    from dbg_broker.hub.hub import Hub

MAX_QUESTIONS = 16
"""Questions of one terminal that are open or not yet read: nobody asks more at once."""

CONTROL_RESERVE = 128 * limits.KIB
"""Bytes of a rank's queue that input leaves free, so that a rank which doesn't read still gets what it is told."""

NEEDS_STOP = frozenset({Action.CONTINUE, Action.SCREEN, Action.EVAL, Action.COMMAND})

NOBODY = 0
"""Number of a question whose answer is not waited for; gather counts from one."""

_ONLY_DRIVERS = "this token may only watch; `dbg-broker token --role driver` prints one that may type"


def take(hub: Hub, link: TerminalLink, message: Message) -> None:
    """Do what a terminal's message asks. Raise PeerError if it breaks the protocol."""
    if isinstance(message, Greet):
        _greet(hub, link, message)
    elif link.name is None:
        raise PeerError("the first message of a terminal is not `greet`")
    elif link.role is Role.WATCHER and not _may_watcher(message):
        hub.refuse(link.connection, RefusalCode.ROLE, _ONLY_DRIVERS)
    else:
        _METHODS[type(message)](hub, link, message)


def take_input(hub: Hub, link: TerminalLink, data: bytes) -> None:
    """Pass keys on to the rank, if this terminal types there. Raise PeerError if they are none."""
    if link.name is None:
        raise PeerError("terminal bytes before `greet`")
    keys = decode_data(data, Sender.CLIENT)
    if not isinstance(keys, Input):
        raise PeerError("a binary frame that no client sends")
    if link.role is Role.WATCHER:
        hub.refuse(link.connection, RefusalCode.ROLE, _ONLY_DRIVERS)
        return
    verdict = hub.sessions.judge_input(link.number, keys.generation)
    if verdict is Verdict.NOT_ATTACHED:
        _refuse_not_attached(hub, link)
    elif verdict is Verdict.NOT_DRIVING:
        text = "another terminal types at this rank; take the keyboard first"
        hub.refuse(link.connection, RefusalCode.NOT_DRIVING, text)
    elif verdict is Verdict.STALE:
        _discard(hub, link, keys, "it was typed for an earlier turn at the keyboard")
    else:
        _relay(hub, link, keys, data)


def _may_watcher(message: Message) -> bool:
    if isinstance(message, Attach):
        return message.mode is Mode.WATCH
    if isinstance(message, Question):
        return message.action in FOR_WATCHERS
    return not isinstance(message, (Take, Dial, *FOR_DRIVERS))


def _relay(hub: Hub, link: TerminalLink, keys: Input, data: bytes) -> None:
    viewer = hub.sessions.viewer(link.number)
    rank_link = hub.ranks.get(viewer.key) if viewer else None
    if rank_link is None:
        # A lost rank may come back: the terminal keeps what isn't settled, and its new seat tells it what to do.
        return
    if rank_link.connection.send_data(data, CONTROL_RESERVE):
        hub.meters.bytes_to_ranks += len(keys.data)
    else:
        _discard(hub, link, keys, "the rank does not read")


def _discard(hub: Hub, link: TerminalLink, keys: Input, reason: str) -> None:
    count = len(keys.data)
    message = fitted(Discarded, generation=keys.generation, offset=keys.offset + count, count=count, reason=reason)
    hub.send(link.connection, message)


def _greet(hub: Hub, link: TerminalLink, message: Greet) -> None:
    if link.name is not None:
        raise PeerError("a second `greet`")
    link.name = message.name
    hub.welcome(link.connection)


def _subscribe(hub: Hub, link: TerminalLink, message: Subscribe) -> None:
    link.feed.subscribe(hub.registry.keys(), once=message.once)
    hub.listing.supply(link)


def _attach(hub: Hub, link: TerminalLink, message: Attach) -> None:
    rank = hub.registry.find(message.key)
    if rank is None:
        text = f"no rank has the key {message.key!r}"
        hub.refuse(link.connection, RefusalCode.NO_SUCH_RANK, text)
    elif rank.state is RankState.EXITED:
        hub.refuse(link.connection, RefusalCode.GONE, f"{rank.address} has exited{_with_status(rank)}")
    elif hub.sessions.is_full(message.key, link.number) and not _makes_room(hub, rank, message):
        text = f"{rank.address} has {limits.MAX_VIEWERS_PER_RANK} terminals already"
        hub.refuse(link.connection, RefusalCode.FULL, text)
    else:
        name = link.name or "?"
        hub.carry_out(hub.sessions.attach(link.number, name, message, rank.report.generation))
        if rank.report.session is not None:
            hub.want_repaint(rank.key)


def _makes_room(hub: Hub, rank: Rank, message: Attach) -> bool:
    """Tell whether a terminal gets a seat where no more may look: as the driver, for whom a watcher may have to go."""
    if hub.sessions.driver(rank.key) is None:
        return message.mode is not Mode.WATCH
    if message.mode is not Mode.TAKE and message.resume is None:
        return False
    looking = list(hub.sessions.last_to_look(rank.key))
    # Watchers' tokens go first: the others came to type, and wait for the keyboard.
    gives_way = next((number for number in looking if hub.terminals[number].role is Role.WATCHER), looking[0])
    hub.give_way(gives_way, f"{rank.address} has as many terminals as it may, and one that types came")
    return True


def _take(hub: Hub, link: TerminalLink, _: Take) -> None:
    rank = _rank_of(hub, link)
    if rank is not None:
        hub.carry_out(hub.sessions.take(link.number, rank.report.generation))


def _detach(hub: Hub, link: TerminalLink, _: Detach) -> None:
    hub.carry_out(hub.sessions.leave(link.number))


def _resize(hub: Hub, link: TerminalLink, message: Resize) -> None:
    if _rank_of(hub, link) is not None:
        hub.carry_out(hub.sessions.resize(link.number, message.rows, message.columns))


def _repaint(hub: Hub, link: TerminalLink, _: Repaint) -> None:
    rank = _rank_of(hub, link)
    if rank is not None:
        hub.want_repaint(rank.key)


def _dial(hub: Hub, link: TerminalLink, message: Dial) -> None:
    if hub.classic is None:
        hub.refuse(link.connection, RefusalCode.CANT_DIAL, "this broker dials nobody")
    else:
        hub.classic.dial(link.number, message.host, message.port)


def _question(hub: Hub, link: TerminalLink, message: Question) -> None:
    if hub.gather.open_of(link.number) + len(link.answers) >= MAX_QUESTIONS:
        text = f"{MAX_QUESTIONS} questions are open already; wait for their answers"
        hub.refuse(link.connection, RefusalCode.FULL, text)
        return
    now = hub.clock()
    known = {key: said for key in message.keys if (said := _known_answer(hub, key, message)) is not None}
    try:
        number, to_ask = hub.gather.ask(link.number, message, known, now)
    except TooMuchWaits as error:
        hub.refuse(link.connection, RefusalCode.FULL, str(error))
        return
    hub.bound_answers()
    if not hub.gather.is_open(number):
        # This terminal had most, and is closed.
        return
    seconds = hub.gather.deadline(number) - now
    if link.role is Role.WATCHER:
        for key in to_ask:
            _glance(hub, key, _ask_of(message, number, seconds))
    else:
        _pass_on(hub, _ask_of(message, number, seconds), to_ask, known)
    if not to_ask:
        _end_question(hub, number)
    elif hub.gather.is_open(number):
        # An answer that is here already, and waits for its turn, counts.
        hub.schedule(seconds, partial(hub.turns.after, partial(_end_question, hub, number)))


def _ask_of(message: Question, number: int, seconds: float) -> Ask:
    return Ask(
        request=number,
        action=message.action,
        rows=max(limits.MIN_ROWS, min(message.rows, limits.MAX_ROWS)),
        columns=max(limits.MIN_COLUMNS, min(message.columns, limits.MAX_COLUMNS)),
        seconds=seconds,
        text=message.text,
        live=message.live,
        stats=message.stats,
        parts=message.parts,
        withdrawn=message.withdrawn,
    )


def _pass_on(hub: Hub, ask: Ask, to_ask: Iterable[str], known: Iterable[str]) -> None:
    """Pass a question on to the ranks that are to be asked; a break-in also to those that can't answer it now."""
    for key in to_ask:
        witnesses.ask(hub, hub.registry.find(key), key, ask)
        hub.attend(key)
    if ask.action is Action.INTERRUPT:
        for key in known:
            # Stuck in C code, it stops when it comes out of that; nobody waits for its answer by then.
            hub.tell_rank(key, replace(ask, request=NOBODY))


def _glance(hub: Hub, key: str, ask: Ask) -> None:
    """Answer a watcher by what a rank said a moment ago, or ask the rank when that may be."""
    known = hub.glances.known(key, ask, hub.clock())
    if known is not None:
        finished = hub.gather.answer(key, known)
        if finished is not None:
            hub.deliver(finished)
        return
    wait = hub.glances.wait(key, ask, hub.clock())
    if wait is not None:
        hub.schedule(wait, partial(_pass_on, hub, ask, (key,), ()))


def _end_question(hub: Hub, number: int) -> None:
    finished = hub.gather.finish(number)
    if finished is not None:
        hub.deliver(finished)


def _known_answer(hub: Hub, key: str, question: Question) -> RankAnswer | None:
    """Return what the broker can say itself, or None if the rank is to be asked."""
    rank = hub.registry.find(key)
    if rank is None:
        return RankAnswer(key=key, kind=Kind.LOST, text="no rank has this key")
    frames = rank.frames if question.action is Action.WHERE else ()
    if rank.state is RankState.EXITED:
        return RankAnswer(key=key, kind=Kind.LOST, text=_how_it_ended(rank), frames=frames)
    if rank.state is RankState.LOST:
        return RankAnswer(key=key, kind=Kind.LOST, text="its connection is lost", frames=frames)
    if rank.state is RankState.UNRESPONSIVE and question.action is Action.WHERE and key not in hub.witnesses:
        age = hub.clock() - rank.heard
        return RankAnswer(key=key, kind=Kind.VALUE, text=f"unresponsive, last seen {age:.0f} s ago", frames=frames)
    if rank.state is RankState.UNRESPONSIVE and question.action is Action.INTERRUPT:
        if question.withdrawn:
            return RankAnswer(key=key, kind=Kind.VALUE, text="goes on")
        age = hub.clock() - rank.heard
        text = f"in C code{_place(rank, ' at ')}, unresponsive for {age:.0f} s; stops on return"
        return RankAnswer(key=key, kind=Kind.RUNNING, text=text)
    if question.action in NEEDS_STOP and not rank.halted and not question.live:
        return RankAnswer(key=key, kind=Kind.RUNNING, text=f"running{_place(rank, ', ')}")
    if question.action is Action.RELEASE and rank.state is not RankState.HELD:
        return RankAnswer(key=key, kind=Kind.ERROR, text=f"{rank.state.value}, not held")
    return None


def _place(rank: Rank, before: str) -> str:
    return f"{before}{rank.place.file}:{rank.place.line}" if rank.place is not None else ""


def _rank_of(hub: Hub, link: TerminalLink) -> Rank | None:
    """Return the rank where a terminal sits; it is refused if it sits nowhere."""
    viewer = hub.sessions.viewer(link.number)
    rank = hub.registry.find(viewer.key) if viewer else None
    if rank is None:
        _refuse_not_attached(hub, link)
    return rank


def _refuse_not_attached(hub: Hub, link: TerminalLink) -> None:
    hub.refuse(link.connection, RefusalCode.NOT_ATTACHED, "this terminal is not attached to a rank")


def _how_it_ended(rank: Rank) -> str:
    if rank.exit is not None and rank.exit < 0:
        try:
            return f"killed by {signal.Signals(-rank.exit).name}"
        except ValueError:
            return f"killed by signal {-rank.exit}"
    return f"exited{_with_status(rank)}"


def _with_status(rank: Rank) -> str:
    return "" if rank.exit is None else f" with status {rank.exit}"


_METHODS: Mapping[type[Message], Callable[[Hub, TerminalLink, Any], None]] = {
    Subscribe: _subscribe,
    Attach: _attach,
    Take: _take,
    Detach: _detach,
    Resize: _resize,
    Repaint: _repaint,
    Question: _question,
    Reply: prompts.pass_on,
    Complete: prompts.pass_on,
    Interrupt: prompts.pass_on,
    Replay: prompts.replay,
    Dial: _dial,
}
