"""Notices: what terminals at a rank are told that others do there, and the texts of log points.

No screen shows what others do by questions. Clients that ask for the texts of all ranks' log points are IDEs, which
print them in their consoles.
"""

from __future__ import annotations

from functools import partial

from dbg_broker.hub.links import TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.net import tcp
from dbg_broker.net.metrics import Budget, Payer
from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.terminals.notices import MAX_TEXT, SECONDS_FOR_ONE, LogPace, NoticePace, NoticePaces, VisibleAction
from dbg_wire.errors import printable
from dbg_wire.messages import Logged, Notice

DEED_COST = 64
"""Bytes that each terminal that is told counts for the one that does something: 4,000 terminals a second."""

LAST_SECONDS = 0.5
"""Seconds after which the last text of a flood is sent if it was left out, so that the count of the others is told."""


def notify_onlookers(hub: Hub, link: TerminalLink, action: VisibleAction, key: str) -> None:
    """Tell all other terminals at a rank what one does there, within the pace of each."""
    numbers = [number for number in hub.terminals.seats.viewers(key) if not _is_same(link, hub.terminals.links[number])]
    if not numbers:
        return
    hub.connections.charge(link.connection, link.rate, DEED_COST * len(numbers))
    for number in numbers:
        _notify(hub, hub.terminals.links[number], key, link, action)


def _notify(hub: Hub, onlooker: TerminalLink, key: str, link: TerminalLink, action: VisibleAction) -> None:
    now, sentence = hub.timers.clock(), f"{_who(link)} {action.text}"
    if onlooker.notices is None or onlooker.notices.key != key:
        onlooker.notices = NoticePaces(key)
    pace = onlooker.notices.of(link.number, action, now)
    # A terminal that is behind gets its screen before news of others.
    if onlooker.connection.is_ready and pace.may_tell(now):
        onlooker.connection.send_message(Notice(text=sentence, ends_stop=action.ends_stop))
        return
    hub.connections.meters.budgets.hit(Payer.DRIVER, Budget.DEEDS)
    wait = pace.count(sentence, now)
    if wait is not None:
        hub.timers.schedule(wait, partial(_notify_more, hub, onlooker, onlooker.notices, pace))


def _notify_more(hub: Hub, onlooker: TerminalLink, notices: NoticePaces, pace: NoticePace) -> None:
    viewer = hub.terminals.seats.viewer(onlooker.number)
    if viewer is None or onlooker.notices is not notices or viewer.key != notices.key:
        # It has left the rank, and what was counted there is of no use at another one.
        return
    if not onlooker.connection.is_ready:
        hub.timers.schedule(SECONDS_FOR_ONE, partial(_notify_more, hub, onlooker, notices, pace))
    elif (sentence := pace.more(hub.timers.clock())) is not None:
        onlooker.connection.send_message(Notice(text=sentence))


def _who(link: TerminalLink) -> str:
    """Return who does something: what the terminal calls itself is in quotes, as in the audit log."""
    name = f'"{printable(link.name or "?").replace(chr(34), chr(39))}"'
    return f"{name} ({printable(link.bearer.name)})" if link.bearer.name else name


def _is_same(link: TerminalLink, other: TerminalLink) -> bool:
    """Tell whether two connections are of one program, which has several of one name: it knows what it does."""
    if link.number == other.number:
        return True
    if link.name != other.name or not (link.name or "").endswith(")"):
        return False
    return link.bearer == other.bearer and tcp.host_of(link.connection.peer) == tcp.host_of(other.connection.peer)


def send_log(hub: Hub, rank: RankRecord, notice: Notice) -> None:
    """Send the text of a rank's log point to the terminals at the rank, and to the clients that ask for such texts."""
    seated = [
        number for number in hub.terminals.seats.viewers(rank.key) if number not in hub.terminals.log_listeners.behind
    ]
    if seated:
        frame = pack_message(notice)
        for number in seated:
            hub.terminals.links[number].connection.send_control(frame)
    if hub.terminals.log_listeners.behind:
        text = notice.text
        _send_to_listeners(hub, rank, text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…")


def _send_to_listeners(hub: Hub, rank: RankRecord, text: str) -> None:
    now = hub.timers.clock()
    pace = hub.terminals.log_listeners.pace(rank.identity.job, now)
    if hub.terminals.log_listeners.may_send(pace, now):
        _send(hub, rank.key, text, pace.left_out())
        return
    hub.connections.meters.budgets.hit(Payer.RANK, Budget.LOGS)
    if pace.leave_out(rank.key, text):
        hub.timers.schedule(LAST_SECONDS, partial(_send_last, hub, pace))


def _send_last(hub: Hub, pace: LogPace) -> None:
    if (last := pace.last()) is not None:
        _send(hub, last.key, last.text, last.before)


def _send(hub: Hub, key: str, text: str, left_out: int) -> None:
    terminals = hub.terminals
    behind = terminals.log_listeners.behind
    for number, missed in tuple(behind.items()):
        link = terminals.links.get(number)
        if link is None or not terminals.listing.may_see(link, key):
            continue
        left_out_here = left_out + missed
        # A client that is behind gets its list and its answers before the texts of log points.
        is_ready = link.connection.is_ready
        behind[number] = 0 if is_ready else left_out_here + 1
        if is_ready:
            link.connection.send_message(Logged(key=key, text=text, left_out=left_out_here))
