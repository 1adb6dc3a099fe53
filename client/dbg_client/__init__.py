"""Inspect and watch the ranks of a running job from a program; the command ``dbg-attach`` uses this library.

::

    import dbg_client

    with dbg_client.connect() as broker:
        job = broker.job()
        print(job["0-7"].eval("loss"))
        print(job.why())
        with job[5].attach() as stop:
            print(stop.locals())
            stop.next()

    async with dbg_client.aconnect() as broker:
        print(await broker.job().where())

The names in ``__all__`` are the public API, described in docs/api.md. Every error is a :class:`DbgError`. Nothing here
uses the terminal. Names are loaded at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dbg_client.api.answers import Answer, Collectives, Group, Numbers, Slow, SlowVerdict, Verdict, Where, Why
    from dbg_client.api.blocking import Broker, Job, Ranks, Stop, connect
    from dbg_client.api.broker import AsyncBroker, aconnect
    from dbg_client.api.inspection import RankError
    from dbg_client.api.ranks import AsyncJob, AsyncRanks
    from dbg_client.api.stop import AsyncStop, StopEnded
    from dbg_client.api.values import ExceptionInfo, Variable
    from dbg_client.core.directory import RankChange
    from dbg_client.core.errors import TimedOut
    from dbg_client.notebook import load_ipython_extension
    from dbg_client.seat.seat import KeyboardTaken
    from dbg_wire.errors import DbgError
    from dbg_wire.records.ranks import Place, RankInfo

__all__ = [
    "Answer",
    "AsyncBroker",
    "AsyncJob",
    "AsyncRanks",
    "AsyncStop",
    "Broker",
    "Collectives",
    "DbgError",
    "ExceptionInfo",
    "Group",
    "Job",
    "KeyboardTaken",
    "Numbers",
    "Place",
    "RankChange",
    "RankError",
    "RankInfo",
    "Ranks",
    "Slow",
    "SlowVerdict",
    "Stop",
    "StopEnded",
    "TimedOut",
    "Variable",
    "Verdict",
    "Where",
    "Why",
    "aconnect",
    "connect",
    "load_ipython_extension",
]

_MODULES = {
    name: module
    for module, names in {
        "dbg_client.api.answers": "Answer Collectives Group Numbers Slow SlowVerdict Verdict Where Why",
        "dbg_client.api.blocking": "Broker Job Ranks Stop connect",
        "dbg_client.api.broker": "AsyncBroker aconnect",
        "dbg_client.notebook": "load_ipython_extension",
        "dbg_client.api.ranks": "AsyncJob AsyncRanks",
        "dbg_client.api.stop": "AsyncStop StopEnded",
        "dbg_client.seat.seat": "KeyboardTaken",
        "dbg_client.api.values": "ExceptionInfo Variable",
        "dbg_client.core.directory": "RankChange",
        "dbg_client.core.errors": "TimedOut",
        "dbg_client.api.inspection": "RankError",
        "dbg_wire.errors": "DbgError",
        "dbg_wire.records.ranks": "Place RankInfo",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
