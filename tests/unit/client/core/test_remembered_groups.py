from __future__ import annotations

from pathlib import Path

import pytest

from dbg_client.core import remembered_groups
from dbg_client.core.remembered_groups import (
    RememberedGroups,
    UnknownGroup,
    find_remembered_groups,
)
from dbg_command.targets import Target, parse_target, select
from dbg_wire.errors import BadTarget
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank

RANKS = [make_rank(number) for number in range(8)]


def read_target(text: str, environ: dict[str, str]) -> Target:
    return remembered_groups.read_target(text, environ, lambda path: None)


def keys(*numbers: int) -> list[str]:
    return [RANKS[number].key for number in numbers]


def remember(home: Path, **groups: list[str]) -> RememberedGroups:
    remembered = find_remembered_groups({"DBG_HOME": str(home)})
    assert remembered is not None
    remembered.save({f"@{name.strip('_')}": found for name, found in groups.items()})
    return remembered


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("@2", [1, 2]), ("@err", [5]), ("@2,@err", [1, 2, 5]), ("@2,7", [1, 2, 7]), ("all,!@2,!@err", [0, 3, 4, 6, 7])],
)
def test_remembered_group_is_a_target(text: str, numbers: list[int], tmp_path: Path) -> None:
    remember(tmp_path, _2=keys(1, 2), err=keys(5))

    target = read_target(text, {"DBG_HOME": str(tmp_path)})

    assert [rank.rank for rank in select(target, RANKS).ranks] == numbers


def test_only_the_last_answer_is_remembered(tmp_path: Path) -> None:
    remember(tmp_path, _1=keys(1), err=keys(2))
    remember(tmp_path, _1=keys(3))

    assert select(read_target("@1", {"DBG_HOME": str(tmp_path)}), RANKS).ranks == (RANKS[3],)
    with pytest.raises(UnknownGroup, match="it had @1") as caught:
        read_target("1,@err", {"DBG_HOME": str(tmp_path)})
    assert caught.value.exit_status == 3


@pytest.mark.parametrize("environ", [{}, {"DBG_HOME": "/nowhere/at/all"}])
def test_group_is_unknown_without_an_answer(approved: Approved, environ: dict[str, str]) -> None:
    with pytest.raises(UnknownGroup, match="no group @2 is remembered"):
        read_target("@2", environ)
    with pytest.raises(UnknownGroup) as caught:
        read_target("@missing", environ)
    approved(str(caught.value))
    assert read_target("2", environ) == parse_target("2")
    with pytest.raises(BadTarget):
        read_target("@@", environ)


def test_the_file_is_private(tmp_path: Path) -> None:
    remembered = remember(tmp_path / "home", _1=keys(1))

    assert remembered.path.stat().st_mode & 0o777 == 0o600
    assert remembered.path.parent.stat().st_mode & 0o777 == 0o700


def test_file_writable_by_others_is_ignored(tmp_path: Path) -> None:
    remembered = remember(tmp_path, _1=keys(1))
    remembered.path.chmod(0o666)

    assert remembered.load() == {}
