"""The tools for an agent. Each is a record of its arguments; msgspec derives the JSON schema and the validation.

A model reads the tools' docstrings and the descriptions of their fields.
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
from dbg_client.core.choose import find_missing_ranks, there
from dbg_client.core.switchboard import WATCHER
from dbg_client.verbs.list import RankList
from dbg_client.verbs.table import load_verb
from dbg_client.verbs.verb import RanksVerb, Style
from dbg_wire.errors import BadInput, Remedy, printable
from dbg_wire.records.inspection import MAX_VARIABLES
from dbg_wire.records.ranks import rank_order
from dbg_wire.records.record import refusal

MAX_WAIT = 300.0
"""Maximum wait of one call, in seconds; agents abandon a call after some minutes."""

MAX_REFUSAL = 200
"""Maximum length of an argument error, in characters: the error repeats the wrong value, which may be long."""

MAX_LINES = 120
"""Maximum lines of one answer: about 2,000 words for a model. The stack tree of 1,000 ranks usually has this length."""

MAX_CHARACTERS = 8000
"""Maximum characters of one answer."""

TOOLS_OF_COMMANDS = {
    "list": "`ranks`",
    "wait": "`wait_for_stop` with ranks='{ranks}'",
    "interrupt": "`interrupt` with ranks='{ranks}'",
    "release": "`continue` with ranks='{ranks}'",
    "attach": "`where` with ranks='{ranks}'",
}
"""The tool for each terminal command that an error names."""

RANKS = Meta(
    description="which ranks: all, 0-7,12 or 0-1023/8, stopped, held, running, crashed, gpu01:*, !5, or a group of the "
    "last answer such as @1 or @missing"
)
SomeRanks = Annotated[str, RANKS]
Job = Annotated[str, Meta(description="the job, if there are several; `ranks` lists them")]
Frame = Annotated[str, Meta(description="a function further up the stack; default: the innermost frame")]
Seconds = Annotated[float | None, Meta(description="seconds to wait for answers, 10 by default")]


class Tool(msgspec.Struct, forbid_unknown_fields=True):
    """One tool call. ``changes`` means that it may move or end a program; a watcher's token cannot use such a tool."""

    name: ClassVar[str]
    changes: ClassVar[bool] = False

    @classmethod
    def document(cls) -> dict[str, Any]:
        """Return the tool's entry in ``tools/list``."""
        _, parts = msgspec.json.schema_components([cls])
        schema = parts[cls.__name__]
        description = " ".join(schema.pop("description").split())
        hints = {"readOnlyHint": not cls.changes, "openWorldHint": False}
        return {"name": cls.name, "description": description, "inputSchema": schema, "annotations": hints}

    @classmethod
    def read(cls, given: dict[str, Any]) -> Any:
        """Return a call with these arguments. Raises BadInput for invalid arguments."""
        try:
            return msgspec.convert(given, cls)
        except (msgspec.ValidationError, UnicodeError) as error:
            takes = ", ".join(cls.__struct_encode_fields__) or "nothing"
            what = printable(f"{cls.name}{refusal(error)}", MAX_REFUSAL)
            raise BadInput(what, f"it takes {takes}") from None

    @abstractmethod
    async def do(self, broker: AsyncBroker) -> str:
        """Carry out the call, and return the answer as text."""


class RanksTool(Tool):
    """A call for ranks of a job."""

    ranks: SomeRanks = "all"
    job: Job = ""

    def chosen(self, broker: AsyncBroker) -> AsyncRanks:
        """Return the selected ranks."""
        return broker.job(self.job or None)[self.ranks]


class RankTool(RanksTool):
    """A call for one rank."""

    ranks: Annotated[str, Meta(description="one rank: its number, or host:rank")] = msgspec.field(name="rank")

    def chosen(self, broker: AsyncBroker) -> AsyncRanks:
        """Return the rank. Raises BadInput if several match."""
        ranks = super().chosen(broker)
        if len(ranks) > 1:
            raise BadInput(f"`rank` is {len(ranks)} ranks", "name one by its number or host:rank")
        return ranks


class ListRanks(Tool):
    """List the ranks of the training jobs with state and place, and the missing ranks."""

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
        calls = find_missing_ranks(known, asked={rank.key for rank in shown})
        return RankList(shown=shown, absent=tuple(calls), known=known).text()


class VerbTool(RanksTool):
    """A verb as a tool: its arguments are the verb's options in a session."""

    verb: ClassVar[type[RanksVerb]]

    async def do(self, broker: AsyncBroker) -> str:
        names = [name for name in self.__struct_fields__ if name not in ("ranks", "job")]
        given = {name: getattr(self, name) for name in names}
        seconds = None if "seconds" in self.verb.__struct_fields__ else given.pop("seconds")
        answer = await self.chosen(broker).ask(self.verb(**given), timeout=seconds)
        style = Style(word=partial(tool_for, may_change=broker.role != WATCHER))
        return "".join(f"{line.rstrip()}\n" for line in (answer.text(style), answer.hint) if line)


def tool_of(name: str) -> type[VerbTool]:
    """Return the tool for a verb."""
    verb = load_verb(name)
    made: dict[str, tuple[str, Any] | tuple[str, Any, Any]] = {}
    if verb.operands in TEXTS:
        text = text_field(verb)
        made[text] = (text, Annotated[str, Meta(description=f"the text after the ranks in `{verb.example}`")])
    if name == "interrupt":
        # Here `ranks` is required, so that an agent that omits it does not stop a whole job.
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
"""Options that tools do not have.

An agent need not confirm its call with ``yes``, and ``native`` would stop a rank briefly.
"""


