"""One IDE at the other end of two streams: its requests go to an adapter, and what that says goes to the IDE."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dbg_client.dap.adapter import Adapter
from dbg_client.dap.framing import FrameReader, Garbled, LostFrames, frame
from dbg_client.dap.messages import BadMessage, Message, Request, Send, event, numbered, output, read_request, refusal
from dbg_dial.deadline import within

CHUNK = 64 * 1024
"""Bytes that are read at once."""

MAX_UNSENT = 32 * 1024 * 1024
"""Bytes that wait for an IDE that does not read; beyond it the conversation ends, and the ranks stay as they are."""

END_SECONDS = 2.0
"""Seconds for the last messages to a client that has stopped reading."""

MakeAdapter = Callable[[Send], Adapter]


@dataclass(frozen=True, slots=True)
class Streams:
    """Both directions of a client; ``closed`` waits until all that was written has left."""

    reader: asyncio.StreamReader
    transport: asyncio.WriteTransport
    closed: Callable[[], Awaitable[object]]


class Conversation:
    """Serve one client; belongs to one event loop."""

    def __init__(self, streams: Streams, make: MakeAdapter) -> None:
        self._streams = streams
        self.send = numbered(self._write)
        self.adapter = make(self.send)

    async def hold(self) -> None:
        """Answer requests until the client has disconnected or is gone; the ranks stay as they are.

        Raises LostFrames for a client that does not speak the protocol, after it is told.
        """
        ended = asyncio.ensure_future(self.adapter.ended.wait())
        reading = asyncio.ensure_future(self._read())
        try:
            await asyncio.wait([ended, reading], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        except LostFrames as error:
            self.send(output(str(error), "important"))
            raise
        finally:
            ended.cancel()
            reading.cancel()
            await asyncio.gather(ended, reading, return_exceptions=True)
            await self._end()

    async def _read(self) -> None:
        frames = FrameReader()
        while data := await _chunk(self._streams.reader):
            for one in frames.feed(data):
                if isinstance(one, Garbled):
                    self.send(output(f"a message of this IDE was left out: {one.problem}", "important"))
                else:
                    self._take(one)

    def _take(self, document: Message) -> None:
        try:
            request = read_request(document)
        except BadMessage as bad:
            self._refuse(document, str(bad))
            return
        if request is not None:
            self.adapter.take(request)

    def _refuse(self, document: Message, sentence: str) -> None:
        seq, command = document.get("seq"), document.get("command")
        if document.get("type") == "request" and type(seq) is int and isinstance(command, str):
            self.send(refusal(Request(seq, command, {}), sentence))
        else:
            self.send(output(f"a message of this IDE was left out: {sentence}", "important"))

    async def _end(self) -> None:
        await self.adapter.close()
        self.send(event("terminated"))
        self._streams.transport.close()
        try:
            await within(END_SECONDS, self._streams.closed())
        except (OSError, asyncio.TimeoutError):
            self._streams.transport.abort()

    def _write(self, message: Message) -> None:
        transport = self._streams.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNSENT:
            transport.abort()
            return
        transport.write(frame(message))


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    """Return the next bytes, empty at the end."""
    try:
        return await reader.read(CHUNK)
    except OSError:
        return b""
