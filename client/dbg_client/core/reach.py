"""Where the broker is, as terminals find it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from dbg_dial.endpoint import Reach
from dbg_dial.find import PIPE_SECONDS, Opening, Seeker, find_broker, read_secret

# A token may come from a command, as in `DBG_TOKEN_FILE=<(pass show broker)`.
_read = partial(read_secret, pipe_seconds=PIPE_SECONDS)

_TO_READ_IT = "make it readable, or name the broker with --broker"

AUDIT_FILE = "audit.jsonl"
"""Where a broker notes in its home who did what."""


def find_reach(broker: str | None, environ: Mapping[str, str], opening: Opening) -> Reach:
    """Return where the broker is, with the terminal's token, read anew at each call.

    Blocks for small files, and ``opening`` gets the path of each before. Raises NoBroker, BadInput, BadEndpoint or
    BadSecretFile for what the user has to mend, and WrongHost if broker.json names the loopback of another host.
    """
    return find_broker(replace(_SEEKER, opening=opening), broker, environ)


_SEEKER = Seeker(role="driver", argument_name="--broker", if_unreadable=_TO_READ_IT, read=_read)
