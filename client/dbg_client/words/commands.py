"""What is typed behind ``Ctrl-] :`` in a session: the actions of ``dbg-attach`` in words, or as its options. Pure.

::

    where [TARGET]         list [TARGET]          screen [TARGET]      release [TARGET]
    e [TARGET] EXPR        c TARGET CMD           interrupt [TARGET]   continue TARGET     kill TARGET
    TARGET                 (attaches there)       help

The words take options behind them (``list --all``), those of ``e`` and ``c`` before the rest (``e --stats 0-7 loss``,
``e --frame train_step 0-7 loss``). An
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
_FLAGS = frozenset({"--live", "--stats", "--exact", "--frame"})
_WITH_VALUE = "--frame"
_HERE = frozenset({"target", "list", "screen", "resume", "kill", "expression", "command", "where", "interrupt"}) | {
    *("release", "exact", "tol", "stats", "live", "frame", "save", "against", "all", "timeout", "yes")
}
"""Options that make sense inside of a session; the other ones need a terminal of their own."""

USUAL_TARGETS = {Verb.EVAL: "stopped,held", Verb.RELEASE: "all", Verb.WHERE: "all"}
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
    if settings.verb is Verb.ATTACH and settings.frame:
        raise BadInput("--frame is for e, c and interrupt here", "choose a frame in the debugger by `u` and `d`")
    if settings.verb in _NEED and settings.target is None:
        raise BadInput(_NEED[settings.verb], "`help` lists what there is")
    return settings


def read_scope(target: Target, job: str) -> Target:
    """Return the target with each part that names no job restricted to the session's job."""
    if not JOB_NAME.fullmatch(job):
        return target
    include = tuple(_in_job(term, job) for term in target.include)
    exclude = tuple(_in_job(term, job) for term in target.exclude)
    return replace(target, include=include, exclude=exclude)


def _question(kind: str, rest: str) -> Arguments:
    flags: dict[str, object] = {}
    while (word := rest.split(" ", 1)[0]).partition("=")[0] in _FLAGS:
        flag, equals, value = word.partition("=")
        rest = rest[len(word) :].strip()
        if flag == _WITH_VALUE and not equals:
            value, _, rest = rest.partition(" ")
            rest = rest.strip()
        elif equals and flag != _WITH_VALUE:
            raise BadInput(f"{flag} takes no value", f"write {flag}")
        flags[flag.lstrip("-")] = value if flag == _WITH_VALUE else True
    first, _, behind = rest.partition(" ")
    target = first if behind.strip() and _is_target(first) else None
    asked = {kind: behind.strip() if target else rest, **flags}
    return replace(Arguments(target=target), **asked)  # type: ignore[arg-type]


def _options(word: str, rest: str, text: str) -> Arguments | None:
    if word not in _ACTIONS and not word.startswith("-") and not _is_target(word):
        raise BadInput(f"{printable(word)!r} is no command", "`help` lists those that are")
    try:
        words = [*shlex.split(rest), _ACTIONS[word]] if word in _ACTIONS else shlex.split(text)
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
