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
    """Return what ``module:name`` names in this package; a module is imported when it is needed."""
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
    VerbRow("attach", "terminal.verb:Attach", "attach to a stopped rank; without TARGET pick one from a live list"),
    VerbRow("wait", "terminal.verb:Wait", "wait until TARGET stops, for the time of --for at most, and attach"),
    VerbRow("run", "run.verb:Run", "run a command, and attach this terminal wherever one of its ranks stops"),
    VerbRow("list", "verbs.list:ListRanks", "list the ranks and their states", "l"),
    VerbRow("where", "verbs.where:Where", "merge the stacks of all ranks, or of TARGET, into one tree", "w"),
    VerbRow(
        "why",
        "why.verb:Why",
        "say why a job does not go on: who is missing, and what that one does; of one that is over from FILEs",
    ),
    VerbRow(
        "slow",
        "slow.verb:Slow",
        "say which rank slows a job down that does not hang: who comes last, by how much, and where it is then",
    ),
    VerbRow("collectives", "why.verb:Collectives", "show the last collective of each process group, and who is in it"),
    VerbRow("eval", "verbs.values:Eval", "evaluate on the stopped and held ranks; equal answers are one group", "e"),
    VerbRow("command", "verbs.values:PdbCommand", "a pdb command on the stopped and held ranks", "c"),
    VerbRow(
        "exec",
        "exec:Exec",
        "run a command beside each rank, on its host, with DBG_PID and DBG_RANK; equal outputs are one group",
    ),
    VerbRow("screen", "verbs.screen:Screen", "print the debugger's screen as text"),
    VerbRow(
        "interrupt", "verbs.orders:Interrupt", "break in; attach if it is one rank; asks before it stops several", "i"
    ),
    VerbRow("continue", "verbs.orders:Continue", "let the stopped ranks go on"),
    VerbRow("release", "verbs.orders:Release", "let held ranks go on"),
    VerbRow("kill", "verbs.orders:Kill", "end the ranks; asks first"),
    VerbRow("tmux", "tmux:Tmux", "attach to each rank in a pane of its own, in tmux"),
    VerbRow("report", "after.report:Report", "print all that is known of the ranks, for a colleague or a bug report"),
    VerbRow("adopt", "adopt.verb:Adopt", "make ranks of processes of this host that were started without us"),
    VerbRow("mcp", "mcp.verb:Mcp", "serve the ranks as tools to a coding agent, by MCP on stdin and stdout"),
    VerbRow(
        "dap",
        "dap.verb:Dap",
        "serve the ranks to an IDE, each as a thread, by the Debug Adapter Protocol on stdin and stdout",
    ),
    VerbRow(
        "web",
        "web.verb:Web",
        "serve the ranks as a page in a browser: grid, answers, terminals; it only looks without --drive",
    ),
    VerbRow(
        "completion",
        "command_line.completion:Completion",
        "print what makes a shell complete verbs, options and live ranks",
    ),
    VerbRow("help", "command_line.help:Help", "show a page of one screen, or that of VERB", "h"),
)
"""All verbs in the order in which they are listed."""

BY_NAME = {row.name: row for row in VERBS} | {row.short: row for row in VERBS if row.short is not None}
"""The rows by the words that stand for them."""


def load_verb(name: str) -> Any:
    """Return the class of the verb of this name."""
    return BY_NAME[name].load()


ANNOTATE = "why.collectives:annotate"
"""The function of the extension that tells ``where`` in which collectives ranks wait."""

WHY_OF_FILES = "after.files:show_files"
"""The function of the extension by which ``why`` explains a job that is over."""

SAVED_JOB = "after.files:saved_job"
"""The function of the extension that reads the report which a page shows."""


_LIKE_A_VERB = re.compile(r"[A-Za-z]+")


def is_target(word: str) -> bool:
    """Whether a word can be read as a target; names of groups can, whether remembered or not."""
    from dbg_command.targets import parse_target  # help, version and most mistakes do without

    try:
        parse_target(word)
    except BadTarget:
        return False
    return True


def refuse_mistyped(word: str, verbs: Iterable[str]) -> None:
    """Raise BadInput for a word in place of a verb or target that is much like one of them, and is neither."""
    if not _LIKE_A_VERB.fullmatch(word) or is_target(word):
        return
    from dbg_command.targets import Word

    meant = nearest(word.lower(), [*verbs, *(known.value for known in Word)])
    if meant is not None:
        raise BadInput(f"unknown verb or rank `{printable(word)}`", f"did you mean `{meant}`?")
