"""How ``dbg-broker serve --cluster`` becomes one of several brokers. Only with that option this module is loaded."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import socket
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dbg_broker.cluster.cluster import Cluster
from dbg_broker.cluster.login import NOBODY, read_login
from dbg_broker.cluster.members import HEARTBEAT_SECONDS, HERE, Presence, read_presence
from dbg_broker.cluster.nats import CantJoin, Nats, Servers
from dbg_broker.cluster.tokens import SharedTokens
from dbg_broker.home.issued import join_issued
from dbg_broker.timers import Timers
from dbg_wire.errors import PeerError, printable

if TYPE_CHECKING:
    from dbg_broker.broker import Broker
    from dbg_broker.serve.credentials import Credentials
    from dbg_broker.settings import ClusterSettings
    from dbg_broker.welcome import Welcomes

READY_SECONDS = 15.0
"""Seconds that JetStream has to choose a leader: servers that have just started take three, slow hosts more."""

HEARD_SECONDS = 1.5 * HEARTBEAT_SECONDS
"""Seconds in which each broker that is there is heard."""

AGAIN_SECONDS = 0.5
"""Seconds between two looks for that."""


def look_for_cluster(settings: ClusterSettings, site: str) -> Servers:
    """Return the servers by which a broker of this site can join others; blocks, before anything listens.

    Raise CantJoin, or BadSecretFile for the file of credentials.
    """
    login = NOBODY if settings.credentials is None else read_login(Path(settings.credentials))
    servers = Servers(settings.servers, login)
    asyncio.run(_look(servers, site))
    return servers


async def _look(servers: Servers, site: str) -> None:
    loop = asyncio.get_running_loop()
    nats, until = Nats(servers, "that looks", Timers(loop.time, loop.call_later)), time.monotonic() + READY_SECONDS
    others: list[bytes] = []
    await nats.open()
    try:
        await nats.subscribe(f"{HERE}.*", lambda _, value: others.append(value))
        while (why := await nats.why_not_ready()) is not None:
            if time.monotonic() >= until:
                raise CantJoin(
                    f"NATS at {servers} can't keep what brokers share ({printable(why)})",
                    "look whether more than half of its servers are up, and have memory for JetStream",
                )
            await asyncio.sleep(AGAIN_SECONDS)
        await asyncio.sleep(HEARD_SECONDS)
    finally:
        await nats.close()
    for value in others:
        _refuse_other_site(value, servers, site)


def _refuse_other_site(value: bytes, servers: Servers, site: str) -> None:
    try:
        other = read_presence(value)
    except PeerError:
        # Of a later release, say: whoever it is will not understand this broker either.
        return
    if other.site != site:
        raise CantJoin(
            f"NATS at {servers} joins the brokers of another site, or of a home with other tokens "
            f"({printable(other.url)}, pid {other.pid} on {printable(other.host)})",
            "copy the tokens/ of its home to this one, or give this site a NATS of its own",
        )


def new_cluster(broker: Broker, welcomes: Welcomes, servers: Servers, credentials: Credentials, home: Path) -> Cluster:
    """Return this broker's part in a site; it joins when it begins."""
    endpoint = credentials.endpoint
    own = Presence(
        name=_new_name(),
        url=endpoint.url,
        fingerprint=endpoint.fingerprint or "",
        host=socket.gethostname(),
        pid=os.getpid(),
        site=credentials.tokens.site(),
    )
    nats = Nats(servers, own.name, broker.timers)
    cluster = Cluster(broker, welcomes, nats, own, SharedTokens(nats, partial(join_issued, home), credentials.tokens))
    cluster.write = credentials.tell_others
    return cluster


def _new_name() -> str:
    """Return a name that no broker has had before, of the characters that a subject of NATS takes."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
