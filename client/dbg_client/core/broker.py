"""The broker that the user means."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dbg_dial.user import user_name

from .link import BrokerLink
from .reach import find_reach
from .switchboard import Switchboard


def switchboard_to(
    address: str | None, seconds: float, environ: Mapping[str, str] = os.environ, *, program: str = ""
) -> Switchboard:
    """Return a switchboard, not open yet, to ``address`` or to where the environment or ``broker.json`` says.

    ``program`` is named behind the user where terminals read who types; empty for a terminal.

    One dial takes ``seconds`` at most, and so do the list of ranks and, usually, a question.
    """
    name = f"{user_name()} ({program})" if program else user_name()
    return Switchboard(lambda: BrokerLink(lambda: find_reach(address, environ), name, seconds), seconds)
