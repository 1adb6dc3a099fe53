"""What the toolbar under a line debugger's prompt says. Pure."""

from __future__ import annotations

from dataclasses import replace

from dbg_client.attachment.attachment import Attachment
from dbg_client.views.session_status import Others, status_of
from dbg_client.views.status_line import Status, render


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
