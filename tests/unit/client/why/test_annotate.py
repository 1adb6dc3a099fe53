from __future__ import annotations

import pytest

from dbg_client.views.groups import AnswerGroup
from dbg_client.why.collective_matching import PendingCollective, match_collectives
from dbg_client.why.collectives import missing_from_collectives, pending_document, show_pending
from dbg_client.why.process_groups import RankEvidence
from dbg_wire.records.evidence import Evidence
from tests.conftest import Approved
from tests.support.rank_evidence import LOADING, REDUCING, call, elsewhere, group, rank_with, waiting


def pending_of(*everybody: RankEvidence) -> PendingCollective:
    (pending,) = match_collectives(everybody)[0].all_pending
    return pending


def test_a_recorded_collective_is_named_with_the_number_of_arrived_ranks() -> None:
    pending = pending_of(waiting(0), waiting(1), waiting(3), elsewhere(2))

    assert show_pending(pending) == "waits in all_reduce #5 of dp_0, 3 of 4 there"
    assert pending_document(pending) == {
        "name": "all_reduce",
        "sequence": 5,
        "group": "dp_0",
        "there": 3,
        "of": 4,
    }


def calling(number: int, name: str, sequence: int | None = 5, **changes: object) -> RankEvidence:
    return rank_with(number, groups=[group(at=4)], calls=[call(sequence, name, **changes)])


@pytest.mark.parametrize(
    "everybody",
    [
        pytest.param([calling(0, "recv", peer=2, is_receive=True), rank_with(2)], id="a receive"),
        pytest.param([calling(1, "send", peer=3), rank_with(3, groups=[group()])], id="a send"),
        pytest.param([calling(0, "recv", None, peer=2, is_receive=True, tag=12)], id="a tag"),
        pytest.param([calling(0, "recv", None, peer=2, is_receive=True, tag=0)], id="no tag"),
        pytest.param([*(calling(n, "broadcast", root=1) for n in (0, 1)), elsewhere(2)], id="one root"),
        pytest.param([calling(n, "broadcast", root=n) for n in (0, 1)], id="roots that differ"),
        pytest.param([waiting(0, name="all\x1b]2;owned\x07reduce"), elsewhere(1)], id="a hostile name"),
    ],
)
def test_a_call_is_named_with_its_peer_tag_and_root(approved: Approved, everybody: list[RankEvidence]) -> None:
    shown = show_pending(pending_of(*everybody))

    assert shown.isprintable()
    approved(shown)


def missing(*everybody: RankEvidence) -> AnswerGroup | None:
    return missing_from_collectives(match_collectives(everybody))


def test_missing_ranks_form_a_group() -> None:
    found = missing(waiting(0), waiting(1), elsewhere(2), elsewhere(3))

    assert found is not None
    assert (found.id, [rank.rank for rank in found.ranks]) == ("@missing", [2, 3])
    assert found.text == "not reached all_reduce #5 of dp_0"


BARE = [rank_with(number, frames=REDUCING, age=30.0, evidence=Evidence()) for number in range(3)]


@pytest.mark.parametrize(
    "everybody",
    [
        pytest.param([waiting(number) for number in range(4)], id="all are there"),
        pytest.param([elsewhere(number) for number in range(4)], id="all is finished"),
        pytest.param([waiting(0), waiting(1)], id="the others have not answered"),
        pytest.param([*BARE, rank_with(3, frames=LOADING, evidence=Evidence())], id="stacks alone"),
    ],
)
def test_no_group_is_formed_without_known_missing_ranks(everybody: list[RankEvidence]) -> None:
    assert missing(*everybody) is None


def test_the_slowest_rank_of_a_progressing_job_is_not_missing() -> None:
    young = rank_with(0, groups=[group(at=4)], calls=[call(5, age=0.02)])
    assert missing(young, elsewhere(1)) is None
    unknown = rank_with(0, groups=[group(at=4)], calls=[call(5, age=None)])
    assert missing(unknown, elsewhere(1)) is not None