class WaitForStop(RanksTool):
    """Wait until one of the ranks stops, and return its place and stack.

    Returns at once if one of them is already stopped. To wait for the other ranks, name only those.
    """

    name = "wait_for_stop"
    seconds: Annotated[float, Meta(gt=0, le=MAX_WAIT, description="up to 300")] = 30.0

    async def do(self, broker: AsyncBroker) -> str:
        waits = self.chosen(broker).wait(self.seconds) if self.job else broker.wait(self.ranks, self.seconds)
        stopped = await waits
        where = await broker.job(stopped.job)[stopped.address].where()
        return f"{RankList(shown=(stopped,), absent=(), known=broker.ranks).text()}{where.tree()}"


class Variables(RankTool):
    """List the local variables of one stopped rank, or the parts of a value.

    Parts are the items of a dict or list, or the attributes of an object.
    """

    name = "variables"
    changes = True
    of: Annotated[str, Meta(description="expression whose parts to list; default: the variables of the frame")] = ""
    scope: Literal["locals", "globals"] = "locals"
    frame: Frame = ""
    start: Annotated[int, Meta(description="number of the first variable")] = msgspec.field(default=0, name="from")
    seconds: Seconds = None

    async def do(self, broker: AsyncBroker) -> str:
        ranks = self.chosen(broker)
        found = await ranks.variables(
            self.of, scope=self.scope, start=self.start, frame=self.frame, timeout=self.seconds
        )
        more = f"\n[there may be more: ask with from={self.start + len(found)}]" if len(found) == MAX_VARIABLES else ""
        return f"{found}{more}" if found else "nothing"


class Breakpoints(RanksTool):
    """List, set, change or remove breakpoints of ranks. The ranks may be running; this does not stop them.

    With `line`, set a breakpoint or change the one there; with `clear` too, remove it. The answer shows the ranks in
    which it is set, moved to a line with code, or refused. Each rank that reaches it stops; use wait_for_stop.
    """

    name = "breakpoints"
    changes = True
    file: Annotated[
        str, Meta(description="a path, or its end such as `train.py`; default: the file where the ranks are stopped")
    ] = ""
    line: Annotated[int | None, Meta(description="the line of the breakpoint")] = None
    condition: Annotated[str, Meta(description="stop only if this expression is true there")] = ""
    hits: Annotated[str, Meta(description="stop depending on the hit count: `== 3`, `>= 10`, `% 100 == 0`")] = ""
    log: Annotated[str, Meta(description="print this text instead of stopping; {expression} is replaced")] = ""
    clear: Annotated[bool, Meta(description="remove the breakpoint of this line")] = False
    seconds: Seconds = None

    async def do(self, broker: AsyncBroker) -> str:
        ranks, line, seconds = self.chosen(broker), self.line, self.seconds
        if line is None:
            return str(await ranks.breakpoints(timeout=seconds))
        file = self.file or _present_file(ranks)
        if self.clear:
            return str(await ranks.clear_breakpoint(file, line, timeout=seconds))
        spec = {"condition": self.condition, "hits": self.hits, "log": self.log}
        return str(await ranks.set_breakpoint(file, line, **spec, timeout=seconds))


class Numbers(RanksTool):
    """Find the first NaN or infinity of a training with torch: rank, step, module, tensor and source.

    With `watch`, start the watch, and wait until a rank has stopped at a wrong number. Without it, return the findings
    of the watches that run.
    """

    name = "numbers"
    changes = True
    watch: Literal["", "nan", "different", "off"] = ""
    seconds: Annotated[float, Meta(gt=0, le=MAX_WAIT, description="longest wait, up to 300")] = 30.0

    async def do(self, broker: AsyncBroker) -> str:
        return str(await self.chosen(broker).numbers(self.watch, seconds=self.seconds))


TOOLS: tuple[type[Tool], ...] = (
    ListRanks,
    *map(tool_of, ("where", "why", "slow", "collectives", "eval", "command", "interrupt", "continue")),
    *(WaitForStop, Variables, Breakpoints, Numbers),
)


def _present_file(ranks: AsyncRanks) -> str:
    """Return the file in which these ranks are stopped. Raises BadInput for more than one file or no stopped rank."""
    files = {rank.where.file for rank in ranks.list() if rank.where is not None}
    if len(files) != 1:
        stand = f"these ranks are stopped in {len(files)} files" if files else "none of these ranks is stopped"
        raise BadInput(f"`file` is missing, and {stand}", "name the file")
    return files.pop()


def short_answer(text: str) -> str:
    """Return an answer without escape sequences; cut a long answer, and add how to ask for a shorter one."""
    lines = text.rstrip("\n").split("\n")
    shown = "\n".join(printable(line, MAX_CHARACTERS) for line in lines[:MAX_LINES])
    if len(lines) <= MAX_LINES and len(shown) <= MAX_CHARACTERS:
        return shown
    kept = shown[:MAX_CHARACTERS]
    left_out = len(lines) - kept.count("\n") - 1
    return f"{kept}\n[cut here, {left_out} more lines: ask for fewer ranks, such as a group, or a smaller value]"


def tool_for(remedy: Remedy, *, may_change: bool) -> str:
    """Return the tool to call instead of a shell command.

    Without ``may_change``, suggest the rank's stack instead of the tools that touch a rank.
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
