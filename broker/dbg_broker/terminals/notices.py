"""Notices: what terminals at a rank are told that others do there, and the texts of log points.

No screen shows what others do by questions. Clients that ask for the texts of all ranks' log points are IDEs, which
print them in their consoles.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbg_broker.net import tcp
from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.table import Watcher
from dbg_broker.relay.seats import Seats
from dbg_broker.terminals.actions import VisibleAction
from dbg_broker.terminals.link import TerminalLink
from dbg_wire.errors import printable
from dbg_wire.messages import Logged, Notice
from dbg_wire.messages.weights import FOR_EACH_ONLOOKER

MAX_TEXT = 2000
"""Characters of the text of a log point that clients are sent."""


class Notices(Watcher):
    """Notices to the terminals of ``links``, by number."""

    def __init__(self, seats: Seats, links: Mapping[int, TerminalLink]) -> None:
        self._seats, self._links = seats, links
        self._listeners: dict[int, int] = {}
        """The clients that ask for texts, and how many texts were not sent to each since it was behind."""

    def listen(self, number: int, *, wants: bool) -> None:
        """Note whether a terminal wants the texts of log points from now on."""
        if wants:
            self._listeners.setdefault(number, 0)
        else:
            self._listeners.pop(number, None)

    def notify_onlookers(self, link: TerminalLink, action: VisibleAction, key: str) -> None:
        """Tell all other terminals at a rank what one does there."""
        others = (self._links[number] for number in self._seats.viewers(key))
        onlookers = [other for other in others if not _is_same(link, other)]
        if not onlookers:
            return
        link.connection.charge(FOR_EACH_ONLOOKER * len(onlookers))
        notice = Notice(text=f"{_who(link)} {action.text}", ends_stop=action.ends_stop)
        for onlooker in onlookers:
            # A terminal that is behind gets its screen before news of others.
            if onlooker.connection.is_ready:
                onlooker.connection.send_message(notice)

    def logged(self, rank: RankRecord, notice: Notice) -> None:
        """Send the text of a log point to the terminals at its rank, and to the clients that ask for such texts."""
        seated = [number for number in self._seats.viewers(rank.key) if number not in self._listeners]
        if seated:
            frame = pack_message(notice)
            for number in seated:
                self._links[number].connection.send_control(frame)
        text = notice.text if len(notice.text) <= MAX_TEXT else f"{notice.text[: MAX_TEXT - 1]}…"
        for number, left_out in tuple(self._listeners.items()):
            link = self._links[number]
            if not link.bearer.may_see(rank.identity.job):
                continue
            # A client that is behind gets its list and its answers before the texts of log points.
            is_ready = link.connection.is_ready
            self._listeners[number] = 0 if is_ready else left_out + 1
            if is_ready:
                link.connection.send_message(Logged(key=rank.key, text=text, left_out=left_out))


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
