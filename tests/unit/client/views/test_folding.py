from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.views.list import fold_address, fold_hosts
from dbg_wire.records.ranks import RankInfo
from dbg_wire.targets.host_pattern import parse_host
from tests.support.rank_infos import block, rank


@pytest.mark.parametrize(
    ("hosts", "folded"),
    [
        ([f"gpu{number:03}" for number in range(128)], "gpu[000-127]"),
        (["vm"], "vm"),
        (["gpu013"], "gpu013"),
        (["n8", "n9", "n10", "n11", "login"], "login n[8-11]"),
        (["n08", "n09", "n10", "n12"], "n[08-10,12]"),
        (["n99", "n100", "n102"], "n[99-100,102]"),
        (["a1", "b1"], "a1 b1"),
    ],
)
def test_hosts_are_folded_as_one_types_them(hosts: list[str], folded: str) -> None:
    assert fold_hosts(hosts) == folded


@given(st.sets(st.from_regex(r"(gpu|n|rack1-)[0-9]{1,4}", fullmatch=True), min_size=1, max_size=20))
def test_folded_hosts_are_those_hosts(hosts: set[str]) -> None:
    patterns = [parse_host(piece) for piece in fold_hosts(sorted(hosts)).split()]
    others = {f"{name}{zeros}{number}" for name in ("gpu", "n") for zeros in ("", "0") for number in range(130)}
    for host in hosts | others:
        assert any(pattern.fits(host) for pattern in patterns) is (host in hosts)


def test_a_row_names_all_of_its_hosts_or_the_numbers() -> None:
    everyone = block("A", [f"gpu{number}" for number in range(4)], 4)
    assert fold_address(everyone, everyone) == "gpu[0-3]:*"
    assert fold_address(everyone[:5], everyone[:8]) == "gpu[0-1]:0-4"
    many = block("A", ["gpu0", "gpu1"], 40)
    assert fold_address([one for one in many if one.rank % 7], many) == "gpu[0-1]:*"


def test_a_few_ranks_of_many_hosts_are_named_by_number() -> None:
    everyone = block("A", [f"gpu{number * 7:03}" for number in range(64)], 2)
    odd = [one for one in everyone if one.rank % 11 == 4]
    assert fold_address(odd, everyone) == "4-125/11"


def test_children_and_hosts_without_numbers() -> None:
    children: list[RankInfo] = [rank("h:1.1"), rank("h:1.2")]
    assert fold_address(children, [*children, rank("h:1")]) == "h:*"
    many = [rank(f"host-{chr(97 + number)}:{number}") for number in range(20)]
    assert fold_address(many, many) == "20 hosts:*"
