"""The options, one row each, and the verbs that they belong to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dbg_client.words.verbs import ATTACHING
from dbg_wire.tables.engines import ENGINES

DEFAULT_TIMEOUT = 10.0
"""Seconds to wait for the broker and for answers of ranks: a busy login node needs a few, a person gives up after."""

ASKING, ATTACH, OTHER = "asking many ranks", "attaching", "other options"
"""The groups of the help."""

MAYBE_PORT = "[PORT]"
"""The metavar of the option that may stand without its value."""

FILE = "FILE"
"""The metavar of options that take a file, which shells complete by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """Describe one option.

    ``field`` is the one of Arguments that it fills; without ``metavar`` it is a switch. ``verbs`` are those that take
    it, none for all; with ``refused`` it is an error with another verb. ``in_session`` says that it may be typed in a
    session, too. ``values`` are all that it takes.
    """

    flags: tuple[str, ...]
    field: str
    help: str
    group: str
    metavar: str | None = None
    verbs: tuple[str, ...] = ()
    refused: bool = True
    in_session: bool = False
    values: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the longest of the flags, by which sentences name the option."""
        return max(self.flags, key=len)

    @property
    def full_help(self) -> str:
        """Return the help, with the verbs before it that the option belongs to."""
        return f"with {', '.join(self.verbs)}: {self.help}" if self.verbs and self.group != ATTACH else self.help


OPTIONS: tuple[OptionRow, ...] = (
    OptionRow(
        flags=("--live",),
        field="live",
        group=ASKING,
        verbs=("eval",),
        in_session=True,
        help="break into running ranks for it, too",
    ),
    OptionRow(
        flags=("--threads",),
        field="threads",
        group=ASKING,
        verbs=("where",),
        in_session=True,
        help="all threads of each rank",
    ),
    OptionRow(
        flags=("--native",),
        field="native",
        group=ASKING,
        verbs=("where",),
        in_session=True,
        help="frames of C code, too, which py-spy reads beside each rank; it stops the rank for a moment",
    ),
    OptionRow(
        flags=("--per-host",),
        field="per_host",
        group=ASKING,
        verbs=("exec",),
        in_session=True,
        help="beside one rank of each host only",
    ),
    OptionRow(
        flags=("--frame",),
        field="frame",
        metavar="FRAME",
        group=ASKING,
        verbs=("eval", "command", *ATTACHING),
        in_session=True,
        help="in this frame: a function's name or a number such as -2, instead of the innermost of your own code",
    ),
    OptionRow(
        flags=("--stats",),
        field="stats",
        group=ASKING,
        verbs=("eval",),
        in_session=True,
        help="figures of tensors, e.g. min, max and NaN count",
    ),
    OptionRow(
        flags=("--exact",),
        field="exact",
        group=ASKING,
        verbs=("eval", "command", "exec"),
        in_session=True,
        help="also count differing memory addresses as a difference",
    ),
    OptionRow(
        flags=("--tol",),
        field="tol",
        metavar="X",
        group=ASKING,
        verbs=("eval",),
        in_session=True,
        help="floats that differ by less, relative above 1, are equal",
    ),
    OptionRow(
        flags=("--save",),
        field="save",
        metavar=FILE,
        group=ASKING,
        verbs=("eval",),
        in_session=True,
        help="keep the answers",
    ),
    OptionRow(
        flags=("--against",),
        field="against",
        metavar=FILE,
        group=ASKING,
        verbs=("eval",),
        in_session=True,
        help="which ranks differ from the answers kept",
    ),
    OptionRow(
        flags=("--fail-if-differ",),
        field="fail_if_differ",
        group=ASKING,
        verbs=("eval", "command", "exec"),
        help="status 1 if ranks disagree",
    ),
    OptionRow(
        flags=("--every",),
        field="every",
        metavar="S",
        group=ASKING,
        verbs=("list", "eval", "where", "why", "collectives"),
        help="again every S seconds, until Ctrl-C",
    ),
    OptionRow(flags=("--watch",), field="watch", group=ATTACH, verbs=ATTACHING, help="look only"),
    OptionRow(
        flags=("--take",), field="take", group=ATTACH, verbs=ATTACHING, help="take the keyboard from whoever has it"
    ),
    OptionRow(
        flags=("--for",),
        field="bound",
        metavar="S",
        group=ATTACH,
        help="wait at most S seconds, as in 60, 60s, 5m or 1h; with wait or --wait",
    ),
    OptionRow(
        flags=("--follow",),
        field="follow",
        group=ATTACH,
        verbs=ATTACHING,
        help="wait for the next stop whenever one ends",
    ),
    OptionRow(
        flags=("--engine",),
        field="engine",
        metavar="NAME",
        group=ATTACH,
        verbs=ATTACHING,
        values=ENGINES,
        help="the debugger to open, pudb or pdb (or DBG_ENGINE)",
    ),
    OptionRow(
        flags=("-x",),
        field="commands",
        metavar=FILE,
        group=ATTACH,
        verbs=ATTACHING,
        help="tell pdb the lines of FILE first",
    ),
    OptionRow(
        flags=("--no-rc",),
        field="no_rc",
        group=ATTACH,
        verbs=ATTACHING,
        refused=False,
        help="don't tell pdb the lines of ~/.pdbrc",
    ),
    OptionRow(
        flags=("--vi",),
        field="vi",
        group=ATTACH,
        verbs=ATTACHING,
        refused=False,
        help="vi keys at pdb's prompt (or DBG_EDITING=vi)",
    ),
    OptionRow(
        flags=("--escape",),
        field="escape",
        metavar="KEY",
        group=ATTACH,
        verbs=ATTACHING,
        refused=False,
        help="prefix key, e.g. ^], ^\\ or none (default ^]; or DBG_ESCAPE)",
    ),
    OptionRow(
        flags=("--no-status",),
        field="no_status",
        group=ATTACH,
        verbs=ATTACHING,
        refused=False,
        help="no status line; the debugger gets the last row, too",
    ),
    OptionRow(
        flags=("--all",),
        field="all",
        group=OTHER,
        verbs=("list", "where"),
        in_session=True,
        help="all exited ranks, too",
    ),
    OptionRow(
        flags=("--all-rows",),
        field="all_rows",
        group=OTHER,
        verbs=("list",),
        in_session=True,
        help="a row for each of more than 40 ranks, too",
    ),
    OptionRow(flags=("--json",), field="json", group=OTHER, help="one JSON document on stdout"),
    OptionRow(
        flags=("-o",),
        field="output",
        metavar=FILE,
        group=OTHER,
        verbs=("report",),
        help="write it to a new file",
    ),
    OptionRow(
        flags=("--mine",),
        field="mine",
        group=OTHER,
        verbs=("adopt",),
        help="all processes of yours here that a launcher started",
    ),
    OptionRow(
        flags=("--dap",),
        field="port",
        metavar=MAYBE_PORT,
        group=OTHER,
        verbs=("dap",),
        help="on a port of this host's loopback instead, with a secret for one session; without PORT on a free one",
    ),
    OptionRow(
        flags=("--no-secret",),
        field="no_secret",
        group=OTHER,
        verbs=("dap",),
        help="for an IDE that can't send the secret: every user of this host may connect to the port of --dap",
    ),
    OptionRow(
        flags=("--vscode",),
        field="vscode",
        group=OTHER,
        verbs=("dap",),
        help="write the entry for it into .vscode/launch.json of this folder, and say how for other IDEs",
    ),
    OptionRow(flags=("--no-pager",), field="no_pager", group=OTHER, help="print long answers as they are"),
    OptionRow(
        flags=("--plain",),
        field="plain",
        group=OTHER,
        verbs=("list",),
        help="tab separated; column 1 is a unique target",
    ),
    OptionRow(
        flags=("--timeout",),
        field="timeout",
        metavar="S",
        group=OTHER,
        in_session=True,
        help=f"seconds to wait for broker and answers (default {DEFAULT_TIMEOUT:g}; or DBG_TIMEOUT)",
    ),
    OptionRow(flags=("-y", "--yes"), field="yes", group=OTHER, in_session=True, help="don't ask"),
    OptionRow(
        flags=("--broker",),
        field="broker",
        metavar="ADDRESS",
        group=OTHER,
        help="host:port or URL of the broker (or DBG_BROKER)",
    ),
    OptionRow(
        flags=("--ask-token",),
        field="ask_token",
        group=OTHER,
        help="ask for the token on the terminal, without an echo; it is stored nowhere (or DBG_ASK_TOKEN=1)",
    ),
    OptionRow(flags=("-v", "--verbose"), field="verbose", group=OTHER, help="show where an error came from"),
)
"""All options but --help, --version and the flags of verbs, in the order of the help.

A new one is a row here and a field in Arguments.
"""


def options_of(verb: str, rows: Iterable[OptionRow] = OPTIONS) -> list[OptionRow]:
    """Return the options that a verb takes."""
    return [row for row in rows if not row.verbs or verb in row.verbs]
