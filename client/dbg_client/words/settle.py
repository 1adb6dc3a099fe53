"""From what was typed to the settings of its verb, with what environment and ``config.toml`` say. Pure.

Precedence everywhere: argument, then ``DBG_*`` variable, then ``config.toml`` or ``broker.json``, then default.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dbg_client.words.command_line import Typed
from dbg_client.words.config import DEFAULT_PREFIX, NO_CONFIG, Config, Wish, parse_escape_key, settle_one, told_of
from dbg_client.words.parsers import parser_of
from dbg_client.words.settings import (
    SETTINGS_OF,
    AttachOptions,
    BrokerOptions,
    Format,
    OutputOptions,
    RunOptions,
    ShowCompletion,
    ShowHelp,
    VerbSettings,
)
from dbg_client.words.values import (
    check_program,
    check_question,
    read_frame,
    read_pids,
    read_port,
    read_seconds,
    read_tolerance,
)
from dbg_client.words.verbs import BY_NAME
from dbg_wire import limits
from dbg_wire.command_line.completion import SHELLS
from dbg_wire.command_line.parser import read_duration
from dbg_wire.errors import BadInput, printable
from dbg_wire.finding.environment import ENGINE
from dbg_wire.messages import Mode
from dbg_wire.records.samples import MAX_SAMPLE_SECONDS
from dbg_wire.tables.engines import ENGINES

LONGEST_WAIT = 30 * 24 * 3600.0
"""Seconds that ``--for`` takes at most: no job is in a queue for longer, and event loops still count them exactly."""

_ABOUT_ALL = ("list", "where", "why", "slow", "collectives", "report")
"""Verbs that are about all ranks where the user names none; those who wait for a stop mean the stopped ranks else."""

_CONTRADICT = (
    ("json", "plain", "--json and --plain are two formats"),
    ("native", "threads", "--native shows the main thread alone and --threads all of them"),
    ("tolerance", "stats", "--tol compares values and --stats adds figures to them"),
    ("tolerance", "exact", "--exact tells all differences apart and --tol does not"),
    ("watch", "take", "--watch looks only and --take takes the keyboard"),
    ("watch", "frame", "--frame chooses what the debugger shows and --watch looks only"),
    ("pty", "no_pty", "--pty and --no-pty are opposites"),
    ("vscode", "port", "--vscode writes a file and --port serves an IDE"),
)
"""Options of which a command line has one at most, and what is wrong with both."""


@dataclass(frozen=True, slots=True)
class _Around:
    """What else settings depend on."""

    environ: Mapping[str, str]
    config: Config
    stdout_is_tty: bool

    def one(self, key: str, argument: str | None, *, strict: bool = False) -> str:
        """Return what option, variables and file make of one setting."""
        return settle_one(key, argument, self.environ, self.config, strict=strict)

    @property
    def color(self) -> bool:
        """Tell whether answers have colours."""
        wanted = self.one("colors", None)
        return wanted == "always" or (wanted == "auto" and self.stdout_is_tty and self.environ.get("TERM") != "dumb")


def settle(
    typed: Typed, environ: Mapping[str, str], *, stdout_is_tty: bool, config: Config = NO_CONFIG
) -> VerbSettings:
    """Return the settings of the verb that was typed.

    Raises BadInput for options that contradict each other and for values that can't be used; a bad value of the file
    stops only what needs it.
    """
    around = _Around(environ, config, stdout_is_tty)
    made = SETTINGS_OF[typed.verb.name]
    _refuse_contradictions(typed.options)
    # Those who ask for help may have set the variables wrong that say where the broker is.
    names = [name for name in made.__struct_fields__ if name != "broker" or made not in (ShowCompletion, ShowHelp)]
    values: dict[str, Any] = {name: _value(name, typed, around) for name in names}
    return made(**{name: value for name, value in values.items() if value is not None})


def _refuse_contradictions(options: Namespace) -> None:
    given = {name for name, value in vars(options).items() if value not in (None, False)}
    for one, other, what in _CONTRADICT:
        if {one, other} <= given:
            raise BadInput(what, "give one of them")
    if "no_secret" in given and "port" not in given:
        raise BadInput("--no-secret is for a port, and stdin and stdout have no need of a secret", "add --port 0")
    if "record_input" in given and "record" not in given:
        raise BadInput("--record-input was given without --record", "add --record FILE")


def _value(name: str, typed: Typed, around: _Around) -> object:
    """Return the value of a field, None for its default: most are the options of the same name."""
    read = _FIELDS.get(name)
    return getattr(typed.options, name, None) if read is None else read(typed, around)


# ----------------------------------------------------------------------------------------------------------- the fields


def _attach(typed: Typed, around: _Around) -> AttachOptions:
    options = typed.options
    if typed.verb.name == "run":
        # What a session is like, variables and the file say; the options are the job's.
        options = parser_of(BY_NAME["attach"]).parse_args([])
        options.commands = typed.options.commands
    escape = around.one("escape", options.escape, strict=True)
    editing = around.one("editing", "vi" if options.vi else None, strict=True)
    return AttachOptions(
        mode=Mode.WATCH if options.watch else Mode.TAKE if options.take else Mode.DRIVE,
        follow=options.follow,
        wish=_wish(typed, around),
        frame=read_frame(options.frame),
        commands=options.commands,
        rc=not options.no_rc,
        vi=editing.lower() == "vi",
        prefix=parse_escape_key(escape) if escape else DEFAULT_PREFIX,
        status=not options.no_status,
        pager=around.one("pager", None),
        verbose=options.verbose,
        record=getattr(options, "record", None),
        record_input=getattr(options, "record_input", False),
    )


def _run_options(typed: Typed, _around: _Around) -> RunOptions:
    given = {name: getattr(typed.options, name) for name in RunOptions.__struct_fields__}
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return RunOptions(**{**values, "pty": False if typed.options.no_pty else True if typed.options.pty else None})


def _wish(typed: Typed, around: _Around) -> Wish:
    # The debugger that `run` names is a wish of its job.
    argument = None if typed.verb.name == "run" else typed.options.engine
    default = told_of("engine", None, around.environ, around.config, strict=argument is None)
    if default is not None and default not in ENGINES:
        raise BadInput(f"{ENGINE} {printable(default)!r} is no debugger of ours", f"take {' or '.join(ENGINES)}")
    return Wish(argument, default)


def _broker(typed: Typed, around: _Around) -> BrokerOptions:
    options = typed.options
    told = settle_one("timeout", options.timeout, around.environ, around.config)
    return BrokerOptions(
        address=options.broker,
        timeout=read_seconds(
            told, "--timeout" if options.timeout is not None else "DBG_TIMEOUT", limits.MAX_ASK_SECONDS
        ),
    )


def _output(typed: Typed, around: _Around) -> OutputOptions:
    is_json, is_plain, no_pager = (getattr(typed.options, name, False) for name in ("json", "plain", "no_pager"))
    return OutputOptions(
        format=Format.JSON if is_json else Format.PLAIN if is_plain else Format.TABLE,
        color=around.color,
        pager=around.one("pager", "" if no_pager else None),
    )


def _target(typed: Typed, around: _Around) -> str | None:
    if typed.target is None and _wait(typed, around) is not None and typed.verb.name not in _ABOUT_ALL:
        return "stopped"
    return typed.target


def _wait(typed: Typed, _around: _Around) -> float | None:
    """Return the seconds to wait for a stop first, None for not at all."""
    if typed.verb.name != "wait" and not hasattr(typed.options, "wait"):
        return None  # --for is the verb's own
    text = typed.options.bound
    bound = None if text is None else read_duration(text, "--for", LONGEST_WAIT)
    if typed.verb.name == "wait" or typed.options.wait:
        return bound or math.inf
    if bound is not None:
        raise BadInput("--for bounds a wait, and there is none", "add --wait, or leave --for out")
    return None


def _seconds(typed: Typed, _around: _Around) -> float | None:
    text = typed.options.bound
    return None if text is None else read_duration(text, "--for", MAX_SAMPLE_SECONDS)


def _shell(typed: Typed, _around: _Around) -> str:
    text = typed.text
    if text not in SHELLS:
        what = f"'{printable(text)}' is no shell that is completed for" if text else "completion needs a shell"
        raise BadInput(what, f"write {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")
    return text


_FIELDS: Mapping[str, Callable[[Typed, _Around], Any]] = {
    "attach": _attach,
    "broker": _broker,
    "color": lambda typed, around: around.color,
    "command": lambda typed, around: typed.program,
    "files": lambda typed, around: typed.files,
    "frame": lambda typed, around: read_frame(typed.options.frame),
    "notes": lambda typed, around: typed.notes,
    "options": _run_options,
    "output": _output,
    "pids": lambda typed, around: read_pids(typed.pids, mine=typed.options.mine),
    "port": lambda typed, around: read_port(typed.options.port),
    "program": lambda typed, around: check_program(typed.program),
    "question": lambda typed, around: check_question(typed.verb, typed.text),
    "seconds": _seconds,
    "shell": _shell,
    "target": _target,
    "tolerance": lambda typed, around: read_tolerance(typed.options.tolerance),
    "topic": lambda typed, around: typed.text,
    "wait": _wait,
    "wish": _wish,
}
"""How the fields of all settings are read that are not the option of their name as it stands."""
