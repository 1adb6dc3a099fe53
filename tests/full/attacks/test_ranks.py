"""Attacks of those who have the token of ranks: no key waits for long."""

from __future__ import annotations

import pytest

from dbg_wire import limits
from tests.full.attacks import ranks
from tests.full.attacks.cases import Case, measure
from tests.full.attacks.conftest import Attacked

CASES = [
    Case("300 ranks that send unknown messages", ranks.unknown_messages),
    Case("messages of 300,000 objects", ranks.many_objects),
    Case("ranks that stop and go on", ranks.states),
    Case("answers with 4,096 frames", ranks.deep_stacks),
    Case("reports of 100 long breakpoints", ranks.breakpoints),
    Case("more than is kept of one rank", ranks.too_much_to_keep),
    Case("100 ranks that wait for 4,096 others each", ranks.holds),
    Case("ranks that come and go", ranks.comings),
    Case("pulses with 256 frames", ranks.pulses),
    Case("pings", ranks.pings),
    Case("parts of one byte", ranks.fragments),
    Case("output in pieces of one byte", ranks.output),
    Case("output of 64 KiB at once", ranks.output, {"size": limits.MAX_DATA_BYTES, "times": 4}),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_ranks_delay_no_key(attacked: Attacked, case: Case) -> None:
    measure(attacked, case)
