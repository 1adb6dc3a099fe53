"""What may follow what: the states of a rank and the phases of a stop, as literal tables.

An illegal move is a failed lookup. Its error names table, state and event.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from .errors import IllegalMove
from .ranks import RankState


class RankEvent(str, enum.Enum):
    """Name what can happen to a rank, as the broker sees it."""

    RUNS = "runs"
    STOPS = "stops"
    HOLDS = "holds"
    FALLS_SILENT = "falls silent"
    CONNECTION_ENDS = "connection ends"
    SAYS_GOODBYE = "says goodbye"
    IS_FOUND_DEAD = "is found dead"


_R, _E = RankState, RankEvent

_ANY_REPORT = {_E.RUNS: _R.RUNNING, _E.STOPS: _R.STOPPED, _E.HOLDS: _R.HELD}

RANK_MOVES: Mapping[RankState | None, Mapping[RankEvent, RankState]] = {
    # A rank enters by its first report. It comes back from being lost the same way, with whatever is true by then.
    None: _ANY_REPORT,
    _R.RUNNING: _ANY_REPORT
    | {_E.FALLS_SILENT: _R.UNRESPONSIVE, _E.CONNECTION_ENDS: _R.LOST, _E.SAYS_GOODBYE: _R.EXITED},
    _R.STOPPED: _ANY_REPORT
    | {_E.FALLS_SILENT: _R.UNRESPONSIVE, _E.CONNECTION_ENDS: _R.LOST, _E.SAYS_GOODBYE: _R.EXITED},
    _R.HELD: _ANY_REPORT | {_E.FALLS_SILENT: _R.UNRESPONSIVE, _E.CONNECTION_ENDS: _R.LOST, _E.SAYS_GOODBYE: _R.EXITED},
    # What it was before it fell silent is not kept here: whoever hears it again repeats its last report.
    _R.UNRESPONSIVE: _ANY_REPORT | {_E.CONNECTION_ENDS: _R.LOST, _E.SAYS_GOODBYE: _R.EXITED},
    _R.LOST: _ANY_REPORT | {_E.IS_FOUND_DEAD: _R.EXITED},
    # Final. The connection still closes after the goodbye, and that is no news.
    _R.EXITED: {_E.CONNECTION_ENDS: _R.EXITED},
}


def move_rank(state: RankState | None, event: RankEvent) -> RankState:
    """Return the state that follows; raise IllegalMove if none does."""
    try:
        return RANK_MOVES[state][event]
    except KeyError:
        raise IllegalMove("a rank", "unknown" if state is None else state.value, event.value) from None


class StopPhase(str, enum.Enum):
    """Name where the one current stop of a rank is, as the rank sees it."""

    NONE = "none"
    WAITING = "waiting"
    """The thread is halted and no debugger is open yet."""
    OPEN = "open"
    """The thread is halted inside a debugger."""
    STEPPING = "stepping"
    """The thread runs on to where the last step ends; the stop is still the same."""


class StopEvent(str, enum.Enum):
    """Name what can happen to a stop."""

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
    # A step that meets its end halts in the open debugger; one that outlives its thread ends the stop.
    _P.STEPPING: {_S.OPENS: _P.OPEN, _S.ENDS: _P.NONE},
}


def move_stop(phase: StopPhase, event: StopEvent) -> StopPhase:
    """Return the phase that follows; raise IllegalMove if none does."""
    try:
        return STOP_MOVES[phase][event]
    except KeyError:
        raise IllegalMove("a stop", phase.value, event.value) from None
