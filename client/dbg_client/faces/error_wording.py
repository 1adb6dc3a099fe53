"""Errors for those who have no terminal: they name commands of one, and other faces have words of their own. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from dbg_client.verbs.table import BY_NAME
from dbg_wire.errors import DbgError

ONLY_IN_A_TERMINAL = {verb: f"`dbg-attach {verb} {{ranks}}` in a terminal" for verb in ("kill", "report")}
"""What no other face than a terminal does."""

_COMMAND = re.compile(r"`dbg-attach ([^`]*)`")


def in_words_of(error: DbgError, words: Mapping[str, str]) -> str:
    """Return an error's sentence with what the user of another face does in place of the terminal's commands.

    ``words`` has it by the verb; ``{ranks}`` stands for the ranks. A command that they don't have stays.
    """

    def said(found: re.Match[str]) -> str:
        try:
            typed = shlex.split(found[1])
        except ValueError:
            return found[0]
        ranks = [one for one in typed if not one.startswith("-")]
        spoken = bool(ranks) and ranks[0] in BY_NAME
        verb = BY_NAME[ranks.pop(0)].name if spoken else "attach" if ranks else ""
        return words[verb].format(ranks=ranks[0] if ranks else "all") if verb in words else found[0]

    return _COMMAND.sub(said, str(error))
