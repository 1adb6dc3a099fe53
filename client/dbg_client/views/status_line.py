"""The client's one line under a raw PuDB, and the bytes that put it on the screen.

Any part of it may come from a rank or from another user, so control characters are shown and have no effect. Widths are
never underestimated: a line that reaches the last column would wrap and scroll the debugger's screen away.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.views.ages import show_duration
from dbg_client.views.table import clip, text_width
from dbg_wire.errors import printable

# The parts in the order of the line, with the columns left blank before each.
_GAPS = {
    "address": 1,
    "state": 2,
    "whom": 1,
    "error": 0,
    "cropped": 2,
    "watching": 2,
    "place": 2,
    "detail": 2,
    "notice": 4,
    "others": 4,
    "leave": 4,
    "help": 0,
}
_CLIPPED = {"address": 1, "state": 8, "error": 8, "notice": 8, "place": 8, "detail": 20}
"""Parts that may be cut off, and the columns below which they say nothing any more and are left out."""

_STATE_COLORS = {"running": 32, "held": 33, "crashed": 31, "unresponsive": 31, "lost": 31}
"""SGR codes; a stop is the normal case and has no colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the line tells.

    ``since`` is the seconds in this state, ``prefix`` "" if there is no escape key, ``cropped`` whether the terminal
    shows a part of the debugger's screen only. ``detail`` says more of the stop, e.g. the exception of a crash.
    ``waits`` is said instead of the state: what a rank in a collective waits for.
    ``notices`` are wordings of one notice, the longest first; the first one that fits is shown.
    """

    address: str
    state: str
    place: str | None = None
    since: float | None = None
    others_stopped: int = 0
    others_held: int = 0
    driving: bool = True
    driver: str | None = None
    detail: str = ""
    notices: tuple[str, ...] = ()
    prefix: str = "Ctrl-]"
    pending: bool = False
    cropped: bool = False
    waits: str = ""


def render(status: Status, columns: int, *, color: bool = True) -> str:
    """Return the line, padded to one column less than ``columns``.

    What doesn't fit is shortened or left out: first how to get help, then the detail of the stop, the other ranks, the
    place, the exception of a crash, who types, whom a collective waits for, that the screen is cut off, how to leave,
    the notice, the state.
    While the key after the prefix is awaited, the possible keys come before the notice.
    With ``color`` the state carries SGR sequences, which take no columns.
    """
    room = columns - 1
    if room < 1:
        return ""
    kept = _fit(status, room)
    leave = kept.pop("leave", "") + kept.pop("help", "")
    left = "".join(" " * gap + kept[name] for name, gap in _GAPS.items() if name in kept)
    space = room - text_width(left) - text_width(leave)
    # The way out stands at the right end, a blank behind it if there is one to spare.
    trailing = 1 if leave and space > _GAPS["leave"] else 0
    line = left + " " * (space - trailing) + leave + " " * trailing
    return _colored(line, kept, status.state) if color else line


def paint(text: str, row: int) -> bytes:
    """Return the bytes that write ``text`` inverse on ``row`` (from 1) and leave cursor, colours and charset alone.

    They may stand only between complete sequences of the stream they are mixed into.
    """
    # The rank may have switched to line drawing; restoring the cursor brings that back too.
    return b"\x1b7\x1b[%d;1H\x0f\x1b(B\x1b[0;7m%b\x1b[0m\x1b[K\x1b8" % (row, text.encode())


def _fit(status: Status, room: int) -> dict[str, str]:
    kept: dict[str, str] = {}
    for name, variants in _by_priority(status):
        free = room - _GAPS[name]
        chosen = next((text for text in variants if text_width(text) <= free), "")
        if not chosen and variants and free >= _CLIPPED.get(name, room + 1):
            chosen = clip(variants[-1], free)
        if chosen:
            kept[name] = chosen
            room = free - text_width(chosen)
    return kept


def _by_priority(status: Status) -> Sequence[tuple[str, Sequence[str]]]:
    notice = ("notice", [text for notice in status.notices for text in _texts(notice)])
    leave = ("leave", _leave_texts(status))
    crashed = status.state == "crashed"
    detail = _texts(status.detail)
    return (
        ("address", _texts(status.address)),
        ("state", _state_texts(status)),
        *((leave, notice) if status.pending else (notice, leave)),
        ("cropped", ("part of a larger screen", "cut off") if status.cropped else ()),
        ("whom", _texts(_wait(status)[1])),
        ("watching", () if status.driving else _watching_texts(status.driver)),
        ("error", [f": {text}" for text in detail] if crashed else ()),
        ("place", _texts(status.place)),
        ("others", () if status.notices or status.waits else _others_texts(status.others_stopped, status.others_held)),
        ("detail", () if crashed else detail),
        ("help", _help_texts(status)),
    )


def _texts(foreign: str | None) -> Sequence[str]:
    return (_shown_safely(foreign),) if foreign else ()


def _shown_safely(foreign: str) -> str:
    # A variation selector makes the character before it wider in some terminals and not in others.
    return "".join(char for char in printable(foreign) if not unicodedata.name(char, "").startswith("VARIATION SEL"))


def _state_texts(status: Status) -> Sequence[str]:
    if status.waits:
        return (_shown_safely(_wait(status)[0]),)
    state = "silent" if status.state == "unresponsive" else _shown_safely(status.state)
    if status.since is None or status.state in ("stopped", "exited"):
        return (state,)
    # A number whose unit is cut off would be read as another one.
    return (f"{state} for {show_duration(status.since)}", state)


def _wait(status: Status) -> tuple[str, str]:
    """Return in which collective the rank waits, and for whom, which a narrow line leaves out."""
    collective, between, whom = status.waits.partition(" for ")
    return collective, f"{between}{whom}".lstrip()


def _watching_texts(driver: str | None) -> Sequence[str]:
    who = f"{_shown_safely(driver)} types" if driver else "nobody types"
    return (f"watching, {who}", "watching")


def _others_texts(stopped: int, held: int) -> Sequence[str]:
    if stopped and held:
        both = f"{stopped} stopped, {held} held"
        return (f"others: {both}", both)
    count, what = (stopped, "stopped") if stopped else (held, "held")
    return (f"{count} other{'s' if count > 1 else ''} {what}",) if count else ()


def _leave_texts(status: Status) -> Sequence[str]:
    key = status.prefix
    if not key:
        return ()
    if status.pending:
        return (
            f"{key}, then: d detach  n/p next/previous stop  r ranks  w take the keyboard  : command  ? help",
            f"{key}, then: d detach  n/p stops  r ranks  w keyboard  : command  ? help",
            f"{key}, then: d detach  ? help",
            f"{key} …",
        )
    return (f"{key} d detaches", f"{key} d")


def _help_texts(status: Status) -> Sequence[str]:
    return (f", {status.prefix} ? helps",) if status.prefix and not status.pending else ()


def _colored(line: str, kept: dict[str, str], state: str) -> str:
    code = _STATE_COLORS.get(state)
    if code is None or "state" not in kept:
        return line
    address = kept.get("address", "")
    start = len(address) + (_GAPS["address"] if address else 0) + _GAPS["state"]
    end = start + len(kept["state"])
    return f"{line[:start]}\x1b[{code}m{line[start:end]}\x1b[39m{line[end:]}"
