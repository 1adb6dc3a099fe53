"""``dbg-attach --complete``, which a shell calls at each Tab, and ``dbg-attach completion``, which makes it do so.

Verbs and options are written before the broker is asked, so that they are there whatever becomes of it.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from dbg_client.command_line.parsers import parser_of
from dbg_client.command_line.reading import leading, verb_first
from dbg_client.verbs.option import Operands
from dbg_client.verbs.table import VERBS
from dbg_client.verbs.verb import Verb
from dbg_wire.command_line.completion import FILES, SHELLS, completion_script
from dbg_wire.command_line.parser import complete_option, lines, options_of
from dbg_wire.errors import BadInput, printable

TARGET_WORDS: tuple[tuple[str, str], ...] = (
    ("all", "all ranks"),
    ("stopped", "ranks that are stopped"),
    ("held", "ranks that wait for others"),
    ("crashed", "ranks that are kept after an exception"),
    ("running", "ranks that run"),
)

_VERBS = [(row.name, row.help) for row in VERBS]
_WITH_TARGET = frozenset(
    {
        *(Operands.TARGET, Operands.MAYBE_TARGET, Operands.MAYBE_FILES),
        *(Operands.EXPRESSION, Operands.COMMAND, Operands.PROGRAM),
    }
)

GRACE_SECONDS = 0.5
"""Seconds more than the broker has, after which the process ends: name servers and file systems may hang."""


def complete_words(words: Sequence[str]) -> tuple[list[str], bool]:
    """Return a line for each word that the last of these may become, and whether live ranks may stand there, too."""
    *before, current = words or [""]
    row, spoken, behind = verb_first(before)
    verb = row.load()
    parser = parser_of(verb)
    found = complete_option(parser, before, current)
    if found is not None:
        return found, False
    if not spoken and leading(before) == len(before):
        return lines([*_VERBS, *TARGET_WORDS], current), True
    with_value = {flag for option in options_of(parser) if option.nargs is None for flag in option.option_strings}
    if any(not word.startswith("-") and previous not in with_value for previous, word in pairwise(["", *behind])):
        return ([FILES] if verb.operands is Operands.MAYBE_FILES else []), False
    if verb.operands is Operands.MAYBE_FILES and current.startswith(("/", "./", "../", "~")):
        return [FILES], False
    if verb.operands is Operands.JOB:
        return ([FILES] if "--" in behind else []), False
    if verb.operands is Operands.SHELL:
        return lines([(shell, "") for shell in verb.operands.value.split("|")], current), False
    if verb.operands is Operands.VERB:
        return lines([*_VERBS, ("all", "everything")], current), False
    if verb.operands not in _WITH_TARGET:
        return [], False
    return lines(TARGET_WORDS, current), True


def complete(words: Sequence[str]) -> int:
    """Write what the last word may become, a line each, and return 0."""
    found, has_targets = complete_words(words)
    _write(found)
    if has_targets:
        _write_targets(words[-1] if words else "")
    return 0


class Completion(Verb):
    """Print what makes a shell complete verbs, options and live ranks."""

    name = "completion"
    example = "completion bash"
    operands = Operands.SHELL

    shell: str = ""

    def check(self) -> None:
        if self.shell not in SHELLS:
            given = f"'{printable(self.shell)}' is no shell that is completed for"
            what = given if self.shell else "completion needs a shell"
            raise BadInput(what, f"write {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")

    def run(self) -> int:
        sys.stdout.write(completion_script("dbg-attach", self.shell))
        sys.stdout.flush()
        return 0


def _write_targets(current: str) -> None:
    from dbg_client.core.live_targets import live_ranks, patience, remembered_targets

    with Path(os.devnull).open("w") as nowhere:
        # A C call that hangs can be ended by nothing else, and this has no state to leave behind.
        faulthandler.dump_traceback_later(sum(patience(os.environ)) + GRACE_SECONDS, exit=True, file=nowhere)
        try:
            for find in (remembered_targets, live_ranks):
                _write(lines(find(os.environ), current))
        finally:
            faulthandler.cancel_dump_traceback_later()


def _write(found: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.flush()
