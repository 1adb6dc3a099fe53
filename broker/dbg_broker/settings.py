"""Settings of ``serve``: arguments first, then variables, then defaults. No file is opened here."""

from __future__ import annotations

import argparse
import ipaddress
import math
import posixpath
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dbg_command.command_line import read_duration
from dbg_dial.endpoint import DEFAULT_PORT, canonical_six, ip_of, is_loopback_host
from dbg_dial.home import home_directory
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.record import MAX_AGE

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOPBACK = "127.0.0.1"

IDLE_SECONDS = 45.0
"""Time without a rank or terminal after which a broker that ``dbg-attach run`` has started ends, in seconds. It is long
enough that the next run after an edit still finds the broker. It is short enough that a minute after the last run, no
process is left on the host.
"""

MAX_IDLE_SECONDS = 7 * 24 * 3600.0
"""Maximum of $DBG_IDLE, in seconds. A broker that must stay for longer is started by ``serve`` without
``--while-used``.
"""

CLASSIC_PORT = 6899
"""Port that stock ``pudb.remote`` connects to by default."""

NATS_PORT = 4222
"""Default port of NATS for clients."""

_HOW_TO_CLUSTER = "write nats://HOST[:PORT],HOST,HOST, or the same with tls://"

_HOW_TO_LISTEN = "write HOST:PORT, such as 0.0.0.0:6900 or [::]:6900"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Networks that peers may connect from; an empty tuple means all. This host itself is always allowed."""

    networks: tuple[Network, ...] = ()

    def admits(self, peer: object, own: Callable[[], object] = tuple) -> bool:
        """Return True if a socket's peer may connect. A peer on this host always may.

        ``peer`` is the address of the other end. ``own`` returns the address of this end; it is called only if needed.
        """
        if not self.networks:
            return True
        host = _host_of(peer)
        if host is None:
            return False
        return host.is_loopback or host == _host_of(own()) or any(host in network for network in self.networks)


def _host_of(address: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    return ip_of(str(address[0])) if isinstance(address, tuple) and address else None


EVERYBODY = Allowed()


_LISTEN = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Address to listen at. If ``port`` is None, the default port or any free one is used."""

    host: str = LOOPBACK
    port: int | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can connect to the address."""
        return is_loopback_host(self.host)

    @property
    def is_everywhere(self) -> bool:
        """Whether the address, such as 0.0.0.0, means all addresses of this host.

        Other hosts can't connect to such an address, so the broker's URL has another one.
        """
        address = ip_of(self.host)
        return address is not None and address.is_unspecified


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """NATS servers of a cluster by their URLs, and the file with the credentials, or None without credentials."""

    servers: tuple[str, ...]
    credentials: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Settings of ``serve``."""

    home: str
    listen: Listen = Listen()
    verbosity: int = 0
    idle_seconds: float | None = None
    """Idle time after which the broker ends, in seconds, or None for never."""
    classic: Listen | None = None
    """Address for stock debuggers, or None."""
    audits_input: bool = False
    """Whether the audit log also records input."""
    allowed: Allowed = EVERYBODY
    """Networks that ranks and terminals may connect from."""
    on_event: tuple[str, ...] | None = None
    """Program and arguments to run for each event, or None."""
    max_lease: float | None = None
    """Seconds without input after which a rank ends its stop, or None for no limit."""
    logs_json: bool = False
    """Whether each line of the log is a JSON document."""
    certificate: tuple[str, str] | None = None
    """Files of the user's own certificate and its key, or None for the certificate that the broker makes."""
    cluster: ClusterSettings | None = None
    """Cluster of this broker, or None for a single broker."""


def parse_listen(text: str, option: str = "--listen") -> Listen:
    """Parse ``HOST:PORT``, ``HOST`` or ``:PORT``; port 0 means a free one. Raise BadInput."""
    found = _LISTEN.fullmatch(text)
    if found is None or not text or not text.isprintable() or " " in text:
        raise BadInput(f"{option} {printable(text)!r} is not an address", _HOW_TO_LISTEN)
    host = found["six"] or found["name"] or LOOPBACK
    if found["six"] is not None and canonical_six(host) is None:
        raise BadInput(f"{option} {printable(text)!r} has no IPv6 address in its brackets", _HOW_TO_LISTEN)
    if found["name"] and found["port"] is None and found["name"].isdigit():
        raise BadInput(f"{option} {printable(text)!r} has no host", f"write 127.0.0.1:{text}, or 0.0.0.0:{text}")
    port = None if found["port"] is None else int(found["port"])
    if port is not None and port > 65535:
        raise BadInput(f"{option} {printable(text)!r} has a port above 65535", _HOW_TO_LISTEN)
    return Listen(host=host, port=port)


def parse_classic(text: str) -> Listen:
    """Parse ``PORT`` or ``HOST:PORT``; the host defaults to the loopback, the port to PuDB's. Raise BadInput."""
    listen = parse_listen(f"{LOOPBACK}:{text}" if text.isascii() and text.isdigit() else text, "--classic")
    return listen if listen.port is not None else Listen(host=listen.host, port=CLASSIC_PORT)


