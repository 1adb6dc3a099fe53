from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_client.views.naming import Naming, clip
from dbg_wire.records.ranks import Coordinate, RankInfo
from dbg_wire.targets.selection import parse_target, select
from tests.support.rank_infos import block, changed, rank

unhurried = settings(deadline=None)

crowds = st.lists(
    st.builds(
        lambda host, number, child, **rest: rank(f"{host}:{number}{child}", **rest),
        st.sampled_from(["g1", "g2", "7"]),
        st.integers(0, 9).map(str) | st.sampled_from(["?1", "?2"]),
        st.sampled_from(["", "", ".1"]),
        job=st.sampled_from(["A", "B", "4711.0"]),
        pid=st.integers(1, 3),
    ).filter(lambda info: not (info.is_classic and info.child is not None)),
    min_size=1,
    max_size=12,
    unique_by=lambda info: (info.full_address, info.pid),
)


@unhurried
@given(crowds, st.data())
def test_the_names_of_a_set_are_a_target_that_selects_it(asked: list[RankInfo], data: st.DataObject) -> None:
    some = data.draw(st.lists(st.sampled_from(asked), min_size=1, unique_by=lambda info: info.key))
    naming = Naming(asked)

    found = select(parse_target(naming.names(some)), asked).ranks

    assert {info.key for info in found} == {info.key for info in some}


@pytest.mark.parametrize(
    ("addresses", "names"),
    [
        (["a:0", "a:1", "a:2", "a:8"], "0-2,8"),
        (["a:0", "b:8", "c:16"], "0-16/8"),
        (["a:0", "a:0.1", "a:3"], "0,3,0.1"),
        (["a:0", "b:0", "b:1"], "1,a:0,b:0"),
        (["a:?1", "a:5"], "5,a:?1"),
    ],
)
def test_a_set_needs_no_more_than_numbers_unless_they_say_too_little(addresses: list[str], names: str) -> None:
    ranks = [rank(address) for address in addresses]

    assert Naming(ranks).names(ranks) == names


def test_jobs_are_named_where_several_were_asked() -> None:
    asked = [*block("A", ["g1"], 4), *block("B", ["g2"], 4)]

    assert Naming(asked).names(asked[1:6]) == "A/1-3,B/0-1"
    assert Naming(asked[:4]).names(asked[1:3]) == "1-2"


def test_names_are_those_among_all_that_were_asked() -> None:
    asked = [rank("a:0"), rank("b:0"), rank("b:1")]

    assert Naming(asked).names(asked[:1]) == "a:0"
    assert Naming(asked).name(asked[2]) == "1"


def mesh(hosts: int = 4) -> list[RankInfo]:
    """Return ranks, four on each host: axis ``tp`` within a host, axis ``dp`` across hosts."""
    return [
        changed(
            info,
            coordinates=(Coordinate(axis="dp", index=info.rank // 4), Coordinate(axis="tp", index=info.rank % 4)),
        )
        for info in block("A", [f"g{number}" for number in range(hosts)], 4)
    ]


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ([4, 5, 6, 7], "host g1, dp 1"),
        ([2, 6, 10, 14], "local rank 2, tp 2"),
        ([1, 2, 5, 6, 9, 10, 13, 14], "tp 1-2"),
        ([0, 1, 2, 3, 8, 9, 10, 11], "dp 0,2"),
        ([4, 8], "dp 1-2, tp 0"),
        ([9], "dp 2, tp 1"),
        ([4, 5, 6], "dp 1, tp 0-2"),
        ([4, 5, 6, 8], ""),
        (list(range(16)), ""),
    ],
)
def test_a_set_that_is_a_part_of_the_job_says_which(numbers: list[int], reason: str) -> None:
    asked = mesh()

    assert Naming(asked).explain([asked[number] for number in numbers]) == reason


def test_everybody_needs_no_explanation() -> None:
    asked = block("A", ["g1", "g2"], 1)

    assert Naming(asked).explain(asked) == ""


def test_a_single_host_explains_nothing() -> None:
    asked = block("A", ["g1"], 4)

    assert Naming(asked).explain(asked[:1]) == ""


def test_nothing_is_explained_over_several_jobs() -> None:
    asked = [*block("A", ["g1"], 2), *block("B", ["g2"], 2)]

    assert Naming(asked).explain(asked[:2]) == ""


def test_ranks_without_coordinates_have_no_part_in_them() -> None:
    asked = [*mesh(2), rank("g9:99")]

    assert Naming(asked).explain(asked[:4]) == "host g0"


def test_long_names_are_cut_at_a_comma() -> None:
    assert clip("0-3,5", 40) == "0-3,5"
    assert clip("100,200,300,400", 12) == "100,200,…"
    assert clip("x" * 50, 12) == "x" * 10 + ",…"
