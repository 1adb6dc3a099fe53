"""A link to the broker that the user means."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dbg_dial.user import user_name

from .link import BrokerLink
from .reach import find_reach


def link_to_broker(address: str | None, seconds: float, environ: Mapping[str, str] = os.environ) -> BrokerLink:
    """Return a link, not open yet, to ``address`` or to where the environment or ``broker.json`` says the broker is.

    One dial takes ``seconds`` at most.
    """
    return BrokerLink(lambda: find_reach(address, environ), user_name(), seconds)
