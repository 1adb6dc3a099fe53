"""The options of ``dbg-broker run``."""

from __future__ import annotations

import argparse

from dbg_broker.words.account import add_account_options
from dbg_broker.words.command_parser import Verbs


def add_run(verbs: Verbs) -> argparse.ArgumentParser:
    """Add the verb with its options, and return its parser."""
    run = verbs.add_parser(
        "run",
        usage="dbg-broker run [options] -- COMMAND …    or    dbg-broker run --again [options]",
        help="run a command, and attach this terminal wherever one of its ranks stops",
        epilog="Ctrl-C goes to the job. Leaving the debugger leaves the job running; closing the terminal, too. "
        "If a broker runs already, --allow to --max-lease have no effect.",
    )
    run.add_argument(
        "--stop-at",
        metavar="'FILE:LINE[, CONDITION]'",
        action="append",
        default=[],
        help="stop before this line, if the condition is true there; may be given again",
    )
    run.add_argument(
        "--stop-in", metavar="MODULE:FUNCTION", action="append", default=[], help="stop at the beginning of a function"
    )
    run.add_argument("--ranks", metavar="SET", help="only these ranks stop, e.g. 0-3,7; the others wait for them")
    run.add_argument("--rank-filter", metavar="SET", help="which ranks' stops this terminal follows (default: all)")
    run.add_argument("--engine", metavar="NAME", help="the debugger to open, pudb or pdb")
    run.add_argument("-x", dest="commands", metavar="FILE", help="tell pdb the lines of FILE first")
    run.add_argument("--post-mortem", action="store_true", help="keep ranks that crash, and stop there")
    run.add_argument(
        "--collective-timeout", metavar="S", help="give collectives at least S seconds, so that ranks can wait"
    )
    run.add_argument(
        "--hang-after",
        metavar="S",
        help="say why, once no rank has moved for S seconds and none stands in a debugger (default: never)",
    )
    run.add_argument(
        "--again", action="store_true", help="the last command of this directory, with its stops and breakpoints"
    )
    run.add_argument(
        "--pty",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="give the job a pseudo-terminal, so that progress bars are drawn (default: on a terminal, unless the "
        "command is a launcher for many hosts such as srun or mpirun)",
    )
    run.add_argument(
        "--tmux",
        action="store_true",
        help="the job's output in this pane of tmux, and each rank that stops in a pane beside; outside of tmux in a "
        "new session",
    )
    run.add_argument("--output", metavar="FILE", help="where to write what the job prints (default: in the home)")
    run.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where a broker of its own listens (default: everywhere under srun, mpirun and alike, else 127.0.0.1)",
    )
    add_account_options(run.add_argument_group("options of a broker of its own, where none serves this home yet"))
    run.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return run
