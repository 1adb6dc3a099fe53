from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_wire.errors import AmbiguousTarget, NoSuchRank
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState
from dbg_wire.targets.selection import Selection, parse_target, select, unique_target, unique_targets
from tests.support.rank_infos import rank

unhurried = settings(deadline=None)

crowds = st.lists(
    st.builds(
        lambda host, number, child, **rest: rank(f"{host}:{number}{child}", **rest),
        st.sampled_from(["g1", "g2", "7", "123456789012"]),
        st.integers(0, 9),
        st.sampled_from(["", "", ".1"]),
        job=st.sampled_from(["A", "B", "0-3", "4711.0"]),
        local=st.none() | st.integers(0, 3),
        pid=st.integers(1, 3),
        state=st.sampled_from([RankState.STOPPED, RankState.STOPPED, *RankState]),
        since=st.integers(0, 3).map(float),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda info: (info.full_address, info.pid),
)
typed = st.lists(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["", "", "!"]),
        st.sampled_from(["", "", "", "A/", "B/", "*/"]),
        st.sampled_from(
            ["all", "stopped", "g1:*", "g*:0-3", "0-9/3", "5", "g1:0", "g2:1", "g[1-2]:2", "g1:1.1", "4@1"]
        ),
    ),
    min_size=1,
    max_size=3,
).map(",".join)


@unhurried
@given(crowds)
def test_a_unique_target_selects_its_rank(ranks: list[RankInfo]) -> None:
    at_once = unique_targets(ranks)
    for info in ranks:
        text = unique_target(info, ranks)
        assert at_once[info.key] == text
        assert select(parse_target(text), ranks).ranks == (info,)
        assert parse_target(text).single


def outcome(text: str, ranks: list[RankInfo], *, any_job: bool = False) -> Selection | AmbiguousTarget | NoSuchRank:
    try:
        return select(parse_target(text), ranks, any_job=any_job)
    except (AmbiguousTarget, NoSuchRank) as error:
        return error


@unhurried
@given(crowds, typed)
def test_a_selection_keeps_its_promises(ranks: list[RankInfo], text: str) -> None:
    selection = outcome(text, ranks)
    if not isinstance(selection, Selection):
        return
    found = selection.ranks
    assert list(found) == sorted(
        found, key=lambda info: (info.job, info.rank, info.child or -1, info.address, info.pid)
    )
    assert len({info.key for info in found}) == len(found) > 0
    assert len(found) == 1 or not selection.single
    assert len({info.job for info in found}) == 1 or "/" in text
    live = {info.full_address for info in found if info.state in LIVE_STATES}
    if "@" not in text:
        assert not [info for info in found if info.state not in LIVE_STATES and info.full_address in live]


@unhurried
@given(crowds, typed)
def test_each_candidate_selects_ranks_of_one_job_that_lives(ranks: list[RankInfo], text: str) -> None:
    refusal = outcome(text, ranks)
    if not isinstance(refusal, AmbiguousTarget):
        return
    assert len(set(refusal.candidates)) == len(refusal.candidates) > 1
    for candidate in refusal.candidates:
        found = select(parse_target(candidate), ranks).ranks
        assert len({info.job for info in found}) == 1
        assert any(info.state in LIVE_STATES for info in found)


@unhurried
@given(crowds, typed, st.booleans())
def test_the_order_of_ranks_does_not_matter(ranks: list[RankInfo], text: str, any_job: bool) -> None:
    first, second = outcome(text, ranks, any_job=any_job), outcome(text, ranks[::-1], any_job=any_job)
    assert first == second or str(first) == str(second)