def serve_settings(arguments: argparse.Namespace, environ: Mapping[str, str], directory: str) -> ServeSettings:
    """Return the settings of ``serve``; relative paths start from ``directory``. Raise BadInput."""
    listen = Listen() if arguments.listen is None else parse_listen(arguments.listen)
    return ServeSettings(
        home=home(arguments.home, environ, directory),
        listen=listen,
        verbosity=arguments.verbose,
        idle_seconds=idle_seconds(environ) if arguments.while_used else None,
        classic=None if arguments.classic is None else parse_classic(arguments.classic),
        allowed=parse_allowed(arguments.allow),
        audits_input=arguments.audit_input,
        on_event=None if arguments.on_event is None else parse_command(arguments.on_event),
        max_lease=None if arguments.max_lease is None else read_duration(arguments.max_lease, "--max-lease", MAX_AGE),
        logs_json=arguments.log_format == "json",
        certificate=_certificate(arguments, directory),
        cluster=_cluster(arguments, environ, directory),
    )


def parse_cluster(text: str) -> tuple[str, ...]:
    """Parse ``nats://h1,h2,h3``, or with ``tls://``, into URLs. Raise BadInput, which shows no password."""
    scheme, mark, rest = text.partition("://")
    if mark and scheme not in ("nats", "tls"):
        raise BadInput(f"--cluster {printable(scheme)!r}:// is not a NATS address", _HOW_TO_CLUSTER)
    if "@" in text:
        raise BadInput(
            "--cluster contains a user name", "put user:password into a file, and give it to --cluster-credentials"
        )
    start = f"{scheme}://" if mark else "nats://"
    found = [_nats_server(one.removeprefix(start)) for one in (rest if mark else text).split(",")]
    return tuple(dict.fromkeys(f"{start}{one}" for one in found))


def _nats_server(text: str) -> str:
    found = _LISTEN.fullmatch(text.rstrip("/"))
    six, name, port = (None, "", "0") if found is None else found.group("six", "name", "port")
    is_host = (_HOST.fullmatch(name) if six is None else canonical_six(six)) is not None
    number = int(port or NATS_PORT)
    if not is_host or not 0 < number <= 65535:
        raise BadInput(f"--cluster {printable(text)!r} is not the address of a NATS server", _HOW_TO_CLUSTER)
    return f"{name if six is None else f'[{six}]'}:{number}"


def _cluster(arguments: argparse.Namespace, environ: Mapping[str, str], directory: str) -> ClusterSettings | None:
    credentials = arguments.cluster_credentials or environ.get("DBG_CLUSTER_CREDENTIALS") or None
    if arguments.cluster is None:
        if arguments.cluster_credentials is not None:
            raise BadInput("--cluster-credentials was given without --cluster", "name the NATS servers with --cluster")
        return None
    return ClusterSettings(
        servers=parse_cluster(arguments.cluster),
        credentials=None if credentials is None else posixpath.join(directory, credentials),
    )


def parse_command(text: str, option: str = "--on-event") -> tuple[str, ...]:
    """Split a command as a shell would, without running it. Raise BadInput if it does not name a program."""
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"{option} {printable(text)!r} is not a command ({error})", "write it as for a shell") from None
    if not argv or not argv[0] or "\0" in text:
        raise BadInput(f"{option} {printable(text)!r} does not name a program", "use a command such as ./notify.sh")
    if shutil.which(argv[0]) is None:
        raise BadInput(
            f"{option} names {printable(argv[0])!r}, which is not an executable program here",
            "give its path, and make it executable with chmod +x",
        )
    return tuple(argv)


def _certificate(arguments: argparse.Namespace, directory: str) -> tuple[str, str] | None:
    certificate, key = arguments.certificate, arguments.key
    if certificate is None and key is None:
        return None
    if not (certificate and key):
        given, missing = ("--certificate", "--key") if certificate else ("--key", "--certificate")
        raise BadInput(f"{given} was given without {missing}", "name both files")
    return posixpath.join(directory, certificate), posixpath.join(directory, key)


def parse_allowed(texts: Sequence[str]) -> Allowed:
    """Parse the networks of --allow, such as ``10.0.0.0/8``, or single addresses. Raise BadInput."""
    return Allowed(tuple(map(_network, texts)))


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise BadInput(
            f"--allow {printable(text)!r} is not a network", "write one such as 10.0.0.0/8, or a single address"
        ) from None


def idle_seconds(environ: Mapping[str, str]) -> float:
    """Return the idle time of a broker that ``dbg-attach run`` has started, in seconds.

    It is $DBG_IDLE, or 45. Raise BadInput.
    """
    text = environ.get("DBG_IDLE") or str(IDLE_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= MAX_IDLE_SECONDS:
        raise BadInput(f"DBG_IDLE {printable(text)!r} is not a number of seconds", "use one up to a week, such as 60")
    return seconds


def home(argument: str | None, environ: Mapping[str, str], directory: str) -> str:
    """Return the broker's home: --home, $DBG_HOME, or the default. Raise BadInput."""
    if argument is None:
        return home_directory(environ)
    if not argument:
        raise BadInput("--home is empty", "name a directory of your own")
    return posixpath.normpath(posixpath.join(directory, argument))


def ports_to_try(listen: Listen) -> tuple[int, ...]:
    """Return the ports to try in order: the given one, or the default one and then any free one."""
    return (DEFAULT_PORT, 0) if listen.port is None else (listen.port,)
