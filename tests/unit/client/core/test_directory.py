from __future__ import annotations

from dbg_client.core.directory import Directory
from dbg_wire.messages import Change, Gone, Repaint, Snapshot
from dbg_wire.records.ranks import RankState
from tests.unit.client.fake_broker import make_rank


def test_a_snapshot_is_whole_with_its_last_page() -> None:
    directory = Directory()

    directory.receive(Snapshot(ranks=(make_rank(0),), last=False))
    assert (directory.complete, directory.ranks) == (False, ())
    directory.receive(Snapshot(ranks=(make_rank(1),), last=True))

    assert directory.complete
    assert [rank.rank for rank in directory.ranks] == [0, 1]


def test_changes_follow() -> None:
    directory = Directory()
    directory.receive(Snapshot(ranks=(make_rank(0),), last=True))

    directory.receive(Change(rank=make_rank(0, state=RankState.RUNNING)))
    directory.receive(Change(rank=make_rank(1)))
    directory.receive(Gone(key=make_rank(0).key))

    assert [rank.rank for rank in directory.ranks] == [1]


def test_a_new_connection_keeps_the_old_list_until_its_own_is_whole() -> None:
    directory = Directory()
    directory.receive(Snapshot(ranks=(make_rank(0),), last=True))

    directory.begin()
    assert not directory.complete
    assert [rank.rank for rank in directory.ranks] == [0]
    directory.receive(Snapshot(ranks=(make_rank(1),), last=True))

    assert [rank.rank for rank in directory.ranks] == [1]


def test_a_change_between_two_pages_is_not_lost() -> None:
    directory = Directory()

    directory.receive(Snapshot(ranks=(make_rank(0),), last=False))
    directory.receive(Change(rank=make_rank(0, state=RankState.RUNNING)))
    directory.receive(Snapshot(ranks=(), last=True))

    assert directory.by_key[make_rank(0).key].state is RankState.RUNNING


def test_who_listens_hears_of_changes_and_of_the_broker() -> None:
    directory, heard = Directory(), []
    directory.on_change = lambda: heard.append(directory.away)

    assert directory.receive(Change(rank=make_rank(0)))
    assert not directory.receive(Repaint())
    directory.cut_off("it shut down")
    directory.begin()

    assert heard == [None, "it shut down", None]
