"""Where the broker is, as terminals find it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from dbg_dial.endpoint import RENDEZVOUS_FILE, Reach
from dbg_dial.find import PIPE_SECONDS, Opening, Seeker, find_broker, read_if_there, read_secret
from dbg_dial.home import home_directory
from dbg_dial.rendezvous import parse_rendezvous

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


def find_audit_log(url: str, environ: Mapping[str, str], opening: Opening) -> str | None:
    """Return the path of the audit log of the broker of this address; None if the home here is another broker's.

    Blocks as :func:`find_reach` does. Raises BadInput and BadSecretFile.
    """
    home = home_directory(environ)
    path = os.path.join(home, RENDEZVOUS_FILE)  # noqa: PTH118 - as the others that read it
    opening(path)
    text = read_if_there(path, _read, _TO_READ_IT)
    told = None if text is None else parse_rendezvous(text, path)
    if told is None or told.url != url:
        return None
    return os.path.join(home, AUDIT_FILE)  # noqa: PTH118 - as above


_SEEKER = Seeker(role="driver", argument_name="--broker", if_unreadable=_TO_READ_IT, read=_read)
