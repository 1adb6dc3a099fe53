"""How ``dbg-broker serve --cluster`` becomes one of several brokers. Only with that option this module is loaded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dbg_broker.hub.cluster.cluster import Cluster
from dbg_broker.hub.cluster.members import Presence, read_presence
from dbg_broker.net.bus.buckets import BucketName, Buckets, BusDown
from dbg_broker.net.bus.bus import Bus
from dbg_broker.net.bus.connection import CantJoin, NatsConnection, Servers, check_server, open_connection
from dbg_broker.net.bus.login import NOBODY, read_login
from dbg_wire.errors import PeerError, printable
from dbg_wire.version import RELEASE

if TYPE_CHECKING:
    from dbg_broker.hub.state import Hub
    from dbg_broker.settings import ClusterSettings
    from dbg_broker.verbs.credentials import Credentials

READY_SECONDS = 15.0
"""Seconds that JetStream has to choose a leader: servers that have just started take three, slow hosts more."""

AGAIN_SECONDS = 0.5
"""Seconds between two looks for that."""


def look_for_cluster(settings: ClusterSettings, site: str) -> Servers:
    """Return the servers of a cluster that a broker of this site can join; blocks, before anything listens.

    Raise CantJoin, or BadSecretFile for the file of credentials.
    """
    login = NOBODY if settings.credentials is None else read_login(Path(settings.credentials))
    servers = Servers(settings.servers, login)
    asyncio.run(_look(servers, site))
    return servers


async def _look(servers: Servers, site: str) -> None:
    connection, until = await open_connection(servers, "that looks"), time.monotonic() + READY_SECONDS
    try:
        while (why := await _why_not_ready(connection, site)) is not None:
            if connection.complaint:
                raise CantJoin(
                    f"NATS at {connection.url} does not allow what brokers do ({printable(connection.complaint)})",
                    "give these credentials the subjects dbg_broker.>, $KV.>, $JS.API.> and _INBOX.>",
                )
            if time.monotonic() >= until:
                raise CantJoin(
                    f"NATS at {connection.url} can't keep what brokers share ({printable(why)})",
                    "look whether more than half of its servers are up, and have memory for JetStream",
                )
            await asyncio.sleep(AGAIN_SECONDS)
    finally:
        await connection.close()


async def _why_not_ready(connection: NatsConnection, site: str) -> str | None:
    """Return why NATS keeps nothing now, None if it does. Raise CantJoin if it never will, or is of another site."""
    buckets = Buckets()
    try:
        await check_server(connection)
        await buckets.use(connection)
        await buckets.make()
        found = await buckets.entries(BucketName.BROKERS)
    except BusDown as error:
        return error.why
    for entry in found.values():
        _refuse_other_site(entry.value, connection.url, site)
    return None


def _refuse_other_site(value: bytes, url: str, site: str) -> None:
    try:
        other = read_presence(value)
    except PeerError:
        # Of a later release, say: whoever it is will not understand this broker either.
        return
    if other.site != site:
        raise CantJoin(
            f"NATS at {url} joins the brokers of another site, or of a home with other tokens "
            f"({printable(other.url)}, pid {other.pid} on {printable(other.host)})",
            "copy the tokens/ of its home to this one, or give this site a NATS of its own",
        )


def new_cluster(hub: Hub, servers: Servers, credentials: Credentials, *, tells: bool) -> Cluster:
    """Return this broker's part in a cluster; it joins when it begins. ``tells``: it has a command for events."""
    endpoint = credentials.endpoint
    own = Presence(
        name=_new_name(),
        url=endpoint.url,
        fingerprints=endpoint.fingerprints,
        host=socket.gethostname(),
        pid=os.getpid(),
        release=RELEASE,
        started=time.time(),
        site=credentials.tokens.site(),
        tells=tells,
    )
    return Cluster(hub, Bus(own.name, servers, hub.timers), own)


async def share_tokens(cluster: Cluster) -> None:
    """Learn what others have issued and revoked before anybody is taken in. Raise DbgError, but not for NATS' silence.

    A broker whose NATS is without a leader for some seconds takes the tokens of its home, and the others' later.
    """
    with contextlib.suppress(BusDown):
        await cluster.tokens.exchange()


def _new_name() -> str:
    """Return a name that no broker has had before, of the characters that a subject of NATS takes."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
