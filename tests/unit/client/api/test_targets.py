"""What a program writes between the brackets of a job."""

from __future__ import annotations

import pytest

from dbg_client.api.targets import Wanted, read_wanted, target_text
from dbg_client.core.remembered_groups import UnknownGroup
from dbg_wire.errors import BadInput
from dbg_wire.targets.selection import select
from tests.unit.client.fake_broker import make_rank


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("0-7,!3", "0-7,!3"),
        (5, "5"),
        ([0, 3], "0,3"),
        (slice(0, 8), "0-7"),
        (slice(0, 8, 2), "0-7/2"),
        (slice(None), "all"),
    ],
)
def test_ranks_are_named_as_in_python_and_as_in_the_terminal(wanted: Wanted, text: str) -> None:
    assert target_text(wanted) == text


@pytest.mark.parametrize("wanted", [[], slice(4, 4), slice(3, None), slice(8, 2)])
def test_what_names_no_rank_is_an_error_that_says_what_to_write(wanted: Wanted) -> None:
    with pytest.raises(BadInput, match=r"as in job\["):
        target_text(wanted)


def test_a_target_is_of_the_job_alone_and_knows_the_groups_of_the_last_answer() -> None:
    ranks = [make_rank(0), make_rank(1), make_rank(0, key="other", job="other", address="gpu013:0")]
    assert [rank.job for rank in select(read_wanted("all", "4711.0", {}), ranks).ranks] == ["4711.0", "4711.0"]
    group = read_wanted("@1", "4711.0", {"@1": frozenset({ranks[1].key})})
    assert select(group, ranks).ranks == (ranks[1],)
    with pytest.raises(UnknownGroup, match="no group @2"):
        read_wanted("@2", "4711.0", {"@1": frozenset({ranks[1].key})})
