"""What a mistyped word was meant to be. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dbg_wire.command_line.completion import nearest
from dbg_wire.errors import BadInput, BadTarget, printable

_LIKE_A_VERB = re.compile(r"[A-Za-z]+")


def is_target(word: str) -> bool:
    """Tell whether a word can be read as a target; names of groups count, whether remembered or not."""
    from dbg_wire.targets.grammar import parse_target  # help, version and most mistakes do without

    try:
        parse_target(word)
    except BadTarget:
        return False
    return True


def refuse_mistyped(word: str, verbs: Iterable[str]) -> None:
    """Raise BadInput for a word in place of a verb or target that is much like one of them, and is none."""
    if not _LIKE_A_VERB.fullmatch(word) or is_target(word):
        return
    from dbg_wire.targets.grammar import Word

    meant = nearest(word.lower(), [*verbs, *(known.value for known in Word)])
    if meant is not None:
        raise BadInput(f"unknown verb or rank `{printable(word)}`", f"did you mean `{meant}`?")


def refuse_unknown_option(word: str, known: Iterable[str], help_page: str) -> None:
    """Raise BadInput for an option that there is not, with the one that is most like it."""
    name = word.partition("=")[0]
    meant = nearest(name, known)
    remedy = f"did you mean {meant}?" if meant is not None else f"see `{help_page}`"
    raise BadInput(f"there is no option {printable(name)}", remedy)
