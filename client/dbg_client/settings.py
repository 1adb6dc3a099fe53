"""What the user asked for: arguments and environment, as one frozen value.

Precedence everywhere: argument, then ``DBG_*`` variable, then ``broker.json``, then default.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass

from dbg_wire import limits
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Mode

from .engine import ENGINES, NO_WISH, Wish
from .escape import DEFAULT_PREFIX, parse_escape_key

DEFAULT_TIMEOUT = 10.0
"""Seconds to wait for the broker and for answers of ranks: a busy login node needs a few, a person gives up after."""

LONGEST_WAIT = 30 * 24 * 3600.0
"""Seconds that ``--wait`` takes; longer than any job in a queue, and what event loops still count exactly."""


class Verb(enum.Enum):
    """Name what the command does with the target."""

    ATTACH = "attach"
    LIST = "--list"
    SCREEN = "--screen"
    CONTINUE = "--continue"
    KILL = "--kill"


class Format(enum.Enum):
    """Name how data is written to stdout."""

    TABLE = "table"
    PLAIN = "--plain"
    JSON = "--json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Hold the command line as argparse found it, before anything is checked against anything else."""

    target: str | None = None
    list: bool = False
    screen: bool = False
    resume: bool = False
    kill: bool = False
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


WAIT_FOR_EVER = ""
"""What argparse puts for ``--wait`` without a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Hold what one run of the command does.

    ``wait`` is None without ``--wait``, infinity for one without a limit. ``status`` tells whether the last row is a
    status line. ``prefix`` is the byte of the escape key, None for no such key. ``commands`` is the file whose lines a
    line debugger is told on attach, and ``rc`` whether it is told those of ``~/.pdbrc`` before.
    """

    target: str | None
    verb: Verb
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


def settle(arguments: Arguments, environ: Mapping[str, str], *, stdout_is_tty: bool) -> Settings:
    """Return the settings that arguments and environment make together.

    Raises BadInput for options that contradict each other and for values that can't be used.
    """
    verb = _verb(arguments)
    _refuse_contradictions(arguments, verb)
    target, wait = _target_and_wait(arguments)
    return Settings(
        target=target,
        verb=verb,
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
        )
        if given
    ]
    if len(asked) > 1:
        raise BadInput(f"{asked[0].value} and {asked[1].value} are two actions", "give one of them")
    return asked[0] if asked else Verb.ATTACH


def _refuse_contradictions(arguments: Arguments, verb: Verb) -> None:
    if arguments.watch and arguments.take:
        raise BadInput("--watch looks only and --take takes the keyboard", "give one of them")
    if arguments.json and arguments.plain:
        raise BadInput("--json and --plain are two formats", "give one of them")
    if verb is not Verb.ATTACH:
        for name, given in (
            ("--watch", arguments.watch),
            ("--take", arguments.take),
            ("--follow", arguments.follow),
            ("--engine", arguments.engine is not None),
            ("-x", arguments.commands is not None),
        ):
            if given:
                raise BadInput(f"{name} is for attaching and {verb.value} does not attach", "give one of them")
    if verb is Verb.ATTACH and (arguments.json or arguments.plain):
        name = "--json" if arguments.json else "--plain"
        raise BadInput(f"{name} is a format of --list and other actions, not of a terminal session", "add --list")
    if arguments.plain and verb is not Verb.LIST:
        raise BadInput(f"--plain is a format of --list, not of {verb.value}", "write --json, or leave it out")
    if arguments.all and verb is not Verb.LIST:
        raise BadInput("--all adds exited ranks to --list", "add --list, or write `all` for all ranks")


def _target_and_wait(arguments: Arguments) -> tuple[str | None, float | None]:
    if arguments.wait is None:
        return arguments.target, None
    if arguments.wait == WAIT_FOR_EVER:
        # A list is of all ranks; everything else waits for, and then takes, whatever stops.
        return arguments.target or (None if arguments.list else "stopped"), math.inf
    if arguments.target is None:
        # `--wait 5` and `--wait gpu1:5`: the option swallowed the only target, so the target it is.
        return arguments.wait, math.inf
    return arguments.target, _seconds(arguments.wait, "--wait", LONGEST_WAIT)


def _prefix(argument: str | None, environ: Mapping[str, str], verb: Verb) -> bytes | None:
    # A variable that only matters to a session must not stand in the way of a list.
    text = argument if argument is not None else environ.get("DBG_ESCAPE") if verb is Verb.ATTACH else None
    return parse_escape_key(text) if text else DEFAULT_PREFIX


def _wish(argument: str | None, environ: Mapping[str, str], verb: Verb) -> Wish:
    if verb is not Verb.ATTACH:
        return NO_WISH
    default = environ.get("DBG_ENGINE") or None
    for name, value in (("--engine", argument), ("DBG_ENGINE", default)):
        if value is not None and value not in ENGINES:
            raise BadInput(f"{name} {printable(value)!r} is no debugger of ours", f"take {' or '.join(ENGINES)}")
    return Wish(argument, default)


def _timeout(argument: str | None, environ: Mapping[str, str]) -> float:
    if argument is not None:
        return _seconds(argument, "--timeout", limits.MAX_ASK_SECONDS)
    if text := environ.get("DBG_TIMEOUT"):
        return _seconds(text, "DBG_TIMEOUT", limits.MAX_ASK_SECONDS)
    return DEFAULT_TIMEOUT


def _seconds(text: str, name: str, most: float) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= most:
        raise BadInput(f"{name} {printable(text)!r} is not a number of seconds", f"give one from 0.1 to {most:.0f}")
    return seconds
