"""What is typed behind ``Ctrl-] :`` in a session: the verbs of ``dbg-attach``. Pure.

Options stand behind a verb (``list --all``), those of ``eval`` and ``command`` before what is asked, as in
``e --stats 0-7 loss``. An expression is taken as it stands.
"""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Mapping
from dataclasses import replace

from dbg_client.words.command_line import Typed, parse, parse_question
from dbg_client.words.config import NO_CONFIG, Config
from dbg_client.words.settings import Attach, RankSettings
from dbg_client.words.settle import settle
from dbg_client.words.verbs import BY_NAME, VERBS, Operands, is_target, refuse_mistyped
from dbg_wire.errors import BadInput, printable
from dbg_wire.targets.grammar import JOB_NAME, Group, Target, Term

_HELP = frozenset({"help", "h", "?", "-h", "--help"})

USUAL_TARGETS = {"eval": "stopped,held"} | dict.fromkeys(("release", "where", "why", "slow", "collectives"), "all")
"""The ranks that a verb means in a session if the user names none."""


def parse_command(
    text: str, environ: Mapping[str, str], config: Config = NO_CONFIG, *, has_ranks: bool = False
) -> Attach | RankSettings | None:
    """Return the settings that a command line makes, None where help is asked for; raise BadInput.

    Where it ``has_ranks`` otherwise, the line needs to name none: behind ``command`` is one unless a target begins it.
    """
    word, _, rest = text.strip().partition(" ")
    if word in _HELP:
        return None
    row = BY_NAME.get(word)
    if row is not None and row.in_session is None:
        raise _not_here(row.name)
    is_text = row is not None and row.operands in (Operands.EXPRESSION, Operands.COMMAND)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            typed = parse_question(row, rest.strip()) if row is not None and is_text else _parsed(word, text)
    except SystemExit:
        return None  # help among options, or among other letters, as in `-yh`
    if typed is None:
        return None
    names_ranks = typed.target is not None and is_target(typed.target)
    if has_ranks and typed.verb.operands is Operands.COMMAND and not names_ranks:
        typed = replace(typed, target=None, text=f"{typed.target or ''} {typed.text}".strip())
    if typed.verb.name == "attach" and typed.options.frame is not None:
        what = "--frame is for eval, command and interrupt here"
        raise BadInput(what, "choose a frame in the debugger by `u` and `d`")
    settings = settle(typed, environ, stdout_is_tty=True, config=config)
    if not has_ranks:
        _require_target(typed)
    if not isinstance(settings, (Attach, RankSettings)):
        raise _not_here(settings.name)
    return settings


def read_scope(target: Target, job: str) -> Target:
    """Return the target with each part that names no job restricted to the session's job."""
    if not JOB_NAME.fullmatch(job):
        return target
    include = tuple(_in_job(term, job) for term in target.include)
    exclude = tuple(_in_job(term, job) for term in target.exclude)
    return replace(target, include=include, exclude=exclude)


def _parsed(word: str, text: str) -> Typed | None:
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
    return parse(words, in_session=True)


def _not_here(verb: str) -> BadInput:
    return BadInput(f"{verb} is not for the command line of a session", "run dbg-attach in another terminal")


def _require_target(typed: Typed) -> None:
    row = typed.verb
    if typed.target is None and row.in_session in (Operands.TARGET, Operands.COMMAND, Operands.PROGRAM):
        needed = "ranks and a command" if row.in_session is Operands.COMMAND else "ranks"
        raise BadInput(f"{row.name} needs {needed}, e.g. `{row.example}`", "`help` lists the verbs")


def _in_job(term: Term, job: str) -> Term:
    return replace(term, job=job) if term.job is None and not isinstance(term.what, Group) else term
