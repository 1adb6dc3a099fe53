"""The tools that an agent has: what each is for, in words that a model reads, and what it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dbg_client.api.broker import AsyncBroker
from dbg_client.mcp import tool_functions
from dbg_client.mcp.tool_functions import Given
from dbg_wire.errors import BadInput, printable

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}

SECONDS = {"type": "number", "description": "seconds to wait for answers, 10 by default"}


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


def _fits(value: object, kind: str) -> bool:
    if kind == "array":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def text(help: str) -> dict[str, Any]:  # noqa: A002 - what JSON schema calls description
    """Return the schema of a text."""
    return {"type": "string", "description": help}


def flag(help: str) -> dict[str, Any]:  # noqa: A002
    """Return the schema of a true or false."""
    return {"type": "boolean", "description": help}


def whole(help: str) -> dict[str, Any]:  # noqa: A002
    """Return the schema of a whole number."""
    return {"type": "integer", "description": help}


RANKS = text(
    "which ranks: all, 0-7,12 or 0-1023/8, stopped, held, running, crashed, gpu01:*, !5, or a group of the last answer "
    "such as @1 or @missing; default: all"
)
RANK = text("one rank: its number, or host:rank")
JOB = text("the job, if several live; `ranks` names them")
FRAME = text("a function's name further up the stack; default: where the rank stands")

TOOLS: tuple[Tool, ...] = (
    Tool(
        name="ranks",
        help="List the ranks of the training jobs: which are there, in which state, where they stand, who is missing.",
        takes={"ranks": RANKS, "job": JOB},
        do=tool_functions.list_ranks,
    ),
    Tool(
        name="where",
        help="Show where ranks are: all their stacks merged into one tree, running ranks included. Stops nobody.",
        takes={
            "ranks": RANKS,
            "job": JOB,
            "threads": flag("all threads of each rank"),
            "seconds": SECONDS,
        },
        do=tool_functions.show_where,
    ),
    Tool(
        name="why",
        help="Say why a job does not go on: who has not come to which collective, who is dead, stuck or deadlocked, "
        "or that everybody is busy; with the evidence and what to do next. Stops nobody. Ask this first of a hang.",
        takes={"ranks": RANKS, "job": JOB},
        do=tool_functions.say_why,
    ),
    Tool(
        name="slow",
        help="Say which rank slows down a job that does not hang: who comes last to collectives, how often and by how "
        "much, where it is then, and what it lacks (processor quota, cores, memory, disks). Ranks look at themselves "
        "for some seconds and are not stopped.",
        takes={
            "ranks": RANKS,
            "job": JOB,
            "seconds": {"type": "number", "description": "to look for, up to 300, 10 by default"},
        },
        do=tool_functions.say_slow,
    ),
    Tool(
        name="collectives",
        help="Show the last collective of each process group, and which ranks are in it.",
        takes={"ranks": RANKS, "job": JOB},
        do=tool_functions.show_collectives,
    ),
    Tool(
        name="eval",
        help="Evaluate a Python expression in the frame where each stopped or held rank stands. Equal values are one "
        "group, whose name (@1, @2) can be used as `ranks` afterwards. The expression can change the program.",
        takes={
            "expression": text("a Python expression, such as `loss, optimizer.param_groups[0]['lr']`"),
            "ranks": RANKS,
            "job": JOB,
            "frame": FRAME,
            "live": flag("ask running ranks, too, between two of their lines"),
            "stats": flag("minimum, maximum, mean and NaNs of tensors"),
            "seconds": SECONDS,
        },
        needs=("expression",),
        changes=True,
        do=tool_functions.evaluate,
    ),
    Tool(
        name="command",
        help="Run a command of pdb on each stopped rank: n, s, r, unt, p x, up;;p x, … `n` steps all of them.",
        takes={"command": text("a command of pdb"), "ranks": RANKS, "job": JOB, "seconds": SECONDS},
        needs=("command",),
        changes=True,
        do=tool_functions.run_command,
    ),
    Tool(
        name="interrupt",
        help="Break into running ranks: each stops where it is and stays stopped until it is continued. Other ranks "
        "will wait for it in collectives.",
        takes={"ranks": RANKS, "job": JOB, "seconds": SECONDS},
        needs=("ranks",),
        changes=True,
        do=tool_functions.break_in,
    ),
    Tool(
        name="continue",
        help="Let stopped ranks go on; without `ranks` all that are stopped.",
        takes={"ranks": RANKS, "job": JOB},
        changes=True,
        do=tool_functions.let_go_on,
    ),
    Tool(
        name="wait_for_stop",
        help="Wait until one of the ranks stops, and return where it is and its stack. Ranks that are stopped already "
        "count: name the others.",
        takes={
            "ranks": RANKS,
            "job": JOB,
            "each": flag("wait until all of these ranks are stopped"),
            "seconds": {"type": "number", "description": "up to 300, 30 by default"},
        },
        do=tool_functions.wait_for_stop,
    ),
    Tool(
        name="variables",
        help="List the local variables of one stopped rank, or the parts of a value: the items of a dict or list, the "
        "attributes of an object.",
        takes={
            "rank": RANK,
            "job": JOB,
            "of": text("an expression whose parts are listed; default: the variables of the frame"),
            "scope": {"type": "string", "enum": ["locals", "globals"], "description": "locals by default"},
            "frame": FRAME,
            "from": whole("the number of the first one, 0 by default"),
            "seconds": SECONDS,
        },
        needs=("rank",),
        changes=True,
        do=tool_functions.show_variables,
    ),
    Tool(
        name="source",
        help="Show source as a rank has loaded it: of a file, or of a stopped rank round the line where it stands.",
        takes={
            "rank": RANK,
            "job": JOB,
            "file": text("a path, or its end such as `train.py`; default: the file where the rank stands"),
            "line": whole("the line in the middle; default: where the rank stands, or the whole file"),
            "around": whole("lines before and after it, 10 by default"),
        },
        needs=("rank",),
        changes=True,
        do=tool_functions.show_source,
    ),
    Tool(
        name="breakpoints",
        help="List the breakpoints of ranks; with `line` set one or change the one there, with `clear` too remove it. "
        "Works in running ranks without stopping them. Says in which ranks it is set, moved to a line with code, or "
        "refused. Each rank that comes there stops; use wait_for_stop.",
        takes={
            "ranks": RANKS,
            "job": JOB,
            "file": text("a path, or its end such as `train.py`; default: the file where the ranks stand"),
            "line": whole("the line of the breakpoint"),
            "condition": text("stop only if this expression is true there"),
            "hits": text("stop by how often it was reached: `== 3`, `>= 10`, `% 100 == 0`"),
            "log": text("print this text instead of stopping; {expression} stands for a value"),
            "clear": flag("remove the breakpoint of this line"),
            "seconds": SECONDS,
        },
        changes=True,
        do=tool_functions.set_breakpoints,
    ),
    Tool(
        name="crashes",
        help="List the ranks that are kept after a crash, with their exceptions, and those that have ended badly.",
        takes={"job": JOB},
        do=tool_functions.list_crashes,
    ),
    Tool(
        name="run",
        help="Start a training command under the debugger, in the background; returns at once. Ranks that crash are "
        "kept. Use wait_for_stop afterwards.",
        takes={
            "command": {"type": "array", "items": {"type": "string"}, "description": "program and arguments"},
            "directory": text("where to start it; default: where this server runs"),
            "stop_at": text("stop each rank before this line: FILE:LINE, or FILE:LINE, CONDITION"),
            "post_mortem": flag("keep ranks that crash, true by default"),
        },
        needs=("command",),
        changes=True,
        do=tool_functions.start_program,
    ),
)
