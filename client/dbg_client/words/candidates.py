"""What a shell may complete a word to, as far as parsers say; live ranks come from the broker. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dbg_client.words.command_line import leading, verb_first
from dbg_client.words.parsers import parser_of
from dbg_client.words.verbs import VERBS, Operands
from dbg_wire.command_line.parser import complete_option, lines, options_of

TARGET_WORDS: tuple[tuple[str, str], ...] = (
    ("all", "all ranks"),
    ("stopped", "ranks that are stopped"),
    ("held", "ranks that wait for others"),
    ("crashed", "ranks that are kept after an exception"),
    ("running", "ranks that run"),
)

_VERBS = [(row.name, row.help) for row in VERBS]
_WITH_TARGET = frozenset(
    {Operands.TARGET, Operands.MAYBE_TARGET, Operands.EXPRESSION, Operands.COMMAND, Operands.PROGRAM}
)


def complete_words(words: Sequence[str]) -> tuple[list[str], bool]:
    """Return a line for each word that the last of these may become, and whether live ranks may stand there, too."""
    *before, current = words or [""]
    row, spoken, behind = verb_first(before)
    parser = parser_of(row)
    found = complete_option(parser, before, current)
    if found is not None:
        return found, False
    if not spoken and leading(before) == len(before):
        return lines([*_VERBS, *TARGET_WORDS], current), True
    with_value = {flag for option in options_of(parser) if option.nargs is None for flag in option.option_strings}
    if any(not word.startswith("-") and previous not in with_value for previous, word in pairwise(["", *behind])):
        return [], False
    if row.operands is Operands.SHELL:
        return lines([(shell, "") for shell in row.operands.value.split("|")], current), False
    if row.operands is Operands.VERB:
        return lines([*_VERBS, ("all", "everything")], current), False
    if row.operands not in _WITH_TARGET:
        return [], False
    return lines(TARGET_WORDS, current), True
