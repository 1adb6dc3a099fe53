"""What the status line says of one terminal's session. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from dbg_client.attachment.attachment import Attachment
from dbg_client.views.status_line import Status, render
from dbg_client.views.waits import show_wait
from dbg_wire.errors import printable
from dbg_wire.records.ranks import Place, RankInfo, RankState
from dbg_wire.tables.engines import LINE_ENGINE
from dbg_wire.targets.rank_set import format_ranks

LONG_STEP_SECONDS = 3.0
"""Seconds of running after which the line says where the rank is; most steps end sooner."""

CRASHED = "crashed"
"""What the line calls a stop after an uncaught exception."""


@dataclass(frozen=True, slots=True)
class Others:
    """How many other ranks of the job are stopped and held."""

    stopped: int = 0
    held: int = 0


def count_others(rank: RankInfo, ranks: Iterable[RankInfo]) -> Others:
    """Count the other ranks of the same job."""
    states = [other.state for other in ranks if other.job == rank.job and other.key != rank.key]
    return Others(states.count(RankState.STOPPED), states.count(RankState.HELD))


def show_place(place: Place | None) -> str | None:
    """Return a place as people say it, ``train.py:41 in step``."""
    if place is None or not place.file:
        return None
    return printable(f"{PurePosixPath(place.file).name}:{place.line} in {place.function}")


def status_of(attachment: Attachment, others: Others, now: float, *, prefix: str, pending: bool) -> Status:
    """Return what the line shows now; ``prefix`` is the escape key's name, ``pending`` whether it was just typed."""
    state, since, place, standing = _state(attachment, now)
    said = attachment.notice(now) or standing or _cut_off(attachment)
    stop = attachment.report.stop if attachment.report is not None else None
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
        waits=show_wait(attachment.waits_in, others.stopped, others.held) if state == RankState.RUNNING.value else "",
    )


def _advice(attachment: Attachment, others: Others, state: str, since: float | None, prefix: str) -> tuple[str, ...]:
    """Return what the user should know to do in this state, in several wordings, the longest first."""
    if state == CRASHED and attachment.driving:
        return _how_to_end(attachment)
    report = attachment.report
    if state == RankState.HELD.value and report is not None and report.waits is not None:
        ranks = format_ranks(report.waits.ranks)
        return (f"waits for rank{'s' if len(report.waits.ranks) > 1 else ''} {ranks}", f"waits for {ranks}")
    if state == RankState.RUNNING.value and since is not None and others.held:
        return _who_waits(attachment, others, prefix)
    return ()


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
    release = f"{prefix} : release" if prefix else "dbg-attach held --release"
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
    if attachment.link_down_since is not None:
        notice = f"reconnecting; keys are kept ({attachment.link_down_reason})"
        return "broker gone", now - attachment.link_down_since, stopped_at, notice
    if attachment.broker_silent_since is not None:
        notice = "nothing comes from the broker; keys are kept"
        return "broker silent", now - attachment.broker_silent_since, stopped_at, notice
    if attachment.absent_since is not None:
        notice = "the broker is back, the rank has not called it yet; keys are kept"
        return "away", now - attachment.absent_since, stopped_at, notice
    if attachment.lost_since is not None:
        return "lost", now - attachment.lost_since, stopped_at, "its connection ended; it may come back"
    if attachment.rank.state is RankState.UNRESPONSIVE:
        return "unresponsive", now - attachment.heard, stopped_at, None
    if report is None:
        return attachment.rank.state.value, None, attachment.rank.where, None
    if report.stop is not None and report.stop.reason == "crash" and report.state is RankState.STOPPED:
        return CRASHED, None, stopped_at, None
    if attachment.moving_since is None:
        return report.state.value, None, stopped_at, None
    moving = now - attachment.moving_since
    if moving < LONG_STEP_SECONDS:
        return "running", None, stopped_at, None
    return "running", moving, attachment.pulse or stopped_at, None


def toolbar_of(attachment: Attachment, others: Others, now: float, *, prefix: str, pending: bool, columns: int) -> str:
    """Return one line, as wide as the terminal but for its last column."""
    status = status_of(attachment, others, now, prefix=prefix, pending=pending)
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
    if attachment.rank.is_classic:
        key = "a stock pdb can't be interrupted"
    waiting = f"; {conversation.held} typed ahead" if conversation.held else ""
    return replace(status, state=state, notices=(f"{key}{waiting}",))
