"""Processes that say they are a rank that another process has registered as.

A rank's key names its host and process id. Another process may have the same: a container that was started again under
its old name, or a program that has the job's token and pretends. What people type must reach neither unasked.
"""

from __future__ import annotations

from dbg_broker.hub import close_codes, departures, lost_ranks
from dbg_broker.hub.links import RankLink
from dbg_broker.hub.state import Hub
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire import limits
from dbg_wire.messages import RefusalCode, Register
from dbg_wire.records.ranks import RankState


def is_turned_away(hub: Hub, link: RankLink, message: Register) -> bool:
    """Turn away another process than the one that has this rank's key, if that one is there; tell whether it was.

    If that one is gone, the key changes hands: terminals that sat there are told, and may attach again.
    """
    known = hub.registry.find(message.key)
    if known is None or known.is_same_process(message.secret):
        return False
    if _is_there(hub, known):
        text = f"another process is {known.address} already, and it is connected"
        hub.refuse(link.connection, RefusalCode.TAKEN, text)
        link.connection.close(close_codes.DONE, "another process is this rank")
        return True
    former = hub.ranks.get(known.key)
    if former is not None:
        former.connection.abort()
        departures.lost(hub, former.connection)
    if known.state is not RankState.EXITED:
        hub.registry.forget(known)
        lost_ranks.forget(hub, known.key, f"another process is {known.address} by now; attach again to reach that one")
    return False


def _is_there(hub: Hub, known: RankRecord) -> bool:
    former = hub.ranks.get(known.key)
    return former is not None and former.connection.seconds_since_ack() < limits.SILENT_SECONDS
