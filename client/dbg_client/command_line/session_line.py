"""What is typed after ``Ctrl-] :`` in a session: the verbs of ``dbg-attach``. Pure.

Options stand behind a verb (``list --all``), those of ``eval`` and ``command`` before what is asked, as in
``e --live 0-7 loss``. An expression is taken as it stands.
"""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from dbg_client.command_line.reading import TEXTS, read_question, read_verb
from dbg_client.verbs.option import Operands
from dbg_client.verbs.table import BY_NAME, VERBS, is_target, refuse_mistyped
from dbg_client.verbs.verb import Verb
from dbg_command.targets import JOB_NAME, Group, Target, Term
from dbg_wire.errors import BadInput, printable

_HELP = frozenset({"help", "h", "?", "-h", "--help"})


def read_session_line(text: str, environ: Mapping[str, str], *, has_ranks: bool = False) -> Verb | None:
    """Return the verb that a line makes, None where help is asked for; raise BadInput.

    With ``has_ranks`` the ranks are chosen elsewhere, and the line need not name any: what follows ``command`` is the
    command then, unless a target begins it.
    """
    word, _, rest = text.strip().partition(" ")
    if word in _HELP:
        return None
    row = BY_NAME.get(word)
    verb = row.load() if row is not None else None
    if verb is not None and verb.in_session is None:
        raise BadInput(f"{verb.name} is not for the command line of a session", "run dbg-attach in another terminal")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            if row is not None and verb is not None and verb.operands in TEXTS:
                found, names_ranks = read_question(row, rest.strip(), environ)
            else:
                words = _split(word, text)
                if words is None:
                    return None
                found = read_verb(words, environ, in_session=True)
                names_ranks = getattr(found, "target", None) is not None
    except SystemExit:
        return None  # help among options, or among other letters, as in `-yh`
    found.check_in_session()
    if not has_ranks and not names_ranks:
        _require_target(found)
    return found


@cache
def session_verbs() -> frozenset[str]:
    """Return the names of the verbs of a session. Short forms are names of programs, too."""
    return frozenset(row.name for row in VERBS if row.load().in_session is not None)


def read_scope(target: Target, job: str) -> Target:
    """Return the target with each part that names no job restricted to the session's job."""
    if not JOB_NAME.fullmatch(job):
        return target
    include = tuple(_in_job(term, job) for term in target.include)
    exclude = tuple(_in_job(term, job) for term in target.exclude)
    return replace(target, include=include, exclude=exclude)


def _split(word: str, text: str) -> list[str] | None:
    """Return the words of a line, None where help is among them."""
    if word not in BY_NAME and not word.startswith("-") and not is_target(word):
        refuse_mistyped(word, [row.name for row in VERBS])
        raise BadInput(f"{printable(word)!r} is no verb and no rank", "`help` lists the verbs")
    try:
        words = shlex.split(text)
    except ValueError:
        raise BadInput(f"'{printable(text)}' has a quote that is not closed", "close it") from None
    # After -- stands another program's command line.
    ours = words[: words.index("--")] if "--" in words else words
    if _HELP.intersection(ours):
        return None
    if "--version" in ours:
        raise BadInput("--version is not for a session", "run `dbg-attach --version`")
    return words


def _require_target(verb: Verb) -> None:
    if verb.in_session in (Operands.TARGET, Operands.COMMAND, Operands.PROGRAM):
        needed = "ranks and a command" if verb.in_session is Operands.COMMAND else "ranks"
        raise BadInput(f"{verb.name} needs {needed}, e.g. `{verb.example}`", "`help` lists the verbs")


def _in_job(term: Term, job: str) -> Term:
    return replace(term, job=job) if term.job is None and not isinstance(term.what, Group) else term
