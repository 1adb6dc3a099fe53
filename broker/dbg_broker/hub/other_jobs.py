"""Ranks and guards whose token is for another job than they say they are of."""

from __future__ import annotations

from dbg_broker.hub import close_codes
from dbg_broker.hub.links import RankLink
from dbg_broker.hub.state import Hub
from dbg_wire.messages import RefusalCode


def is_turned_away(hub: Hub, link: RankLink, key: str, job: str | None) -> bool:
    """Turn away a rank or guard that its token does not admit to a job; tell whether it was turned away.

    ``key`` is the rank's, which must not be one of another job, and ``job`` what it says, None if it says nothing.
    """
    known = hub.registry.find(key)
    jobs = [one for one in (job, known.said.job if known is not None else None) if one is not None]
    other = next((one for one in jobs if not link.bearer.may_see(one)), None)
    if other is None:
        return False
    text = f"the token is for ranks of job {link.bearer.job}, and this one is of job {other}"
    hub.refuse(link.connection, RefusalCode.ROLE, text)
    link.connection.close(close_codes.DONE, "its token is for another job")
    return True
