"""Replies of NCCL's RAS, written after its source: no test runs on GPUs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Replies = dict[str, bytes]
"""What is replied to a line, by its first word."""

STATUS = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}

TEXT = """\
NCCL version 2.27.5 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          2            1          4        4

Communicators... (1.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2       1-2         4         3   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 4711 on node 10.0.0.2 managing GPU 1

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4712 on node 10.0.0.3 managing GPU 0

#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 3 -- GPU 1 managed by process 4711 on node 10.0.0.2

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different status
  2 ranks have status RUNNING
  Rank 1 has status ABORT -- GPU 1 (NVML 5) managed by process 31 on node 10.0.0.1
  Communicator ranks have different AllReduce operation counts
  2 ranks have launched up to operation 6650
  Rank 0 -- GPU 0 managed by process 30 on node 10.0.0.1
  Rank 1 -- GPU 1 managed by process 31 on node 10.0.0.1
  Rank 2 has launched up to operation 6649 -- GPU 0 managed by process 32 on node 10.0.0.2

"""


def rank(number: int, *, host: str = "10.0.0.1", count: int = 4, **status: object) -> dict[str, object]:
    return {
        "rank": number,
        "host": host,
        "pid": 30 + number,
        "cuda_dev": number % 8,
        "nvml_dev": number % 8,
        "status": {**STATUS, **status},
        "collective_counts": {"Broadcast": 0, "AllReduce": count},
    }


def missing(number: int, *, dead: bool = False) -> dict[str, object]:
    told = {name: value for name, value in rank(number).items() if name != "collective_counts"}
    return {**told, "status": {"unresponsive": True, "considered_dead": dead}}


def reply(*communicators: tuple[list[dict[str, object]], list[dict[str, object]]], comma: bool = True) -> str:
    """Return a reply in JSON; without ``comma`` it lacks those that NCCL 2.28.9 leaves out."""
    text = json.dumps(
        {
            "nccl_version": "2.28.9",
            "communicators_count": len(communicators),
            "communicators": [
                {
                    "hash": f"0x{0xA1349768E9517ED7 + number:x}",
                    "size": len(there) + len(gone),
                    "ranks_count": len(there),
                    "missing_ranks_count": len(gone),
                    "ranks": there,
                    "missing_ranks": gone,
                }
                for number, (there, gone) in enumerate(communicators)
            ],
            "ras": {"collection_time_sec": 0.5, "timeouts_count": 1},
        },
        indent=2,
    )
    return text if comma else re.sub(r'("nvml_dev": \d+),(\s+"status": {\s+"unresponsive")', r"\1\2", text)


@asynccontextmanager
async def playing(replies: Replies, heard: list[str]) -> AsyncIterator[dict[str, str]]:
    """Play RAS, which replies to the first word of a line, and return the environment that names it."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := (await reader.readline()).decode().strip():
            heard.append(line)
            said = replies.get(line.split()[0])
            if said is None:
                continue
            writer.write(said)
            await writer.drain()
            if line == "VERBOSE STATUS" or not said:
                break
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    async with server:
        yield {"NCCL_RAS_ADDR": f"127.0.0.1:{server.sockets[0].getsockname()[1]}"}
