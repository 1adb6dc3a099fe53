"""Lines that were pasted at once: a block of Python, or commands for one prompt after the other. Pure."""

from __future__ import annotations

import ast
import codeop
import warnings

_NAMES = """
EOF a alias args b break bt c cl clear commands condition cont continue d debug disable display down enable exceptions
exit h help ignore interact j jump l list ll longlist n next p pp q quit r restart return retval run rv s source step
tbreak u unalias undisplay unt until up w whatis where
"""

COMMANDS = frozenset(_NAMES.split())
"""What pdb's prompt takes for a command, in all releases of Python."""

GOES_ON = ("elif ", "else:", "else ", "except ", "except:", "finally:", "finally ", ")", "]", "}")
"""Beginnings of a line that belongs to the statement above it."""


def pasted_commands(text: str) -> list[str]:
    """Return what is to be given to one prompt after the other: lines, and statements of several lines.

    The text is one block if it is Python and none of its statements is just the name of a command: ``n`` below ``n`` is
    two steps. Empty lines between commands are left out, since pdb would repeat the command before them.
    """
    stripped = text.strip("\n")
    if "\n" not in stripped or _is_block(stripped):
        return [text]
    pieces: list[str] = []
    for line in stripped.split("\n"):
        if pieces and _belongs_to(pieces[-1], line):
            pieces[-1] += f"\n{line}"
        elif line.strip():
            pieces.append(line)
    return [piece.rstrip("\n") for piece in pieces]


def _is_block(text: str) -> bool:
    if not _compiles(text):
        return False
    names = (statement.value for statement in ast.parse(text).body if isinstance(statement, ast.Expr))
    return not any(isinstance(name, ast.Name) and name.id in COMMANDS for name in names)


def _belongs_to(piece: str, line: str) -> bool:
    if line[:1] in (" ", "\t") or line.startswith(GOES_ON):
        return True
    # The piece may be an open statement, e.g. in brackets; pdb's own commands are no Python, and end with their line.
    return not _compiles(piece) and _is_incomplete(piece)


def _compiles(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<pasted>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    return True


def _is_incomplete(text: str) -> bool:
    try:
        return codeop.compile_command(text, "<pasted>", "exec") is None
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
