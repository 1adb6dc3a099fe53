"""Tests of the ranks as rows."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from dbg_client.faces.web.messages import Axis
from dbg_client.faces.web.rows import Rows, row_of
from dbg_client.views.list import list_document
from dbg_wire.records.ranks import Coordinate, RankInfo, RankState
from dbg_wire.targets.selection import parse_target
from tests.support.rank_infos import changed
from tests.unit.client.fake_broker import make_rank


def by_key(*ranks: RankInfo) -> dict[str, RankInfo]:
    return {rank.key: rank for rank in ranks}


def shown(rows: tuple[msgspec.Raw, ...]) -> list[dict[str, Any]]:
    return [json.loads(bytes(row)) for row in rows]


def test_a_row_is_what_the_list_has_with_what_the_grid_needs() -> None:
    rank = make_rank(5, coordinates=(Coordinate(axis="dp", index=1), Coordinate(axis="tp", index=3)))
    row = json.loads(bytes(row_of(rank)))
    listed = json.loads(json.dumps(list_document([rank])))["ranks"][0]
    assert {name: row[name] for name in listed} == listed
    assert row["key"] == rank.key
    assert row["coordinates"] == {"dp": 1, "tp": 3}
    assert set(row) - set(listed) == {"key", "coordinates", "waits_in"}


def test_hostile_text_stays_text() -> None:
    rank = make_rank(5, detail='</script><img src=x onerror="alert(1)">\x1b]0;x\x07')
    assert json.loads(bytes(row_of(rank)))["detail"] == '</script><img src=x onerror="alert(1)">\x1b]0;x\x07'


def test_only_what_has_changed_is_made_anew() -> None:
    one, two = make_rank(1), make_rank(2)
    rows = Rows(None)
    assert len(rows.choose([one, two]).rows) == 2
    before = rows.all
    running = changed(two, state=RankState.RUNNING)
    changes = rows.update([one.key, two.key], by_key(one, running))
    assert [row["state"] for row in shown(changes.rows)] == ["running"]
    assert changes.pairs == ((two, running),)
    assert rows.all[0] is before[0]
    # A broker that is started anew lists the same ranks as other objects.
    assert rows.choose([changed(one), changed(running)]).rows == ()


def test_ranks_that_come_end_and_go_have_the_list_chosen_anew() -> None:
    one, two = make_rank(1), make_rank(2)
    rows = Rows(None)
    rows.choose([one])
    running = changed(one, state=RankState.RUNNING)
    assert not rows.chooses_anew([one.key], by_key(running))
    assert rows.chooses_anew([two.key], by_key(one, two))
    assert rows.chooses_anew([one.key], {})
    assert rows.chooses_anew([one.key], by_key(changed(one, state=RankState.EXITED)))
    changes = rows.choose([two])
    assert changes.gone == (one.key,)
    assert [rank.key for rank in rows.ranks] == [two.key]


def test_a_target_has_its_ranks_alone_and_none_where_nothing_fits() -> None:
    rows = Rows(parse_target("1-2"))
    assert len(rows.choose([make_rank(n) for n in range(4)]).rows) == 2
    assert rows.chooses_anew([], {})
    assert Rows(parse_target("7")).choose([make_rank(1)]).rows == ()


def test_who_never_came_is_told_and_how_large_the_mesh_is() -> None:
    rows = Rows(None)
    rows.choose([make_rank(n, world_size=4, coordinates=(Coordinate(axis="dp", index=n),)) for n in (0, 2)])
    assert [json.loads(bytes(one))["ranks"] for one in rows.missing] == ["1,3"]
    assert rows.axes == (Axis(name="dp", size=3),)
