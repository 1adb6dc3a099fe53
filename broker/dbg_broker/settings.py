"""The settings of ``serve``: arguments first, then variables, then defaults. Pure."""

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
"""Seconds for which a run's own broker stays when no rank or terminal is connected: the next run after an edit finds
it, and nothing is left on the host after a minute, the time to shut down included."""

MAX_IDLE_SECONDS = 7 * 24 * 3600.0
"""The largest $DBG_IDLE in seconds; ``serve`` without ``--while-used`` runs a broker for longer."""

CLASSIC_PORT = 6899
"""The port that stock ``pudb.remote`` calls by itself."""

NATS_PORT = 4222
"""The port at which NATS listens for clients by itself."""

_HOW_TO_CLUSTER = "write nats://HOST[:PORT],HOST,HOST, or the same with tls://"

_HOW_TO_LISTEN = "write HOST:PORT, such as 0.0.0.0:6900 or [::]:6900"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Networks that peers may come from; none means all. This host itself is always among them."""

    networks: tuple[Network, ...] = ()

    def admits(self, peer: object, own: Callable[[], object] = tuple) -> bool:
        """Tell whether a socket's peer may come, by the addresses of both its ends; a peer on this host may.

        The own end's address is asked for only if it matters.
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
    """Address to listen at; ``port`` is None if none was given, and the broker then takes a free port if it must."""

    host: str = LOOPBACK
    port: int | None = None

    @property
    def is_loopback(self) -> bool:
        """Tell whether no other host can reach it."""
        return is_loopback_host(self.host)

    @property
    def is_everywhere(self) -> bool:
        """Tell whether it stands for all addresses of this host, so that peers can't dial it as it is."""
        address = ip_of(self.host)
        return address is not None and address.is_unspecified


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The NATS servers of a cluster by their URLs, and the file of what they are presented; None for nothing."""

    servers: tuple[str, ...]
    credentials: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Settings of ``serve``."""

    home: str
    listen: Listen = Listen()
    verbosity: int = 0
    idle_seconds: float | None = None
    """Seconds without use after which the broker ends; None for never."""
    classic: Listen | None = None
    """Where stock debuggers are taken; None for nowhere."""
    audits_input: bool = False
    """Whether the audit log has what is typed, too."""
    allowed: Allowed = EVERYBODY
    """Where ranks and terminals may come from."""
    on_event: tuple[str, ...] | None = None
    """The program and its arguments that are run for each event; None for nothing."""
    max_lease: float | None = None
    """For how many seconds nobody may type at a stop before its rank lets it end; None for ever."""
    logs_json: bool = False
    """Whether each line of the log is a JSON document."""
    certificate: tuple[str, str] | None = None
    """The files of a certificate of the user's own and of its key; None for the one that the broker makes."""
    cluster: ClusterSettings | None = None
    """The cluster that this broker is of; None for one broker alone."""


def parse_listen(text: str, option: str = "--listen") -> Listen:
    """Read ``HOST:PORT``, ``HOST`` or ``:PORT``; port 0 takes a free one. Raise BadInput."""
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
    """Read ``PORT`` or ``HOST:PORT``; the host defaults to the loopback, the port to PuDB's. Raise BadInput."""
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
    """Read the servers of ``nats://h1,h2,h3``, or with ``tls://``, as URLs. Raise BadInput, which shows no password."""
    scheme, mark, rest = text.partition("://")
    if mark and scheme not in ("nats", "tls"):
        raise BadInput(f"--cluster {printable(scheme)!r}:// is not how NATS is reached", _HOW_TO_CLUSTER)
    if "@" in text:
        raise BadInput(
            "--cluster has a user in its address", "put user:password into a file, and name it by --cluster-credentials"
        )
    begin = f"{scheme}://" if mark else "nats://"
    found = [_nats_server(one.removeprefix(begin)) for one in (rest if mark else text).split(",")]
    return tuple(dict.fromkeys(f"{begin}{one}" for one in found))


def _nats_server(text: str) -> str:
    found = _LISTEN.fullmatch(text.rstrip("/"))
    six, name, port = (None, "", "0") if found is None else found.group("six", "name", "port")
    is_host = (_HOST.fullmatch(name) if six is None else canonical_six(six)) is not None
    number = int(port or NATS_PORT)
    if not is_host or not 0 < number <= 65535:
        raise BadInput(f"--cluster {printable(text)!r} is no server of NATS", _HOW_TO_CLUSTER)
    return f"{name if six is None else f'[{six}]'}:{number}"


def _cluster(arguments: argparse.Namespace, environ: Mapping[str, str], directory: str) -> ClusterSettings | None:
    credentials = arguments.cluster_credentials or environ.get("DBG_CLUSTER_CREDENTIALS") or None
    if arguments.cluster is None:
        if arguments.cluster_credentials is not None:
            raise BadInput("--cluster-credentials was given without --cluster", "name the servers, or leave it out")
        return None
    return ClusterSettings(
        servers=parse_cluster(arguments.cluster),
        credentials=None if credentials is None else posixpath.join(directory, credentials),
    )


def parse_command(text: str, option: str = "--on-event") -> tuple[str, ...]:
    """Read a command as a shell would, without running one. Raise BadInput if it names no program."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"{option} {printable(text)!r} is no command ({error})", "write it as for a shell") from None
    if not words or not words[0] or "\0" in text:
        raise BadInput(f"{option} {printable(text)!r} names no program", "give it a command such as ./notify.sh")
    if shutil.which(words[0]) is None:
        raise BadInput(
            f"{option} names {printable(words[0])!r}, which is no program here",
            "give its path, and make it executable with chmod +x",
        )
    return tuple(words)


def _certificate(arguments: argparse.Namespace, directory: str) -> tuple[str, str] | None:
    certificate, key = arguments.certificate, arguments.key
    if certificate is None and key is None:
        return None
    if not (certificate and key):
        given, missing = ("--certificate", "--key") if certificate else ("--key", "--certificate")
        raise BadInput(f"{given} was given without {missing}", "name both files")
    return posixpath.join(directory, certificate), posixpath.join(directory, key)


def parse_allowed(texts: Sequence[str]) -> Allowed:
    """Read the networks of --allow, such as ``10.0.0.0/8``, or single addresses. Raise BadInput."""
    return Allowed(tuple(map(_network, texts)))


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise BadInput(
            f"--allow {printable(text)!r} is no network", "write one such as 10.0.0.0/8, or a single address"
        ) from None


def idle_seconds(environ: Mapping[str, str]) -> float:
    """Return for how many seconds a run's own broker stays unused: $DBG_IDLE, or 45. Raise BadInput."""
    text = environ.get("DBG_IDLE") or str(IDLE_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= MAX_IDLE_SECONDS:
        raise BadInput(
            f"DBG_IDLE {printable(text)!r} is not a number of seconds", "set it to one up to a week, such as 60"
        )
    return seconds


def home(argument: str | None, environ: Mapping[str, str], directory: str) -> str:
    """Return the broker's home: --home, $DBG_HOME, or the default. Raise BadInput."""
    if argument is None:
        return home_directory(environ)
    if not argument:
        raise BadInput("--home is empty", "name a directory of your own")
    return posixpath.normpath(posixpath.join(directory, argument))


def ports_to_try(listen: Listen) -> tuple[int, ...]:
    """Return the ports to try in turn: the one given, or the usual one and then any free one."""
    return (DEFAULT_PORT, 0) if listen.port is None else (listen.port,)
