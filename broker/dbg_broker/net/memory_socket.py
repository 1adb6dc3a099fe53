"""The socket at which terminals of this host get a driver's token; a request is a line of seconds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from dbg_dial.memory import is_private_directory, peer_of
from dbg_dial.waiting import within

logger = logging.getLogger("dbg_broker")

MAX_REQUEST_BYTES = 64
REQUEST_SECONDS = 2.0
"""Seconds for a request, which comes in one piece."""

MAX_AT_ONCE = 32
"""Connections served at once: each takes a millisecond, and a shell loop starts few terminals in that time."""

LOOK_SECONDS = 15.0
"""Seconds between two looks whether the socket is still there: a system removes /run/user when its user logs out, and
tells nobody."""

Answer = Callable[[int, float], str]
"""Returns what a process, given by its pid, is told that has asked for a token for so many seconds."""


class MemorySocket:
    """A Unix socket of the user alone, until :meth:`close`; belongs to the event loop's thread."""

    def __init__(self, directories: Sequence[str], name: str, answer: Answer) -> None:
        self._directories = directories
        self._name = name
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._path: str | None = None
        self._identity: tuple[int, int] | None = None
        self._serving = 0
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> str | None:
        """Listen in the first directory that can be used, and return the path; None if there is none."""
        path = await self._listen()
        self._looking = asyncio.get_running_loop().create_task(self._look())
        return path

    def close(self) -> None:
        """Answer nobody any more, and remove the socket."""
        if self._looking is not None:
            self._looking.cancel()
        self._stop_listening()

    async def _listen(self) -> str | None:
        for directory in self._directories:
            with contextlib.suppress(OSError):
                path = _place(directory, self._name)
                if path is not None:
                    self._server = await asyncio.start_unix_server(self._serve, path, limit=MAX_REQUEST_BYTES)
                    self._path, self._identity = path, _identity(path)
                    return path
        return None

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._path is not None and _identity(self._path) == self._identity:
            with contextlib.suppress(OSError):
                Path(self._path).unlink()
        self._path = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._path is None or _identity(self._path) != self._identity:
                self._stop_listening()
                path = await self._listen()
                logger.info("the socket for terminals of this host is %s now", path or "nowhere")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving += 1
        try:
            if self._serving <= MAX_AT_ONCE:
                await self._answer_one(reader, writer)
        except (OSError, ValueError, asyncio.LimitOverrunError):
            logger.debug("a process of this host asked for a token in a way that is none")
        finally:
            self._serving -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected: socket.socket = writer.get_extra_info("socket")
        # asyncio's own object stands for the socket, and has its options.
        pid, uid = peer_of(connected)
        if uid not in (os.getuid(), 0):
            logger.warning("user %d is given no token at the socket for terminals of this host", uid)
            return
        line = await within(REQUEST_SECONDS, reader.readline())
        seconds = int(line)
        writer.write(self._answer(pid, float(seconds)).encode())
        await within(REQUEST_SECONDS, writer.drain())


def _place(directory: str, name: str) -> str | None:
    """Return a free path for a socket in a directory that no other user can enter, None if it is none. Raise OSError.

    The directory's parent is the system's, and another user may have made one of the name before.
    """
    Path(directory).mkdir(mode=0o700, exist_ok=True)
    if not is_private_directory(directory, os.getuid()):
        return None
    path = f"{directory}/{name}"
    # The home's lock is held by this broker, so what is there was left by one that has ended.
    Path(path).unlink(missing_ok=True)
    return path


def _identity(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        return found.st_dev, found.st_ino
    return None
