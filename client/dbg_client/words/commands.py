"""What is typed behind ``Ctrl-] :`` in a session: the actions of ``dbg-attach`` in words, or as its options. Pure.

::

    where [TARGET]         list [TARGET]          screen [TARGET]      release [TARGET]        stops [TARGET]
    e [TARGET] EXPR        c TARGET CMD           interrupt [TARGET]   continue TARGET     kill TARGET
    TARGET                 (attaches there)       help

The words take options behind them (``list --all``), those of ``e`` before its expression (``e --stats 0-7 loss``). An
expression is taken as it stands; in the form of ``dbg-attach`` (``0-7 -e 'loss, lr'``) quotes are the shell's.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields, replace

from dbg_wire.errors import BadInput, BadTarget, printable
from dbg_wire.target_grammar import JOB_NAME, Group, Target, Term
from dbg_wire.targets import parse_target

from .arguments import Arguments, read_arguments
from .settings import CommandSettings, Verb, settle

_ACTIONS = {
    **dict.fromkeys(("where", "w"), "--where"),
    **dict.fromkeys(("list", "l"), "--list"),
    **dict.fromkeys(("interrupt", "i"), "--interrupt"),
    "screen": "--screen",
    "continue": "--continue",
    "release": "--release",
    "kill": "--kill",
}
_QUESTIONS = {**dict.fromkeys(("e", "eval"), "expression"), **dict.fromkeys(("c", "command"), "command")}
_HELP = frozenset({"help", "h", "?", "-h", "--help"})
_STOPS = "stops"
_FLAGS = frozenset({"--live", "--stats", "--exact"})
_HERE = frozenset({"target", "list", "screen", "resume", "kill", "expression", "command", "where", "interrupt"}) | {
    *("release", "exact", "tol", "stats", "live", "save", "against", "all", "timeout", "yes")
}
"""Options that make sense inside of a session; the other ones need a terminal of their own."""

USUAL_TARGETS = {Verb.EVAL: "stopped,held", Verb.RELEASE: "all", Verb.WHERE: "all", Verb.STOPS: "all"}
"""The ranks that a command means if it names none."""

_NEED = {
    Verb.COMMAND: "c needs ranks and a command, e.g. `c all n`",
    Verb.CONTINUE: "continue needs ranks, e.g. `continue stopped`",
    Verb.KILL: "kill needs ranks, e.g. `kill 5`",
}


def parse_command(text: str, environ: Mapping[str, str]) -> CommandSettings | None:
    """Return the settings that a command line makes, None where help is asked for; raise BadInput."""
    word, _, rest = text.strip().partition(" ")
    if word in _HELP:
        return None
    arguments = _question(_QUESTIONS[word], rest.strip()) if word in _QUESTIONS else _options(word, rest, text)
    if arguments is None:
        return None
    _refuse_others(arguments)
    settings = settle(arguments, environ, stdout_is_tty=True)
    if word == _STOPS:
        settings = _of_stops(settings)
    if settings.verb in _NEED and settings.target is None:
        raise BadInput(_NEED[settings.verb], "`help` lists what there is")
    return settings


def _of_stops(settings: CommandSettings) -> CommandSettings:
    if settings.verb is not Verb.ATTACH:
        raise BadInput(f"`stops` and {settings.verb.value} are two actions", "give one of them")
    return replace(settings, verb=Verb.STOPS)


def read_scope(target: Target, job: str) -> Target:
    """Return the target with each part that names no job restricted to the session's job."""
    if not JOB_NAME.fullmatch(job):
        return target
    include = tuple(_in_job(term, job) for term in target.include)
    exclude = tuple(_in_job(term, job) for term in target.exclude)
    return replace(target, include=include, exclude=exclude)


def _question(kind: str, rest: str) -> Arguments:
    flags = []
    while rest.split(" ", 1)[0] in _FLAGS:
        flag, _, rest = rest.partition(" ")
        flags.append(flag)
        rest = rest.strip()
    first, _, behind = rest.partition(" ")
    target = first if behind.strip() and _is_target(first) else None
    asked = {kind: behind.strip() if target else rest, **{flag.lstrip("-"): True for flag in flags}}
    return replace(Arguments(target=target), **asked)  # type: ignore[arg-type]


def _options(word: str, rest: str, text: str) -> Arguments | None:
    if word not in _ACTIONS and word != _STOPS and not word.startswith("-") and not _is_target(word):
        raise BadInput(f"{printable(word)!r} is no command", "`help` lists those that are")
    try:
        words = shlex.split(rest if word == _STOPS else text)
        words = [*shlex.split(rest), _ACTIONS[word]] if word in _ACTIONS else words
    except ValueError:
        raise BadInput(f"'{printable(text)}' has a quote that is not closed", "close it") from None
    if _HELP.intersection(words):
        return None
    if "--version" in words:
        raise BadInput("--version is not for a session", "run `dbg-attach --version`")
    return read_arguments(words)


def _refuse_others(arguments: Arguments) -> None:
    usual = Arguments()
    for field in fields(Arguments):
        if field.name not in _HERE and getattr(arguments, field.name) != getattr(usual, field.name):
            name = field.name.replace("_", "-")
            raise BadInput(f"--{name} is not for the command line of a session", "run dbg-attach in another terminal")


def _is_target(word: str) -> bool:
    try:
        parse_target(word)
    except BadTarget:
        return False
    return True


def _in_job(term: Term, job: str) -> Term:
    return replace(term, job=job) if term.job is None and not isinstance(term.what, Group) else term
