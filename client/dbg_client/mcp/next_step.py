"""What an agent does next: a verdict names a command of the terminal, and an agent has tools. Pure."""

from __future__ import annotations

import re

from dbg_client.words.other_faces import ONLY_IN_A_TERMINAL

# A line of a rank is indented, and can't look like this one.
_NEXT = re.compile(
    r"^try: dbg-attach (?:(interrupt|where) )?(?:([^/\s]+)/)?(\S+)(?: (--all|--threads))?(?:\s+\(.*\))?$", re.MULTILINE
)

TOOLS_OF_COMMANDS = {
    "list": "`ranks`",
    "wait": "`wait_for_stop` with ranks='{ranks}'",
    "interrupt": "`interrupt` with ranks='{ranks}'",
    "release": "`continue` with ranks='{ranks}'",
    "attach": "`where` with ranks='{ranks}'",
    **ONLY_IN_A_TERMINAL,
}
"""What an agent calls where an error names a command of the terminal."""


def with_tools(text: str, *, may_change: bool) -> str:
    """Return verdicts that name the tool to call next in place of a command of the terminal.

    Without ``may_change`` the tools that touch a rank are not there, and its stack is named instead.
    """
    return _NEXT.sub(lambda found: _tool(found, may_change), text)


def _tool(found: re.Match[str], may_change: bool) -> str:
    verb, job, ranks, option = found.groups()
    given = f"ranks={ranks!r}" + (f", job={job!r}" if job else "")
    if verb == "interrupt" and may_change:
        return f"try: `interrupt` with {given}, then `variables` or `eval`; other ranks wait until it is continued"
    if verb is None and may_change:
        return f"try: `where` with {given}, then `variables` or `eval`: it is stopped"
    return f"try: `where` with {given}" + (", threads=true" if option == "--threads" else "")
