"""The tools of an agent. What each takes is a record, of which msgspec makes the JSON schema and the check.

A tool's docstring and the descriptions of its fields are read by a model.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from dbg_client.api.broker import AsyncBroker
from dbg_client.api.ranks import AsyncRanks
from dbg_client.command_line.reading import TEXTS, fields_of, text_field
from dbg_client.core.choose import call_roll, there
from dbg_client.core.switchboard import WATCHER
from dbg_client.verbs.list import RankList
from dbg_client.verbs.table import load_verb
from dbg_client.verbs.verb import RanksVerb, Style
from dbg_wire.errors import BadInput, Remedy, printable
from dbg_wire.records.inspection import MAX_VARIABLES
from dbg_wire.records.ranks import rank_order
from dbg_wire.records.record import refusal

MAX_WAIT = 300.0
"""Seconds that one call may wait; agents give a call up after some minutes."""

MAX_REFUSAL = 200
"""Characters of a refusal: it repeats the wrong value."""

MAX_LINES = 120
"""Lines of one answer: some 2,000 words for a model, and as many as a tree of 1,000 ranks usually has."""

MAX_CHARACTERS = 8000
"""Characters of one answer."""

TOOLS_OF_COMMANDS = {
    "list": "`ranks`",
    "wait": "`wait_for_stop` with ranks='{ranks}'",
    "interrupt": "`interrupt` with ranks='{ranks}'",
    "release": "`continue` with ranks='{ranks}'",
    "attach": "`where` with ranks='{ranks}'",
}
"""What an agent calls where an error names a command of the terminal."""

RANKS = Meta(
    description="which ranks: all, 0-7,12 or 0-1023/8, stopped, held, running, crashed, gpu01:*, !5, or a group of the "
    "last answer such as @1 or @missing"
)
SomeRanks = Annotated[str, RANKS]
Job = Annotated[str, Meta(description="the job, if several live; `ranks` names them")]
Frame = Annotated[str, Meta(description="a function's name further up the stack; default: where the rank stands")]
Seconds = Annotated[float | None, Meta(description="seconds to wait for answers, 10 by default")]


class Tool(msgspec.Struct, forbid_unknown_fields=True):
    """One call of a tool. ``changes`` says that a program may move or end by it: a watcher's token has no such tool."""

    name: ClassVar[str]
    changes: ClassVar[bool] = False

    @classmethod
    def document(cls) -> dict[str, Any]:
        """Return the tool as ``tools/list`` tells it."""
        _, parts = msgspec.json.schema_components([cls])
        schema = parts[cls.__name__]
        description = " ".join(schema.pop("description").split())
        hints = {"readOnlyHint": not cls.changes, "openWorldHint": False}
        return {"name": cls.name, "description": description, "inputSchema": schema, "annotations": hints}

    @classmethod
    def read(cls, given: dict[str, Any]) -> Any:
        """Return a call with these arguments. Raises BadInput for those that the tool does not take."""
        try:
            return msgspec.convert(given, cls)
        except (msgspec.ValidationError, UnicodeError) as error:
            takes = ", ".join(cls.__struct_encode_fields__) or "nothing"
            what = printable(f"{cls.name}{refusal(error)}", MAX_REFUSAL)
            raise BadInput(what, f"it takes {takes}") from None

    @abstractmethod
    async def do(self, broker: AsyncBroker) -> str:
        """Return the answer as a text."""


class RanksTool(Tool):
    """A call for some ranks of a job."""

    ranks: SomeRanks = "all"
    job: Job = ""

    def chosen(self, broker: AsyncBroker) -> AsyncRanks:
        """Return the ranks."""
        return broker.job(self.job or None)[self.ranks]


class RankTool(RanksTool):
    """A call for one rank."""

    ranks: Annotated[str, Meta(description="one rank: its number, or host:rank")] = msgspec.field(name="rank")

    def chosen(self, broker: AsyncBroker) -> AsyncRanks:
        """Return the rank. Raises BadInput for several."""
        ranks = super().chosen(broker)
        if len(ranks) > 1:
            raise BadInput(f"`rank` is {len(ranks)} ranks", "name one: its number, or host:rank")
        return ranks


