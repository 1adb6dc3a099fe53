"""Which state of a rank and which phase of a stop may follow which, as literal tables.

An illegal move is a failed lookup. Its error names table, state and event.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from dbg_wire.errors import IllegalMove
from dbg_wire.records.ranks import RankState


class RankEvent(str, enum.Enum):
    """What can happen to a rank, as the broker sees it."""

    RUNS = "runs"
    STOPS = "stops"
    HOLDS = "holds"
    FALLS_SILENT = "falls silent"
    CONNECTION_ENDS = "connection ends"
    SAYS_GOODBYE = "says goodbye"
    IS_FOUND_DEAD = "is found dead"


_R, _E = RankState, RankEvent

_ANY_REPORT = {_E.RUNS: _R.RUNNING, _E.STOPS: _R.STOPPED, _E.HOLDS: _R.HELD}
_ANY_END = {_E.CONNECTION_ENDS: _R.LOST, _E.SAYS_GOODBYE: _R.EXITED}

RANK_MOVES: Mapping[RankState | None, Mapping[RankEvent, RankState]] = {
    # A rank enters by its first report. A lost rank comes back in the same way, in the state that it then reports.
    None: _ANY_REPORT,
    **dict.fromkeys(_ANY_REPORT.values(), _ANY_REPORT | _ANY_END | {_E.FALLS_SILENT: _R.UNRESPONSIVE}),
    # The state before the silence is not kept here: the broker applies the rank's last report again when it is heard.
    _R.UNRESPONSIVE: _ANY_REPORT | _ANY_END,
    _R.LOST: _ANY_REPORT | {_E.IS_FOUND_DEAD: _R.EXITED},
    # This state is final. The connection still closes after the goodbye, which changes nothing.
    _R.EXITED: {_E.CONNECTION_ENDS: _R.EXITED},
}


def move_rank(state: RankState | None, event: RankEvent) -> RankState:
    """Return the state that follows; raise IllegalMove if none does."""
    try:
        return RANK_MOVES[state][event]
    except KeyError:
        raise IllegalMove("a rank", "unknown" if state is None else state.value, event.value) from None


class StopPhase(str, enum.Enum):
    """The phase of a rank's current stop, as the rank sees it."""

    NONE = "none"
    WAITING = "waiting"
    """The thread is halted and no debugger is open yet."""
    OPEN = "open"
    """The thread is halted inside a debugger."""
    STEPPING = "stepping"
    """The thread runs on to the end of the last step; the stop is still the same."""


class StopEvent(str, enum.Enum):
    """What can happen to a stop."""

    ARRIVES = "arrives"
    OPENS = "opens"
    STEPS = "steps"
    HALTS = "halts"
    ENDS = "ends"


_P, _S = StopPhase, StopEvent

STOP_MOVES: Mapping[StopPhase, Mapping[StopEvent, StopPhase]] = {
    _P.NONE: {_S.ARRIVES: _P.WAITING},
    _P.WAITING: {_S.OPENS: _P.OPEN, _S.ENDS: _P.NONE},
    # Leaving a debugger for another one on the same stop goes back to waiting.
    _P.OPEN: {_S.STEPS: _P.STEPPING, _S.HALTS: _P.WAITING, _S.ENDS: _P.NONE},
    # A thread that reaches the end of the step halts in the open debugger. A thread that ends before ends the stop.
    _P.STEPPING: {_S.OPENS: _P.OPEN, _S.ENDS: _P.NONE},
}


def move_stop(phase: StopPhase, event: StopEvent) -> StopPhase:
    """Return the phase that follows; raise IllegalMove if none does."""
    try:
        return STOP_MOVES[phase][event]
    except KeyError:
        raise IllegalMove("a stop", phase.value, event.value) from None
