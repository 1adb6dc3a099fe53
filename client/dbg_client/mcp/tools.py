"""The tools: a name, what it is for, what it takes, and what it does with the ranks."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dbg_wire.errors import BadInput, printable
from dbg_wire.ranks import DIED, RankInfo, RankState, describe_exit

from ..api.broker import AsyncBroker
from ..api.ranks import AsyncRanks
from ..core.listed import there
from ..core.roll_call import call_roll
from ..views.list import show_table
from ..views.missing import absent_only, absent_rows
from ..views.naming import order
from .run import start_run

MAX_WAIT = 300.0
"""Seconds that one call may wait; agents give a call up after some minutes."""

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. ``changes`` says that a program may move or end by it: a watcher's token has no such tool."""

    name: str
    help: str
    takes: Mapping[str, Mapping[str, Any]]
    needs: tuple[str, ...] = ()
    changes: bool = False
    do: Callable[[AsyncBroker, Given], Awaitable[str]]

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of what it takes."""
        return {
            "type": "object",
            "properties": dict(self.takes),
            "required": list(self.needs),
            "additionalProperties": False,
        }

    def document(self) -> dict[str, Any]:
        """Return the tool as ``tools/list`` tells it."""
        hints = {"readOnlyHint": not self.changes, "openWorldHint": False}
        return {"name": self.name, "description": self.help, "inputSchema": self.schema, "annotations": hints}

    def check(self, given: Given) -> None:
        """Raise BadInput for arguments that the tool does not take."""
        for name in self.needs:
            if name not in given:
                raise BadInput(f"{self.name} needs {name}", f"it takes {', '.join(self.takes)}")
        for name, value in given.items():
            if name not in self.takes:
                known = ", ".join(self.takes) or "nothing"
                raise BadInput(f"{self.name} takes no {printable(name)!r}", f"it takes {known}")
            if not _fits(value, str(self.takes[name]["type"])):
                raise BadInput(
                    f"{name} of {self.name} is {printable(repr(value), 60)}", f"give a {self.takes[name]['type']}"
                )


_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}


def _fits(value: object, kind: str) -> bool:
    if kind == "array":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _text(help: str) -> dict[str, Any]:  # noqa: A002 - what JSON schema calls description
    return {"type": "string", "description": help}


RANKS = _text(
    "which ranks: all, 0-7,12 or 0-1023/8, stopped, held, running, crashed, gpu01:*, !5, or a group of the last answer "
    "such as @1 or @missing; default: all"
)
RANK = _text("one rank: its number, or host:rank")
JOB = _text("the job, if several live; `ranks` names them")
SECONDS = {"type": "number", "description": "seconds to wait for answers, 10 by default"}


def _chosen(broker: AsyncBroker, given: Given, usual: str = "all") -> AsyncRanks:
    return broker.job(given.get("job"))[str(given.get("ranks", given.get("rank", usual)))]


async def _list(broker: AsyncBroker, given: Given) -> str:
    known = broker.ranks
    shown = _chosen(broker, given).list() if "ranks" in given or "job" in given else there(known)
    if not shown:
        return "no rank is connected"
    absent = absent_rows(absent_only(call_roll(known)), several_jobs=len({rank.job for rank in shown}) > 1)
    return show_table(sorted(shown, key=order), time.time(), color=False, fold=True, known=known) + absent


async def _where(broker: AsyncBroker, given: Given) -> str:
    ranks = _chosen(broker, given)
    return (await ranks.where(threads=given.get("threads", False), timeout=given.get("seconds"))).tree()


async def _why(broker: AsyncBroker, given: Given) -> str:
    return str(await _chosen(broker, given).why())


async def _collectives(broker: AsyncBroker, given: Given) -> str:
    return str(await _chosen(broker, given).collectives())


async def _eval(broker: AsyncBroker, given: Given) -> str:
    return str(
        await _chosen(broker, given).eval(
            given["expression"],
            frame=given.get("frame", ""),
            live=given.get("live", False),
            stats=given.get("stats", False),
            timeout=given.get("seconds"),
        )
    )


async def _command(broker: AsyncBroker, given: Given) -> str:
    return str(await _chosen(broker, given).command(given["command"], timeout=given.get("seconds")))


async def _interrupt(broker: AsyncBroker, given: Given) -> str:
    return str(await _chosen(broker, given).interrupt(timeout=given.get("seconds")))


async def _continue(broker: AsyncBroker, given: Given) -> str:
    return str(await _chosen(broker, given, "stopped").resume())


async def _wait_for_stop(broker: AsyncBroker, given: Given) -> str:
    seconds = float(given.get("seconds", 30.0))
    if not 0 < seconds <= MAX_WAIT:
        raise BadInput(f"seconds are {seconds:g}", f"give up to {MAX_WAIT:g}")
    wanted = str(given.get("ranks", "all"))
    rank = await (broker.job(given["job"])[wanted].wait(seconds) if "job" in given else broker.wait(wanted, seconds))
    where = await broker.job(rank.job)[rank.address].where()
    return f"{_stop_of(rank)}\n{where.tree()}"


async def _source(broker: AsyncBroker, given: Given) -> str:
    ranks = _chosen(broker, given)
    around, line = int(given.get("around", 10)), given.get("line")
    if "file" not in given:
        return str(await ranks.command("ll" if line is None else f"l {max(1, line - around)}, {line + around}"))
    first, last = max(0, (line or 1) - around - 1), (line or 1) + around
    text = f"import linecache; print(''.join(linecache.getlines({given['file']!r})[{first}:{last}]))"
    return str(await ranks.command(f"!{text}"))


async def _breakpoints(broker: AsyncBroker, given: Given) -> str:
    ranks = _chosen(broker, given, "stopped")
    place = f"{given.get('file', '')}:{given['line']}".lstrip(":") if "line" in given else ""
    if not place:
        return str(await ranks.command("b"))
    if given.get("clear", False):
        return str(await ranks.command(f"cl {place}"))
    condition = f", {given['condition']}" if given.get("condition") else ""
    return str(await ranks.command(f"b {place}{condition}"))


async def _crashes(broker: AsyncBroker, given: Given) -> str:
    known = [rank for rank in broker.ranks if given.get("job") in (None, rank.job)]
    kept = [rank for rank in known if rank.state is RankState.STOPPED and rank.reason == "crash"]
    ended = [rank for rank in known if rank.state is RankState.EXITED and _ended_badly(rank)]
    lines = [_stop_of(rank) for rank in sorted(kept, key=order)]
    lines += [f"{rank.full_address} {describe_exit(rank)}" for rank in sorted(ended, key=order)]
    return "\n".join(lines) or "no rank is kept after a crash, and none has ended badly"


async def _run(broker: AsyncBroker, given: Given) -> str:
    return await start_run(
        given["command"],
        directory=given.get("directory"),
        stop_at=given.get("stop_at"),
        post_mortem=given.get("post_mortem", True),
    )


def _ended_badly(rank: RankInfo) -> bool:
    return rank.exit not in (0, None) or rank.reason == DIED


def _stop_of(rank: RankInfo) -> str:
    where = f" in {rank.where.function} at {rank.where.file}:{rank.where.line}" if rank.where is not None else ""
    detail = f": {rank.detail}" if rank.detail else ""
    return f"{rank.full_address} is stopped ({rank.reason}){where}{detail}"


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="ranks",
        help="List the ranks of the training jobs: which are there, in which state, where they stand, who is missing.",
        takes={"ranks": RANKS, "job": JOB},
        do=_list,
    ),
    Tool(
        name="where",
        help="Show where ranks are: all their stacks merged into one tree, running ranks included. Stops nobody.",
        takes={
            "ranks": RANKS,
            "job": JOB,
            "threads": {"type": "boolean", "description": "all threads of each rank"},
            "seconds": SECONDS,
        },
        do=_where,
    ),
    Tool(
        name="why",
        help="Say why a job does not go on: who has not come to which collective, who is dead, stuck or deadlocked, "
        "or that everybody is busy; with the evidence and what to do next. Stops nobody. Ask this first of a hang.",
        takes={"ranks": RANKS, "job": JOB},
        do=_why,
    ),
    Tool(
        name="collectives",
        help="Show the last collective of each process group, and which ranks are in it.",
        takes={"ranks": RANKS, "job": JOB},
        do=_collectives,
    ),
    Tool(
        name="eval",
        help="Evaluate a Python expression in the frame where each stopped or held rank stands. Equal values are one "
        "group, whose name (@1, @2) can be used as `ranks` afterwards. The expression can change the program.",
        takes={
            "expression": _text("a Python expression, such as `loss, optimizer.param_groups[0]['lr']`"),
            "ranks": RANKS,
            "job": JOB,
            "frame": _text("a function's name further up the stack; default: where the rank stands"),
            "live": {"type": "boolean", "description": "ask running ranks, too, between two of their lines"},
            "stats": {"type": "boolean", "description": "minimum, maximum, mean and NaNs of tensors"},
            "seconds": SECONDS,
        },
        needs=("expression",),
        changes=True,
        do=_eval,
    ),
    Tool(
        name="command",
        help="Run a command of pdb on each stopped rank: n, s, r, unt, p x, up;;p x, … `n` steps all of them.",
        takes={"command": _text("a command of pdb"), "ranks": RANKS, "job": JOB, "seconds": SECONDS},
        needs=("command",),
        changes=True,
        do=_command,
    ),
    Tool(
        name="interrupt",
        help="Break into running ranks: each stops where it is and stays stopped until it is continued. Other ranks "
        "will wait for it in collectives.",
        takes={"ranks": RANKS, "job": JOB, "seconds": SECONDS},
        needs=("ranks",),
        changes=True,
        do=_interrupt,
    ),
    Tool(
        name="continue",
        help="Let stopped ranks go on; without `ranks` all that are stopped.",
        takes={"ranks": RANKS, "job": JOB},
        changes=True,
        do=_continue,
    ),
    Tool(
        name="wait_for_stop",
        help="Wait until one of the ranks stops, and return where it is and its stack.",
        takes={"ranks": RANKS, "job": JOB, "seconds": {"type": "number", "description": "up to 300, 30 by default"}},
        do=_wait_for_stop,
    ),
    Tool(
        name="source",
        help="Show source as a stopped rank has it: its present function, or lines of a file.",
        takes={
            "rank": RANK,
            "job": JOB,
            "file": _text("the file's path in the rank; default: the present one"),
            "line": {"type": "integer", "description": "the line in the middle"},
            "around": {"type": "integer", "description": "lines before and after it, 10 by default"},
        },
        needs=("rank",),
        changes=True,
        do=_source,
    ),
    Tool(
        name="breakpoints",
        help="List the breakpoints of stopped ranks; with `line` set one, with `clear` too remove it.",
        takes={
            "ranks": RANKS,
            "job": JOB,
            "file": _text("the file; default: the one in which the rank stands"),
            "line": {"type": "integer", "description": "the line of the breakpoint"},
            "condition": _text("stop only if this expression is true there"),
            "clear": {"type": "boolean", "description": "remove the breakpoint of this line"},
        },
        changes=True,
        do=_breakpoints,
    ),
    Tool(
        name="crashes",
        help="List the ranks that are kept after a crash, with their exceptions, and those that have ended badly.",
        takes={"job": JOB},
        do=_crashes,
    ),
    Tool(
        name="run",
        help="Start a training command under the debugger, in the background; returns at once. Ranks that crash are "
        "kept. Use wait_for_stop afterwards.",
        takes={
            "command": {"type": "array", "items": {"type": "string"}, "description": "program and arguments"},
            "directory": _text("where to start it; default: where this server runs"),
            "stop_at": _text("stop each rank before this line: FILE:LINE, or FILE:LINE, CONDITION"),
            "post_mortem": {"type": "boolean", "description": "keep ranks that crash, true by default"},
        },
        needs=("command",),
        changes=True,
        do=_run,
    ),
)
