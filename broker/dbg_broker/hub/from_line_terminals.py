"""What terminals say to a line debugger: who may, and how often. What the rank makes of it is the rank's affair."""

from __future__ import annotations

from dbg_broker.hub.links import TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.terminals.seats import InputVerdict
from dbg_wire import limits
from dbg_wire.messages import Complete, Interrupt, RefusalCode, Replay, Reply

REPLAY_COST = limits.MAX_INPUT_PER_SECOND
"""Bytes that a replay counts: one a second for a terminal, since it may cost the rank and all who look 1 MiB."""

FOR_DRIVERS = (Reply, Complete, Interrupt)
"""What only the driver may send."""


def pass_on(hub: Hub, link: TerminalLink, message: Reply | Complete | Interrupt) -> None:
    """Give the rank what its driver says, and refuse it of anybody else.

    Lost if the rank is: its terminal has a new seat when the rank is back, and says it again.
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
        hub.tell_rank(viewer.key, message)


def replay(hub: Hub, link: TerminalLink, message: Replay) -> None:
    """Ask the rank for its log on behalf of any terminal that sits there; what comes goes to all of them."""
    viewer = hub.seats.viewer(link.number)
    if viewer is None:
        hub.refuse(link.connection, RefusalCode.NOT_ATTACHED, "this terminal is not attached to a rank")
        return
    seconds = link.rate.spend(REPLAY_COST, hub.clock())
    if seconds > 0:
        link.connection.rest(seconds)
    hub.tell_rank(viewer.key, message)
