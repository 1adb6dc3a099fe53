"""Say what became of the stops of this process, while it runs. Any thread may ask; nothing is read from a disk."""

from __future__ import annotations

from dbg_agent.stop_at import points
from dbg_wire.records.line_breakpoints import StopState
from dbg_wire.records.record import fitted
from dbg_wire.records.stop_points import StopAt


def stop_states() -> list[StopState]:
    """Return the state of each stop that this process was started with, in their order."""
    return [_state_of(point) for point in points.POINTS]


def _state_of(point: points.Point) -> StopState:
    # An option and what was typed behind it.
    typed = str(point.stop).partition(" ")[2]
    line = point.line if isinstance(point.stop, StopAt) else None
    problem = points.COMPILED if point.is_compiled and not point.is_reached else ""
    if not point.is_placed:
        problem = point.problem
    if point.passed_by:
        problem = f"{points.PASSED_BY} {point.passed_by}"
    return fitted(StopState, stop=typed, line=line, armed=point.is_placed, hits=point.hits, problem=problem)
