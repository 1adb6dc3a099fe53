"""Ask and watch the ranks of a running job from a program; the command ``dbg-attach`` is one face of this library.

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

The names of ``__all__`` are the contract, described in docs/api.md. Every error is a :class:`DbgError`. Nothing here
touches the terminal. Names are loaded at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dbg_client.api.answers import Answer, Breakpoints, Collectives, Group, Verdict, Where, Why
    from dbg_client.api.blocking import Broker, Job, Ranks, connect
    from dbg_client.api.blocking_stop import Stop
    from dbg_client.api.broker import AsyncBroker, aconnect
    from dbg_client.api.errors import KeyboardTaken, RankError, StopEnded
    from dbg_client.api.notebook import load_ipython_extension
    from dbg_client.api.ranks import AsyncJob, AsyncRanks
    from dbg_client.api.stop import AsyncStop
    from dbg_client.api.variables import ExceptionInfo, Variable
    from dbg_client.core.news import RankChange
    from dbg_client.errors import TimedOut
    from dbg_client.questions.source_text import Source
    from dbg_wire.errors import DbgError
    from dbg_wire.records.line_breakpoints import BreakpointState
    from dbg_wire.records.ranks import Place, RankInfo

__all__ = [
    "Answer",
    "AsyncBroker",
    "AsyncJob",
    "AsyncRanks",
    "AsyncStop",
    "BreakpointState",
    "Breakpoints",
    "Broker",
    "Collectives",
    "DbgError",
    "ExceptionInfo",
    "Group",
    "Job",
    "KeyboardTaken",
    "Place",
    "RankChange",
    "RankError",
    "RankInfo",
    "Ranks",
    "Source",
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
    "Answer": ".api.answers",
    "AsyncBroker": ".api.broker",
    "AsyncJob": ".api.ranks",
    "AsyncRanks": ".api.ranks",
    "AsyncStop": ".api.stop",
    "BreakpointState": "dbg_wire.records.line_breakpoints",
    "Breakpoints": ".api.answers",
    "Broker": ".api.blocking",
    "Collectives": ".api.answers",
    "DbgError": "dbg_wire.errors",
    "ExceptionInfo": ".api.variables",
    "Group": ".api.answers",
    "Job": ".api.blocking",
    "KeyboardTaken": ".api.errors",
    "Place": "dbg_wire.records.ranks",
    "RankChange": ".core.news",
    "RankError": ".api.errors",
    "RankInfo": "dbg_wire.records.ranks",
    "Ranks": ".api.blocking",
    "Source": ".questions.source_text",
    "Stop": ".api.blocking_stop",
    "StopEnded": ".api.errors",
    "TimedOut": ".errors",
    "Variable": ".api.variables",
    "Verdict": ".api.answers",
    "Where": ".api.answers",
    "Why": ".api.answers",
    "aconnect": ".api.broker",
    "connect": ".api.blocking",
    "load_ipython_extension": ".api.notebook",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
