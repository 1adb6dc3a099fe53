"""Pagination of answers for an agent, and the next step in the words of its tools. Pure."""

from __future__ import annotations

from collections import OrderedDict

from dbg_wire.errors import BadInput, Remedy, printable

MAX_LINES = 120
"""Lines of one answer: some 2,000 words for a model, and as many as a tree of 1,000 ranks usually has."""

MAX_CHARACTERS = 8000
"""Characters of one answer; a line is never parted unless it alone is longer."""

MAX_KEPT = 16
"""Answers whose rest is kept, the latest ones."""

MAX_KEPT_CHARACTERS = 4_000_000
"""Characters of one answer that are kept; a value of a rank is far shorter, and 1,000 of them fit."""


TOOLS_OF_COMMANDS = {
    "list": "`ranks`",
    "wait": "`wait_for_stop` with ranks='{ranks}'",
    "interrupt": "`interrupt` with ranks='{ranks}'",
    "release": "`continue` with ranks='{ranks}'",
    "attach": "`where` with ranks='{ranks}'",
}
"""What an agent calls where an error names a command of the terminal."""


class Rests:
    """The answers that were cut, by their names."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, list[str]] = OrderedDict()
        self._made = 0

    def cut(self, text: str) -> str:
        """Return the beginning of a text and how to get its rest; a short text as it is."""
        lines = [printable(line, MAX_KEPT_CHARACTERS) for line in text[:MAX_KEPT_CHARACTERS].rstrip("\n").split("\n")]
        shown = _first(lines)
        if len(shown) == len(lines) and len(shown[-1]) == len(lines[-1]):
            return "\n".join(shown)
        self._made += 1
        name = f"rest-{self._made}"
        self._kept[name] = lines
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return "\n".join([*shown, _more(name, len(shown), len(lines))])

    def more(self, name: str, begin: int) -> str:
        """Return the lines of a kept answer from number ``begin`` on, the first being 0. Raises BadInput."""
        if name not in self._kept:
            raise BadInput(f"no answer {printable(name)!r} is kept", "ask the question again")
        lines = self._kept[name]
        if not 0 <= begin < len(lines):
            raise BadInput(f"{name} has no line {begin}", f"its lines are 0 to {len(lines) - 1}")
        shown = _first(lines[begin:])
        end = begin + len(shown)
        return "\n".join([*shown, *([_more(name, end, len(lines))] if end < len(lines) else [])])


def _first(lines: list[str]) -> list[str]:
    """Return as many lines as fit, at least one, which is cut if it alone is too long."""
    shown: list[str] = []
    size = 0
    for line in lines[:MAX_LINES]:
        size += len(line) + 1
        if shown and size > MAX_CHARACTERS:
            break
        shown.append(line[:MAX_CHARACTERS])
    return shown


def _more(name: str, shown: int, all_of_them: int) -> str:
    return f"[{all_of_them - shown} more lines: call `more` with answer={name!r} and from={shown}]"


def tool_for(remedy: Remedy, *, may_change: bool) -> str:
    """Return the tool to call in place of a command of the shell.

    Without ``may_change`` the tools that touch a rank are refused, and its stack is named instead.
    """
    if remedy.verb == "why":
        return "`why`"
    job, slash, ranks = remedy.ranks.partition("/")
    given = f"ranks={ranks!r}, job={job!r}" if slash else f"ranks={job!r}"
    if remedy.verb == "interrupt" and may_change:
        return f"`interrupt` with {given}, then `variables` or `eval`; other ranks wait until it is continued"
    if remedy.verb == "attach" and may_change:
        return f"`where` with {given}, then `variables` or `eval`: it is stopped"
    return f"`where` with {given}" + (", threads=true" if "--threads" in remedy.options else "")
