"""Messages of terminals to a line debugger: which terminal may send them, and how often. The rank judges content."""

from __future__ import annotations

from dbg_broker.audit.entries import What
from dbg_broker.hub import audited
from dbg_broker.hub.links import TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.terminals.seats import InputVerdict
from dbg_wire import limits
from dbg_wire.messages import Complete, Interrupt, RefusalCode, Replay, Reply

REPLAY_COST = limits.MAX_INPUT_PER_SECOND
"""Bytes that a replay counts: one a second for a terminal, since it may be 1 MiB for each terminal at the rank."""

FOR_DRIVERS = (Reply, Complete, Interrupt)
"""What only the driver may send."""


def pass_on(hub: Hub, link: TerminalLink, message: Reply | Complete | Interrupt) -> None:
    """Pass a message of the driver on to the rank, and refuse it from another terminal.

    The message is lost if the rank is lost: the terminal gets a new seat when the rank is back, and sends it again.
    """
    verdict = hub.seats.judge_input(link.number, message.generation)
    viewer = hub.seats.viewer(link.number)
    if verdict is InputVerdict.NOT_ATTACHED or viewer is None:
        hub.refuse(link.connection, RefusalCode.NOT_ATTACHED, "this terminal is not attached to a rank")
    elif verdict is InputVerdict.NOT_DRIVING:
        text = "another terminal types at this rank; take the keyboard first"
        hub.refuse(link.connection, RefusalCode.NOT_DRIVING, text)
    elif verdict is InputVerdict.STALE:
        text = "it was typed for an earlier turn at the keyboard"
        hub.refuse(link.connection, RefusalCode.NOT_DRIVING, text)
    else:
        if isinstance(message, Interrupt):
            audited.note(hub, link, What.INTERRUPT, [viewer.key])
        elif isinstance(message, Reply) and hub.audits_input:
            audited.note(hub, link, What.INPUT, [viewer.key], text=message.text)
        if isinstance(message, Reply):
            hub.recorded.typed(viewer.key, f"{message.text}\r".encode("utf-8", "replace"))
        hub.tell_rank(viewer.key, message)


def replay(hub: Hub, link: TerminalLink, message: Replay) -> None:
    """Ask the rank for its log for a terminal that sits there; the log goes to all terminals there."""
    viewer = hub.seats.viewer(link.number)
    if viewer is None:
        hub.refuse(link.connection, RefusalCode.NOT_ATTACHED, "this terminal is not attached to a rank")
        return
    seconds = link.rate.spend(REPLAY_COST, hub.clock())
    if seconds > 0:
        link.connection.rest(seconds)
    hub.tell_rank(viewer.key, message)
