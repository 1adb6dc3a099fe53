"""Where the broker is, as terminals find it."""

from __future__ import annotations

from collections.abc import Mapping

from dbg_dial.endpoint import Reach
from dbg_dial.find import Opening, Seeker, find_broker


def find_reach(broker: str | None, environ: Mapping[str, str], opening: Opening = lambda path: None) -> Reach:
    """Return where the broker is, with the terminal's token, read anew at each call.

    Blocks for small files, and ``opening`` gets the path of each before. Raises NoBroker, BadInput, BadEndpoint or
    BadSecretFile for what the user has to mend, and WrongHost if broker.json names the loopback of another host.
    """
    return find_broker(Seeker(role="driver", argument_name="--broker", opening=opening), broker, environ)
