"""What a shell may complete a word to, as far as the tables say; live ranks come from the broker. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.words.options import FILE, OPTIONS, OptionRow, options_of
from dbg_client.words.verbs import BY_FLAG, BY_NAME, VERBS, Operands, VerbRow

Candidate = tuple[str, str]
"""A word, and what it means."""

TARGET_WORDS: tuple[Candidate, ...] = (
    ("all", "all ranks"),
    ("stopped", "ranks that are stopped"),
    ("held", "ranks that wait for others"),
    ("crashed", "ranks that are kept after an exception"),
    ("running", "ranks that run"),
)

_WITH_TARGET = frozenset({Operands.TARGET, Operands.MAYBE_TARGET, Operands.EXPRESSION, Operands.COMMAND})
_TEXTS = frozenset({Operands.EXPRESSION, Operands.COMMAND})


@dataclass(frozen=True, slots=True)
class Completion:
    """Hold what may stand in place of a word: ``words`` at once, live ranks if ``targets``, or ``files``."""

    words: tuple[Candidate, ...] = ()
    targets: bool = False
    files: bool = False


def complete_words(words: Sequence[str]) -> Completion:
    """Return what the last of the words behind ``dbg-attach`` may become; it may be empty."""
    *before, current = words or [""]
    option = _value_wanted(before)
    if isinstance(option, OptionRow):
        values = tuple((value, option.help) for value in option.values)
        return Completion(_starting(values, current), files=option.metavar == FILE)
    if option is not None and option.operands in _TEXTS:
        return Completion()
    operands = _operands(before)
    verb = BY_NAME.get(operands[0]) if operands else None
    if current.startswith("-"):
        return Completion(_starting(_flags(verb), current))
    return _operand(verb, operands, current)


def _operand(verb: VerbRow | None, operands: Sequence[str], current: str) -> Completion:
    if not operands:
        verbs = tuple((row.name, row.help) for row in VERBS)
        return Completion(_starting((*verbs, *TARGET_WORDS), current), targets=True)
    if verb is None:
        # Behind a target an action is missing.
        return Completion(_starting(tuple((row.flags[-1], row.help) for row in VERBS if row.flags), current))
    if len(operands) > 1:
        return Completion()
    if verb.operands is Operands.SHELL:
        shells = tuple((shell, "") for shell in verb.operands.value.split("|"))
        return Completion(_starting(shells, current))
    if verb.operands is Operands.VERB:
        return Completion(_starting((*((row.name, row.help) for row in VERBS), ("all", "everything")), current))
    if verb.operands not in _WITH_TARGET:
        return Completion()
    return Completion(_starting(TARGET_WORDS, current), targets=True)


def _value_wanted(before: Sequence[str]) -> OptionRow | VerbRow | None:
    """Return the option or flag whose value the current word is; the value of --wait is a target like others."""
    last = before[-1] if before else ""
    row = BY_FLAG.get(last)
    if row is not None and row.operands in _TEXTS:
        return row
    return next((option for option in OPTIONS if last in option.flags and option.metavar is not None), None)


def _operands(before: Sequence[str]) -> list[str]:
    return [
        word
        for at, word in enumerate(before)
        if not word.startswith("-") and (at == 0 or _value_wanted(before[:at]) is None)
    ]


def _flags(verb: VerbRow | None) -> tuple[Candidate, ...]:
    options = options_of(verb.name) if verb is not None else list(OPTIONS)
    flags = tuple((flag, option.help) for option in options for flag in option.flags)
    if verb is None:
        flags += tuple((flag, row.help) for row in VERBS for flag in row.flags)
    return (*flags, ("--help", "show the options"), ("--version", "show release and protocol"))


def _starting(candidates: Sequence[Candidate], current: str) -> tuple[Candidate, ...]:
    return tuple(candidate for candidate in candidates if candidate[0].startswith(current))
