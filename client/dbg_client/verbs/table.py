"""All verbs: names, help, and the class of each, which is imported when the verb is used. Pure.

A verb is the first word of a command line: ``dbg-attach where all``, and ``where all`` after ``Ctrl-] :``. A first word
that is not a verb is a target. A new verb is a row here and a class.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dbg_command.command_line import nearest
from dbg_wire.errors import BadInput, BadTarget, printable

if TYPE_CHECKING:
    from dbg_client.verbs.verb import Verb


def load(place: str) -> Any:
    """Import a module of this package and return the object ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"dbg_client.{module}"), name)


@dataclass(frozen=True, slots=True)
class VerbRow:
    """One verb: its name and short form, its help, and ``module:class``."""

    name: str
    place: str
    help: str
    short: str | None = None

    def load(self) -> type[Verb]:
        """Return the class of the verb."""
        verb: type[Verb] = load(self.place)
        return verb


VERBS: tuple[VerbRow, ...] = (
    VerbRow("attach", "terminal.verb:Attach", "attach to a stopped rank; without TARGET, pick one from a live list"),
    VerbRow("wait", "terminal.verb:Wait", "wait until TARGET stops, for at most --for, and attach"),
    VerbRow("run", "run.verb:Run", "run a command, and attach this terminal wherever one of its ranks stops"),
    VerbRow("list", "verbs.list:ListRanks", "list the ranks and their states", "l"),
    VerbRow("where", "verbs.where:Where", "merge the stacks of all ranks, or of TARGET, into one tree", "w"),
    VerbRow(
        "why",
        "why.verb:Why",
        "explain why a job hangs: which rank is missing and what it is doing; with FILEs, explain a job that has ended",
    ),
    VerbRow(
        "slow",
        "slow.verb:Slow",
        "find the rank that slows the job down: which rank is last at collectives, by how much, and what it is doing",
    ),
    VerbRow(
        "watch",
        "numbers.verb:Watch",
        "stop a running training at its first number that is not finite, or that differs between ranks",
    ),
    VerbRow(
        "numbers",
        "numbers.verb:Numbers",
        "show the first wrong number that a watch has found, or compare the recorded numbers of two runs",
    ),
    VerbRow("collectives", "why.verb:Collectives", "show the last collective of each process group, and its ranks"),
    VerbRow("eval", "verbs.values:Eval", "evaluate on stopped and held ranks; group equal answers", "e"),
    VerbRow("command", "verbs.values:PdbCommand", "run a pdb command on stopped and held ranks", "c"),
    VerbRow(
        "exec",
        "exec:Exec",
        "run a command next to each rank, on its host, with DBG_PID and DBG_RANK set; group equal outputs",
    ),
    VerbRow("screen", "verbs.screen:Screen", "print the debugger's screen as text"),
    VerbRow(
        "interrupt", "verbs.control:Interrupt", "break into running ranks; attach if one, ask first if several", "i"
    ),
    VerbRow("continue", "verbs.control:Continue", "resume stopped ranks"),
    VerbRow("release", "verbs.control:Release", "release held ranks"),
    VerbRow("kill", "verbs.control:Kill", "end ranks; asks first"),
    VerbRow("tmux", "tmux:Tmux", "attach to each rank in its own tmux pane"),
    VerbRow("report", "after.report:Report", "print everything known about the ranks, for a colleague or a bug report"),
    VerbRow("adopt", "adopt.verb:Adopt", "turn processes of this host that were started without dbg-broker into ranks"),
    VerbRow("mcp", "mcp.verb:Mcp", "serve the ranks as tools to a coding agent, over MCP on stdin and stdout"),
    VerbRow(
        "dap",
        "dap.verb:Dap",
        "serve the ranks to an IDE, each as a thread, over the Debug Adapter Protocol on stdin and stdout",
    ),
    VerbRow(
        "web",
        "web.verb:Web",
        "serve the ranks as a page in a browser: grid, answers, terminals; read-only without --drive",
    ),
    VerbRow(
        "completion",
        "command_line.completion:Completion",
        "print a shell script that completes verbs, options and live ranks",
    ),
    VerbRow("help", "command_line.help:Help", "show an overview on one screen, or the help of VERB", "h"),
)
"""All verbs in the order in which they are listed."""

BY_NAME = {row.name: row for row in VERBS} | {row.short: row for row in VERBS if row.short is not None}
"""The rows by name and by short form."""


def load_verb(name: str) -> Any:
    """Return the class of the verb of this name."""
    return BY_NAME[name].load()


ANNOTATE = "why.collectives:annotate"
"""Function of an extension. ``where`` calls it for the names of the collectives in which ranks wait."""

WHY_OF_FILES = "after.files:show_files"
"""Function of an extension. ``why`` calls it to explain a job that has ended."""

SAVED_JOB = "after.files:saved_job"
"""Function of an extension. ``web`` calls it to read the report that a page shows."""


_LIKE_A_VERB = re.compile(r"[A-Za-z]+")


def is_target(word: str) -> bool:
    """Return True if a word can be parsed as a target, such as a group's name, even if no such group is remembered."""
    from dbg_command.targets import parse_target  # imported here, because help and version don't need it

    try:
        parse_target(word)
    except BadTarget:
        return False
    return True


def refuse_mistyped(word: str, verbs: Iterable[str]) -> None:
    """Raise BadInput for a word that is not a verb or target but resembles one."""
    if not _LIKE_A_VERB.fullmatch(word) or is_target(word):
        return
    from dbg_command.targets import Word

    meant = nearest(word.lower(), [*verbs, *(known.value for known in Word)])
    if meant is not None:
        raise BadInput(f"unknown verb or rank `{printable(word)}`", f"did you mean `{meant}`?")
