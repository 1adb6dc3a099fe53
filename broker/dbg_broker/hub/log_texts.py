"""The texts of log points, for clients that ask for those of all ranks: an IDE prints them in its console."""

from __future__ import annotations

from functools import partial

from dbg_broker.hub.state import Hub
from dbg_broker.net.budgets import Budget, Payer
from dbg_broker.net.frames import pack_message
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.terminals.log_listeners import MAX_TEXT, LogPace
from dbg_wire.messages import Logged, Notice

LAST_SECONDS = 0.5
"""Seconds after which the last text of a flood is sent if it was left out, so that the count of the others is told."""


def tell(hub: Hub, rank: RankRecord, notice: Notice) -> None:
    """Send the text of a rank's log point to the terminals at the rank, and to the clients that ask for such texts."""
    seated = [number for number in hub.seats.viewers(rank.key) if number not in hub.log_listeners.behind]
    if seated:
        frame = pack_message(notice)
        for number in seated:
            hub.terminals[number].connection.send_control(frame)
    if hub.log_listeners.behind:
        text = notice.text
        _tell_listeners(hub, rank, text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…")


def _tell_listeners(hub: Hub, rank: RankRecord, text: str) -> None:
    now = hub.clock()
    pace = hub.log_listeners.pace(rank.said.job, now)
    if hub.log_listeners.may_send(pace, now):
        _send(hub, rank.key, text, pace.left_out())
        return
    hub.meters.budgets.hit(Payer.RANK, Budget.LOGS)
    if pace.leave_out(rank.key, text):
        hub.schedule(LAST_SECONDS, partial(_send_last, hub, pace))


def _send_last(hub: Hub, pace: LogPace) -> None:
    if (last := pace.last()) is not None:
        _send(hub, last.key, last.text, last.before)


def _send(hub: Hub, key: str, text: str, left_out: int) -> None:
    behind = hub.log_listeners.behind
    for number, missed in tuple(behind.items()):
        link = hub.terminals.get(number)
        if link is None or not hub.listing.may_see(link, key):
            continue
        left_out_here = left_out + missed
        # A client that is behind gets its list and its answers before the texts of log points.
        is_ready = link.connection.is_ready
        behind[number] = 0 if is_ready else left_out_here + 1
        if is_ready:
            link.connection.send_message(Logged(key=key, text=text, left_out=left_out_here))
