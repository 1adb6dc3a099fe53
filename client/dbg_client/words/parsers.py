"""The parser of each verb: which options it takes. Help, completion, man page and reference are made from these. Pure.

Only the parser of the verb that was typed is built: all of them together take longer than to start Python.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dbg_client.words.config import DEFAULT_TIMEOUT
from dbg_client.words.settings import DEFAULT_SECONDS, ON_HANG
from dbg_client.words.verbs import VERBS, VerbRow
from dbg_wire.command_line.parser import CommandParser, options_of
from dbg_wire.tables.engines import ENGINES
from dbg_wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

ASKING, ATTACH, RUNNING, OTHER = "asking many ranks", "attaching", "running a job", "other options"
"""The groups of the help."""

LEADING = {"--broker": True, "--timeout": True} | dict.fromkeys(
    ("--json", "--no-pager", "-v", "--verbose", "-y", "--yes"), False
)
"""Options that may stand before the verb, as an alias of a shell puts them, and whether they take a value."""


class VerbParser(CommandParser):
    """Parser of one verb's options; the words between them are left over, in their order.

    ``page`` makes what ``--help`` shows. In a session there are fewer options.
    """

    def __init__(self, row: VerbRow, *, page: Callable[[], str], in_session: bool) -> None:
        super().__init__(prog=f"dbg-attach {row.name}", allow_abbrev=False)
        self._page = page
        self._in_session = in_session
        self._titled: dict[str, argparse._ArgumentGroup] = {}

    @property
    def help_page(self) -> str:
        """Return what to type for help."""
        return "help" if self._in_session else "dbg-attach --help"

    def option(self, group: str, *flags: str, in_session: bool = False, **how: Any) -> None:
        """Add an option to a group of the help; without a metavar it is a switch."""
        if "metavar" not in how:
            how["action"] = "store_true"
        if self._in_session and not in_session:
            name = max(flags, key=len).lstrip("-").replace("-", "_")
            self.set_defaults(**{how.get("dest", name): None if "metavar" in how else False})
            return
        if group not in self._titled:
            self._titled[group] = self.add_argument_group(group)
        self._titled[group].add_argument(*flags, **how)

    @property
    def groups(self) -> Iterator[tuple[str, argparse.Action]]:
        """Yield the options that the help shows, each with its group."""
        shown = options_of(self)
        for title, group in self._titled.items():
            yield from ((title, action) for action in group._group_actions if action in shown)

    def format_help(self) -> str:
        """Return the page of the verb."""
        return self._page()

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # argparse passes over an error of the write, and a page that is longer than a buffer is lost by that.
        if message and file is not None:
            file.write(message)


Add = Callable[[VerbParser], None]


def parser_of(row: VerbRow, *, page: Callable[[], str] = str, in_session: bool = False) -> VerbParser:
    """Return the parser of a verb."""
    parser = VerbParser(row, page=page, in_session=in_session)
    for add in (*OPTIONS_OF[row.name], *_OF_ALL):
        add(parser)
    return parser


@dataclass(frozen=True, slots=True)
class SharedOption:
    """An option, its group of the help, and the verbs that take it."""

    action: argparse.Action
    group: str
    verbs: tuple[str, ...]

    @property
    def is_of_all(self) -> bool:
        """Tell whether each verb takes it."""
        return len(self.verbs) == len(VERBS)


def all_options() -> list[SharedOption]:
    """Return all options in the order of the help."""
    found: dict[tuple[str, ...], SharedOption] = {}
    for row in VERBS:
        for group, action in parser_of(row).groups:
            key = tuple(action.option_strings)
            before = found[key].verbs if key in found else ()
            found[key] = SharedOption(action, group, (*before, row.name))
    return list(found.values())


# ------------------------------------------------------------------------------------------------------- their options


def _option(group: str, *flags: str, **how: Any) -> Add:
    return lambda parser: parser.option(group, *flags, **how)


def _bound(*, in_session: bool) -> Add:
    text = f"wait at most S seconds, as in 60, 60s, 5m or 1h; `slow` looks for so long (default {DEFAULT_SECONDS:g})"
    return _option(ATTACH, "--for", dest="bound", metavar="S", in_session=in_session, help=text)


def _version(parser: VerbParser) -> None:
    version = f"dbg-attach {RELEASE} (protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}, Python {sys.version.split()[0]})"
    parser.add_argument("--version", action="version", version=version, help=argparse.SUPPRESS)


_LIVE = _option(ASKING, "--live", in_session=True, help="break into running ranks for it, too")
_STACKS = (
    _option(ASKING, "--threads", in_session=True, help="all threads of each rank"),
    _option(
        ASKING,
        "--native",
        in_session=True,
        help="frames of C code, too, which py-spy reads beside each rank; it stops the rank for a moment",
    ),
)
_PER_HOST = _option(ASKING, "--per-host", in_session=True, help="beside one rank of each host only")
_FRAME = _option(
    ASKING,
    "--frame",
    metavar="FRAME",
    in_session=True,
    help="in this frame: a function's name or a number such as -2, instead of the innermost of your own code",
)
_STATS = _option(ASKING, "--stats", in_session=True, help="figures of tensors, e.g. min, max and NaN count")
_EXACT = _option(ASKING, "--exact", in_session=True, help="also count differing memory addresses as a difference")
_VALUES = (
    _option(
        ASKING,
        "--tol",
        dest="tolerance",
        metavar="X",
        in_session=True,
        help="floats that differ by less, relative above 1, are equal",
    ),
)
_FAIL = _option(ASKING, "--fail-if-differ", help="status 1 if ranks disagree")
_WAIT = (_option(ASKING, "--wait", help="first wait until one of the ranks stops"), _bound(in_session=False))
_ENGINE = _option(
    ATTACH,
    "--engine",
    metavar="NAME",
    choices=ENGINES,
    help="the debugger to open, pudb or pdb (or DBG_ENGINE)",
)
_COMMANDS = _option(ATTACH, "-x", dest="commands", metavar="FILE", help="tell pdb the lines of FILE first")
_ATTACH = (
    _option(ATTACH, "--watch", help="look only"),
    _option(ATTACH, "--take", help="take the keyboard from whoever has it"),
    _option(ATTACH, "--follow", help="wait for the next stop whenever one ends"),
    _ENGINE,
    _COMMANDS,
    _option(ATTACH, "--no-rc", help="don't tell pdb the lines of ~/.pdbrc"),
    _option(ATTACH, "--vi", help="vi keys at pdb's prompt (or DBG_EDITING=vi)"),
    _option(ATTACH, "--escape", metavar="KEY", help="prefix key, e.g. ^], ^\\ or none (default ^]; or DBG_ESCAPE)"),
    _option(ATTACH, "--no-status", help="no status line; the debugger gets the last row, too"),
)
_RECORD = (
    _option(
        ATTACH,
        "--record",
        metavar="FILE",
        help="record what the terminal shows in a new file; `asciinema play FILE` plays it",
    ),
    _option(ATTACH, "--record-input", help="with --record: record keys as well, passwords included"),
)
_EXITED = _option(OTHER, "--all", in_session=True, help="all exited ranks, too")
_ROWS = _option(OTHER, "--all-rows", in_session=True, help="a row for each of more than 40 ranks, too")
_JSON = _option(OTHER, "--json", help="one JSON document on stdout")
_PLAIN = _option(OTHER, "--plain", help="tab separated; column 1 is a unique target")
_PAGER = _option(OTHER, "--no-pager", help="print long answers as they are")
_REPORT = _option(OTHER, "-o", dest="path", metavar="FILE", help="write it to a new file")
_MINE = _option(OTHER, "--mine", help="all processes of yours here that a launcher started")
_PORT = _option(
    OTHER,
    "--port",
    metavar="PORT",
    help="on a port of this host's loopback, 0 for a free one; an IDE comes there with a secret for one session, "
    "instead of stdin",
)
_DAP = (
    _option(
        OTHER,
        "--no-secret",
        help="for an IDE that can't send the secret: every user of this host may connect to the port",
    ),
    _option(
        OTHER,
        "--vscode",
        help="print the entry for it in .vscode/launch.json, and those of other IDEs",
    ),
)
_DRIVE = _option(OTHER, "--drive", help="let the page act: type, ask for values, break in, let go, end")
_RUN = (
    _option(
        RUNNING,
        "--stop-at",
        metavar="'FILE:LINE[, CONDITION]'",
        action="append",
        default=[],
        help="stop before this line, if the condition is true there; may be given again",
    ),
    _option(
        RUNNING,
        "--stop-in",
        metavar="MODULE:FUNCTION",
        action="append",
        default=[],
        help="stop at the beginning of a function",
    ),
    _option(RUNNING, "--ranks", metavar="SET", help="only these ranks stop, e.g. 0-3,7; the others wait for them"),
    _option(RUNNING, "--rank-filter", metavar="SET", help="which ranks' stops this terminal follows (default: all)"),
    _option(RUNNING, "--post-mortem", help="keep ranks that crash, and stop there"),
    _option(
        RUNNING,
        "--collective-timeout",
        metavar="S",
        help="give collectives at least S seconds, so that ranks can wait",
    ),
    _option(
        RUNNING,
        "--hang-after",
        metavar="S",
        help="say why, once no rank has moved for S seconds and none stands in a debugger (default: never)",
    ),
    _option(
        RUNNING,
        "--on-hang",
        metavar="report|end",
        choices=ON_HANG,
        help="then write a report beside the job's output, also before a time limit ends the job; `end` ends the job, "
        "too, with status 9 (default: only say why)",
    ),
    _option(RUNNING, "--again", help="the last command of this directory, with its options as typed"),
    _option(
        RUNNING,
        "--pty",
        help="give the job a pseudo-terminal, so that progress bars are drawn (default: on a terminal, unless the "
        "command is a launcher for many hosts such as srun or mpirun)",
    ),
    _option(RUNNING, "--no-pty", help="give the job no pseudo-terminal"),
    _option(RUNNING, "--web", help="the job as a page in a browser as well, which only looks; ends with the job"),
    _option(RUNNING, "--output", metavar="FILE", help="where to write what the job prints (default: in the home)"),
    _option(
        RUNNING,
        "--listen",
        metavar="HOST:PORT",
        help="where a broker of its own listens (default: everywhere under srun, mpirun and alike, else 127.0.0.1)",
    ),
)
_OF_ALL = (
    _option(
        OTHER,
        "--timeout",
        metavar="S",
        in_session=True,
        help=f"seconds to wait for broker and answers (default {DEFAULT_TIMEOUT:g}; or DBG_TIMEOUT)",
    ),
    _option(OTHER, "--broker", metavar="ADDRESS", help="host:port or URL of the broker (or DBG_BROKER)"),
    _option(OTHER, "-y", "--yes", in_session=True, help="don't ask"),
    _option(OTHER, "-v", "--verbose", help="show where an error came from"),
)
_SHOWN = (*_WAIT, _JSON, _PAGER)

OPTIONS_OF: Mapping[str, tuple[Add, ...]] = {
    "attach": (_FRAME, *_ATTACH, *_RECORD, _version),
    "wait": (_FRAME, _bound(in_session=False), *_ATTACH, *_RECORD),
    "run": (_ENGINE, _COMMANDS, *_RUN),
    "list": (*_WAIT, _EXITED, _ROWS, _JSON, _PLAIN, _PAGER),
    "where": (*_STACKS, _EXITED, *_SHOWN),
    "why": _SHOWN,
    "slow": (_bound(in_session=True), _JSON, _PAGER),
    "collectives": _SHOWN,
    "eval": (_LIVE, _FRAME, _STATS, _EXACT, *_VALUES, _FAIL, *_SHOWN),
    "command": (_FRAME, _EXACT, _FAIL, *_WAIT, _JSON, _PAGER),
    "exec": (_PER_HOST, _EXACT, _FAIL, *_WAIT, _JSON, _PAGER),
    "screen": (*_WAIT, _JSON),
    "interrupt": (_FRAME, *_ATTACH, *_RECORD, _JSON, _PAGER),
    "continue": (*_WAIT, _JSON),
    "release": (*_WAIT, _JSON),
    "kill": (*_WAIT, _JSON),
    "tmux": (_FRAME, *_ATTACH),
    "report": (*_WAIT, _REPORT, _PAGER),
    "adopt": (_MINE,),
    "mcp": (),
    "dap": (_PORT, *_DAP),
    "web": (_ENGINE, _PORT, _DRIVE),
    "completion": (),
    "help": (),
}
"""What adds the options of each verb, those of all verbs apart."""
