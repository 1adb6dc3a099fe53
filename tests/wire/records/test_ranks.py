"""How the end of a rank is put into words."""

from __future__ import annotations

import pytest

from dbg_wire.records.ranks import DIED, RankState, describe_exit, exit_state
from tests.client.fake_broker import make_rank


@pytest.mark.parametrize(
    ("status", "detail", "short", "long"),
    [
        (0, "", "exited with status 0", ""),
        (1, "ValueError: x", "exited with status 1", ""),
        (-9, "SIGKILL", "killed by SIGKILL", ""),
        (-50, "signal 50; core likely at /x", "killed by signal 50", ""),
        (None, "", "exited", ""),
        (-15, "SIGTERM from `timeout 60`; core", "killed by SIGTERM", "killed by SIGTERM from `timeout 60`"),
        (-9, "SIGKILL likely from x", "killed by SIGKILL", "killed by SIGKILL likely from x"),
        (-9, "SIGKILL from a\x1b[2J", "killed by SIGKILL", "killed by SIGKILL from a\\x1b[2J"),
    ],
)
def test_an_end_says_who_ended_it_if_that_is_known(status: int | None, detail: str, short: str, long: str) -> None:
    rank = make_rank(0, state=RankState.EXITED, reason=None, exit=status, detail=detail)
    assert exit_state(rank) == short
    assert describe_exit(rank) == (long or short)


def test_a_process_that_is_gone_has_died() -> None:
    assert describe_exit(make_rank(0, state=RankState.EXITED, reason=DIED, exit=None)) == DIED
