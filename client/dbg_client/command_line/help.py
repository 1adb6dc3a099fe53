"""The help of ``dbg-attach``, made of the verbs and their parsers. Pure."""

from __future__ import annotations

import argparse
import textwrap

from dbg_client.command_line.parser import SharedOption, all_options, parser_of
from dbg_client.verbs.option import Heading, Operands
from dbg_client.verbs.table import BY_NAME, VERBS, VerbRow, refuse_mistyped
from dbg_client.verbs.verb import Verb
from dbg_command.command_line import help_of, usage_of
from dbg_dial.home import BROKER, CA, ENGINE, HOME, TOKEN, TOKEN_FILE
from dbg_wire.errors import BadInput, printable

MOST_NAMED = 6
"""Verbs that are named beside an option; most verbs take one that more have."""

_USAGE = "usage: dbg-attach [VERB] [TARGET] [options]"

DESCRIPTION = "Attach this terminal to the debugger of any rank of a running job."

EXAMPLES: tuple[tuple[str, str], ...] = (
    ("dbg-attach", "pick a rank from a live list"),
    ("dbg-attach gpu013:5", "attach to global rank 5 on gpu013"),
    ("dbg-attach 5", "the same, if 5 is on one host only"),
    ("dbg-attach 4711.0/gpu013:5", "the same, of one of several jobs"),
    ("dbg-attach wait 5 --for 60s", "as soon as rank 5 stops"),
    ("dbg-attach --follow 5", "again at its next stop, also after a relaunch"),
    ("dbg-attach tmux 0-3", "a window of tmux with a pane for each of four ranks"),
    ("dbg-attach --watch 5", "look only; --take takes the keyboard from whoever has it"),
    ("dbg-attach run -- torchrun train.py", "start a job, and attach wherever one of its ranks stops"),
    ("dbg-attach list", "the ranks and where they are"),
    ("dbg-attach screen 5", "print the debugger's screen as text"),
    ("dbg-attach continue stopped", "let all stopped ranks go on"),
    ("dbg-attach where", "where all ranks are, running ones too, as one tree"),
    ("dbg-attach why", "why the job hangs: who is missing where, and what to type next"),
    ("dbg-attach eval all loss", "a value of every stopped rank; equal ones are one group"),
    ("dbg-attach eval @2 'loss, lr'", "the same of a group of the last answer; @err, '@?' work as well"),
    ("dbg-attach command 0-7 n", "one step on each of eight ranks"),
    ("dbg-attach interrupt 5", "break into rank 5, and attach to it"),
    ("dbg-attach release held", "let ranks go that wait for others"),
)
"""Command lines, and what they do."""

TARGETS = """\
TARGET is host:rank, :rank, rank, host:*, all, 0-3,5, 0-1023/8, gpu[01-04]:*, a state (stopped, held, crashed, running,
unresponsive, lost) or !5, each optionally with job/, 'train*/' or '*/' before it; @1, @err, @run, @lost and '@?' are
groups of your last answer. Shells want a * and a ? quoted. The first word is a verb if there is one of
that name, else a TARGET; a host that is called like a verb is reached as list:0.
"""

MORE = """\
Attaching takes one rank, the other actions take any number, and tmux up to 16: inside of tmux a new window, elsewhere
a new session, in which each pane follows its rank from stop to stop.

Answers to eval and command are grouped by equality of the whole values, memory addresses apart, biggest group first:
containers by their elements, functions by code, defaults and closure, objects whose repr has an address in it by their
attributes, others by their repr; what can't be seen whole says `not compared`. Ranks that run, are silent or are lost
are groups, too. An exception that an expression raises is an answer. command takes any command of pdb; n, s, r, unt and
c move whatever debugger is open there; q, interact, debug, commands and run are not for several ranks at once.

Attached, Ctrl-] is the prefix: d detaches, ? helps, r picks another rank, n and p go to the next and previous
stopped rank, w takes the keyboard, : opens a command line for these verbs on any ranks (where all, eval 0-7 loss,
release, help), R ends a job that `dbg-attach run` has started and runs it again, ] sends Ctrl-] itself. Leaving never
resumes or ends a rank. At pdb's prompt `detach` leaves, too. To change the debugger that is open while somebody else
types, add --take to --engine.
"""

