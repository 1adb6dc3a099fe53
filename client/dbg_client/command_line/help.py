"""Help of ``dbg-attach``, generated from the verbs and their parsers. Pure."""

from __future__ import annotations

import argparse
import textwrap

from dbg_client.command_line.reading import parser_of
from dbg_client.verbs.option import Operands
from dbg_client.verbs.table import BY_NAME, VERBS, VerbRow, refuse_mistyped
from dbg_client.verbs.verb import Verb
from dbg_command.command_line import help_of, usage_of
from dbg_wire.errors import BadInput, printable

TARGETS = """\
TARGET is host:rank, :rank, rank, host:*, all, 0-3,5, 0-1023/8, gpu[01-04]:*, a state (stopped, held, crashed, running,
unresponsive, lost) or !5, each optionally with job/, 'train*/' or '*/' before it; @1, @err, @run, @lost and '@?' are
groups of your last answer. Quote * and ? for the shell. The first word is a verb if there is one of that name,
else a TARGET; to reach a host that is named like a verb, write list:0.
"""

SHORT = """\
usage: dbg-attach [VERB] [TARGET] [options]

  attach 5         attach to the debugger of rank 5, as `dbg-attach 5` does
  wait 5           wait until rank 5 stops, then attach
  run -- CMD       run a job, and attach wherever one of its ranks stops
  list             list the ranks and their states
  where            merge the stacks of all ranks into one tree
  why              explain why the job hangs, and which rank is at fault
  eval all EXPR    evaluate EXPR on each stopped rank; group equal answers
  command all CMD  run a pdb command on each stopped rank
  interrupt 5      break into rank 5 while it runs, and attach
  continue all     resume all stopped ranks
  release all      release all ranks that are held for others
  kill 5           end rank 5; asks first
  adopt --mine     adopt processes that were started without dbg-broker

  --watch   watch only                      --json       print one JSON document
  --take    take the keyboard               --timeout S  wait S seconds at most
  --follow  when a stop ends, wait for the next      --engine E   open pudb or pdb
  --live    with eval: running ranks, too   --broker A   broker's host:port
  -y        don't ask                       --version    show the version

TARGET: 5, 0-3,5, all, stopped, gpu013:5, gpu013:*, job/5; without one, a picker
In a session: Ctrl-] d leaves, Ctrl-] ? helps. More: help VERB, man dbg-attach
"""
"""Help of one screen, 24 rows by 80 columns: the verbs and options that a new user needs."""

_SESSION_TARGETS = """\
TARGET is 5, 0-3,5, 0-1023/8, all, stopped, held, crashed, running,
unresponsive, lost, !5, gpu013:5, gpu013:*, or @2, a group of the last
answer; in this job, unless job/, train*/ or */ precedes it. A TARGET
without a verb goes to that rank. Options follow the verb: list --all.
"""


def help_on(topic: str) -> str:
    """Return the help page of ``dbg-attach help``: the short page, or the page of a verb. Raise BadInput."""
    if not topic:
        return SHORT
    row = BY_NAME.get(topic)
    if row is None:
        refuse_mistyped(topic, [row.name for row in VERBS])
        raise BadInput(f"`{printable(topic)}` is not a verb", "see `man dbg-attach`")
    verb = row.load()
    of_all = {action.option_strings[0] for _, action in parser_of(Help).groups}
    own = [action for _, action in parser_of(verb).groups if action.option_strings[0] not in of_all]
    parts = [
        f"usage: dbg-attach {verb.usage()} [options]\n",
        f"{row.help[0].upper()}{row.help[1:]}.\n",
        f"example:\n  dbg-attach {verb.example}\n",
        *([f"also: {row.short}\n"] if row.short else []),
        *(["options:\n" + "".join(map(_option_line, own))] if own else []),
        TARGETS if "TARGET" in verb.operands.value else "",
    ]
    return "\n".join(part for part in parts if part)


def session_help() -> str:
    """Return the page of verbs for a session's command line."""
    verbs = [(row, row.load()) for row in VERBS]
    lines = [
        f"{_usage_in_session(row, verb.in_session):<26}{verb.help_in_session}"
        for row, verb in verbs
        if verb.in_session is not None
    ]
    return "\n".join(lines) + f"\n\n{_SESSION_TARGETS}"


def _option_line(option: argparse.Action) -> str:
    """Return the option and its help, wrapped into as many lines as needed."""
    name, margin = usage_of(option), " " * 24
    first, *more = textwrap.wrap(help_of(option), 86)
    start = f"  {name:<22}" if len(name) < 22 else f"  {name}\n{margin}"
    return f"{start}{first}\n" + "".join(f"{margin}{line}\n" for line in more)


def session_hint() -> str:
    """Return the few verbs that an empty command row shows."""
    return "where   e 0-7 loss   c all n   release   help      Esc leaves"


def _usage_in_session(row: VerbRow, operands: Operands) -> str:
    short = f"{row.short}, " if row.short is not None else ""
    return f"{short}{row.name} {operands.value}".rstrip()


class Help(Verb):
    """Show a page of help: ``topic`` is a verb, or empty."""

    name = "help"
    example = "help where"
    operands = Operands.VERB
    in_session = Operands.NONE
    help_in_session = "this page"

    topic: str = ""

    def run(self) -> int:
        from dbg_client.shell.streams import write_result

        write_result(help_on(self.topic))
        return 0
