"""The client's one line under a raw PuDB or a prompt: what it says of a session, and the bytes that draw it. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dbg_client.seat.notices import missing_on_the_way
from dbg_client.views.ages import show_duration, show_wait
from dbg_client.views.list import show_place
from dbg_client.views.table import clip, text_width
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import CRASH, LINE_ENGINE, Place, RankInfo, RankState

if TYPE_CHECKING:
    from dbg_client.seat.attachment import Attachment

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

LONG_STEP_SECONDS = 3.0
"""Seconds of running after which the line says where the rank is; most steps end sooner."""

CRASHED = "crashed"
"""What the line calls a stop after an uncaught exception."""


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


@dataclass(frozen=True, slots=True)
class Others:
    """How many other ranks of the job are stopped and held."""

    stopped: int = 0
    held: int = 0


def count_others(rank: RankInfo, ranks: Iterable[RankInfo]) -> Others:
    """Count the other ranks of the same job."""
    states = [other.state for other in ranks if other.job == rank.job and other.key != rank.key]
    return Others(states.count(RankState.STOPPED), states.count(RankState.HELD))


def status_of(attachment: Attachment, others: Others, now: float, *, prefix: str, pending: bool) -> Status:
    """Return what the line shows now; ``prefix`` is the escape key's name, ``pending`` whether it was just typed."""
    state, since, place, standing = _state(attachment, now)
    said = attachment.notice(now) or standing or _cut_off(attachment)
    stop = attachment.report.stop if attachment.report is not None else None
    is_running = state == RankState.RUNNING.value
    return Status(
        address=attachment.rank.address,
        state=state,
        since=since,
        place=show_place(place),
        others_stopped=others.stopped,
        others_held=others.held,
        driving=attachment.driving,
        driver=attachment.driver,
        detail=stop.detail if stop is not None and state in (CRASHED, RankState.STOPPED.value) else "",
        notices=(said,) if said else _advice(attachment, others, state, since, prefix),
        prefix=prefix,
        pending=pending,
        cropped=attachment.cropped,
        waits=show_wait(attachment.motion.waits_in, others.stopped, others.held) if is_running else "",
    )


def _advice(attachment: Attachment, others: Others, state: str, since: float | None, prefix: str) -> tuple[str, ...]:
    """Return what the user should know to do in this state, in several wordings, the longest first."""
    if state == CRASHED and attachment.driving:
        return _how_to_end(attachment)
    report = attachment.report
    if state == RankState.HELD.value and report is not None and report.waits is not None:
        ranks = format_ranks(report.waits.ranks)
        return (f"waits for rank{'s' if len(report.waits.ranks) > 1 else ''} {ranks}", f"waits for {ranks}")
    if report is not None and report.stepping and report.queued:
        return _who_waits_to_stop(report.queued)
    if state == RankState.RUNNING.value and since is not None and others.held:
        return _who_waits(attachment, others, prefix)
    return ()


def _who_waits_to_stop(count: int) -> tuple[str, ...]:
    """Return how many threads wait for this stop to end, while a step runs that may wait for them."""
    threads = f"{count} thread{'s wait' if count > 1 else ' waits'} to stop"
    return f"{threads}; if the step waits for {'them' if count > 1 else 'it'}, Ctrl-C ends the step", threads


def _how_to_end(attachment: Attachment) -> tuple[str, ...]:
    if attachment.engine != LINE_ENGINE:
        return ("q lets it end",)  # PuDB refuses to go on after a crash
    return ("c or q lets it end",) if attachment.conversation.prompt is not None else ()


def _who_waits(attachment: Attachment, others: Others, prefix: str) -> tuple[str, ...]:
    """Return how many ranks are held while this one runs: in a collective it would wait for them for ever."""
    report = attachment.report
    stepping = report is not None and report.stop is not None
    count = f"{others.held} held rank{'s' if others.held > 1 else ''}"
    whom = " for this one" if stepping and not others.stopped else ""
    waiting = f"{count} wait{'' if others.held > 1 else 's'}{whom}"
    release = f"{prefix} : release" if prefix else "dbg-attach release held"
    go = "lets them go" if others.held > 1 else "lets it go"
    return (
        f"{waiting}; a collective would wait for ever: {release} {go}",
        f"{waiting}; a collective would wait for ever: {release}",
        f"{others.held} held, a collective would hang: {release}",
        f"{count}: {release}",
    )


def _cut_off(attachment: Attachment) -> str | None:
    """Return what to do about a window that is smaller than the screen of a stock debugger, which keeps its size."""
    session = attachment.report.session if attachment.report is not None else None
    rows, columns = attachment.size
    if session is None or not attachment.rank.is_classic or (session.rows <= rows and session.columns <= columns):
        return None
    return f"enlarge this window: the screen has {session.columns}x{session.rows}"


def _state(attachment: Attachment, now: float) -> tuple[str, float | None, Place | None, str | None]:
    """Return the state, its seconds, the place, and the notice that stands as long as the state does."""
    report = attachment.report
    stopped_at = report.stop.where if report is not None and report.stop is not None else None
    if (missing := missing_on_the_way(attachment.away, now)) is not None:
        state, since, notice = missing
        return state, since, stopped_at, notice
    if attachment.rank.state is RankState.UNRESPONSIVE:
        return "unresponsive", now - attachment.motion.heard, stopped_at, None
    if report is None:
        return attachment.rank.state.value, None, attachment.rank.where, None
    if report.stop is not None and report.stop.reason == CRASH and report.state is RankState.STOPPED:
        return CRASHED, None, stopped_at, None
    if attachment.motion.since is None:
        return report.state.value, None, stopped_at, None
    moving = now - attachment.motion.since
    if moving < LONG_STEP_SECONDS:
        return "running", None, stopped_at, None
    return "running", moving, attachment.motion.pulse or stopped_at, None


def toolbar_of(status: Status, attachment: Attachment, columns: int) -> str:
    """Return one line, as wide as the terminal but for its last column."""
    return render(_with_keys(status, attachment), columns, color=False)


def _with_keys(status: Status, attachment: Attachment) -> Status:
    """Say what Ctrl-C means now where no prompt stands, and what waits for the next one."""
    conversation, report = attachment.conversation, attachment.report
    if not attachment.driving or conversation.prompt is not None or report is None or status.notices:
        return status
    moves = report.stop is None or report.stepping
    if report.session is None and not moves:
        return replace(status, notices=("the debugger opens",))
    state = "busy" if status.state == "stopped" else status.state
    key = "Ctrl-C breaks in" if moves else "Ctrl-C interrupts"
    if report.stepping and report.queued:
        key = _who_waits_to_stop(report.queued)[0]
    waiting = f"; {conversation.held} typed ahead" if conversation.held else ""
    return replace(status, state=state, notices=(f"{key}{waiting}",))
