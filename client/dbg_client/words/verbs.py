"""The verbs, one row each: parsers, help, command row, completion, man page and reference are made from these. Pure.

A verb is the first word of a command line: ``dbg-attach where all``, and ``where all`` behind ``Ctrl-] :``. A first
word that is no verb is a target.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

from dbg_wire.command_line.completion import nearest
from dbg_wire.errors import BadInput, BadTarget, printable

OF_THE_BROKER = ("serve", "status", "token", "certificate", "log", "check")
"""Verbs that ``dbg-broker`` has and this command has not."""


class Operands(enum.Enum):
    """What follows a verb, as it is written in a usage line."""

    NONE = ""
    TARGET = "TARGET"
    MAYBE_TARGET = "[TARGET]"
    MAYBE_FILES = "[TARGET|FILE…]"
    EXPRESSION = "[TARGET] EXPR"
    COMMAND = "TARGET CMD"
    SHELL = "bash|zsh|fish"
    PROGRAM = "TARGET -- CMD..."
    JOB = "-- CMD...|--again"
    PROCESSES = "PID…|--mine"
    VERB = "[VERB|all]"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbRow:
    """Describe one verb.

    ``operands`` are those of a shell, ``in_session`` those behind the escape key, None where the verb is not spoken.
    ``example`` is typed behind ``dbg-attach``, ``short`` in place of the name.
    """

    name: str
    help: str
    example: str
    operands: Operands
    in_session: Operands | None = None
    help_in_session: str = ""
    short: str | None = None

    @property
    def usage(self) -> str:
        """Return the verb with its operands."""
        return f"{self.name} {self.operands.value}".rstrip()

    @property
    def usage_in_session(self) -> str:
        """Return how the verb is written in a session."""
        return f"{self.name} {self.in_session.value}".rstrip() if self.in_session is not None else ""


VERBS: tuple[VerbRow, ...] = (
    VerbRow(
        name="attach",
        operands=Operands.MAYBE_TARGET,
        help="attach to a stopped rank; without TARGET pick one from a live list",
        example="attach gpu013:5",
        in_session=Operands.TARGET,
        help_in_session="go to that rank; the word may be left out",
    ),
    VerbRow(
        name="wait",
        operands=Operands.MAYBE_TARGET,
        help="wait until TARGET stops, for the time of --for at most, and attach",
        example="wait 5 --for 60s",
    ),
    VerbRow(
        name="run",
        operands=Operands.JOB,
        help="run a command, and attach this terminal wherever one of its ranks stops",
        example="run --stop-at train.py:38 -- torchrun train.py",
    ),
    VerbRow(
        name="list",
        operands=Operands.MAYBE_TARGET,
        help="list the ranks and their states",
        example="list stopped",
        in_session=Operands.MAYBE_TARGET,
        help_in_session="the ranks and their states; --all: exited ones, too",
        short="l",
    ),
    VerbRow(
        name="where",
        operands=Operands.MAYBE_TARGET,
        help="merge the stacks of all ranks, or of TARGET, into one tree",
        example="where all",
        in_session=Operands.MAYBE_TARGET,
        help_in_session="stacks of all ranks, or of these, as one tree",
        short="w",
    ),
    VerbRow(
        name="why",
        operands=Operands.MAYBE_FILES,
        help="say why a job does not go on: who is missing, and what that one does; of one that is over from FILEs",
        example="why",
        in_session=Operands.MAYBE_TARGET,
        help_in_session="why the job does not go on, and who is missing",
    ),
    VerbRow(
        name="slow",
        operands=Operands.MAYBE_TARGET,
        help="say which rank slows a job down that does not hang: who comes last, by how much, and where it is then",
        example="slow --for 30",
        in_session=Operands.MAYBE_TARGET,
        help_in_session="who comes last to collectives, and by how much",
    ),
    VerbRow(
        name="collectives",
        operands=Operands.MAYBE_TARGET,
        help="show the last collective of each process group, and who is in it",
        example="collectives",
        in_session=Operands.MAYBE_TARGET,
        help_in_session="each group's last collective, and who is in it",
    ),
    VerbRow(
        name="eval",
        operands=Operands.EXPRESSION,
        help="evaluate on the stopped and held ranks; equal answers are one group",
        example="eval 0-7 'loss, lr'",
        in_session=Operands.EXPRESSION,
        help_in_session="a value, of all stopped and held ranks or of these",
        short="e",
    ),
    VerbRow(
        name="command",
        operands=Operands.COMMAND,
        help="a pdb command on the stopped and held ranks",
        example="command all n",
        in_session=Operands.COMMAND,
        help_in_session="a pdb command, e.g. c all n: one step everywhere",
        short="c",
    ),
    VerbRow(
        name="exec",
        operands=Operands.PROGRAM,
        help="run a command beside each rank, on its host, with DBG_PID and DBG_RANK; equal outputs are one group",
        example="exec 0-7 -- nvidia-smi -L",
        in_session=Operands.PROGRAM,
        help_in_session="run a command beside ranks, e.g. exec 3 -- nvidia-smi",
    ),
    VerbRow(
        name="screen",
        operands=Operands.TARGET,
        help="print the debugger's screen as text",
        example="screen 2",
        in_session=Operands.MAYBE_TARGET,
        help_in_session="what a rank's debugger shows; none named: this one's",
    ),
    VerbRow(
        name="interrupt",
        operands=Operands.TARGET,
        help="break in; attach if it is one rank; asks before it stops several",
        example="interrupt 4",
        in_session=Operands.MAYBE_TARGET,
        help_in_session="break into running ranks; none named: into this one",
        short="i",
    ),
    VerbRow(
        name="continue",
        operands=Operands.TARGET,
        help="let the stopped ranks go on",
        example="continue stopped",
        in_session=Operands.TARGET,
        help_in_session="let stopped ranks go on",
    ),
    VerbRow(
        name="release",
        operands=Operands.TARGET,
        help="let held ranks go on",
        example="release held",
        in_session=Operands.MAYBE_TARGET,
        help_in_session="let held ranks go on; all, or these",
    ),
    VerbRow(
        name="kill",
        operands=Operands.TARGET,
        help="end the ranks; asks first",
        example="kill 5",
        in_session=Operands.TARGET,
        help_in_session="end ranks; asks first",
    ),
    VerbRow(
        name="tmux",
        operands=Operands.TARGET,
        help="attach to each rank in a pane of its own, in tmux",
        example="tmux 0-3",
    ),
    VerbRow(
        name="report",
        operands=Operands.MAYBE_TARGET,
        help="print all that is known of the ranks, for a colleague or a bug report",
        example="report -o hang.txt",
    ),
    VerbRow(
        name="adopt",
        operands=Operands.PROCESSES,
        help="make ranks of processes of this host that were started without us",
        example="adopt --mine",
    ),
    VerbRow(
        name="mcp",
        operands=Operands.NONE,
        help="serve the ranks as tools to a coding agent, by MCP on stdin and stdout",
        example="mcp",
    ),
    VerbRow(
        name="dap",
        operands=Operands.MAYBE_TARGET,
        help="serve the ranks to an IDE, each as a thread, by the Debug Adapter Protocol on stdin and stdout",
        example="dap train-4711/all",
    ),
    VerbRow(
        name="web",
        operands=Operands.MAYBE_TARGET,
        help="serve the ranks as a page in a browser: grid, answers, terminals; it only looks without --drive",
        example="web --drive train-4711/all",
    ),
    VerbRow(
        name="completion",
        operands=Operands.SHELL,
        help="print what makes a shell complete verbs, options and live ranks",
        example="completion bash",
    ),
    VerbRow(
        name="help",
        operands=Operands.VERB,
        help="show a page of one screen, that of VERB, or the page of everything",
        example="help where",
        in_session=Operands.NONE,
        help_in_session="this page",
        short="h",
    ),
)
"""All verbs in the order in which they are listed.

A new one is a row here, its options in parsers.OPTIONS_OF, and a class in settings.
"""


BY_NAME = {row.name: row for row in VERBS} | {row.short: row for row in VERBS if row.short is not None}
"""The rows by the words that stand for them."""

_LIKE_A_VERB = re.compile(r"[A-Za-z]+")


def is_target(word: str) -> bool:
    """Tell whether a word can be read as a target; names of groups count, whether remembered or not."""
    from dbg_wire.targets.grammar import parse_target  # help, version and most mistakes do without

    try:
        parse_target(word)
    except BadTarget:
        return False
    return True


def refuse_mistyped(word: str, verbs: Iterable[str]) -> None:
    """Raise BadInput for a word in place of a verb or target that is much like one of them, and is none."""
    if not _LIKE_A_VERB.fullmatch(word) or is_target(word):
        return
    from dbg_wire.targets.grammar import Word

    meant = nearest(word.lower(), [*verbs, *(known.value for known in Word)])
    if meant is not None:
        raise BadInput(f"unknown verb or rank `{printable(word)}`", f"did you mean `{meant}`?")
