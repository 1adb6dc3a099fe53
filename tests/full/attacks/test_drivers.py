"""Attacks of those who have the token of drivers: no key of another driver waits for long."""

from __future__ import annotations

import pytest

from tests.full.attacks import terminals
from tests.full.attacks.cases import Case, measure
from tests.full.attacks.conftest import Attacked

ROLE = {"role": "driver"}

CASES = [
    Case("drivers that ask 2,500 ranks for a value", terminals.questions, ROLE | {"action": "eval"}),
    Case("the same, and they don't read", terminals.questions, ROLE | {"action": "eval", "reads": False}),
    Case("drivers that ask 2,500 ranks for their stacks", terminals.questions, ROLE | {"action": "where"}),
    Case("drivers that ask one rank", terminals.one_rank, ROLE | {"action": "eval", "watched": 60}),
    Case("drivers that come and go at ranks", terminals.seats, ROLE),
    Case("60 drivers that take the keyboard", terminals.takes),
    Case("drivers that change their windows", terminals.windows, ROLE),
    Case("60 drivers that type, and ranks that draw", terminals.keys, ROLE),
    Case("completions and break-ins", terminals.line_messages),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_drivers_delay_no_other_driver(attacked: Attacked, case: Case) -> None:
    measure(attacked, case)
