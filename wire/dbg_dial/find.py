"""Broker discovery: reads ``broker.json`` and token files after a check of their owner and mode.

Every rank loads this module, so it imports nothing heavy. Each call reads up to three files again, and blocks as long
as their file systems do.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import BinaryIO

from dbg_dial.endpoint import (
    MIN_TOKEN,
    RENDEZVOUS_FILE,
    Endpoint,
    Rendezvous,
    Route,
    TokenRole,
    parse_driver_tokens,
    parse_endpoint,
    parse_rendezvous,
    parse_token,
    wrong_host_reason,
)
from dbg_dial.home import BROKER, CA, TOKEN, TOKEN_FILE, check_closed, check_private, home_directory
from dbg_wire.errors import BadEndpoint, BadInput, BadSecretFile, NoBroker, WrongHost, printable

_TO_READ_IT = "make it readable, or name the broker by DBG_BROKER"
_TO_TOKEN = "set it to a file with the token"  # noqa: S105 - not a password
_TO_CA = "set it to a PEM file of the authorities that sign brokers"

DRIVER_FILE = "driver.json"
"""File in the home with the tokens of terminals. No rank opens it: a rank runs code that nobody has reviewed, such as
code in a checkpoint. That code must not be able to control other jobs."""

MAX_SECRET_BYTES = 64 * 1024
"""Maximum number of bytes read from a token file or broker.json. Both files are below 2 KiB, so a file above this limit
is the wrong one."""

MAX_CA_BYTES = 1024 * 1024
"""Maximum number of bytes read from a file of authorities: four times the size of the file that a Linux distribution
installs."""

Opening = Callable[[str], object]
"""Callback that gets the path of each file or directory before it is accessed. If the access hangs, the caller then
knows which file system does not respond."""


def _nothing(path: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryOptions:
    """Settings of broker discovery that differ between the roles."""

    role: TokenRole
    """Role of the token."""
    argument_name: str
    """Option or argument that names the broker, for error messages."""
    opening: Opening = _nothing
    """Callback that gets each path before it is accessed."""


def find_broker(
    seeker: DiscoveryOptions, argument: str | None, environ: Mapping[str, str], home: str | None = None
) -> Route:
    """Find the broker by ``argument``, variables, or broker.json in ``home`` or the default home.

    Raise NoBroker, BadInput for a mistake in the user's settings, or WrongHost if broker.json names the loopback of
    another host.
    """
    is_rank = seeker.role == "rank"
    if argument is not None or environ.get(BROKER):
        rendezvous = None
        if is_rank:
            # If the job script names broker and token, the home is not read, so a home that hangs or is missing does no
            # harm.
            with suppress(BadInput):
                return resolve(seeker, argument, environ, None)
            with suppress(BadInput):
                rendezvous = _read_rendezvous(seeker, environ, home)
        else:
            rendezvous = _read_rendezvous(seeker, environ, home)
        return resolve(seeker, argument, environ, rendezvous)
    rendezvous = _read_rendezvous(seeker, environ, home)
    if rendezvous is None or not is_rank:
        # `serve` does not start with a home that is open to other users, so such a home may contain no broker.json.
        # Without this check the user would only read that no broker is known, and not why. If a rank has found
        # broker.json, it connects to that broker even if the home is open to other users.
        folder = home_directory(environ) if home is None else home
        with suppress(OSError):
            check_closed(os.stat(folder).st_mode, folder)  # noqa: PTH116 - a rank doesn't import pathlib
    if rendezvous is None:
        raise NoBroker
    reach = resolve(seeker, None, environ, rendezvous)
    # Only an address from broker.json is checked: a broker writes its own address, but a loopback address that a user
    # typed may be the end of a tunnel.
    reason = wrong_host_reason(reach.endpoint, rendezvous.host, os.uname().nodename)
    if reason is not None:
        raise WrongHost(reason)
    return reach


def resolve(
    seeker: DiscoveryOptions, argument: str | None, environ: Mapping[str, str], rendezvous: Rendezvous | None
) -> Route:
    """Select the broker's address, pin and token: from the argument, else a DBG_* variable, else broker.json.

    Raise NoBroker if no broker is known, and BadInput if no token is known. Raise BadEndpoint if there is neither a
    fingerprint nor an authority to verify the broker.
    """
    if argument is not None:
        endpoint = parse_endpoint(argument, source=seeker.argument_name)
        address_from = seeker.argument_name.rstrip("=")
    elif environ.get(BROKER):
        endpoint, address_from = parse_endpoint(environ[BROKER], source=BROKER), BROKER
    elif rendezvous is not None:
        endpoint, address_from = rendezvous.endpoint, RENDEZVOUS_FILE
    else:
        raise NoBroker
    if environ.get(CA):
        endpoint = replace(endpoint, ca=_ca(seeker, environ[CA]))
    endpoint, pin_from = _pinned(endpoint, address_from, rendezvous)
    token, token_from = _token(seeker, environ, rendezvous)
    # The other brokers of the home's cluster accept this peer only if the selected broker belongs to the same cluster.
    site = () if rendezvous is None or not rendezvous.brokers else (rendezvous.endpoint, *rendezvous.brokers)
    others = tuple(one for one in site if one.url != endpoint.url)
    return Route(
        endpoint=endpoint,
        token=token,
        sources={"address": address_from, "fingerprint": pin_from, "token": token_from},
        others=others if len(others) < len(site) else (),
    )


def _pinned(endpoint: Endpoint, address_from: str, rendezvous: Rendezvous | None) -> tuple[Endpoint, str]:
    if endpoint.fingerprint is not None:
        return endpoint, address_from
    # With an authority no pin is needed, and the pin in the home may belong to another broker.
    is_homes = rendezvous is not None and (endpoint.ca is None or rendezvous.url == endpoint.url)
    if rendezvous is not None and is_homes:
        return replace(endpoint, fingerprint=rendezvous.fingerprint), RENDEZVOUS_FILE
    if endpoint.ca is not None:
        return endpoint, f"none: {CA} is set"
    raise BadEndpoint(
        f"{address_from} names {endpoint.url} without a fingerprint, so the broker can't be verified",
        "add #sha256:… as `dbg-broker serve` prints it, or set DBG_CA",
    )


def _ca(seeker: DiscoveryOptions, path: str) -> str:
    named = f"{CA} {printable(path)}"
    seeker.opening(path)
    text = _file_text(path, named, read_authorities, _TO_CA)
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise BadSecretFile(f"{named} contains no certificate", _TO_CA)
    return text


def _token(seeker: DiscoveryOptions, environ: Mapping[str, str], rendezvous: Rendezvous | None) -> tuple[str, str]:
    role = seeker.role
    if path := environ.get(TOKEN_FILE):
        # A text that may be a token is not shown: the user may have set it by mistake instead of the file's path.
        is_path = len(path) < MIN_TOKEN or path.startswith(("/", "./", "../", "~/"))
        named = f"{TOKEN_FILE} {printable(path) if is_path else '…'}"
        seeker.opening(path)
        return parse_token(_file_text(path, named, read_secret, _TO_TOKEN), source=named), named
    if text := environ.get(TOKEN):
        return parse_token(text, source=TOKEN), TOKEN
    wanted: tuple[TokenRole, ...] = ("driver", "watcher") if role == "driver" else (role,)
    found = [rendezvous.token(role) for role in wanted] if rendezvous is not None else []
    for token in found:
        if token is not None:
            return token
    raise BadInput(
        f"no {role} token is known",
        f"set DBG_TOKEN_FILE to a file with the {role} token that `dbg-broker token` prints on the broker's host",
    )


def _file_text(path: str, named: str, read: Callable[[str], str], remedy: str) -> str:
    try:
        return read(path)
    except OSError as error:
        why = error.strerror or type(error).__name__
    except ValueError:
        why = "not a text file"
    raise BadSecretFile(f"{named} can't be read ({why})", remedy)


def _read_rendezvous(seeker: DiscoveryOptions, environ: Mapping[str, str], home: str | None) -> Rendezvous | None:
    folder = home_directory(environ) if home is None else home
    path = os.path.join(folder, RENDEZVOUS_FILE)  # noqa: PTH118 - a rank doesn't import pathlib
    seeker.opening(path)
    text = read_if_there(path)
    if text is None:
        return None
    rendezvous = parse_rendezvous(text, path)
    if seeker.role == "rank":
        return rendezvous
    path = os.path.join(folder, DRIVER_FILE)  # noqa: PTH118 - a rank doesn't import pathlib
    seeker.opening(path)
    text = read_if_there(path)
    # A copy of the home that is only for ranks does not contain driver.json.
    return rendezvous if text is None else replace(rendezvous, driver_tokens=parse_driver_tokens(text, path))


def read_if_there(path: str) -> str | None:
    """Read a secret file, or return None if it does not exist. Raise BadSecretFile if it can't be read.

    For a file that is not UTF-8 return "", which the parser rejects as an invalid broker.json.
    """
    try:
        return read_secret(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise BadSecretFile(f"{printable(path)} can't be read ({why})", _TO_READ_IT) from None
    except UnicodeDecodeError:
        return ""


def read_secret(path: str) -> str:
    """Read a token or rendezvous file that no other user could have read or written.

    Raise BadSecretFile if other users can access the file or it is not a regular file, and OSError or
    UnicodeDecodeError if it can't be read.
    """
    return _read(path, MAX_SECRET_BYTES)


def read_authorities(path: str) -> str:
    """Read a file of authorities. Others may read it, but only this user or root could have written it.

    Raise BadSecretFile, or OSError or UnicodeDecodeError if it can't be read.
    """
    return _read(path, MAX_CA_BYTES, others_may_read=True)


def _read(path: str, most: int, *, others_may_read: bool = False) -> str:
    with open_at_once(path) as file:
        if not stat.S_ISREG(check_own(file, path, os.getuid(), others_may_read=others_may_read)):
            raise BadSecretFile(f"{printable(path)} is not a regular file", "put its text into one, with mode 600")
        return file.read(most).decode("utf-8")


def open_at_once(path: str) -> BinaryIO:
    """Open a file for reading, without waiting for the other end of a pipe. Raise OSError."""
    return open(path, "rb", opener=_open_without_waiting)


def _open_without_waiting(path: str, flags: int) -> int:
    # Without O_NONBLOCK, open() of a named pipe blocks until a process opens the pipe for writing. Without O_NOCTTY, a
    # terminal that is opened can become the controlling terminal of this session.
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def check_own(file: BinaryIO, path: str, own_uid: int, *, others_may_read: bool = False) -> int:
    """Check that only ``own_uid`` or root could have read and written an open file, and return its ``st_mode``.

    The check uses the descriptor, so that the file can't be replaced between check and read. Raise BadSecretFile.
    """
    found = os.fstat(file.fileno())
    check_private(found.st_mode & ~0o044 if others_may_read else found.st_mode, found.st_uid, own_uid, path)
    return found.st_mode
