"""The user's ``config.toml``, read once at the start of a command."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from functools import partial

from dbg_client.verbs.preferences import Config, config_path, read_values
from dbg_dial.apart import apart
from dbg_wire.errors import BadInput, printable

MAX_BYTES = 64 * 1024
"""Bytes of the file that are read: it has a handful of keys."""


def read_config(environ: Mapping[str, str]) -> Config:
    """Return what the file says; a file that is not there says nothing, and one that is bad says what is wrong.

    Blocks for a small file. Raises SilentFile if its file system does not answer.
    """
    path = config_path(environ)
    if path is None:
        return Config()
    try:
        data = apart(path, partial(_read, path))
        return Config(path) if data is None else read_values(_parse(data, path), path)
    except BadInput as error:
        return Config(path, problems={"": error})


def _read(path: str) -> bytes | None:
    """Return the file's bytes, None if there is no file. Raise BadInput if it can't be read or is somebody else's."""
    shown = printable(path)
    try:
        # A pipe in its place would hold up every command.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BadInput(f"{shown} is no regular file", "put the settings into one")
            # Its pager is a command that runs as this user.
            if found.st_uid not in (os.getuid(), 0) or found.st_mode & stat.S_IWOTH:
                raise BadInput(f"{shown} can be written by others", "make it your own, and `chmod o-w` it")
            return file.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        remedy = "make it readable, or take it away"
        raise BadInput(f"{shown} can't be read ({error.strerror or type(error).__name__})", remedy) from None


def _parse(data: bytes, path: str) -> dict[str, object]:
    import tomllib

    try:
        document: dict[str, object] = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        # tomllib has errors of its own for neither too long a number nor too deep a list.
        raise BadInput(
            f"{printable(path)} is no TOML: {printable(str(error))}", 'write lines such as engine = "pdb"'
        ) from None
    return document
