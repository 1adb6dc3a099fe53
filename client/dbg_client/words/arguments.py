"""The command line of ``dbg-attach``: its options, their help, and what argparse makes of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from dbg_wire.errors import BadInput, printable
from dbg_wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE

DEFAULT_TIMEOUT = 10.0
"""Seconds to wait for the broker and for answers of ranks: a busy login node needs a few, a person gives up after."""

WAIT_FOR_EVER = ""
"""What argparse puts for ``--wait`` without a number."""

_DESCRIPTION = """\
Attach this terminal to the debugger of any rank of a running job.

examples:
  dbg-attach                     pick a rank from a live list
  dbg-attach gpu013:5            attach to global rank 5 on gpu013
  dbg-attach 5                   the same, if 5 is on one host only
  dbg-attach 4711.0/gpu013:5     the same, of one of several jobs
  dbg-attach --wait 5            as soon as rank 5 stops
  dbg-attach --follow 5          again at its next stop, also after a relaunch
  dbg-attach --tmux 0-3          a window of tmux with a pane for each of four ranks
  dbg-attach --watch 5           look only; --take takes the keyboard from whoever has it
  dbg-attach tcp://127.0.0.1:4444
                                 a stock remote_pdb that listens on the broker's host
  dbg-attach --list              the ranks and where they are
  dbg-attach --screen 5          print the debugger's screen as text
  dbg-attach --continue stopped  let all stopped ranks go on
  dbg-attach -w                  where all ranks are, running ones too, as one tree
  dbg-attach all -e loss         a value of every stopped rank; equal ones are one group
  dbg-attach all -e step --live  the same of running ranks, in the innermost frame of your own code
  dbg-attach @2 -e 'loss, lr'    the same of a group of the last answer; @err, @? work as well
  dbg-attach 0-7 -c n            one step on each of eight ranks
  dbg-attach -i 5                break into rank 5, and attach to it
  dbg-attach held --release      let ranks go that wait for others
"""

_EPILOG = """\
TARGET is host:rank, :rank, rank, host:*, all, 0-3,5, 0-1023/8, gpu[01-04]:*, stopped, held, crashed or !5, each
optionally with job/ or */ before it; @1, @err, @run, @lost and '@?' (which shells want quoted) are groups of the last
answer in this terminal.
Attaching takes one rank, the other actions take any number, and --tmux up to 16: inside of tmux a new window, elsewhere
a new session, in which each pane follows its rank from stop to stop.

Answers to -e and -c are grouped by equality of the whole values, memory addresses apart, biggest group first; ranks
that run, are silent or are lost are groups, too. An exception that -e raises is an answer. -c takes any command of pdb;
n, s, r, unt and c move whatever debugger is open there; q, interact, debug, commands and run are not for several ranks
at once.

-e and -c ask at the frame that the open debugger shows, or else where the stop was made; after a break-in or a crash,
in running ranks (--live) and in held ones in the innermost frame of your own code, which is neither the standard
library's nor an installed package's. The first line of the answer says which. --frame train_step asks in another one,
--frame -2 in the caller of the innermost one, and 0 is the outermost.

Attached, Ctrl-] is the prefix: d detaches, ? helps, r picks another rank, n and p go to the next and previous
stopped rank, w takes the keyboard, : opens a command line for these actions on any ranks (where all, e 0-7 loss,
release, help), R ends a job that `dbg-broker run` has started and runs it again, ] sends Ctrl-] itself. Leaving never
resumes or ends a rank. At pdb's prompt `detach` leaves, too, and
`sticky` shows the source after every stop. To change the debugger that is open while somebody else types, add --take
to --engine.

environment (an argument goes before it, broker.json after it):
  DBG_BROKER                 host:port#fingerprint of the broker
  DBG_TOKEN_FILE, DBG_TOKEN  the token, or the file that has it
  DBG_HOME                   where broker.json is
  DBG_ESCAPE, DBG_TIMEOUT    as --escape and --timeout
  DBG_ENGINE                 the debugger to open where the rank has no wish of its own
  DBG_EDITING                vi: as --vi
  NO_COLOR                   no colour

