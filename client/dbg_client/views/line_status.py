"""What the toolbar under a line debugger's prompt says. Pure."""

from __future__ import annotations

from dataclasses import replace

from dbg_client.model import Attachment
from dbg_client.status_line import render

from .status import Others, status_of


def toolbar_of(attachment: Attachment, others: Others, now: float, *, prefix: str, pending: bool, columns: int) -> str:
    """Return one line, as wide as the terminal but for its last column."""
    status = status_of(attachment, others, now, prefix=prefix, pending=pending)
    return render(replace(status, notice=status.notice or _hint(attachment)), columns, color=False)


def _hint(attachment: Attachment) -> str | None:
    """Return what the keys mean that matter now, where it isn't a prompt that says it."""
    conversation = attachment.conversation
    if not attachment.driving or conversation.prompt is not None or attachment.report is None:
        return None
    waiting = f"; {conversation.held} typed ahead" if conversation.held else ""
    if attachment.report.stop is None or attachment.report.stepping:
        return f"running; Ctrl-C breaks in{waiting}"
    return f"busy; Ctrl-C interrupts{waiting}" if attachment.engine else None
