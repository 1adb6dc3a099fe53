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
