"""The broker that the user means."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dbg_dial.user import user_name

from .link import BrokerLink
from .reach import find_reach
from .switchboard import Switchboard


def switchboard_to(address: str | None, seconds: float, environ: Mapping[str, str] = os.environ) -> Switchboard:
    """Return a switchboard, not open yet, to ``address`` or to where the environment or ``broker.json`` says.

    One dial takes ``seconds`` at most, and so do the list of ranks and, usually, a question.
    """
    return Switchboard(lambda: BrokerLink(lambda: find_reach(address, environ), user_name(), seconds), seconds)