class ListRanks(Tool):
    """List the ranks of the training jobs: which are there, in which state, where they stand, who is missing."""

    name = "ranks"
    ranks: SomeRanks = ""
    job: Job = ""

    async def do(self, broker: AsyncBroker) -> str:
        known = broker.ranks
        some = self.ranks or self.job
        found = broker.job(self.job or None)[self.ranks or "all"].list() if some else there(known)
        if not found:
            return "no rank is connected"
        shown = tuple(sorted(found, key=rank_order))
        calls = call_roll(known, asked={rank.key for rank in shown})
        return RankList(shown=shown, absent=tuple(calls), known=known).text()


class VerbTool(RanksTool):
    """A verb as a tool: its arguments are the options that it has in a session."""

    verb: ClassVar[type[RanksVerb]]

    async def do(self, broker: AsyncBroker) -> str:
        names = [name for name in self.__struct_fields__ if name not in ("ranks", "job")]
        given = {name: getattr(self, name) for name in names}
        seconds = None if "seconds" in self.verb.__struct_fields__ else given.pop("seconds")
        answer = await self.chosen(broker).ask(self.verb(**given), timeout=seconds)
        style = Style(word=partial(tool_for, may_change=broker.role != WATCHER))
        return "".join(f"{line.rstrip()}\n" for line in (answer.text(style), answer.hint) if line)


def tool_of(name: str) -> type[VerbTool]:
    """Return the tool that a verb is."""
    verb = load_verb(name)
    made: dict[str, tuple[str, Any] | tuple[str, Any, Any]] = {}
    if verb.operands in TEXTS:
        text = text_field(verb)
        made[text] = (text, Annotated[str, Meta(description=f"as in `{verb.example}`, without the ranks")])
    if name == "interrupt":
        # Nobody stops a whole job by leaving an argument out.
        made["ranks"] = ("ranks", SomeRanks)
    elif verb.usual not in (None, "all"):
        made["ranks"] = ("ranks", SomeRanks, verb.usual)
    for field in fields_of(verb):
        option = next((option for option in field.options if option.in_session), None)
        if option is not None and field.name not in _NOT_FOR_AGENTS:
            made[field.name] = (field.name, Annotated[field.kind, Meta(description=option.help)], field.default)
    made.setdefault("seconds", ("seconds", Seconds, None))
    changes = verb().may_change()
    namespace = {"name": name, "changes": changes, "verb": verb, "__doc__": verb.for_agents}
    tool: Any = msgspec.defstruct(
        verb.__name__, list(made.values()), bases=(VerbTool,), namespace=namespace, kw_only=True
    )
    return tool  # type: ignore[no-any-return] # a subclass of VerbTool


_NOT_FOR_AGENTS = ("yes", "native", "all")
"""Options that a tool does not have: an agent has agreed, and reading native frames stops a rank for a moment."""


class WaitForStop(RanksTool):
    """Wait until one of the ranks stops, and return where it is and its stack. Ranks that are stopped already count:
    name the others.
    """

    name = "wait_for_stop"
    seconds: Annotated[float, Meta(gt=0, le=MAX_WAIT, description="up to 300")] = 30.0

    async def do(self, broker: AsyncBroker) -> str:
        waits = self.chosen(broker).wait(self.seconds) if self.job else broker.wait(self.ranks, self.seconds)
        stopped = await waits
        where = await broker.job(stopped.job)[stopped.address].where()
        return f"{RankList(shown=(stopped,), absent=(), known=broker.ranks).text()}{where.tree()}"


