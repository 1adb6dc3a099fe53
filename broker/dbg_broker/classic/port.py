"""The port for stock debuggers: each caller that shows a debugger becomes a rank.

Callers have no token. So their number is limited, and all callers together get a fifth of a core.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import socket
from collections import deque
from collections.abc import Hashable

from dbg_broker.classic.session import SessionOutput, StockSession, Write
from dbg_broker.net import tcp
from dbg_broker.ranks.from_ranks import FromRanks
from dbg_broker.ranks.rank_record import RankLink
from dbg_broker.ranks.table import RankTable
from dbg_broker.timers import Timers
from dbg_dial.endpoint import is_loopback_host
from dbg_wire import limits
from dbg_wire.codec import Input, Output, decode_data, encode_data
from dbg_wire.messages import Goodbye, Message, Sender

MAX_CALLERS = 64
"""Maximum number of connections: no user has more scripts without an agent, and each may store 1 MiB of its screen."""

MAX_ENDED = 64
"""Maximum number of listed ended sessions: anybody may open and end one, and they must not displace many ranks."""

MAX_HEAD = 64 * limits.KIB
"""Maximum number of bytes that a caller may send before it shows a debugger's screen."""

SILENCE_SECONDS = 20.0
"""Timeout for showing a debugger's screen, in seconds: PuDB, once imported, draws it at the program's next line."""

SLICE_BYTES = 4 * limits.KIB
"""Bytes of one caller that are handled at once. They take some milliseconds, which delay a key of another session."""

PAUSE = 4
"""Pause after a slice, in multiples of its time: all callers together take a fifth of a core."""

MAX_HOST = 63
"""Maximum length of a host's name, in characters: the limit of DNS for a label."""

REFUSAL = b"dbg-broker: this port is for stock pudb.remote.set_trace(reverse=True) only, at most 64 at a time\r\n"

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")

logger = logging.getLogger("dbg_broker")


def host_name(address: str) -> str:
    """Return a valid name for a caller's host: this host's own short name, or the address."""
    if is_loopback_host(address):
        return _NOT_IN_NAMES.sub("-", socket.gethostname().partition(".")[0])[:MAX_HOST] or "unknown"
    return _NOT_IN_NAMES.sub("-", address.removeprefix("::ffff:").partition("%")[0])[:MAX_HOST]


