"""The NCCL of this host, asked by the client port of its RAS about the communicators of the job.

Since NCCL 2.28.7 it replies in JSON; earlier ones reply in a text for people, which names only communicators with
problems.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from dbg_dial.waiting import within
from dbg_wire.errors import PeerError, printable
from dbg_wire.limits import MIB
from dbg_wire.records.beside import (
    ABORTED,
    DEAD,
    FAILED,
    FINALIZING,
    INITIALIZING,
    LEFT,
    MISSING,
    RUNNING,
    UNKNOWN,
    UNRESPONSIVE,
    OperationCount,
    RasCommunicator,
    RasProcess,
    RasRank,
    RasSeen,
    RasStatus,
)
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.record import fitted

IN_PROGRESS = 7
"""NCCL's ncclInProgress: a communicator that is being made."""

_NUMBER = "[0-9]{1,18}"
_NO_COMMA = re.compile(r'("nvml_dev": *\d+)\s*\n(\s*"status")')
_HEAD = re.compile(r"#\d+-\d+ \(([0-9a-f]+)\) (INCOMPLETE|ERROR|MISMATCH)")
_RANK = re.compile(
    rf"  Rank ({_NUMBER})(?: has (?:launched up to operation ({_NUMBER})|(not launched any operations)|status (\w+)))?"
    rf" -- (?:GPU (.+?) managed by process ({_NUMBER}) on node (\S+)|\[.*\])"
)
_SEVERAL = re.compile(
    rf"  \d+ ranks have (?:launched up to operation ({_NUMBER})|(not launched any operations)|status (\w+))"
)
_OPERATION = re.compile(r"  Communicator ranks have different (\w+) operation counts")
_PROCESS = re.compile(rf"  Process ({_NUMBER}) on node (\S+) managing")
_STATES = {"NOCOMM": LEFT, "INIT": INITIALIZING, "RUNNING": RUNNING, "FINALIZE": FINALIZING, "ABORT": ABORTED}

DEFAULT_ADDRESS = ("localhost", 28028)

MAX_REPLY = 64 * MIB
"""Bytes of a reply that are read: of a job with 10,000 ranks in ten communicators each it has about as many."""

MAX_LINE = 4096
"""Bytes of the reply to one setting: a word, or the sentence of an error."""

CONNECT_SECONDS = 2.0
"""Seconds for the connection, which does not leave the host."""


def parse_reply(text: str) -> RasStatus:
    """Return what a reply tells, in either form. Raises PeerError for a text that is no reply of RAS."""
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    if "NCCL version" not in text:
        raise PeerError("a reply that is none of NCCL's RAS")
    return _parse_text(text)


# ---------------------------------------------------------------------------------------------------------------- JSON


def _parse_json(text: str) -> RasStatus:
    try:
        # NCCL 2.28.9 leaves out a comma before the status of a missing rank.
        document = json.loads(_NO_COMMA.sub(r"\1,\n\2", text))
        communicators, ranks = [], []
        for found in document["communicators"]:
            name = str(found["hash"]).removeprefix("0x")
            missing = [_json_rank(name, one, _why_missing(one["status"])) for one in found.get("missing_ranks", ())]
            communicators.append(fitted(RasCommunicator, name=name, size=int(found["size"]), missing=len(missing)))
            ranks += [*missing, *(_json_rank(name, one, _state(one["status"])) for one in found["ranks"])]
        timeouts = document.get("ras", {}).get("timeouts_count", 0)
        seen = fitted(RasSeen, version=str(document.get("nccl_version", "")), timeouts=int(timeouts))
        return RasStatus(seen=seen, communicators=tuple(communicators), ranks=tuple(ranks))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, InvalidMessage):
        raise PeerError("a reply of NCCL's RAS that can't be read") from None


def _json_rank(name: str, found: dict[str, Any], state: str) -> RasRank:
    counts = found.get("collective_counts", {})
    return fitted(
        RasRank,
        communicator=name,
        rank=int(found["rank"]),
        state=state,
        host=str(found["host"]),
        pid=int(found["pid"]),
        device=str(found["cuda_dev"]),
        counts=tuple(fitted(OperationCount, name=kind, count=int(count)) for kind, count in counts.items()),
    )