ENVIRONMENT: tuple[tuple[str, str], ...] = (
    (BROKER, "host:port#fingerprint of the broker"),
    (f"{TOKEN_FILE}, {TOKEN}", "the token, or the file that has it"),
    (CA, "a PEM file of authorities, one of which must have signed the broker's certificate, for its host"),
    (HOME, "where broker.json is"),
    ("DBG_ESCAPE, DBG_TIMEOUT", "as --escape and --timeout"),
    (ENGINE, "the debugger to open where the rank has no wish of its own"),
    ("DBG_EDITING", "vi: as --vi"),
    ("DBG_PAGER, PAGER", "shows answers that are longer than the terminal; cat or nothing: none (default: less)"),
    ("NO_COLOR", "no colour"),
)
"""Variables; options go before them, and broker.json behind them."""

EXIT_STATUSES: tuple[tuple[str, str], ...] = (
    ("0", "done, or detached"),
    ("1", "error; the rank is running or lost"),
    ("2", "usage, or an ambiguous target"),
    ("3", "no such rank"),
    ("4", "no broker answers"),
    ("5", "the broker refused us, or is not the one pinned"),
    ("6", "timed out, or some ranks did not answer"),
    ("7", "the stop ended: the rank went on"),
    ("8", "the rank died or has exited"),
    ("130", "interrupted"),
)


SHORT = """\
usage: dbg-attach [VERB] [TARGET] [options]

  attach 5         attach to the debugger of rank 5, as `dbg-attach 5` does
  wait 5           wait until rank 5 stops, then attach
  run -- CMD       run a job, and attach wherever one of its ranks stops
  list             list the ranks and their states
  where            merge the stacks of all ranks into one tree
  why              say why the job does not go on, and which rank is at fault
  eval all EXPR    evaluate EXPR on each stopped rank; group equal answers
  command all CMD  run a pdb command on each stopped rank
  interrupt 5      break into rank 5 while it runs, and attach
  continue all     let all stopped ranks go on
  release all      let the ranks go on that are held for others
  kill 5           end rank 5; asks first
  adopt --mine     make ranks of processes that were started without dbg-broker

  --watch   look only                       --json       print one JSON document
  --take    take the keyboard               --timeout S  wait S seconds at most
  --follow  wait for each further stop      --engine E   open pudb or pdb
  --live    with eval: running ranks, too   --broker A   broker's host:port
  -y        don't ask                       --version    show the version

TARGET: 5, 0-3,5, all, stopped, gpu013:5, gpu013:*, job/5; without one, a picker
Attached, Ctrl-] d leaves, Ctrl-] ? helps. More: dbg-attach help VERB, help all
"""
"""The help of one screen, 24 rows by 80 columns: the verbs and options of a first week."""

ALL = "all"
"""What is asked of ``help`` for the page of everything."""

_SESSION_TARGETS = """\
TARGET is 5, 0-3,5, 0-1023/8, all, stopped, held, crashed, running,
unresponsive, lost, !5, gpu013:5, gpu013:*, or @2, a group of the last
answer; of this job unless job/, train*/ or */ stands before it. A TARGET
alone goes to that rank. Options stand behind the verb: list --all.
"""


