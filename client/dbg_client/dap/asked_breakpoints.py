"""What ``setBreakpoints`` and ``setExceptionBreakpoints`` of an IDE ask for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbg_client.api.given import given
from dbg_client.dap.messages import Message
from dbg_client.dap.paths import Paths
from dbg_wire.errors import BadInput, printable
from dbg_wire.limits import MAX_CONDITION, MAX_PATH
from dbg_wire.records.bounds import MAX_RANK
from dbg_wire.records.line_breakpoints import BreakpointWish

MAX_OF_FILE = 1000
"""Breakpoints of one file; a rank takes a hundred in all, and says so of each that is too much."""

UNCAUGHT = "uncaught"

EXCEPTION_FILTERS: list[Message] = [
    {
        "filter": UNCAUGHT,
        "label": "Uncaught exceptions",
        "description": "A rank of a job that was started with --post-mortem stays where it crashed.",
        "default": True,
    }
]
"""The exceptions at which ranks stop, as capabilities tell them."""

_ALWAYS_ON = "it is on in ranks that were started with --post-mortem, and stays so"


def asked_file(arguments: Message, paths: Paths) -> str:
    """Return the file of the ranks that a request is about. Raises BadInput."""
    source = arguments.get("source")
    path = source.get("path") if isinstance(source, dict) else None
    if not isinstance(path, str) or not path:
        raise BadInput("this file has no path, so ranks have no breakpoints in it", "open it from the stack of a rank")
    file = paths.to_rank(path)
    if not file.startswith("/") or len(file) > MAX_PATH or not file.isprintable():
        raise BadInput(
            f"{printable(file)!r} is no path of the ranks", "write a root for it into pathMappings of launch.json"
        )
    return file


def asked_wishes(arguments: Message, file: str, first_line: int) -> list[BreakpointWish | str]:
    """Return what is asked for in a file, one for each breakpoint; a sentence for one that can't be. Raises BadInput.

    ``first_line`` is how the IDE numbers a file's first line.
    """
    given = arguments.get("breakpoints")
    if given is None:
        lines = arguments.get("lines")
        given = [{"line": line} for line in lines] if isinstance(lines, list) else []
    if not isinstance(given, list) or len(given) > MAX_OF_FILE:
        raise BadInput(f"there are more than {MAX_OF_FILE} breakpoints of one file", "remove some")
    return [_wish(one, file, first_line) for one in given]


def exception_answer(arguments: Message) -> Message:
    """Return the body of the answer to ``setExceptionBreakpoints``: one row for each filter that is chosen."""
    filters = arguments.get("filters")
    chosen = filters if isinstance(filters, list) else []
    return {"breakpoints": [_exception_row(name) for name in chosen[: len(EXCEPTION_FILTERS) + 10]]}


def _exception_row(name: object) -> Message:
    if name != UNCAUGHT:
        return {"verified": False, "message": f"there is no filter {printable(repr(name), 40)}"}
    return {"verified": True, "message": _ALWAYS_ON}


def _wish(one: object, file: str, first_line: int) -> BreakpointWish | str:
    fields: Mapping[str, Any] = one if isinstance(one, dict) else {}
    line = fields.get("line")
    if not isinstance(line, int) or isinstance(line, bool) or not 1 <= line + 1 - first_line <= MAX_RANK:
        return f"{printable(repr(line), 40)} is no line"
    texts = {}
    for name, ours in (("condition", "condition"), ("hitCondition", "hits"), ("logMessage", "log")):
        text = fields.get(name) or ""
        if not isinstance(text, str) or len(text) > MAX_CONDITION:
            return f"{name} is no text of at most {MAX_CONDITION} characters"
        texts[ours] = text.strip() if ours != "log" else text
    try:
        return given(BreakpointWish, file=file, line=line + 1 - first_line, **texts)
    except BadInput as error:
        return printable(str(error))
