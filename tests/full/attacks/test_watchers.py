"""Attacks of those who have the token of watchers: no key waits for long."""

from __future__ import annotations

import pytest

from dbg_wire import limits
from tests.full.attacks import terminals
from tests.full.attacks.cases import Case, measure
from tests.full.attacks.conftest import Attacked

ROLE = {"role": "watcher"}
LARGE = {"size": limits.MAX_DATA_BYTES, "times": 4}

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
    Case("60 watchers of a rank that draws 64 KiB at once", terminals.shown_to_many, LARGE),
    Case("watchers that type", terminals.keys, ROLE),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_watchers_delay_no_key(attacked: Attacked, case: Case) -> None:
    measure(attacked, case)
