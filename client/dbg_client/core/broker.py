"""The broker that the user means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

from dbg_client.core.link import BrokerLink
from dbg_client.core.reach import find_reach
from dbg_client.core.switchboard import Switchboard
from dbg_dial.user import user_name
from dbg_wire.errors import printable

MAX_PROGRAM = 60
"""Characters of a program's name, which stands behind its user's."""


def switchboard_to(
    address: str | None,
    seconds: float,
    environ: Mapping[str, str] = os.environ,
    *,
    program: str = "",
    logs: bool = False,
) -> Switchboard:
    """Return a switchboard, not open yet, to ``address`` or to where the environment or ``broker.json`` says.

    One dial takes ``seconds`` at most, and so do the list of ranks and, usually, a question. ``program`` tells other
    users what asks and types here, empty for a terminal. With ``logs`` watchers get the texts of log points, too.
    """
    name = person_name(program)
    return Switchboard(lambda: BrokerLink(partial(find_reach, address, environ), name, seconds, logs=logs), seconds)


def person_name(program: str) -> str:
    """Return by what name other users see this program: ``user@host``, or ``user@host (program)``."""
    shown = " ".join(printable(program.strip(), MAX_PROGRAM).split())
    return f"{user_name()} ({shown})" if shown else user_name()
