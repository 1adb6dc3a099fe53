"""Parser of the line after ``Ctrl-] :`` in a session, which uses the verbs of ``dbg-attach``. Pure.

Options follow a verb, as in ``list --all``. For ``eval`` and ``command``, options precede the question. An example is
``e --live 0-7 loss``. An expression is used unchanged.
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
    """Return the verb of a line, or None for a request for help; raise BadInput.

    With ``has_ranks`` the caller uses its own ranks if the line names none. For example, the line ``command n`` has the
    command ``n`` and no ranks.
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
                argv = _split(word, text)
                if argv is None:
                    return None
                found = read_verb(argv, environ, in_session=True)
                names_ranks = getattr(found, "target", None) is not None
    except SystemExit:
        return None  # the option for help, perhaps joined to another option, as in `-yh`
    found.check_in_session()
    if not has_ranks and not names_ranks:
        _require_target(found)
    return found


@cache
def session_verbs() -> frozenset[str]:
    """Return the full names of a session's verbs.

    Short forms are left out: a line such as ``e`` may name a variable of the user's program.
    """
    return frozenset(row.name for row in VERBS if row.load().in_session is not None)


def read_scope(target: Target, job: str) -> Target:
    """Return the target limited to the session's job: a term of the target that names no job gets this job."""
    if not JOB_NAME.fullmatch(job):
        return target
    include = tuple(_in_job(term, job) for term in target.include)
    exclude = tuple(_in_job(term, job) for term in target.exclude)
    return replace(target, include=include, exclude=exclude)


def _split(word: str, text: str) -> list[str] | None:
    """Return the words of a line, or None if one of them asks for help."""
    if word not in BY_NAME and not word.startswith("-") and not is_target(word):
        refuse_mistyped(word, [row.name for row in VERBS])
        raise BadInput(f"{printable(word)!r} is neither a verb nor a rank", "`help` lists the verbs")
    try:
        argv = shlex.split(text)
    except ValueError:
        raise BadInput(f"'{printable(text)}' has a quote that is not closed", "close it") from None
    # The words after -- are another program's command line.
    ours = argv[: argv.index("--")] if "--" in argv else argv
    if _HELP.intersection(ours):
        return None
    if "--version" in ours:
        raise BadInput("--version is not for a session", "run `dbg-attach --version`")
    return argv


def _require_target(verb: Verb) -> None:
    if verb.in_session in (Operands.TARGET, Operands.COMMAND, Operands.PROGRAM):
        needed = "ranks and a command" if verb.in_session is Operands.COMMAND else "ranks"
        raise BadInput(f"{verb.name} needs {needed}, e.g. `{verb.example}`", "`help` lists the verbs")


def _in_job(term: Term, job: str) -> Term:
    return replace(term, job=job) if term.job is None and not isinstance(term.what, Group) else term