def _state(status: dict[str, Any]) -> str:
    if status["abort_flag"]:
        return ABORTED
    if status["finalize_called"] or status["destroy_flag"]:
        return FINALIZING
    if {status["init_state"], status["async_error"]} - {0, IN_PROGRESS}:
        return FAILED
    return INITIALIZING if status["init_state"] else RUNNING


def _why_missing(status: dict[str, Any]) -> str:
    return DEAD if status["considered_dead"] else UNRESPONSIVE if status["unresponsive"] else LEFT


# ---------------------------------------------------------------------------------------------------------------- text


def _parse_text(text: str) -> RasStatus:
    version = re.search(r"NCCL version (\S+)", text)
    timeouts = re.search(rf"Encountered ({_NUMBER}) communication timeout", text)
    ranks = [rank for section in re.split(r"\n\s*\n", text) for rank in _ranks_of(section.splitlines())]
    missing = [rank.communicator for rank in ranks if rank.state in MISSING]
    names = dict.fromkeys(found[1] for found in _HEAD.finditer(text))
    processes = (one for section in re.split(r"\n\s*\n", text) for one in _processes_of(section.splitlines()))
    return RasStatus(
        seen=fitted(
            RasSeen, version=version[1] if version else "", timeouts=min(int(timeouts[1]), 10**6) if timeouts else 0
        ),
        communicators=tuple(fitted(RasCommunicator, name=name, missing=missing.count(name)) for name in names),
        ranks=tuple(ranks),
        processes=tuple(processes),
    )


def _ranks_of(lines: Sequence[str]) -> Iterator[RasRank]:
    """Yield the ranks of one paragraph on a communicator."""
    at = next((number for number, line in enumerate(lines) if _HEAD.match(line)), None)
    if at is None:
        return
    head = cast(re.Match[str], _HEAD.match(lines[at]))
    operation, told = "", None
    for line in lines[at + 1 :]:
        if (kind := _OPERATION.match(line)) is not None:
            operation, told = kind[1], None
        elif (several := _SEVERAL.match(line)) is not None:
            told = (several[1] or ("0" if several[2] else None), several[3])
        elif (rank := _RANK.match(line)) is not None:
            own = (rank[2] or ("0" if rank[3] else None), rank[4])
            count, status = own if any(own) else told or (None, None)
            yield _text_rank(head, rank, operation, count, status)


def _text_rank(
    head: re.Match[str], rank: re.Match[str], operation: str, count: str | None, status: str | None
) -> RasRank:
    state = {"INCOMPLETE": UNRESPONSIVE, "ERROR": FAILED}.get(head[2], _STATES.get(status or "", UNKNOWN))
    counts = (fitted(OperationCount, name=operation or "operations", count=int(count)),) if count is not None else ()
    return fitted(
        RasRank,
        communicator=head[1],
        rank=int(rank[1]),
        state=state,
        host=rank[7] or "",
        pid=int(rank[6]) if rank[6] else None,
        device=(rank[5] or "").partition(" ")[0],
        counts=counts,
    )


def _processes_of(lines: Sequence[str]) -> Iterator[RasProcess]:
    if not lines or lines[0] not in ("INCOMPLETE", "DEAD"):
        return
    state = DEAD if lines[0] == "DEAD" else UNRESPONSIVE
    for line in lines:
        if (found := _PROCESS.match(line)) is not None:
            yield fitted(RasProcess, state=state, pid=int(found[1]), host=found[2])


class NoRas(Exception):
    """Nothing that can be used comes from RAS, with the reason as a sentence."""


async def ask_ras(environ: Mapping[str, str], seconds: float) -> RasStatus:
    """Return what RAS tells within so many seconds. Raise NoRas if it doesn't answer, or not in a known form."""
    host, port = address_of(environ)
    where = f"{host}:{port}"
    try:
        reader, writer = await within(min(CONNECT_SECONDS, seconds), asyncio.open_connection(host, port))
    except OSError as error:
        why = getattr(error, "strerror", None) or "it does not answer"
        raise NoRas(
            f"no NCCL with RAS is at {where} ({printable(str(why))}): it is there from NCCL 2.24 on,"
            " while a communicator is, unless NCCL_RAS_ENABLE=0"
        ) from None
    try:
        return parse_reply(await within(seconds, _converse(reader, writer, max(1, int(seconds) - 1))))
    except TimeoutError:
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
