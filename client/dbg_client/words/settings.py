"""What the user asked for: arguments and environment, as one frozen value.

Precedence everywhere: argument, then ``DBG_*`` variable, then ``broker.json``, then default.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass

from dbg_wire import limits
from dbg_wire.engines import ENGINES
from dbg_wire.environment import ENGINE
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Mode

from .arguments import DEFAULT_TIMEOUT, WAIT_FOR_EVER, Arguments
from .engine import NO_WISH, Wish
from .escape_key import DEFAULT_PREFIX, parse_escape_key

LONGEST_WAIT = 30 * 24 * 3600.0
"""Seconds that ``--wait`` takes at most: no job is in a queue for longer, and event loops still count them exactly."""

SHORTEST_EVERY = 0.1
"""Seconds between two answers at least: nobody reads faster, and each one asks all ranks."""


class Verb(enum.Enum):
    """What the command does with the target."""

    ATTACH = "attach"
    LIST = "--list"
    SCREEN = "--screen"
    CONTINUE = "--continue"
    KILL = "--kill"
    EVAL = "-e"
    COMMAND = "-c"
    WHERE = "--where"
    INTERRUPT = "--interrupt"
    RELEASE = "--release"
    TMUX = "--tmux"

    @property
    def attaches(self) -> bool:
        """Return whether the action may open a session."""
        return self in (Verb.ATTACH, Verb.INTERRUPT, Verb.TMUX)


class Format(enum.Enum):
    """How data is written to stdout."""

    TABLE = "table"
    PLAIN = "--plain"
    JSON = "--json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """What one run of the command does.

    ``wait`` is None without ``--wait``, infinity for ``--wait`` without a limit. ``status`` tells whether the last row
    is a status line. ``prefix`` is the byte of the escape key, None for no such key. ``commands`` is the file whose
    lines a line debugger is told on attach, and ``rc`` whether it is told those of ``~/.pdbrc`` before. ``question`` is
    the expression or command that ranks are asked, ``frame`` the frame that is meant, empty for the usual one;
    ``tolerance`` and ``every`` are None where not asked for. ``run`` is the descriptor of the socket to the
    ``dbg-broker run`` whose terminal this is, None in any other terminal.
    """

    target: str | None
    verb: Verb
    question: str = ""
    exact: bool = False
    tolerance: float | None = None
    stats: bool = False
    live: bool = False
    frame: str = ""
    save: str | None = None
    against: str | None = None
    fail_if_differ: bool = False
    every: float | None = None
    mode: Mode = Mode.DRIVE
    wait: float | None = None
    follow: bool = False
    all: bool = False
    format: Format = Format.TABLE
    timeout: float = DEFAULT_TIMEOUT
    prefix: bytes | None = DEFAULT_PREFIX
    yes: bool = False
    status: bool = True
    wish: Wish = NO_WISH
    commands: str | None = None
    rc: bool = True
    vi: bool = False
    broker: str | None = None
    verbose: bool = False
    color: bool = False
    run: int | None = None


def settle(arguments: Arguments, environ: Mapping[str, str], *, stdout_is_tty: bool) -> CommandSettings:
    """Return the settings that arguments and environment make together.

    Raises BadInput for options that contradict each other and for values that can't be used.
    """
    verb = _verb(arguments)
    _refuse_contradictions(arguments, verb)
    target, wait = _target_and_wait(arguments)
    return CommandSettings(
        target=target,
        verb=verb,
        question=_question(arguments, verb),
        exact=arguments.exact,
        tolerance=_tolerance(arguments.tol),
        stats=arguments.stats,
        live=arguments.live,
        frame=_frame(arguments.frame),
        save=arguments.save,
        against=arguments.against,
        fail_if_differ=arguments.fail_if_differ,
        every=None if arguments.every is None else _seconds(arguments.every, "--every", LONGEST_WAIT, SHORTEST_EVERY),
        mode=Mode.WATCH if arguments.watch else Mode.TAKE if arguments.take else Mode.DRIVE,
        wait=wait,
        follow=arguments.follow,
        all=arguments.all,
        format=Format.JSON if arguments.json else Format.PLAIN if arguments.plain else Format.TABLE,
        timeout=_timeout(arguments.timeout, environ),
        prefix=_prefix(arguments.escape, environ, verb),
        yes=arguments.yes,
        status=not arguments.no_status,
        wish=_wish(arguments.engine, environ, verb),
        commands=arguments.commands,
        rc=not arguments.no_rc,
        vi=arguments.vi or environ.get("DBG_EDITING", "").lower() == "vi",
        broker=arguments.broker,
        verbose=arguments.verbose,
        run=arguments.run,
        color=stdout_is_tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb",
    )


def _verb(arguments: Arguments) -> Verb:
    asked = [
        verb
        for verb, given in (
            (Verb.LIST, arguments.list),
            (Verb.SCREEN, arguments.screen),
            (Verb.CONTINUE, arguments.resume),
            (Verb.KILL, arguments.kill),
            (Verb.EVAL, arguments.expression is not None),
            (Verb.COMMAND, arguments.command is not None),
            (Verb.WHERE, arguments.where),
            (Verb.INTERRUPT, arguments.interrupt),
            (Verb.RELEASE, arguments.release),
            (Verb.TMUX, arguments.tmux),
        )
        if given
    ]
    if len(asked) > 1:
        raise BadInput(f"{asked[0].value} and {asked[1].value} are two actions", "give one of them")
    return asked[0] if asked else Verb.ATTACH


def _refuse_contradictions(arguments: Arguments, verb: Verb) -> None:
    if arguments.watch and arguments.take:
        raise BadInput("--watch looks only and --take takes the keyboard", "give one of them")
    if arguments.watch and arguments.frame is not None:
        raise BadInput("--frame chooses what the debugger shows and --watch looks only", "give one of them")
    if arguments.json and arguments.plain:
        raise BadInput("--json and --plain are two formats", "give one of them")
    _refuse_misplaced(arguments, verb)
    if not verb.attaches:
        for name, given in (
            ("--watch", arguments.watch),
            ("--take", arguments.take),
            ("--follow", arguments.follow),
            ("--engine", arguments.engine is not None),
            ("-x", arguments.commands is not None),
        ):
            if given:
                raise BadInput(f"{name} is for attaching and {verb.value} does not attach", "give one of them")
    if verb in (Verb.ATTACH, Verb.TMUX) and (arguments.json or arguments.plain):
        name = "--json" if arguments.json else "--plain"
        raise BadInput(f"{name} is a format of --list and other actions, not of a terminal session", "add --list")
    if arguments.plain and verb is not Verb.LIST:
        raise BadInput(f"--plain is a format of --list, not of {verb.value}", "write --json, or leave it out")
    if arguments.all and verb not in (Verb.LIST, Verb.WHERE):
        raise BadInput("--all adds exited ranks to --list and --where", "add one of them, or write `all` for all ranks")
    if verb is Verb.INTERRUPT and arguments.wait is not None:
        raise BadInput("--wait waits for a stop and --interrupt makes one", "give one of them")


def _refuse_misplaced(arguments: Arguments, verb: Verb) -> None:
    values, answers = (Verb.EVAL,), (Verb.EVAL, Verb.COMMAND)
    for name, given, verbs in (
        ("--tol", arguments.tol is not None, values),
        ("--stats", arguments.stats, values),
        ("--live", arguments.live, values),
        ("--save", arguments.save is not None, values),
        ("--against", arguments.against is not None, values),
        ("--frame", arguments.frame is not None, (*answers, Verb.INTERRUPT, Verb.ATTACH, Verb.TMUX)),
        ("--exact", arguments.exact, answers),
        ("--fail-if-differ", arguments.fail_if_differ, answers),
        ("--every", arguments.every is not None, (Verb.LIST, Verb.EVAL, Verb.WHERE)),
    ):
        if given and verb not in verbs:
            *others, last = (one.value for one in verbs)
            actions = f"{', '.join(others)} and {last}" if others else last
            raise BadInput(f"{name} is for {actions}", f"add {verbs[0].value}, or leave {name} out")
    if arguments.tol is not None and arguments.stats:
        raise BadInput("--tol compares values and --stats adds figures to them", "give one of them")
    if arguments.tol is not None and arguments.exact:
        raise BadInput("--exact tells all differences apart and --tol does not", "give one of them")
    for name, given in (("--save", arguments.save is not None), ("--fail-if-differ", arguments.fail_if_differ)):
        if given and arguments.every is not None:
            raise BadInput(f"{name} is for one answer and --every never ends", "give one of them")


def _target_and_wait(arguments: Arguments) -> tuple[str | None, float | None]:
    if arguments.wait is None:
        return arguments.target, None
    if arguments.wait == WAIT_FOR_EVER:
        # A list and a tree are of all ranks; every other action waits for a stop, and then takes the stopped ranks.
        return arguments.target or (None if arguments.list or arguments.where else "stopped"), math.inf
    if arguments.target is None:
        # `--wait 5` and `--wait gpu1:5`: argparse took the only target for the option's value.
        return arguments.wait, math.inf
    return arguments.target, _seconds(arguments.wait, "--wait", LONGEST_WAIT)


def _prefix(argument: str | None, environ: Mapping[str, str], verb: Verb) -> bytes | None:
    # A variable that only matters to a session must not stand in the way of a list.
    text = argument if argument is not None else environ.get("DBG_ESCAPE") if verb.attaches else None
    return parse_escape_key(text) if text else DEFAULT_PREFIX


def _wish(argument: str | None, environ: Mapping[str, str], verb: Verb) -> Wish:
    if not verb.attaches:
        return NO_WISH
    default = environ.get(ENGINE) or None
    for name, value in (("--engine", argument), (ENGINE, default)):
        if value is not None and value not in ENGINES:
            raise BadInput(f"{name} {printable(value)!r} is no debugger of ours", f"take {' or '.join(ENGINES)}")
    return Wish(argument, default)


def _timeout(argument: str | None, environ: Mapping[str, str]) -> float:
    if argument is not None:
        return _seconds(argument, "--timeout", limits.MAX_ASK_SECONDS)
    if text := environ.get("DBG_TIMEOUT"):
        return _seconds(text, "DBG_TIMEOUT", limits.MAX_ASK_SECONDS)
    return DEFAULT_TIMEOUT


def _seconds(text: str, name: str, most: float, least: float = 0.0) -> float:
    seconds = _number(text)
    if not (seconds > 0 and least <= seconds <= most):
        raise BadInput(f"{name} {printable(text)!r} is not a number of seconds", f"give one from 0.1 to {most:.0f}")
    return seconds


def _frame(text: str | None) -> str:
    if text is None:
        return ""
    frame = text.strip()
    if not frame:
        raise BadInput("--frame needs a function or a number, and has an empty text", "write e.g. `--frame train_step`")
    if len(frame) > limits.MAX_FRAME_NAME:
        raise BadInput(
            f"--frame has {len(frame):,} characters, and {limits.MAX_FRAME_NAME} are the most",
            "write a number, e.g. `--frame -2`",
        )
    return frame


def _tolerance(text: str | None) -> float | None:
    if text is None:
        return None
    tolerance = _number(text)
    if not 0 <= tolerance < math.inf:
        raise BadInput(f"--tol {printable(text)!r} is not a tolerance", "give a number such as 1e-6")
    return tolerance


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _question(arguments: Arguments, verb: Verb) -> str:
    text = (arguments.expression if verb is Verb.EVAL else arguments.command) or ""
    if verb not in (Verb.EVAL, Verb.COMMAND):
        return ""
    what = "an expression, e.g. `-e loss`" if verb is Verb.EVAL else "a command, e.g. `-c n`"
    if not text.strip():
        raise BadInput(f"{verb.value} needs {what}, and has an empty one", "write one")
    if len(text) > limits.MAX_TEXT:
        raise BadInput(
            f"{verb.value} has {len(text):,} characters, and {limits.MAX_TEXT:,} are the most", "put it into a module"
        )
    return text
