"""What PuDB draws, and what the rank is told as meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dbg_agent.stop import busy
from dbg_wire.ranks import RankState
from tests.agent.pudb_viewer import Viewer, play


def test_a_rank_that_draws_is_told_as_stopped_however_long_pudb_has_worked_before(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminals leave out what a running rank draws: the line before would stay marked as the current one."""
    told: list[RankState] = []
    due: list[Callable[[], None]] = []
    show = viewer.rank.terminal.write
    viewer.network.later = lambda _seconds, call: due.append(call)

    def draw(data: bytes) -> None:
        while due:
            due.pop()()
        told.append(viewer.rank.rank_report().state)
        show(data)

    def script() -> None:
        # All that PuDB has begun has taken too long already, whenever the link's thread looks.
        monkeypatch.setattr(busy, "SLOW_STEP_SECONDS", 0.0)
        viewer.opens()
        viewer.type(b"nn")
        viewer.sees_current_line("total += 2")
        viewer.type(b"c")

    monkeypatch.setattr(viewer.rank.terminal, "write", draw)
    assert play(viewer, script) == 7
    assert set(told) == {RankState.STOPPED}
