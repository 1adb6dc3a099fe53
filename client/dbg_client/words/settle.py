"""From what was typed to the settings of its verb, with what environment and ``config.toml`` say. Pure.

Precedence everywhere: argument, then ``DBG_*`` variable, then ``config.toml`` or ``broker.json``, then default.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dbg_client.words.command_line import Typed
from dbg_client.words.config import DEFAULT_PREFIX, NO_CONFIG, Config, Origin, Wish, parse_escape_key, settle_one
from dbg_client.words.settings import (
    DEFAULT_SECONDS,
    Adopt,
    Attach,
    AttachOptions,
    BrokerOptions,
    Collectives,
    Continue,
    Dap,
    Eval,
    Exec,
    Format,
    Interrupt,
    Kill,
    ListRanks,
    Mcp,
    OutputOptions,
    PdbCommand,
    RankSettings,
    Release,
    Report,
    Screen,
    ShowCompletion,
    ShowConfig,
    ShowHelp,
    Slow,
    Stops,
    Tmux,
    VerbSettings,
    Web,
    Where,
    Why,
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
from dbg_wire import limits
from dbg_wire.command_line.completion import SHELLS
from dbg_wire.command_line.parser import read_duration
from dbg_wire.errors import BadInput, printable
from dbg_wire.finding.environment import ASK_TOKEN, ENGINE
from dbg_wire.messages import Mode
from dbg_wire.records.samples import MAX_SAMPLE_SECONDS
from dbg_wire.tables.engines import ENGINES

LONGEST_WAIT = 30 * 24 * 3600.0
"""Seconds that ``--for`` takes at most: no job is in a queue for longer, and event loops still count them exactly."""

SHORTEST_EVERY = 0.1
"""Seconds between two answers at least: nobody reads faster, and each one asks all ranks."""

_ABOUT_ALL = ("list", "where", "why", "slow", "collectives", "report")
"""Verbs that are about all ranks where the user names none; those who wait for a stop mean the stopped ranks else."""


@dataclass(frozen=True, slots=True)
class _Around:
    """What else settings depend on."""

    environ: Mapping[str, str]
    config: Config
    stdout_is_tty: bool

    def one(self, key: str, argument: str | None, *, strict: bool = False) -> str:
        """Return what option, variables and file make of one setting."""
        return settle_one(key, argument, self.environ, self.config, strict=strict).value

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
    return _SETTLE[typed.verb.name](typed, _Around(environ, config, stdout_is_tty))


# ------------------------------------------------------------------------------------------------------ each verb's own


def _attach(typed: Typed, around: _Around) -> Attach:
    wait = None
    if typed.verb.name == "wait":
        wait = _bound(typed.options) or math.inf
    run = getattr(typed.options, "run", None)
    return Attach(
        broker=_broker(typed.options, around),
        notes=typed.notes,
        target=typed.target or ("stopped" if wait is not None else None),
        wait=wait,
        attach=_attach_options(typed.options, around, is_strict=run is None),
        color=around.color,
        run=run,
    )


def _list(typed: Typed, around: _Around) -> ListRanks:
    options = typed.options
    if options.json and options.plain:
        raise BadInput("--json and --plain are two formats", "give one of them")
    return ListRanks(**_ranks(typed, around), all=options.all, all_rows=options.all_rows, every=_every(options))


def _where(typed: Typed, around: _Around) -> Where:
    options = typed.options
    if options.native and options.threads:
        raise BadInput("--native shows the main thread alone and --threads all of them", "give one of them")
    return Where(
        **_ranks(typed, around),
        threads=options.threads,
        native=options.native,
        all=options.all,
        every=_every(options),
    )


def _why(typed: Typed, around: _Around) -> Why:
    return Why(**_ranks(typed, around), every=_every(typed.options), files=typed.files)


def _slow(typed: Typed, around: _Around) -> Slow:
    text = typed.options.bound
    seconds = DEFAULT_SECONDS if text is None else read_duration(text, "--for", MAX_SAMPLE_SECONDS)
    return Slow(**_ranks(typed, around), seconds=seconds, every=_every(typed.options))


def _collectives(typed: Typed, around: _Around) -> Collectives:
    return Collectives(**_ranks(typed, around), every=_every(typed.options))


def _eval(typed: Typed, around: _Around) -> Eval:
    options = typed.options
    if options.tol is not None and options.stats:
        raise BadInput("--tol compares values and --stats adds figures to them", "give one of them")
    if options.tol is not None and options.exact:
        raise BadInput("--exact tells all differences apart and --tol does not", "give one of them")
    for name, given in (("--save", options.save is not None), ("--fail-if-differ", options.fail_if_differ)):
        if given and options.every is not None:
            raise BadInput(f"{name} is for one answer and --every never ends", "give one of them")
    return Eval(
        **_ranks(typed, around),
        question=check_question(typed.verb, typed.text, "an expression"),
        frame=read_frame(options.frame),
        exact=options.exact,
        fail_if_differ=options.fail_if_differ,
        live=options.live,
        stats=options.stats,
        tolerance=read_tolerance(options.tol),
        save=options.save,
        against=options.against,
        every=_every(options),
    )


def _command(typed: Typed, around: _Around) -> PdbCommand:
    options = typed.options
    return PdbCommand(
        **_ranks(typed, around),
        question=check_question(typed.verb, typed.text, "a command"),
        frame=read_frame(options.frame),
        exact=options.exact,
        fail_if_differ=options.fail_if_differ,
    )


def _exec(typed: Typed, around: _Around) -> Exec:
    options = typed.options
    return Exec(
        **_ranks(typed, around),
        program=check_program(typed.program),
        per_host=options.per_host,
        exact=options.exact,
        fail_if_differ=options.fail_if_differ,
    )


def _plainly(made: Callable[..., RankSettings], typed: Typed, around: _Around) -> RankSettings:
    return made(**_ranks(typed, around))


def _kill(typed: Typed, around: _Around) -> Kill:
    return Kill(**_ranks(typed, around), yes=typed.options.yes)


def _interrupt(typed: Typed, around: _Around) -> Interrupt:
    attach = _attach_options(typed.options, around)
    return Interrupt(**_ranks(typed, around), attach=attach, yes=typed.options.yes)


def _report(typed: Typed, around: _Around) -> Report:
    return Report(**_ranks(typed, around), path=typed.options.output, yes=typed.options.yes)


def _tmux(typed: Typed, around: _Around) -> Tmux:
    attach = _attach_options(typed.options, around)
    return Tmux(broker=_broker(typed.options, around), target=typed.target, attach=attach)


def _adopt(typed: Typed, around: _Around) -> Adopt:
    options = typed.options
    broker = _broker(options, around)
    return Adopt(broker=broker, pids=read_pids(typed.pids, mine=options.mine), mine=options.mine, yes=options.yes)


def _mcp(typed: Typed, around: _Around) -> Mcp:
    return Mcp(broker=_broker(typed.options, around))


def _dap(typed: Typed, around: _Around) -> Dap:
    options = typed.options
    if options.no_secret and options.port is None:
        raise BadInput("--no-secret is for a port, and stdin and stdout have no need of a secret", "add --port 0")
    if options.vscode and options.port is not None:
        raise BadInput("--vscode writes a file and --port serves an IDE", "give one of them")
    return Dap(
        broker=_broker(options, around),
        target=typed.target,
        port=read_port(options.port),
        no_secret=options.no_secret,
        vscode=options.vscode,
    )


def _web(typed: Typed, around: _Around) -> Web:
    options = typed.options
    return Web(
        broker=_broker(options, around),
        target=typed.target,
        port=read_port(options.port) or 0,
        drive=options.drive,
        wish=_wish(options.engine, around, is_strict=True),
    )


def _config(typed: Typed, around: _Around) -> ShowConfig:
    given = {"timeout": typed.options.timeout, "broker": typed.options.broker}
    return ShowConfig(
        broker=_broker(typed.options, around),
        given=tuple((key, value) for key, value in given.items() if value is not None),
        as_json=typed.options.json,
    )


def _completion(typed: Typed, around: _Around) -> ShowCompletion:
    if typed.text not in SHELLS:
        text = typed.text
        what = f"'{printable(text)}' is no shell that is completed for" if text else "completion needs a shell"
        raise BadInput(what, f"write {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")
    return ShowCompletion(shell=typed.text)


def _help(typed: Typed, around: _Around) -> ShowHelp:
    return ShowHelp(topic=typed.text)


_SETTLE: Mapping[str, Callable[[Typed, _Around], VerbSettings]] = {
    "attach": _attach,
    "wait": _attach,
    "list": _list,
    "where": _where,
    "why": _why,
    "slow": _slow,
    "collectives": _collectives,
    "eval": _eval,
    "command": _command,
    "exec": _exec,
    "screen": partial(_plainly, Screen),
    "interrupt": _interrupt,
    "continue": partial(_plainly, Continue),
    "release": partial(_plainly, Release),
    "kill": _kill,
    "tmux": _tmux,
    "stops": partial(_plainly, Stops),
    "report": _report,
    "adopt": _adopt,
    "mcp": _mcp,
    "dap": _dap,
    "web": _web,
    "config": _config,
    "completion": _completion,
    "help": _help,
}


# ----------------------------------------------------------------------------------------------------- what verbs share


def _broker(options: Namespace, around: _Around) -> BrokerOptions:
    told = settle_one("timeout", options.timeout, around.environ, around.config)
    return BrokerOptions(
        address=options.broker,
        timeout=read_seconds(told.value, told.where or "the default", limits.MAX_ASK_SECONDS),
        ask_token=options.ask_token or around.environ.get(ASK_TOKEN, "") not in ("", "0"),
    )


def _ranks(typed: Typed, around: _Around) -> dict[str, Any]:
    """Return the settings of all verbs for any number of ranks."""
    options = typed.options
    # Where nothing is waited for, --for is the verb's own.
    wait = _wait(options) if hasattr(options, "wait") else None
    target = typed.target
    if wait is not None and target is None and typed.verb.name not in _ABOUT_ALL:
        target = "stopped"
    return {
        "broker": _broker(options, around),
        "notes": typed.notes,
        "target": target,
        "wait": wait,
        "output": _output(options, around),
    }


def _output(options: Namespace, around: _Around) -> OutputOptions:
    is_json, is_plain = getattr(options, "json", False), getattr(options, "plain", False)
    return OutputOptions(
        format=Format.JSON if is_json else Format.PLAIN if is_plain else Format.TABLE,
        color=around.color,
        pager=around.one("pager", "" if getattr(options, "no_pager", False) else None),
    )


def _attach_options(options: Namespace, around: _Around, *, is_strict: bool = True) -> AttachOptions:
    """Return what sessions are like. ``is_strict``: a bad file stops them; it does not where a job waits for one."""
    if options.watch and options.take:
        raise BadInput("--watch looks only and --take takes the keyboard", "give one of them")
    if options.watch and options.frame is not None:
        raise BadInput("--frame chooses what the debugger shows and --watch looks only", "give one of them")
    escape = around.one("escape", options.escape, strict=is_strict)
    editing = around.one("editing", "vi" if options.vi else None, strict=is_strict)
    return AttachOptions(
        mode=Mode.WATCH if options.watch else Mode.TAKE if options.take else Mode.DRIVE,
        follow=options.follow,
        wish=_wish(options.engine, around, is_strict=is_strict),
        frame=read_frame(options.frame),
        commands=options.commands,
        rc=not options.no_rc,
        vi=editing.lower() == "vi",
        prefix=parse_escape_key(escape) if escape else DEFAULT_PREFIX,
        status=not options.no_status,
        breakpoints_to=getattr(options, "breakpoints_to", None),
        verbose=options.verbose,
    )


def _wish(argument: str | None, around: _Around, *, is_strict: bool) -> Wish:
    told = settle_one("engine", None, around.environ, around.config, strict=argument is None and is_strict)
    default = None if told.origin is Origin.DEFAULT else told.value
    if default is not None and default not in ENGINES:
        raise BadInput(f"{ENGINE} {printable(default)!r} is no debugger of ours", f"take {' or '.join(ENGINES)}")
    return Wish(argument, default)


def _wait(options: Namespace) -> float | None:
    """Return the seconds to wait for a stop first, None for not at all."""
    bound = _bound(options)
    if getattr(options, "wait", False):
        return bound or math.inf
    if bound is not None:
        raise BadInput("--for bounds a wait, and there is none", "add --wait, or leave --for out")
    return None


def _bound(options: Namespace) -> float | None:
    text = getattr(options, "bound", None)
    return None if text is None else read_duration(text, "--for", LONGEST_WAIT)


def _every(options: Namespace) -> float | None:
    text = options.every
    return None if text is None else read_seconds(text, "--every", LONGEST_WAIT, SHORTEST_EVERY)
