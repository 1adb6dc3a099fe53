from __future__ import annotations

from dbg_client.views.pick_list import PickList, index_of, make_rows
from dbg_wire.limits import MAX_TEXT
from dbg_wire.records.ranks import RankInfo, RankState
from tests.unit.client.fake_broker import HERE, make_rank

NOW = 1760000000.0


def on(host: str, number: int, **changes: object) -> RankInfo:
    return make_rank(number, host=host, address=f"{host}:{number}", **changes)


def test_ranks_that_fit_have_a_row_each() -> None:
    ranks = [on("a", number) for number in range(4)]

    rows = make_rows(ranks, 4, set())

    assert [row.rank for row in rows] == ranks
    assert [row.shown for row in rows] == ranks


def test_a_group_is_of_one_host_and_state_and_says_what_its_ranks_have_in_common() -> None:
    ranks = [on("a", 0, since=5.0), on("a", 1, since=3.0), on("b", 2), on("b", 3, where=None)]
    ranks += [on("b", 4, state=RankState.RUNNING, where=None, reason=None)]

    same, different, alone = make_rows(ranks, 4, set())

    assert (same.shown.address, same.shown.where, same.shown.since) == ("+ a:*  2 ranks", HERE, 3.0)
    assert (different.shown.address, different.shown.where) == ("+ b:*  2 ranks", None)
    assert (same.rank, alone.rank) == (None, ranks[4])


def test_hosts_are_folded_where_there_are_more_ranks_than_rows() -> None:
    ranks = [on("a", number) for number in range(8)] + [on("b", number) for number in range(8, 12)]
    ranks += [on("b", 12, state=RankState.RUNNING, where=None, reason=None)]
    picks = PickList()
    picks.update(ranks)

    assert len(picks.show(13, NOW).lines) == 13
    folded = picks.show(12, NOW).lines
    assert [line.split()[:4] for line in folded[:2]] == [["+", "a:*", "8", "ranks"], ["+", "b:*", "4", "ranks"]]
    assert folded[2].split()[:2] == ["b:12", "running"]
    assert picks.chosen is None
    assert len(picks.meant) == 8
    assert picks.is_folded
    assert picks.unfold()
    assert picks.is_folded is False
    picks.move(3)
    assert picks.chosen == ranks[2]
    assert picks.is_folded is None
    assert [line.split()[0] for line in picks.show(12, NOW).lines[:3]] == ["-", "a:0", "a:1"]
    picks.fold()
    assert picks.chosen is None
    assert picks.show(12, NOW).lines == folded


def test_the_choice_within_a_group_that_folds_stays_with_its_group() -> None:
    picks = PickList()
    picks.update([on("ab"[number // 8], number) for number in range(16)])
    picks.move(12)
    assert picks.chosen == on("b", 12)

    shown = picks.show(4, NOW)

    assert shown.chosen == 1
    assert shown.lines[1].startswith("+ b:*  8 ranks")


def test_a_key_that_is_gone_is_the_first_row() -> None:
    rows = make_rows([on("a", 0), on("a", 1)], 4, set())

    assert index_of(rows, rows[1].key) == 1
    assert index_of(rows, "gone") == 0


def test_a_name_as_long_as_a_rank_may_have_is_no_error() -> None:
    ranks = [make_rank(number, host="h" * MAX_TEXT, address="a" * MAX_TEXT) for number in range(3)]

    assert len(make_rows(ranks, 1, set())) == 1
    group = make_rows(ranks, 1, set())[0].key
    assert len(make_rows(ranks, 1, {group})) == 4
