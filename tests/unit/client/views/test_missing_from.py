from __future__ import annotations

from dbg_client.core.collective_matching import match_collectives
from dbg_client.core.process_groups import RankEvidence
from dbg_client.views.groups import AnswerGroup
from dbg_client.views.stacks import missing_from_collectives
from dbg_wire.records.evidence import Evidence
from tests.support.rank_evidence import LOADING, REDUCING, call, elsewhere, group, told, waiting


def missing(*everybody: RankEvidence) -> AnswerGroup | None:
    return missing_from_collectives(match_collectives(everybody))


def test_who_has_not_come_is_a_group() -> None:
    found = missing(waiting(0), waiting(1), elsewhere(2), elsewhere(3))

    assert found is not None
    assert (found.id, [rank.rank for rank in found.ranks]) == ("@missing", [2, 3])
    assert found.text == "not come to all_reduce #5 of dp_0"


def test_nobody_is_missing_where_all_are_there_or_all_is_finished() -> None:
    assert missing(*(waiting(number) for number in range(4))) is None
    assert missing(*(elsewhere(number) for number in range(4))) is None


def test_in_a_job_that_goes_on_the_slowest_rank_is_not_missing() -> None:
    young = told(0, groups=[group(at=4)], calls=[call(5, age=0.02)])
    assert missing(young, elsewhere(1)) is None
    unknown = told(0, groups=[group(at=4)], calls=[call(5, age=None)])
    assert missing(unknown, elsewhere(1)) is not None


def test_a_rank_that_does_not_answer_is_not_known_to_be_missing() -> None:
    assert missing(waiting(0), waiting(1)) is None


def test_a_rank_that_is_missing_from_two_collectives_is_one_rank_with_both() -> None:
    first = told(0, groups=[group("1", "0,2", title="tp", at=2)], calls=[call(3, group="1")])
    second = told(1, groups=[group("2", "1-2", title="pp", at=6)], calls=[call(7, "recv", group="2", peer=2)])
    both = told(2, groups=[group("1", "0,2", title="tp", at=2), group("2", "1-2", title="pp", at=6)])

    found = missing(first, second, both)

    assert found is not None
    assert [rank.rank for rank in found.ranks] == [2]
    assert found.text == "not come to recv #7 of pp with rank 1 (1); not come to all_reduce #3 of tp (1)"


def test_what_is_only_on_stacks_names_nobody() -> None:
    bare = [told(number, frames=REDUCING, age=30.0, evidence=Evidence()) for number in range(3)]
    assert missing(*bare, told(3, frames=LOADING, evidence=Evidence())) is None
