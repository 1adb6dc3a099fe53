"""What the user asked for: arguments and environment, as one frozen value.

Precedence everywhere: argument, then ``DBG_*`` variable, then ``config.toml`` or ``broker.json``, then default.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dbg_client.words.arguments import WAIT_FOR_EVER, Arguments
from dbg_client.words.config import NO_CONFIG, PREFERENCES, Config, Origin, settle_one
from dbg_client.words.engine import NO_WISH, Wish
from dbg_client.words.escape_key import DEFAULT_PREFIX, parse_escape_key
from dbg_client.words.ide_port import target_and_port
from dbg_client.words.options import ATTACH, DEFAULT_TIMEOUT, OPTIONS
from dbg_client.words.verbs import BY_NAME, VERBS
from dbg_wire import limits
from dbg_wire.command_line.completion import SHELLS
from dbg_wire.command_line.duration import read_duration
from dbg_wire.errors import BadInput, printable
from dbg_wire.finding.environment import ASK_TOKEN, ENGINE
from dbg_wire.messages import Mode
from dbg_wire.records.beside import command_line
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.record import length_of
from dbg_wire.tables.engines import ENGINES

LONGEST_WAIT = 30 * 24 * 3600.0
"""Seconds that ``--wait`` takes at most: no job is in a queue for longer, and event loops still count them exactly."""

SHORTEST_EVERY = 0.1
"""Seconds between two answers at least: nobody reads faster, and each one asks all ranks."""


MOST_PIDS = 1000
"""Processes that are named at once: more than a host has ranks."""


class Verb(enum.Enum):
    """What the command does with the target."""

    ATTACH = "attach"
    LIST = "--list"
    SCREEN = "--screen"
    CONTINUE = "--continue"
    KILL = "--kill"
    EVAL = "-e"
    COMMAND = "-c"
    EXEC = "exec"
    WHERE = "--where"
    WHY = "why"
    COLLECTIVES = "collectives"
    INTERRUPT = "--interrupt"
    RELEASE = "--release"
    TMUX = "--tmux"
    CONFIG = "config"
    COMPLETION = "completion"
    HELP = "help"
    REPORT = "--report"
    STOPS = "stops"
    ADOPT = "adopt"
    MCP = "mcp"
    DAP = "dap"

    @property
    def attaches(self) -> bool:
        """Return whether the action may open a session."""
        return self in (Verb.ATTACH, Verb.INTERRUPT, Verb.TMUX)


ABOUT_ALL = (Verb.LIST, Verb.WHERE, Verb.WHY, Verb.COLLECTIVES, Verb.REPORT)
"""Actions that mean all ranks where the user names none."""


class Format(enum.Enum):
    """How data is written to stdout."""

    TABLE = "table"
    PLAIN = "--plain"
    JSON = "--json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """What one run of the command does.

    ``called`` is the verb or the flag by which the user has named the action.
    ``wait`` is None without ``--wait``, infinity for ``--wait`` without a limit. ``status`` tells whether the last row
    is a status line. ``prefix`` is the byte of the escape key, None for no such key. ``commands`` is the file whose
    lines a line debugger is told on attach, and ``rc`` whether it is told those of ``~/.pdbrc`` before. ``question``
    is the expression or command that ranks are asked, ``program`` the words of a command beside them, ``frame`` the
    frame that is meant, empty for the usual one; ``tolerance`` and ``every`` are None where not asked for. ``run`` is
    the descriptor of the socket to the ``dbg-broker run`` whose terminal this is, None in any other terminal.
    ``breakpoints_to`` is the file in which a pane of that run tells its breakpoints, None anywhere else. ``operand``
    is the shell to complete for, or the verb that help is asked for, ``pager`` the command for long answers, empty for
    none. ``port`` is where an IDE is served, 0 for a free one, None for stdin and stdout. ``notes`` are sentences for
    the user, told before all else.
    """

    target: str | None
    verb: Verb
    called: str = field(default="", compare=False)
    question: str = ""
    program: tuple[str, ...] = ()
    per_host: bool = False
    native: bool = False
    exact: bool = False
    tolerance: float | None = None
    stats: bool = False
    live: bool = False
    threads: bool = False
    frame: str = ""
    save: str | None = None
    against: str | None = None
    fail_if_differ: bool = False
    every: float | None = None
    output: str | None = None
    mode: Mode = Mode.DRIVE
    wait: float | None = None
    follow: bool = False
    all: bool = False
    all_rows: bool = False
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
    ask_token: bool = False
    verbose: bool = False
    color: bool = False
    run: int | None = None
    breakpoints_to: str | None = None
    operand: str = ""
    pids: tuple[int, ...] = ()
    mine: bool = False
    port: int | None = None
    no_secret: bool = False
    vscode: bool = False
    pager: str = PREFERENCES["pager"].default
    notes: tuple[str, ...] = ()


def settle(
    arguments: Arguments, environ: Mapping[str, str], *, stdout_is_tty: bool, config: Config = NO_CONFIG
) -> CommandSettings:
    """Return the settings that arguments, environment and the user's file make together.

    Raises BadInput for options that contradict each other and for values that can't be used; a bad value of the file
    stops only what needs it.
    """
    verb = _verb(arguments)
    _refuse_contradictions(arguments, verb)
    target, wait, notes = _target_and_wait(arguments, verb)
    port = None
    if verb is Verb.DAP:
        target, port = target_and_port(arguments)
    return CommandSettings(
        target=target,
        verb=verb,
        called=_called(arguments, verb),
        question=_question(arguments, verb),
        program=_program(arguments.program),
        per_host=arguments.per_host,
        native=arguments.native,
        exact=arguments.exact,
        tolerance=_tolerance(arguments.tol),
        stats=arguments.stats,
        live=arguments.live,
        threads=arguments.threads,
        frame=_frame(arguments.frame),
        save=arguments.save,
        against=arguments.against,
        fail_if_differ=arguments.fail_if_differ,
        output=arguments.output,
        every=None if arguments.every is None else _seconds(arguments.every, "--every", LONGEST_WAIT, SHORTEST_EVERY),
        mode=Mode.WATCH if arguments.watch else Mode.TAKE if arguments.take else Mode.DRIVE,
        wait=wait,
        follow=arguments.follow,
        all=arguments.all,
        all_rows=arguments.all_rows,
        format=Format.JSON if arguments.json else Format.PLAIN if arguments.plain else Format.TABLE,
        timeout=_timeout(arguments.timeout, environ, config),
        prefix=_prefix(arguments, environ, config, verb),
        yes=arguments.yes,
        status=not arguments.no_status,
        wish=_wish(arguments, environ, config, verb),
        commands=arguments.commands,
        rc=not arguments.no_rc,
        vi=_vi(arguments, environ, config, verb),
        broker=arguments.broker,
        ask_token=arguments.ask_token or environ.get(ASK_TOKEN, "") not in ("", "0"),
        verbose=arguments.verbose,
        run=arguments.run,
        breakpoints_to=arguments.breakpoints_to,
        operand=_operand(arguments.operand, verb),
        pids=_pids(arguments, verb),
        mine=arguments.mine,
        port=port,
        no_secret=arguments.no_secret,
        vscode=arguments.vscode,
        notes=(*arguments.notes, *notes),
        pager=settle_one("pager", "" if arguments.no_pager else None, environ, config).value,
        color=_color(environ, config, stdout_is_tty=stdout_is_tty),
    )


def _verb(arguments: Arguments) -> Verb:
    asked = [
        Verb[row.name.upper()]
        for row in VERBS
        if (row.field is not None and getattr(arguments, row.field) not in (None, False)) or row.name == arguments.verb
    ]
    if arguments.port is not None and Verb.DAP not in asked:
        asked.append(Verb.DAP)
    if len(asked) > 1:
        first, second = (_called(arguments, verb) for verb in asked[:2])
        raise BadInput(f"{first} and {second} are two actions", "give one of them")
    return asked[0] if asked else Verb.ATTACH


def _called(arguments: Arguments, verb: Verb) -> str:
    """Return the verb as the user has named it: the word, or else the flag."""
    return arguments.spoken if arguments.spoken == verb.name.lower() else verb.value


def _refuse_contradictions(arguments: Arguments, verb: Verb) -> None:
    called = _called(arguments, verb)
    if arguments.watch and arguments.take:
        raise BadInput("--watch looks only and --take takes the keyboard", "give one of them")
    if arguments.watch and arguments.frame is not None:
        raise BadInput("--frame chooses what the debugger shows and --watch looks only", "give one of them")
    if arguments.native and arguments.threads:
        raise BadInput("--native shows the main thread alone and --threads all of them", "give one of them")
    if arguments.json and arguments.plain:
        raise BadInput("--json and --plain are two formats", "give one of them")
    _refuse_misplaced(arguments, verb)
    if verb in (Verb.ATTACH, Verb.TMUX) and (arguments.json or arguments.plain):
        name = "--json" if arguments.json else "--plain"
        raise BadInput(f"{name} is a format of --list and other actions, not of a terminal session", "add --list")
    if arguments.json and verb is Verb.ADOPT:
        raise BadInput("adopt writes lines for people", "write `list --json` afterwards")
    if arguments.json and verb is Verb.STOPS:
        raise BadInput("stops is a table for people", "leave --json out")
    if arguments.json and verb is Verb.REPORT:
        raise BadInput(f"{called} is a text for people", "write --list --json or --where --json for programs")
    if arguments.plain and verb is not Verb.LIST:
        raise BadInput(f"--plain is a format of --list, not of {called}", "write --json, or leave it out")
    if arguments.all and verb not in (Verb.LIST, Verb.WHERE):
        raise BadInput("--all adds exited ranks to --list and --where", "add one of them, or write `all` for all ranks")
    if verb in (Verb.CONFIG, Verb.COMPLETION, Verb.HELP, Verb.ADOPT, Verb.MCP) and arguments.wait is not None:
        raise BadInput(f"--wait waits for a rank, and {called} is about none", "give one of them")
    if verb is Verb.INTERRUPT and arguments.wait is not None:
        raise BadInput("--wait waits for a stop and --interrupt makes one", "give one of them")


_WITH_SENTENCES = frozenset({"all", "plain"})
"""Options whose misplacement has a sentence of its own."""


def _refuse_misplaced(arguments: Arguments, verb: Verb) -> None:
    usual = Arguments()
    for option in OPTIONS:
        is_given = getattr(arguments, option.field) != getattr(usual, option.field)
        if not is_given or not option.verbs or not option.refused or option.field in _WITH_SENTENCES:
            continue
        if verb.name.lower() in option.verbs:
            continue
        if option.group == ATTACH:
            raise BadInput(
                f"{option.name} is for attaching and {_called(arguments, verb)} does not attach", "give one of them"
            )
        *others, last = (Verb[name.upper()].value for name in option.verbs if name != "wait")
        actions = f"{', '.join(others)} and {last}" if others else last
        first = Verb[option.verbs[0].upper()].value
        raise BadInput(f"{option.name} is for {actions}", f"add {first}, or leave {option.name} out")
    if arguments.tol is not None and arguments.stats:
        raise BadInput("--tol compares values and --stats adds figures to them", "give one of them")
    if arguments.tol is not None and arguments.exact:
        raise BadInput("--exact tells all differences apart and --tol does not", "give one of them")
    for name, given in (("--save", arguments.save is not None), ("--fail-if-differ", arguments.fail_if_differ)):
        if given and arguments.every is not None:
            raise BadInput(f"{name} is for one answer and --every never ends", "give one of them")


def _target_and_wait(arguments: Arguments, verb: Verb) -> tuple[str | None, float | None, tuple[str, ...]]:
    """Return the target, the seconds to wait for it, and how that was understood where it could be something else."""
    bound = None if arguments.bound is None else read_duration(arguments.bound, "--for", LONGEST_WAIT)
    wait, target = arguments.wait, arguments.target
    if wait is None:
        if bound is not None:
            raise BadInput("--for bounds a wait, and there is none", "add --wait, or write `wait TARGET --for 60s`")
        return target, None, ()
    if wait == WAIT_FOR_EVER:
        # Lists, trees and verdicts are of all ranks; every other action waits for a stop and takes the stopped ranks.
        return target or (None if verb in ABOUT_ALL else "stopped"), bound or math.inf, ()
    if target is None:
        # `--wait 5` and `--wait gpu1:5`: argparse took the only target for the option's value.
        if not math.isnan(_number(wait)) and bound is None:
            return wait, math.inf, (f"Waits for rank {wait}; for {wait} seconds write --for {wait}s.",)
        return wait, bound or math.inf, ()
    if bound is not None:
        raise BadInput(
            f"--wait {printable(wait)} and --for {printable(str(arguments.bound))} are two bounds", "keep --for"
        )
    return target, _seconds(wait, "--wait", LONGEST_WAIT), ()


def _pids(arguments: Arguments, verb: Verb) -> tuple[int, ...]:
    """Return the processes that ``adopt`` names. Raises BadInput for what is no number, and for none."""
    if verb is not Verb.ADOPT:
        return ()
    for text in arguments.pids:
        if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) < 1:
            raise BadInput(f"'{printable(text)}' is no process number", "write those that `ps` shows, or --mine")
    if len(arguments.pids) > MOST_PIDS:
        raise BadInput(f"adopt takes {MOST_PIDS} processes at most", "write --mine for all that a launcher started")
    if bool(arguments.pids) == arguments.mine:
        what = "--mine finds the processes itself" if arguments.mine else "adopt needs processes"
        raise BadInput(what, "write `adopt PID…` or `adopt --mine`")
    return tuple(int(text) for text in arguments.pids)


def _operand(text: str | None, verb: Verb) -> str:
    if verb is not Verb.COMPLETION:
        return text or ""
    if text not in SHELLS:
        what = f"'{printable(text)}' is no shell that is completed for" if text else "completion needs a shell"
        raise BadInput(what, f"write {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")
    return text


def _prefix(arguments: Arguments, environ: Mapping[str, str], config: Config, verb: Verb) -> bytes | None:
    # What only matters to a session must not stand in the way of a list.
    if arguments.escape is None and not verb.attaches:
        return DEFAULT_PREFIX
    text = settle_one("escape", arguments.escape, environ, config, strict=_is_strict(arguments)).value
    return parse_escape_key(text) if text else DEFAULT_PREFIX


def _is_strict(arguments: Arguments) -> bool:
    """Tell whether a bad file stops a session: it does not where a job waits for its terminal."""
    return arguments.run is None


def _wish(arguments: Arguments, environ: Mapping[str, str], config: Config, verb: Verb) -> Wish:
    if not verb.attaches:
        return NO_WISH
    argument = arguments.engine
    told = settle_one("engine", None, environ, config, strict=argument is None and _is_strict(arguments))
    default = None if told.origin is Origin.DEFAULT else told.value
    for name, value in (("--engine", argument), (ENGINE, default)):
        if value is not None and value not in ENGINES:
            raise BadInput(f"{name} {printable(value)!r} is no debugger of ours", f"take {' or '.join(ENGINES)}")
    return Wish(argument, default)


def _vi(arguments: Arguments, environ: Mapping[str, str], config: Config, verb: Verb) -> bool:
    argument = "vi" if arguments.vi else None
    return (
        settle_one("editing", argument, environ, config, strict=verb.attaches and _is_strict(arguments)).value.lower()
        == "vi"
    )


def _color(environ: Mapping[str, str], config: Config, *, stdout_is_tty: bool) -> bool:
    wanted = settle_one("colors", None, environ, config).value
    return wanted == "always" or (wanted == "auto" and stdout_is_tty and environ.get("TERM") != "dumb")


def _timeout(argument: str | None, environ: Mapping[str, str], config: Config) -> float:
    told = settle_one("timeout", argument, environ, config)
    return _seconds(told.value, told.where or "the default", limits.MAX_ASK_SECONDS)


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


def _program(words: tuple[str, ...] | None) -> tuple[str, ...]:
    if words is None:
        return ()
    try:
        length = length_of(command_line(words))
    except InvalidMessage as error:
        raise BadInput(f"the command can't be run ({error})", "name a program") from None
    if length > limits.MAX_TEXT:
        raise BadInput(f"the command is longer than {limits.MAX_TEXT:,} characters", "put it into a script")
    return words


def _question(arguments: Arguments, verb: Verb) -> str:
    text = (arguments.expression if verb is Verb.EVAL else arguments.command) or ""
    if verb not in (Verb.EVAL, Verb.COMMAND):
        return ""
    called = _called(arguments, verb)
    row = BY_NAME.get(called)
    example = row.example if row is not None else f"{called} {'loss' if verb is Verb.EVAL else 'n'}"
    what = f"{'an expression' if verb is Verb.EVAL else 'a command'}, e.g. `{example}`"
    if not text.strip():
        raise BadInput(f"{called} needs {what}, and has an empty one", "write one")
    if len(text) > limits.MAX_TEXT:
        raise BadInput(
            f"{called} has {len(text):,} characters, and {limits.MAX_TEXT:,} are the most", "put it into a module"
        )
    return text