class StockPeer:
    """Connection of one stock debugger. The debugger sees it as its terminal, the broker as an agent's connection."""

    is_ready = True
    """Whether a frame can be sent now without waiting."""

    def __init__(self, from_ranks: FromRanks, number: int, writer: asyncio.StreamWriter) -> None:
        self.number = number
        address = writer.get_extra_info("peername")
        self.peer = tcp.peer_name(address)
        self.host = host_name(str(address[0]) if address else "?")
        self.link: RankLink | None = None
        self._from_ranks, self._writer = from_ranks, writer
        self._loop = asyncio.get_running_loop()
        self._session = StockSession(self._loop.time())
        self._timer: asyncio.TimerHandle | None = None
        self._silence = self._loop.call_later(SILENCE_SECONDS, self.refuse_unproven)

    @property
    def is_proven(self) -> bool:
        """Whether the caller has shown a debugger's screen."""
        return self._session.is_proven

    # ------------------------------------------------------------------------------------------------ calls of the port

    def received(self, data: bytes) -> None:
        """Handle a slice of the debugger's bytes."""
        self._do(self._session.received(data, self._loop.time()))

    def list_as(self, number: int) -> None:
        """List the session as the rank with this number on its host."""
        self.link = self._from_ranks.link(self)
        key = f"classic/{secrets.token_hex(8)}"
        register = self._session.registration(key, self.host, number, self._loop.time())
        self._from_ranks.receive(self.link, register)

    def refuse_unproven(self) -> None:
        """Close a connection that has not shown a debugger, after a sentence to its user."""
        if not self.is_proven:
            logger.info("classic connection from %s closed: it did not show a debugger", self.peer)
            self._writer.write(REFUSAL)
            self.close(0, "")

    def ended(self) -> str | None:
        """Forget the connection, which has ended. Return the session's key if it is listed."""
        self._silence.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._writer.close()
        if self.link is None:
            return None
        rank = self.link.rank
        if rank is not None:
            self._from_ranks.receive(self.link, Goodbye(exit=None))
        self._from_ranks.left(self.link)
        return None if rank is None else rank.key

    # ---------------------------------------------------------------------------------------------- calls of the broker

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Pass a message for an agent to the session. Like an agent, it answers in a later turn of the event loop."""
        self._loop.call_soon(self._take, message)
        return True

    def send_packed(self, message: Message, frame: bytes, instead_of: Hashable = None) -> bool:
        """Pass a message to the session like :meth:`send_message`; its encoded form is not used."""
        return self.send_message(message)

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Drop a message about other ranks: a stock session never waits for them."""
        return True

    def send_data(self, data: bytes, reserve: int) -> bool:
        """Pass keys to the session. Return False if too many wait because the debugger doesn't read."""
        keys = decode_data(data, Sender.CLIENT)
        waiting = self._writer.transport.get_write_buffer_size()
        if not isinstance(keys, Input) or waiting + len(keys.data) > limits.MAX_INPUT_PENDING:
            return False
        self._loop.call_soon(self._take, keys)
        return True

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """Close without sending code and reason, which a debugger does not understand."""
        self._writer.close()
        # A peer that reads nothing must not keep the connection open.
        self._loop.call_later(limits.CLOSE_SECONDS, self.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()

    def seconds_since_ack(self) -> float:
        """Return 0: the kernel is not asked, so the peer always counts as alive."""
        return 0.0

    def _take(self, item: Message | Input) -> None:
        if self._writer.is_closing():
            return
        try:
            session = self._session
            self._do(session.keys(item, self._loop.time()) if isinstance(item, Input) else session.message(item))
        except Exception:
            logger.exception("classic connection from %s closed after an internal error", self.peer)
            self.abort()

    def _do(self, outputs: list[SessionOutput]) -> None:
        for output in outputs:
            if isinstance(output, Write):
                self._writer.write(output.data)
            elif self.link is None or self.link.rank is None:
                continue
            elif isinstance(output, Output):
                self._from_ranks.receive_data(self.link, encode_data(output))
            else:
                self._from_ranks.receive(self.link, output)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._session.due is None else self._loop.call_at(self._session.due, self._tick)

    def _tick(self) -> None:
        self._do(self._session.tick(self._loop.time()))


class StockPort:
    """The port for stock debuggers, which become ranks of a table."""

    def __init__(self, timers: Timers, table: RankTable, from_ranks: FromRanks) -> None:
        self._timers, self._table, self._from_ranks = timers, table, from_ranks
        # The numbers are negative, because the server gives positive numbers to its connections.
        self._numbers = itertools.count(-1, -1)
        self._peers: dict[StockPeer, tuple[str, int] | None] = {}
        """The connections. For a listed one: its host's name and its number on that host; otherwise None."""
        self._ended: deque[str] = deque()
        self._turn = asyncio.Lock()
        self._server: asyncio.Server | None = None

    async def listen(self, listener: socket.socket) -> None:
        """Start to accept connections."""
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=SLICE_BYTES, backlog=MAX_CALLERS)

    def stop(self) -> None:
        """Accept no more connections, and end the existing ones. Most of the debugged programs then end, too."""
        if self._server is not None:
            self._server.close()
        for peer in tuple(self._peers):
            peer.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._peers) >= MAX_CALLERS:
            logger.warning("%d classic connections are open, the maximum; rejecting another one", len(self._peers))
            writer.write(REFUSAL)
            writer.close()
            return
        peer = StockPeer(self._from_ranks, next(self._numbers), writer)
        self._peers[peer] = None
        try:
            await self._read(reader, peer)
        except OSError as error:
            logger.info("classic connection from %s ended: %s", peer.peer, error.strerror)
        except Exception:
            logger.exception("classic connection from %s closed after an internal error", peer.peer)
            peer.abort()
        finally:
            del self._peers[peer]
            if (key := peer.ended()) is not None:
                self._keep(key)

    async def _read(self, reader: asyncio.StreamReader, peer: StockPeer) -> None:
        head, spent = 0, self._timers.spent
        while data := await reader.read(SLICE_BYTES):
            async with self._turn:
                began = spent()
                peer.received(data)
                if peer.is_proven and peer.link is None:
                    taken = set(self._peers.values())
                    number = next(number for number in itertools.count(1) if (peer.host, number) not in taken)
                    self._peers[peer] = peer.host, number
                    peer.list_as(number)
                await asyncio.sleep(PAUSE * (spent() - began))
            head += len(data)
            if head > MAX_HEAD:
                peer.refuse_unproven()

    def _keep(self, key: str) -> None:
        """Keep an ended session on the list, and remove the one that ended first if there are too many."""
        self._ended.append(key)
        if len(self._ended) > MAX_ENDED and (rank := self._table.registry.find(self._ended.popleft())) is not None:
            self._table.registry.forget(rank)
            self._table.forget(rank.key)
