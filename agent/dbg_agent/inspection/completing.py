"""What may follow in a text that is being typed in an IDE."""

from __future__ import annotations

import builtins
import keyword
import re
import threading
from collections.abc import Iterable
from typing import Any

from dbg_agent.engines.safe_completion import runs_nothing
from dbg_agent.inspection.namespaces import Namespaces
from dbg_wire.limits import MAX_COMPLETIONS
from dbg_wire.records.inspection import Completion
from dbg_wire.records.record import fitted

_TYPED = re.compile(r"(?:(?P<owner>[^\W\d]\w*(?:\.[^\W\d]\w*)*)\.)?(?P<word>[^\W\d]\w*)?\Z")
"""A dotted name, perhaps unfinished, at the end of a text."""


def completions(text: str, begin: int, names: Namespaces) -> list[Completion]:
    """Return what may stand in place of the word before the cursor, which is behind ``begin`` characters.

    A look at attributes may run code of the program. In the main thread the caller interrupts it. Another thread can't
    be interrupted while it sleeps, so only attributes that can be listed without such code are told there.
    """
    text = text[:begin]
    typed = _TYPED.search(text)
    if typed is None or text[: typed.start()].endswith((".", "'", '"', *"0123456789")):
        return []
    owner, word = typed["owner"], typed["word"] or ""
    found = _names(names) if owner is None else _attributes(owner, names)
    hides = not word.startswith("_")
    chosen = [name for name in found if name.startswith(word) and not (hides and name.startswith("_"))]
    begin = len(text) - len(word)
    return [
        fitted(Completion, text=name, begin=begin, length=len(word))
        for name in list(dict.fromkeys(chosen))[:MAX_COMPLETIONS]
    ]


def _names(names: Namespaces) -> list[str]:
    groups: tuple[Iterable[str], ...] = (names.locals, names.globals, vars(builtins), keyword.kwlist)
    return [name for group in groups for name in sorted(filter(_is_name, group))]


def _attributes(owner: str, names: Namespaces) -> list[str]:
    together = {**vars(builtins), **names.together()}
    in_main = threading.current_thread() is threading.main_thread()
    first, *more = owner.split(".")
    if first not in together or not (in_main or runs_nothing(together, f"{owner}.")):
        return []
    value = together[first]
    for name in more:
        value = getattr(value, name)
    return sorted(filter(_is_name, dir(value)))


def _is_name(name: Any) -> bool:
    return type(name) is str and name.isidentifier()
