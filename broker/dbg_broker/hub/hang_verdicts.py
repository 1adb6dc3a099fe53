"""Verdicts of ``why`` that terminals tell, which the broker passes on to those who are told of events."""

from __future__ import annotations

from dbg_broker.home.bearer import Role
from dbg_broker.hub.links import TerminalLink
from dbg_broker.hub.state import Hub
from dbg_wire.messages import Hang


def take(hub: Hub, link: TerminalLink, message: Hang) -> None:
    """Pass a verdict on; one of a watcher, or on a job that its token is not for, is dropped."""
    if hub.occasions is None or link.role is Role.WATCHER or link.bearer.job not in (None, message.job):
        return
    hub.occasions.hang(message, link.bearer.shown if link.bearer.name else "")
