"""Ranks and guards whose token is for another job than they say they are of."""

from __future__ import annotations

from dbg_broker.hub import close_codes
from dbg_broker.hub.links import RankLink
from dbg_broker.hub.state import Hub
from dbg_wire.errors import PeerError
from dbg_wire.messages import RefusalCode, Register


def is_turned_away(hub: Hub, link: RankLink, key: str, said: Register | None) -> bool:
    """Turn away a rank or guard that its token does not admit to a job; tell whether it was turned away.

    ``key`` is that of the rank of which it speaks, and ``said`` the rank's registration, if it brings one. Raise
    PeerError if the key does not name the job: nobody takes a key that the true rank of another job would come with.
    """
    jobs = [key.partition("/")[0], *([] if said is None else [said.job])]
    other = next((job for job in jobs if not link.bearer.may_see(job)), None)
    if other is not None:
        text = f"the token is for ranks of job {link.bearer.job}, and this one is of job {other}"
        hub.refuse(link.connection, RefusalCode.ROLE, text)
        link.connection.close(close_codes.DONE, "its token is for another job")
        return True
    if len(set(jobs)) > 1:
        raise PeerError("register.key does not begin with the rank's job and a slash")
    return False
