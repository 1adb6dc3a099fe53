"""PuDB draws values of wide characters."""

from __future__ import annotations

import pytest

from tests.unit.agent.pudb_stops import stop_with_each
from tests.unit.agent.pudb_viewer import Viewer, drive


@pytest.mark.parametrize("columns", [40, 79, 100])
def test_wide_characters_are_drawn_at_every_length(viewer: Viewer, columns: int) -> None:
    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look(columns=columns)
        for number in range(1, 31):
            viewer.waits_for_stop(number)
            viewer.sees("漢")
            viewer.sees(f"number: {number}")
            viewer.type(b"c")

    finish = drive(viewer, script)
    stop_with_each(viewer.rank, ["漢" * length for length in range(1, 60, 2)])
    finish()
    assert viewer.rank.stops.number == 30
    assert viewer.rank.broker.warned == set()
