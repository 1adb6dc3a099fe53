"""Find the broker: read ``broker.json`` and the token's file, both only if others can't have touched them."""

from __future__ import annotations

import os
import select
import socket
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from dbg_wire.endpoint import Reach, Rendezvous, parse_rendezvous, resolve, wrong_host_reason
from dbg_wire.errors import BadSecretFile, WrongHost, printable
from dbg_wire.home import check_private, home_directory

MAX_SECRET_FILE = 64 * 1024
"""Bytes read of a token's file or of broker.json; both are below 2 KiB, and more is a wrong file."""


PIPE_SECONDS = 60.0
"""Seconds for a command at the other end of a pipe, which may ask its user for a password first."""


def find_reach(broker: str | None, environ: Mapping[str, str]) -> Reach:
    """Return where the broker is and what proves who we are, read anew at each call.

    Blocks for two small files. Raises BadInput, BadEndpoint or BadSecretFile for what the user has to mend, and
    WrongHost if broker.json names the loopback of another host.
    """
    rendezvous = _read_rendezvous(environ)
    reach = resolve(
        argument=broker,
        environ=environ,
        rendezvous=rendezvous,
        role="driver",
        token_file_text=_read_private,
        argument_name="--broker",
    )
    if rendezvous is not None and reach.sources["address"] == "broker.json":
        reason = wrong_host_reason(reach.endpoint, rendezvous.host, socket.gethostname(), who="terminal")
        if reason is not None:
            raise WrongHost(reason)
    return reach


def _read_rendezvous(environ: Mapping[str, str]) -> Rendezvous | None:
    path = str(Path(home_directory(environ)) / "broker.json")
    try:
        text = _read_private(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadSecretFile(
            f"{printable(path)} can't be read ({error.strerror or type(error).__name__})",
            "make it readable, or name the broker with --broker",
        ) from None
    except ValueError:
        text = ""
    return parse_rendezvous(text, path)


def _read_private(path: str) -> str:
    # Opened once and judged by the descriptor, so that nobody swaps the file between look and read.
    with open(path, "rb", opener=_open_without_waiting) as file:
        found = os.fstat(file.fileno())
        check_private(found.st_mode, found.st_uid, os.getuid(), path)
        if stat.S_ISFIFO(found.st_mode):
            return _read_pipe(file.fileno(), path).decode("utf-8")
        if not stat.S_ISREG(found.st_mode):
            raise BadSecretFile(f"{printable(path)} is not a regular file", "put its text into one, with mode 600")
        return file.read(MAX_SECRET_FILE).decode("utf-8")


def _read_pipe(descriptor: int, path: str) -> bytes:
    """Return all that a command writes, as of ``DBG_TOKEN_FILE=<(pass show broker)``. Raise BadSecretFile."""
    text = b""
    deadline = time.monotonic() + PIPE_SECONDS
    while len(text) < MAX_SECRET_FILE:
        try:
            piece = os.read(descriptor, MAX_SECRET_FILE)
        except BlockingIOError:
            if select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                continue
            raise BadSecretFile(
                f"nothing came through the pipe {printable(path)} for {PIPE_SECONDS:g} s", "name a regular file"
            ) from None
        if not piece and not text:
            raise BadSecretFile(f"{printable(path)} is a pipe into which nobody writes", "name a regular file")
        if not piece:
            break
        text += piece
    return text


def _open_without_waiting(path: str, flags: int) -> int:
    # A named pipe without a writer, or of somebody else, must not hold us before it is looked at.
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
