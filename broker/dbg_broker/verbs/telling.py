"""Tell the broker that serves a home that its tokens or its certificate have changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dbg_broker.home.bearer import Role
from dbg_broker.home.rendezvous import read_rendezvous
from dbg_broker.verbs.probe import reload_tokens
from dbg_broker.verbs.which_broker import token_of
from dbg_wire.errors import BrokerUnreachable, printable

TELL_SECONDS = 5.0
"""Seconds given to a broker that serves to take a change of its tokens or its certificate."""


def tell_broker(home: Path, aside: Callable[[str], None], *, driver: str | None = None) -> str:
    """Have the broker that serves this home read both anew; return the end of a sentence, empty if it was not told.

    ``driver`` is the driver's token that the broker still knows, None for the home's. Raise DbgError if that can't be
    found.
    """
    serving = read_rendezvous(home)
    if serving is None:
        return ""
    try:
        reload_tokens(serving.endpoint, driver or token_of(Role.DRIVER, home), TELL_SECONDS)
    except BrokerUnreachable as error:
        aside(
            f"the broker at {printable(serving.url)} takes the change at its next start, as it can't be told: {error}"
        )
        return ""
    return ", and the broker that serves has been told"