exit status:
  0  done, or detached              5  the broker refused us, or is not the one pinned
  1  error; the rank is running     6  timed out, or some ranks did not answer
     or lost                        7  the stop ended: the rank went on
  2  usage, or an ambiguous target  8  the rank died or has exited
  3  no such rank                 130  interrupted
  4  no broker answers
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The command line as argparse found it, before options are checked against each other."""

    target: str | None = None
    list: bool = False
    screen: bool = False
    resume: bool = False
    kill: bool = False
    expression: str | None = None
    command: str | None = None
    where: bool = False
    interrupt: bool = False
    release: bool = False
    tmux: bool = False
    exact: bool = False
    tol: str | None = None
    stats: bool = False
    live: bool = False
    frame: str | None = None
    save: str | None = None
    against: str | None = None
    fail_if_differ: bool = False
    every: str | None = None
    watch: bool = False
    take: bool = False
    wait: str | None = None
    follow: bool = False
    all: bool = False
    json: bool = False
    plain: bool = False
    timeout: str | None = None
    escape: str | None = None
    yes: bool = False
    no_status: bool = False
    engine: str | None = None
    commands: str | None = None
    no_rc: bool = False
    vi: bool = False
    broker: str | None = None
    verbose: bool = False
    run: int | None = None


class _ArgumentParser(argparse.ArgumentParser):
    """Say what is wrong in one sentence, like every other error of this command."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(printable(message, 300), "see `dbg-attach --help`")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; its result has the fields of Arguments."""
    parser = _ArgumentParser(
        prog="dbg-attach",
        usage="dbg-attach [TARGET] [action] [options]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("target", nargs="?", metavar="TARGET", help="which ranks; none: pick from a live list")
    actions = parser.add_argument_group("actions; none of them: attach")
    actions.add_argument("-l", "--list", action="store_true", help="list the ranks and their states")
    actions.add_argument("--screen", action="store_true", help="print the debugger's screen as text")
    actions.add_argument("--continue", dest="resume", action="store_true", help="let the stopped ranks go on")
    actions.add_argument("--kill", action="store_true", help="end the ranks; asks first")
    actions.add_argument("-e", dest="expression", metavar="EXPR", help="evaluate on the stopped and held ranks")
    actions.add_argument("-c", dest="command", metavar="CMD", help="a pdb command on the stopped and held ranks")
    actions.add_argument("-w", "--where", action="store_true", help="merge the stacks of all ranks into one tree")
    actions.add_argument("-i", "--interrupt", action="store_true", help="break in; attach if it is one rank")
    actions.add_argument("--release", action="store_true", help="let held ranks go on")
    actions.add_argument("--tmux", action="store_true", help="attach to each rank in a pane of its own, in tmux")
    _add_asking_options(parser.add_argument_group("asking many ranks"))
    _add_attach_options(parser.add_argument_group("attaching"))
    _add_common_options(parser.add_argument_group("other options"))
    return parser


def read_arguments(words: Sequence[str]) -> Arguments:
    """Return the command line as values; raise BadInput. argparse itself exits for --help and --version."""
    return Arguments(**vars(build_parser().parse_args(words)))


def _add_asking_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--live", action="store_true", help="with -e: break into running ranks for it, too")
    group.add_argument(
        "--frame",
        metavar="F",
        help="with -e, -c, -i, or attaching: in the frame of function F, or frame number F, -1 the innermost",
    )
    group.add_argument("--stats", action="store_true", help="with -e: figures of tensors, e.g. min, max and NaN count")
    group.add_argument("--exact", action="store_true", help="with -e, -c: tell memory addresses apart")
    group.add_argument("--tol", metavar="X", help="with -e: floats that differ by less, relative above 1, are equal")
    group.add_argument("--save", metavar="FILE", help="with -e: keep the answers")
    group.add_argument("--against", metavar="FILE", help="with -e: which ranks differ from the answers kept")
    group.add_argument("--fail-if-differ", action="store_true", help="with -e, -c: status 1 if ranks disagree")
    group.add_argument("--every", metavar="S", help="with -l, -e, -w: again every S seconds, until Ctrl-C")


def _add_attach_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--watch", action="store_true", help="look only")
    group.add_argument("--take", action="store_true", help="take the keyboard from whoever has it")
    group.add_argument(
        "--wait",
        nargs="?",
        const=WAIT_FOR_EVER,
        metavar="S",
        help="wait, at most S seconds, until the target is stopped",
    )
    group.add_argument("--follow", action="store_true", help="wait for the next stop whenever one ends")
    group.add_argument("--engine", metavar="NAME", help="the debugger to open, pudb or pdb (or DBG_ENGINE)")
    group.add_argument("-x", dest="commands", metavar="FILE", help="tell pdb the lines of FILE first")
    group.add_argument("--no-rc", action="store_true", help="don't tell pdb the lines of ~/.pdbrc")
    group.add_argument("--vi", action="store_true", help="vi keys at pdb's prompt (or DBG_EDITING=vi)")
    group.add_argument("--escape", metavar="KEY", help="prefix key, e.g. ^], ^\\ or none (default ^]; or DBG_ESCAPE)")
    group.add_argument("--no-status", action="store_true", help="no status line; the debugger gets the last row, too")


def _add_common_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--all", action="store_true", help="with --list, --where: exited ranks, too")
    group.add_argument("--json", action="store_true", help="one JSON document on stdout")
    group.add_argument("--plain", action="store_true", help="with --list: tab separated; column 1 is a unique target")
    group.add_argument(
        "--timeout",
        metavar="S",
        help=f"seconds to wait for broker and answers (default {DEFAULT_TIMEOUT:g}; or DBG_TIMEOUT)",
    )
    group.add_argument("-y", "--yes", action="store_true", help="don't ask")
    group.add_argument("--broker", metavar="ADDRESS", help="host:port or URL of the broker (or DBG_BROKER)")
    # What `dbg-broker run` starts its terminal with: the socket by which the two talk.
    group.add_argument("--run", type=int, help=argparse.SUPPRESS)
    group.add_argument("-v", "--verbose", action="store_true", help="show where an error came from")
    group.add_argument(
        "--version",
        action="version",
        version=f"dbg-attach {RELEASE} (protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}, Python {sys.version.split()[0]})",
    )
