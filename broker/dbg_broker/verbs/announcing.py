"""What a broker prints when it serves: the lines to paste into job scripts and shells."""

from __future__ import annotations

import logging
import os
import re
import shlex
import socket
from collections.abc import Callable
from pathlib import Path

from dbg_broker.home.bearer import Role
from dbg_broker.home.tokens import THROW_AWAY_DIRECTORY, TOKENS_DIRECTORY
from dbg_broker.settings import LOOPBACK, Listen, ServeSettings
from dbg_broker.verbs.listening import host_for_others
from dbg_wire.finding.endpoint import Endpoint
from dbg_wire.version import RELEASE

logger = logging.getLogger("dbg_broker")


def announce(
    settings: ServeSettings,
    endpoint: Endpoint,
    classic: socket.socket | None,
    say: Callable[[str], None],
    columns: int | None = None,
) -> None:
    """Say where this broker serves, and how ranks and terminals of this and other hosts find it.

    ``columns`` is the width of the terminal that shows it, None if no terminal does.
    """
    home = shlex.quote(settings.home)
    directory = TOKENS_DIRECTORY if endpoint.secure else THROW_AWAY_DIRECTORY
    token_file = shlex.quote(str(Path(settings.home) / directory / Role.RANK.value))
    port = endpoint.port
    reached_at = LOOPBACK if settings.listen.is_everywhere else endpoint.url.partition("://")[2].rpartition(":")[0]
    address = str(endpoint).removeprefix("wss://")
    say(f"dbg-broker {RELEASE} ready at {endpoint.url} (pid {os.getpid()}, home {settings.home})")
    if settings.idle_seconds is not None:
        # A run has started this broker, and reads the first line only.
        return
    say(f"in a job script, where this home is shared:  export DBG_HOME={home}")
    for line in lines_to_paste("where it is not", address, f"DBG_TOKEN_FILE={token_file}", columns):
        say(line)
    say(f"from your own machine:  ssh -L {port}:{reached_at}:{port} {socket.gethostname()}")
    if settings.driver_token == "memory":  # noqa: S105 - a word
        say("the driver's token is in this broker's memory: terminals of this host find it; for one of another host,")
        say("`dbg-broker token --role driver` prints one here, and `dbg-attach --ask-token` takes it there")
    elif settings.driver_token == "ask":  # noqa: S105 - a word
        say("the driver's token is in this broker's memory alone: each terminal asks for it, as dbg-attach --ask-token")
    if settings.listen.is_loopback:
        say("ranks on other hosts can't reach this loopback address; for them: dbg-broker serve --listen 0.0.0.0")
    if settings.record is not None:
        say(f"records each stop in {settings.record.directory}; to play one:  asciinema play FILE")
    if settings.classic is not None and classic is not None:
        _announce_classic(settings.classic, classic.getsockname()[1], say)
        if settings.max_lease is not None:
            say("--max-lease does not hold there: a stock debugger goes on by its own keys alone")
    if not endpoint.secure:
        logger.warning(
            "--insecure: tokens and sessions cross the network in the clear, and anybody who takes this port later may "
            "pose as broker; the tokens are this broker's alone and end with it"
        )


def lines_to_paste(when: str, address: str, more: str, columns: int | None) -> list[str]:
    """Return the line that sets DBG_BROKER, and more, in a shell; several if a terminal would break it.

    A line that the terminal breaks is copied from tmux or screen with a newline in the midst of the fingerprint.
    """
    line = f"{when}:  export DBG_BROKER={shlex.quote(address)} {more}".rstrip()
    if columns is None or len(line) <= columns:
        return [line]
    # Quoted pieces with a backslash between them are one word in each shell.
    pieces = "\\\n".join(shlex.quote(piece) for piece in re.split(r"(?<=sha256:)", address))
    return [f"{when}:", *([f"export {more}"] if more else []), *f"export DBG_BROKER={pieces}".split("\n")]


def _announce_classic(where: Listen, port: int, say: Callable[[str], None]) -> None:
    call = f"set_trace(host={host_for_others(where)!r}, port={port}, term_size=(240, 72), reverse=True)"
    say(f"stock PuDB, without an agent:  from pudb.remote import set_trace; {call}")
    who = "any user of this host" if where.is_loopback else "anybody who reaches it"
    logger.warning("--classic: port %d is unauthenticated and in the clear: %s may show you a session there", port, who)
