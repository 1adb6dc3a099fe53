from __future__ import annotations

import pytest

from dbg_client.core.collective_matching import PendingCollective, match_collectives
from dbg_client.core.process_groups import RankEvidence
from dbg_client.views.list import show_table
from dbg_client.views.waits import pending_document, recorded_collectives, show_pending, show_wait
from dbg_wire.records.evidence import Evidence, GroupSeen
from dbg_wire.records.ranks import RankState
from tests.support.rank_evidence import REDUCING, call, elsewhere, group, told, waiting
from tests.unit.client.fake_broker import make_rank

WAITING = make_rank(6, state=RankState.RUNNING, where=None, reason=None, waits_in="all_reduce")


@pytest.mark.parametrize(
    ("collective", "stopped", "held", "expected"),
    [
        ("all_reduce", 3, 0, "waits in all_reduce for 3 stopped ranks"),
        ("barrier", 0, 1, "waits in barrier for 1 held rank"),
        ("barrier", 1, 2, "waits in barrier for 1 stopped and 2 held ranks"),
        ("barrier", 0, 0, ""),
        ("", 3, 0, ""),
    ],
)
def test_a_rank_in_a_collective_waits_for_those_that_stand(
    collective: str, stopped: int, held: int, expected: str
) -> None:
    assert show_wait(collective, stopped, held) == expected


def standing_of(*everybody: RankEvidence) -> PendingCollective:
    (standing,) = match_collectives(everybody)[0].standings
    return standing


def test_a_recorded_collective_is_named_with_who_is_there() -> None:
    standing = standing_of(waiting(0), waiting(1), waiting(3), elsewhere(2))

    assert show_pending(standing) == "waits in all_reduce #5 of dp_0, 3 of 4 there"
    assert pending_document(standing) == {
        "name": "all_reduce",
        "sequence": 5,
        "group": "dp_0",
        "there": 3,
        "of": 4,
    }


def test_a_send_or_receive_is_named_with_its_peer() -> None:
    alone = standing_of(told(0, groups=[group()], calls=[call(1, "recv", peer=2, is_receive=True)]), told(2))
    sends = standing_of(told(1, groups=[group()], calls=[call(4, "send", peer=3)]), told(3, groups=[group()]))

    assert show_pending(alone) == "waits in recv #1 of dp_0 from rank 2"
    assert show_pending(sends) == "waits in send #4 of dp_0 to rank 3"
    assert pending_document(alone) == {"name": "recv", "sequence": 1, "group": "dp_0", "there": 1, "of": 2}


def test_the_tag_of_a_send_and_the_root_of_a_collective_stand_in_its_call() -> None:
    receives = standing_of(told(0, groups=[group()], calls=[call(None, "recv", peer=2, is_receive=True, tag=12)]))
    untagged = standing_of(told(0, groups=[group()], calls=[call(None, "recv", peer=2, is_receive=True, tag=0)]))
    roots = [told(n, groups=[group(at=4)], calls=[call(5, "broadcast", root=root)]) for n, root in ((0, 1), (1, 1))]
    differ = [*roots, told(2, groups=[group(at=4)], calls=[call(5, "broadcast", root=2)])]

    assert show_pending(receives) == "waits in recv of dp_0 (tag 12) from rank 2"
    assert show_pending(untagged) == "waits in recv of dp_0 from rank 2"
    assert show_pending(standing_of(*roots, elsewhere(2))).startswith("waits in broadcast #5 of dp_0 (root 1), 2 of")
    assert show_pending(standing_of(*differ)).startswith("waits in broadcast #5 of dp_0, 3 of")


def test_of_those_who_make_a_group_only_they_are_there() -> None:
    new = GroupSeen(library="torch", name="new_group 0-3", title="0-3", members="0-3", size=4)
    made = call(None, "new_group", group="new_group 0-3", timeout=None, types="", shapes="", size=None)
    making = [told(n, groups=[group(at=0), new], calls=[made]) for n in (0, 1)]
    others = [told(n, groups=[group(at=0)], calls=[call(1, "barrier")]) for n in (2, 3)]

    shown = {show_pending(one) for one in recorded_collectives(match_collectives([*making, *others])).values()}

    assert shown == {"waits in new_group of 0-3, 2 of 4 there", "waits in barrier #1 of dp_0, 2 of 4 there"}


def test_what_is_only_on_stacks_is_no_record() -> None:
    bare = [told(number, frames=REDUCING, age=30.0, evidence=Evidence()) for number in range(3)]
    assert recorded_collectives(match_collectives(bare)) == {}
    assert set(recorded_collectives(match_collectives([waiting(0), elsewhere(1)]))) == {waiting(0).rank.key}
    assert pending_document(None) is None


def test_names_that_a_rank_tells_are_harmless() -> None:
    evil = waiting(0, name="all\x1b]2;owned\x07reduce")
    assert "\x1b" not in show_pending(standing_of(evil, elsewhere(1)))


def test_a_row_of_the_list_says_so_and_counts_the_ranks_of_its_own_job_alone() -> None:
    known = [WAITING, *(make_rank(number) for number in range(3)), make_rank(0, job="other", key="other")]

    (row,) = show_table([WAITING], 0.0, color=False, known=known).splitlines()[1:]

    assert " waits in all_reduce for 3 stopped ranks " in f"{row} "
    assert " running" in show_table([WAITING], 0.0, color=False)
