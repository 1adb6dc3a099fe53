"""Ask the NCCL of this host, by the client port of its RAS, about the communicators of the job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from dbg_agent.guard.ras_reply import parse_reply
from dbg_dial.deadline import within
from dbg_wire.errors import PeerError, printable
from dbg_wire.limits import MIB
from dbg_wire.records.ras import RasStatus

DEFAULT_ADDRESS = ("localhost", 28028)

MAX_REPLY = 64 * MIB
"""Bytes of a reply that are read: of a job with 10,000 ranks in ten communicators each it has about as many."""

MAX_LINE = 4096
"""Bytes of the reply to one setting: a word, or the sentence of an error."""

CONNECT_SECONDS = 2.0
"""Seconds for the connection, which does not leave the host."""


class NoRas(Exception):
    """Nothing that can be used comes from RAS, with the reason as a sentence."""


async def ask_ras(environ: Mapping[str, str], seconds: float) -> RasStatus:
    """Return what RAS tells within so many seconds. Raise NoRas if it doesn't answer, or not in a known form."""
    host, port = address_of(environ)
    where = f"{host}:{port}"
    try:
        reader, writer = await within(min(CONNECT_SECONDS, seconds), asyncio.open_connection(host, port))
    except (OSError, asyncio.TimeoutError) as error:
        why = getattr(error, "strerror", None) or "it does not answer"
        raise NoRas(
            f"no NCCL with RAS is at {where} ({printable(str(why))}): it is there from NCCL 2.24 on,"
            " while a communicator is, unless NCCL_RAS_ENABLE=0"
        ) from None
    try:
        return parse_reply(await within(seconds, _converse(reader, writer, max(1, int(seconds) - 1))))
    except asyncio.TimeoutError:
        raise NoRas(f"NCCL's RAS at {where} did not reply within {seconds:.3g} s") from None
    except (OSError, asyncio.IncompleteReadError):
        raise NoRas(f"NCCL's RAS at {where} has closed the connection") from None
    except PeerError as error:
        raise NoRas(f"{where} is not understood: {error.reason}") from None
    except ValueError:
        # StreamReader.readline() raises it for a line without an end.
        raise NoRas(f"{where} is not understood: it says too much") from None
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def address_of(environ: Mapping[str, str]) -> tuple[str, int]:
    """Return where RAS listens, as NCCL_RAS_ADDR says, or its default. Raise NoRas for an address of no such form."""
    text = environ.get("NCCL_RAS_ADDR", "")
    if not text:
        return DEFAULT_ADDRESS
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise NoRas(f"NCCL_RAS_ADDR is {printable(text)!r}, and not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: int) -> str:
    """Settle the form of the reply, ask for the status, and return it, which ends with the connection."""
    greeting = await _setting(reader, writer, "CLIENT PROTOCOL 2")
    if not greeting.startswith("SERVER PROTOCOL"):
        raise PeerError(f"it says {printable(greeting, 80)!r}")
    await _setting(reader, writer, f"TIMEOUT {seconds}")
    # Older ones know no such setting, answer with an error, and reply in text.
    await _setting(reader, writer, "SET FORMAT json")
    writer.write(b"VERBOSE STATUS\n")
    await writer.drain()
    reply = bytearray()
    while data := await reader.read(65536):
        reply += data
        if len(reply) > MAX_REPLY:
            raise PeerError(f"its reply is longer than {MAX_REPLY} bytes")
    return reply.decode("utf-8", "replace")


async def _setting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> str:
    writer.write(f"{line}\n".encode())
    await writer.drain()
    said = await reader.readline()
    if not said:
        raise asyncio.IncompleteReadError(said, None)
    if len(said) > MAX_LINE:
        raise PeerError("it says too much")
    return said.decode("utf-8", "replace").strip()
