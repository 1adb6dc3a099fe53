"""Attacks of those who have the token of watchers: no key waits for long."""

from __future__ import annotations

import pytest

from tests.attacks import terminals
from tests.attacks.cases import Case, measure
from tests.attacks.conftest import Attacked
from tests.attacks.figures import Figures

pytestmark = [pytest.mark.alone, pytest.mark.integration]

ROLE = {"role": "watcher"}

CASES = [
    Case("watchers that ask for the list", terminals.lists, ROLE),
    Case("watchers that ask for the list and don't read", terminals.lists, ROLE | {"reads": False}),
    Case("watchers that follow a restless job", terminals.subscribers, ROLE),
    Case("60 watchers that listen to the log points of 50 ranks", terminals.log_texts, ROLE),
    Case("watchers that ask 2,500 ranks for their stacks", terminals.questions, ROLE | {"action": "where"}),
    Case("watchers that ask one rank for its screen", terminals.one_rank, ROLE | {"action": "screen"}),
    Case("watchers that sit down and leave", terminals.seats, ROLE),
    Case("watchers that change their windows", terminals.windows, ROLE),
    Case("60 watchers of a rank that draws bytes", terminals.shown_to_many),
    Case("watchers that type", terminals.keys, ROLE),
]


@pytest.fixture(scope="module")
def quiet(attacked: Attacked) -> Figures:
    """The figures without an attack."""
    return attacked.echo.measure(1)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_watchers_delay_no_key(attacked: Attacked, quiet: Figures, case: Case) -> None:
    measure(attacked, quiet, case)