class Variables(RankTool):
    """List the local variables of one stopped rank, or the parts of a value: the items of a dict or list, the
    attributes of an object.
    """

    name = "variables"
    changes = True
    of: Annotated[
        str, Meta(description="an expression whose parts are listed; default: the variables of the frame")
    ] = ""
    scope: Literal["locals", "globals"] = "locals"
    frame: Frame = ""
    begin: Annotated[int, Meta(description="the number of the first one")] = msgspec.field(default=0, name="from")
    seconds: Seconds = None

    async def do(self, broker: AsyncBroker) -> str:
        ranks = self.chosen(broker)
        found = await ranks.variables(
            self.of, scope=self.scope, begin=self.begin, frame=self.frame, timeout=self.seconds
        )
        more = f"\n[there may be more: ask with from={self.begin + len(found)}]" if len(found) == MAX_VARIABLES else ""
        return f"{found}{more}" if found else "nothing"


class Breakpoints(RanksTool):
    """List the breakpoints of ranks; with `line` set one or change the one there, with `clear` too remove it. Works in
    running ranks without stopping them. Says in which ranks it is set, moved to a line with code, or refused. Each rank
    that comes there stops; use wait_for_stop.
    """

    name = "breakpoints"
    changes = True
    file: Annotated[
        str, Meta(description="a path, or its end such as `train.py`; default: the file where the ranks stand")
    ] = ""
    line: Annotated[int | None, Meta(description="the line of the breakpoint")] = None
    condition: Annotated[str, Meta(description="stop only if this expression is true there")] = ""
    hits: Annotated[str, Meta(description="stop by how often it was reached: `== 3`, `>= 10`, `% 100 == 0`")] = ""
    log: Annotated[str, Meta(description="print this text instead of stopping; {expression} stands for a value")] = ""
    clear: Annotated[bool, Meta(description="remove the breakpoint of this line")] = False
    seconds: Seconds = None

    async def do(self, broker: AsyncBroker) -> str:
        ranks, line, seconds = self.chosen(broker), self.line, self.seconds
        if line is None:
            return str(await ranks.breakpoints(timeout=seconds))
        file = self.file or _present_file(ranks)
        if self.clear:
            return str(await ranks.clear_breakpoint(file, line, timeout=seconds))
        wish = {"condition": self.condition, "hits": self.hits, "log": self.log}
        return str(await ranks.set_breakpoint(file, line, **wish, timeout=seconds))


TOOLS: tuple[type[Tool], ...] = (
    ListRanks,
    *map(tool_of, ("where", "why", "slow", "collectives", "eval", "command", "interrupt", "continue")),
    *(WaitForStop, Variables, Breakpoints),
)


def _present_file(ranks: AsyncRanks) -> str:
    """Return the file in which all of these ranks that are stopped stand. Raises BadInput."""
    files = {rank.where.file for rank in ranks.list() if rank.where is not None}
    if len(files) != 1:
        stand = f"these ranks stand in {len(files)} files" if files else "none of these ranks is stopped in one"
        raise BadInput(f"no file is given, and {stand}", "give file")
    return files.pop()


def short_answer(text: str) -> str:
    """Return the beginning of an answer, and how to ask for less; a short one as it is, without escape sequences."""
    lines = text.rstrip("\n").split("\n")
    shown = "\n".join(printable(line, MAX_CHARACTERS) for line in lines[:MAX_LINES])
    if len(lines) <= MAX_LINES and len(shown) <= MAX_CHARACTERS:
        return shown
    kept = shown[:MAX_CHARACTERS]
    left_out = len(lines) - kept.count("\n") - 1
    return f"{kept}\n[cut here, {left_out} more lines: ask for fewer ranks, such as a group, or a smaller value]"


def tool_for(remedy: Remedy, *, may_change: bool) -> str:
    """Return the tool to call in place of a command of the shell.

    Without ``may_change`` the tools that touch a rank are refused, and its stack is named instead.
    """
    if remedy.verb == "why":
        return "`why`"
    job, slash, ranks = remedy.ranks.partition("/")
    given = f"ranks={ranks!r}, job={job!r}" if slash else f"ranks={job!r}"
    if remedy.verb == "interrupt" and may_change:
        return f"`interrupt` with {given}, then `variables` or `eval`; other ranks wait until it is continued"
    if remedy.verb == "attach" and may_change:
        return f"`where` with {given}, then `variables` or `eval`: it is stopped"
    return f"`where` with {given}" + (", threads=true" if "--threads" in remedy.options else "")
