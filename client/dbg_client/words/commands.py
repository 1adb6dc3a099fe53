"""What is typed behind ``Ctrl-] :`` in a session: the verbs of ``dbg-attach``, or its flags. Pure.

Options stand behind a verb (``list --all``), those of ``eval`` and ``command`` before what is asked, as in
``e --stats 0-7 loss``. An expression is taken as it stands; in the form of ``dbg-attach`` (``0-7 -e 'loss, lr'``)
quotes are the shell's.
"""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Mapping
from dataclasses import fields, replace

from dbg_client.words.arguments import Arguments, read_arguments
from dbg_client.words.config import NO_CONFIG, Config
from dbg_client.words.near import is_target, refuse_mistyped
from dbg_client.words.options import OPTIONS, OptionRow, options_of
from dbg_client.words.settings import CommandSettings, Verb, settle
from dbg_client.words.verbs import BY_NAME, VERBS, Operands, VerbRow
from dbg_wire.errors import BadInput, printable
from dbg_wire.targets.grammar import JOB_NAME, Group, Target, Term

_HELP = frozenset({"help", "h", "?", "-h", "--help"})

_HERE = frozenset({"target", "verb", "spoken", "notes"}).union(
    (option.field for option in OPTIONS if option.in_session),
    (verb.field for verb in VERBS if verb.field is not None and verb.in_session is not None),
)
"""Fields of what makes sense inside of a session; the rest needs a terminal of its own."""

_NAMES = {option.field: option.name for option in OPTIONS} | {
    str(verb.field or verb.name): verb.flags[-1] for verb in VERBS if verb.flags
}
"""How the user calls each field."""

USUAL_TARGETS = {
    Verb.EVAL: "stopped,held",
    **dict.fromkeys((Verb.RELEASE, Verb.WHERE, Verb.WHY, Verb.COLLECTIVES, Verb.STOPS), "all"),
}
"""The ranks that a command means if it names none."""


def parse_command(text: str, environ: Mapping[str, str], config: Config = NO_CONFIG) -> CommandSettings | None:
    """Return the settings that a command line makes, None where help is asked for; raise BadInput."""
    word, _, rest = text.strip().partition(" ")
    if word in _HELP:
        return None
    row = BY_NAME.get(word)
    if row is not None and row.operands in (Operands.EXPRESSION, Operands.COMMAND):
        arguments: Arguments | None = _question(row, rest.strip())
    else:
        arguments = _options(word, text)
    if arguments is None:
        return None
    _refuse_others(arguments)
    settings = settle(arguments, environ, stdout_is_tty=True, config=config)
    if settings.verb is Verb.ATTACH and settings.frame:
        what = "--frame is for eval, command and interrupt here"
        raise BadInput(what, "choose a frame in the debugger by `u` and `d`")
    _require_target(settings)
    return settings


def read_scope(target: Target, job: str) -> Target:
    """Return the target with each part that names no job restricted to the session's job."""
    if not JOB_NAME.fullmatch(job):
        return target
    include = tuple(_in_job(term, job) for term in target.include)
    exclude = tuple(_in_job(term, job) for term in target.exclude)
    return replace(target, include=include, exclude=exclude)


def _question(row: VerbRow, rest: str) -> Arguments:
    """Return the arguments of a verb whose text is taken as it stands, behind its options."""
    asked: dict[str, object] = {}
    while (option := _first_option(row, rest)) is not None:
        word, _, rest = rest.partition(" ")
        flag, equals, value = word.partition("=")
        if option.metavar is None and equals:
            raise BadInput(f"{flag} takes no value", f"write {flag}")
        if option.metavar is not None and not equals:
            value, _, rest = rest.strip().partition(" ")
        asked[option.field] = value if option.metavar is not None else True
        rest = rest.strip()
    first, _, behind = rest.partition(" ")
    target = first if behind.strip() and is_target(first) else None
    text = behind.strip() if target else rest
    return replace(Arguments(target=target, spoken=row.name), **asked, **{str(row.field): text})  # type: ignore[arg-type]


def _first_option(row: VerbRow, text: str) -> OptionRow | None:
    """Return the option at the beginning of the text, if it is one of the verb's that is meant for sessions."""
    first = text.split(" ", 1)[0].partition("=")[0]
    return next((row for row in options_of(row.name) if row.in_session and first in row.flags), None)


def _options(word: str, text: str) -> Arguments | None:
    if word not in BY_NAME and not word.startswith("-") and not is_target(word):
        refuse_mistyped(word, [row.name for row in VERBS if row.in_session is not None])
        raise BadInput(f"{printable(word)!r} is no verb and no rank", "`help` lists the verbs")
    try:
        words = shlex.split(text)
    except ValueError:
        raise BadInput(f"'{printable(text)}' has a quote that is not closed", "close it") from None
    # Behind -- stands another program's command line.
    ours = words[: words.index("--")] if "--" in words else words
    if _HELP.intersection(ours):
        return None
    if "--version" in ours:
        raise BadInput("--version is not for a session", "run `dbg-attach --version`")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return read_arguments(words, help_page="help")
    except SystemExit:
        return None  # help among other letters, as in `-lh`


def _refuse_others(arguments: Arguments) -> None:
    usual = Arguments()
    given = [field.name for field in fields(Arguments) if getattr(arguments, field.name) != getattr(usual, field.name)]
    spoken = BY_NAME.get(arguments.verb or "attach")
    names = [_NAMES.get(name, f"--{name}") for name in given if name not in _HERE]
    if spoken is not None and spoken.in_session is None:
        names.insert(0, spoken.name)
    if names:
        raise BadInput(f"{names[0]} is not for the command line of a session", "run dbg-attach in another terminal")


def _require_target(settings: CommandSettings) -> None:
    row = next(row for row in VERBS if row.name == settings.verb.name.lower())
    if settings.target is None and row.in_session in (Operands.TARGET, Operands.COMMAND, Operands.PROGRAM):
        needed = "ranks and a command" if row.in_session is Operands.COMMAND else "ranks"
        raise BadInput(f"{row.name} needs {needed}, e.g. `{row.example}`", "`help` lists the verbs")


def _in_job(term: Term, job: str) -> Term:
    return replace(term, job=job) if term.job is None and not isinstance(term.what, Group) else term