def help_on(topic: str) -> str:
    """Return what ``dbg-attach help`` prints: the short page, that of a verb, or of everything. Raise BadInput."""
    if not topic:
        return SHORT
    if topic == ALL:
        return whole_page()
    row = BY_NAME.get(topic)
    if row is None:
        refuse_mistyped(topic, [row.name for row in VERBS])
        raise BadInput(f"`{printable(topic)}` is no verb", "`dbg-attach help all` lists them")
    verb = row.load()
    of_all = {one.action.option_strings[0] for one in all_options() if one.is_of_all}
    own = [action for _, action in parser_of(verb).groups if action.option_strings[0] not in of_all]
    parts = [
        f"usage: dbg-attach {verb.usage()} [options]\n",
        f"{row.help[0].upper()}{row.help[1:]}.\n",
        f"example:\n  dbg-attach {verb.example}\n",
        *([f"also: {row.short}\n"] if row.short else []),
        *(["options:\n" + "".join(_option_line(action, help_of(action)) for action in own)] if own else []),
        TARGETS if "TARGET" in verb.operands.value else "",
    ]
    return "\n".join(part for part in parts if part)


def whole_page() -> str:
    """Return what ``dbg-attach help all`` prints."""
    options = all_options()
    parts = [
        f"{_USAGE}\n",
        f"{DESCRIPTION}\n",
        "examples:\n" + "".join(_line(command, meaning, 33) for command, meaning in EXAMPLES),
        "verbs, the short form behind the comma:\n" + "".join(map(_verb_line, VERBS)),
        TARGETS,
        *(
            f"{heading.value}:\n"
            + "".join(_option_line(one.action, full_help(one)) for one in options if one.heading is heading)
            for heading in (Heading.ASKING, Heading.ATTACH, Heading.RUNNING)
        ),
        f"{Heading.OTHER.value}:\n"
        + "".join(_option_line(one.action, full_help(one)) for one in options if one.heading is Heading.OTHER)
        + _line("-h, --help", "show a page of one screen, or that of the verb")
        + _line("--version", "show release and protocol"),
        MORE,
        "environment (an argument goes before it, broker.json after it):\n"
        + "".join(_line(name, meaning, 29) for name, meaning in ENVIRONMENT),
        "exit status:\n" + "".join(f"  {status:>3}  {meaning}\n" for status, meaning in EXIT_STATUSES),
    ]
    return "\n".join(parts)


def session_help() -> str:
    """Return the page of verbs that a session's command line shows."""
    verbs = [(row, row.load()) for row in VERBS]
    lines = [
        f"{_usage_in_session(row, verb.in_session):<26}{verb.help_in_session}"
        for row, verb in verbs
        if verb.in_session is not None
    ]
    return "\n".join(lines) + f"\n\n{_SESSION_TARGETS}"


def session_hint() -> str:
    """Return the few verbs that stand in an empty command row."""
    return "where   e 0-7 loss   c all n   release   help      Esc leaves"


def full_help(option: SharedOption) -> str:
    """Return the help of an option, with the verbs before it that take it, if they are few."""
    is_for_few = option.heading not in (Heading.ATTACH, Heading.RUNNING) and len(option.verbs) <= MOST_NAMED
    return f"with {', '.join(option.verbs)}: {help_of(option.action)}" if is_for_few else help_of(option.action)


def _verb_line(row: VerbRow) -> str:
    return _line(f"{row.load().usage()}{f', {row.short}' if row.short else ''}", row.help, 32)


def _option_line(option: argparse.Action, text: str) -> str:
    return _line(usage_of(option), text)


def _line(name: str, text: str, column: int = 24) -> str:
    """Return one entry of a list: the name, and behind it the text from ``column`` on, in as many lines as it takes."""
    first, *more = textwrap.wrap(text, 110 - column)
    margin = " " * column
    begin = f"  {name:<{column - 2}}" if len(name) < column - 2 else f"  {name}\n{margin}"
    return f"{begin}{first}\n" + "".join(f"{margin}{line}\n" for line in more)


def _usage_in_session(row: VerbRow, operands: Operands) -> str:
    short = f"{row.short}, " if row.short is not None else ""
    return f"{short}{row.name} {operands.value}".rstrip()


class Help(Verb):
    """Show a page of help: ``topic`` is a verb, ``all`` for everything, or empty."""

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
