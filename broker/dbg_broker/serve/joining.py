"""Start of a broker in a cluster, for ``dbg-broker serve --cluster``. Loaded only with that option."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dbg_broker.cluster.cluster import Cluster
from dbg_broker.cluster.members import HEARTBEAT_SECONDS, HERE, Presence, read_presence
from dbg_broker.cluster.nats import CantJoin, Nats, Servers
from dbg_broker.cluster.tokens import SharedTokens
from dbg_broker.home.private_files import read_given
from dbg_broker.home.tokens import IssuedTokens, Tokens, join_issued, load_tokens
from dbg_broker.timers import Timers
from dbg_wire.errors import BadSecretFile, PeerError, printable

if TYPE_CHECKING:
    from dbg_broker.broker import Broker
    from dbg_broker.serve.credentials import Credentials
    from dbg_broker.settings import ClusterSettings
    from dbg_broker.welcome import Welcomes

HEARD_SECONDS = 1.5 * HEARTBEAT_SECONDS
"""How long to wait for heartbeats and token lists of the other brokers, in seconds."""


def find_cluster(settings: ClusterSettings, home: Path) -> Servers:
    """Return the NATS servers, after checking that the broker of this home can join the others. Blocks.

    Call it before the broker listens. Afterwards the home's tokens are up to date: other brokers may have issued or
    revoked some. Raise CantJoin, or BadSecretFile if a file can't be used.
    """
    login = {} if settings.credentials is None else read_login(Path(settings.credentials))
    servers = Servers(settings.servers, login)
    join_issued(home, asyncio.run(_fetch_tokens(servers, load_tokens(home))))
    return servers


async def _fetch_tokens(servers: Servers, tokens: Tokens) -> IssuedTokens:
    """Return the issued and revoked tokens, after the lists of the other brokers were received."""
    loop = asyncio.get_running_loop()
    name, others = _new_name(), list[bytes]()
    nats = Nats(servers, name, Timers(loop.time, loop.call_later))
    shared = SharedTokens(nats, name, lambda _: None, tokens)
    await nats.open()
    try:
        await nats.subscribe(f"{HERE}.*", lambda _, value: others.append(value))
        await shared.listen()
        await asyncio.sleep(HEARD_SECONDS)
        nats.check()
    finally:
        await nats.close()
    for value in others:
        _refuse_other_site(value, servers, tokens.site())
    return shared.tokens.issued


def _refuse_other_site(value: bytes, servers: Servers, site: str) -> None:
    try:
        other = read_presence(value)
    except PeerError:
        # Ignore a message that can't be decoded. Its sender is probably a broker of a later release, which can't decode
        # this broker's messages either.
        return
    if other.site != site:
        raise CantJoin(
            f"NATS at {servers} already connects the brokers of another cluster, or of a home with other tokens "
            f"({printable(other.url)}, pid {other.pid} on {printable(other.host)})",
            "copy the directory tokens/ from that broker's home to this one, or use a separate NATS for this cluster",
        )


def new_cluster(broker: Broker, welcomes: Welcomes, servers: Servers, credentials: Credentials, home: Path) -> Cluster:
    """Return this broker's part in the cluster; :meth:`Cluster.start` joins the other brokers."""
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
    tokens = SharedTokens(nats, own.name, partial(join_issued, home), credentials.tokens)
    cluster = Cluster(broker, welcomes, nats, own, tokens)
    cluster.write = credentials.announce_brokers
    return cluster


def _new_name() -> str:
    """Return a name that no broker has had, made of characters that are valid in a NATS subject."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


OPTION = "--cluster-credentials"

_LINE = re.compile(r"[!-~]{1,4096}")

_REMEDY = "name a file with one line, user:password or a token; mode 600"


def read_login(path: Path) -> dict[str, str]:
    """Return a file's credentials as options of NATS' client. Raise BadSecretFile, whose text never quotes them."""
    line = read_given(path, OPTION, _REMEDY).strip()
    if not _LINE.fullmatch(line):
        raise BadSecretFile(f"{OPTION} {printable(str(path))} does not contain credentials for NATS", _REMEDY)
    user, colon, password = line.partition(":")
    return {"user": user, "password": password} if colon else {"token": line}
