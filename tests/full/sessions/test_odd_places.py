"""``set_trace()`` in all odd places, with a broker and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.e2e.test_odd_places import IN_CI, SITUATIONS, stops_and_goes_on
from tests.support.processes import Processes


@pytest.mark.parametrize("name", SITUATIONS)
def test_without_a_broker_it_goes_on_with_one_line(name: str, processes: Processes, home: Path) -> None:
    situation = SITUATIONS[name]
    rank = situation.start(processes, home, DBG_CONNECT_TIMEOUT="0.2")
    situation.check(rank)


@pytest.mark.parametrize("name", [name for name in SITUATIONS if name not in IN_CI])
def test_with_a_broker_it_stops_and_opens_and_goes_on(
    name: str, *, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    stops_and_goes_on(name, processes=processes, home=home, open_terminal=open_terminal)
