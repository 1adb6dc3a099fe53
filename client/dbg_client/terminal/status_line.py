"""The client's status line below a raw PuDB or a prompt: its contents, and the bytes that draw it. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
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

_LEAST_IMPORTANT_FIRST = ("help", "detail", "others", "place", "watching", "leave")
"""Parts of the line, in the order in which they are omitted if the line has no room for all of them."""

LONG_STEP_SECONDS = 3.0
"""Seconds that a rank must have run before the line shows its place; most steps end sooner."""

CRASHED = "crashed"
"""State shown for a stop after an uncaught exception."""

BUSY = "busy"
"""State shown for a stop while the line debugger has no prompt, because a command runs."""

_WITHOUT_DURATION = ("stopped", "exited", BUSY)


@dataclass(frozen=True, slots=True)
class Others:
    """How many other ranks of the job are stopped, and how many are held."""

    stopped: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Contents of the status line.

    ``since`` is the number of seconds in this state. ``prefix`` is "" without an escape key. ``cropped`` is True if the
    terminal shows only a part of the debugger's screen. ``detail`` describes the stop, e.g. the exception of a crash.
    ``waits_in`` is the collective that a running rank is in.
    """

    address: str
    state: str
    place: str | None = None
    since: float | None = None
    others: Others = Others()
    driving: bool = True
    driver: str | None = None
    detail: str = ""
    notice: str = ""
    prefix: str = "Ctrl-]"
    pending: bool = False
    cropped: bool = False
    waits_in: str = ""


def render(status: Status, columns: int) -> str:
    """Return the line, padded to one column less than ``columns``; the key to detach is at its right end.

    If it is too long, parts are left out, the least important first, and then it is cut off. While the key after the
    prefix is awaited, the line shows only the possible keys.
    """
    room = max(0, columns - 1)
    if status.pending:
        keys = "d detach  n/p stops  r ranks  w keyboard  : command  ? help"
        return _padded(clip(f" {status.prefix}, then: {keys}", room), room)
    parts = _parts(status)
    for name in _LEAST_IMPORTANT_FIRST:
        if text_width(_joined(parts)) > room:
            del parts[name]
    leave = "".join(parts.pop(name, "") for name in ("leave", "help"))
    room -= text_width(leave)
    return _padded(clip(_joined(parts), room), room) + leave


def paint(text: str, row: int) -> bytes:
    """Return the bytes that write ``text`` inverse on ``row`` (from 1) without changing cursor, colours and charset.

    They may be inserted only between complete sequences of a stream.
    """
    # The rank may have switched to line-drawing characters; restoring the cursor also restores that charset.
    return b"\x1b7\x1b[%d;1H\x0f\x1b(B\x1b[0;7m%b\x1b[0m\x1b[K\x1b8" % (row, text.encode())


def _padded(text: str, room: int) -> str:
    return text + " " * (room - text_width(text))


def _joined(parts: dict[str, str]) -> str:
    return "  ".join(text for text in parts.values() if text)


def _parts(status: Status) -> dict[str, str]:
    """Return the parts in the order of the line; parts without a text now are empty."""
    waits = show_wait(status.waits_in, status.others.stopped, status.others.held)
    state = "silent" if status.state == "unresponsive" else status.state
    if status.since is not None and state not in _WITHOUT_DURATION:
        state = f"{state} for {show_duration(status.since)}"
    parts = {
        "state": f" {status.address}  {waits or state}",
        "cropped": "cut off" if status.cropped else "",
        "watching": "" if status.driving else f"watching, {status.driver or 'nobody'} types",
        "place": status.place or "",
        "detail": status.detail,
        "notice": status.notice,
        "others": "" if status.notice or waits else _count(status.others),
        "leave": f"{status.prefix} d detaches" if status.prefix else "",
        "help": f", {status.prefix} ? helps" if status.prefix else "",
    }
    return {name: _shown_safely(text) for name, text in parts.items()}


def _shown_safely(foreign: str) -> str:
    # A variation selector makes the character before it wider in some terminals and not in others.
    return "".join(char for char in printable(foreign) if not unicodedata.name(char, "").startswith("VARIATION SEL"))


def _count(others: Others) -> str:
    counts = ((others.stopped, "stopped"), (others.held, "held"))
    counted = ", ".join(f"{count} {state}" for count, state in counts if count)
    return f"others: {counted}" if counted else ""


def count_others(rank: RankInfo, ranks: Iterable[RankInfo]) -> Others:
    """Count the other ranks of the same job."""
    states = [other.state for other in ranks if other.job == rank.job and other.key != rank.key]
    return Others(states.count(RankState.STOPPED), states.count(RankState.HELD))


def status_of(attachment: Attachment, others: Others, now: float, *, prefix: str, pending: bool) -> Status:
    """Return the line's contents; ``prefix`` is the escape key's name, ``pending`` is True if it was just typed."""
    state, since, place, wait_note = _state(attachment, now)
    notice = attachment.notice(now) or wait_note or _advice(attachment, others, state, since, prefix)
    stop = attachment.report.stop if attachment.report is not None else None
    return Status(
        address=attachment.rank.address,
        state=state,
        since=since,
        place=show_place(place),
        others=others,
        driving=attachment.driving,
        driver=attachment.driver,
        detail=stop.text if stop is not None and state in (CRASHED, BUSY, RankState.STOPPED.value) else "",
        notice=notice,
        prefix=prefix,
        pending=pending,
        cropped=attachment.cropped,
        waits_in=attachment.motion.waits_in if state == RankState.RUNNING.value else "",
    )


def _advice(attachment: Attachment, others: Others, state: str, since: float | None, prefix: str) -> str:
    """Return advice for the user in this state."""
    report = attachment.report
    if report is None:
        return ""
    if state == CRASHED and attachment.driving:
        return _how_to_end(attachment)
    if state == RankState.HELD.value and report.waits is not None:
        return f"waits for rank{'s' if len(report.waits.ranks) > 1 else ''} {format_ranks(report.waits.ranks)}"
    if report.stepping and report.queued:
        threads = "1 thread waits" if report.queued == 1 else f"{report.queued} threads wait"
        return f"{threads} to stop; Ctrl-C ends the step if it waits for {'it' if report.queued == 1 else 'them'}"
    if state == RankState.RUNNING.value and since is not None and others.held:
        held = f"{others.held} held rank{'s wait' if others.held > 1 else ' waits'}"
        release = f"{prefix} : release" if prefix else "dbg-attach release held"
        return f"{held}, so a collective would wait forever; to release: {release}"
    return _keys(attachment)


def _how_to_end(attachment: Attachment) -> str:
    if attachment.engine != LINE_ENGINE:
        return "q ends it"  # only q, because PuDB refuses to continue after a crash
    return "c or q ends it" if attachment.conversation.prompt is not None else ""


def _keys(attachment: Attachment) -> str:
    """Describe what Ctrl-C does while no prompt is open, and count the lines that wait for the next prompt."""
    conversation, report = attachment.conversation, attachment.report
    is_drawn = attachment.engine not in (None, LINE_ENGINE)
    if not attachment.driving or conversation.prompt is not None or report is None or is_drawn:
        return ""
    moves = report.stop is None or report.stepping
    if report.session is None and not moves:
        return "the debugger is opening"
    waiting = f"; {conversation.held} typed ahead" if conversation.held else ""
    return f"Ctrl-C {'breaks in' if moves else 'interrupts'}{waiting}"


def _state(attachment: Attachment, now: float) -> tuple[str, float | None, Place | None, str]:
    """Return the state, its seconds, the place, and the notice that is shown as long as the state lasts."""
    report, motion = attachment.report, attachment.motion
    stopped_at = report.stop.where if report is not None and report.stop is not None else None
    if (missing := missing_on_the_way(attachment.away, now)) is not None:
        state, since, notice = missing
        return state, since, stopped_at, notice
    if attachment.rank.state is RankState.UNRESPONSIVE:
        return "unresponsive", now - motion.heard, stopped_at, ""
    if report is None:
        return attachment.rank.state.value, None, attachment.rank.where, ""
    if report.stop is not None and report.stop.reason == CRASH and report.state is RankState.STOPPED:
        return CRASHED, None, stopped_at, ""
    if motion.since is None:
        is_busy = report.state is RankState.STOPPED and attachment.engine == LINE_ENGINE and bool(_keys(attachment))
        return BUSY if is_busy else report.state.value, None, stopped_at, ""
    moving = now - motion.since
    if moving < LONG_STEP_SECONDS:
        return "running", None, stopped_at, ""
    return "running", moving, motion.pulse or stopped_at, ""
