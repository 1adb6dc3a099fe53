from __future__ import annotations

from dbg_client.core.choose import exited, listed, there
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.selection import parse_target, select
from tests.unit.client.fake_broker import make_rank


def ended(number: int, **changes: object) -> RankInfo:
    values = {"key": f"ended-{number}-{changes.get('job')}-{changes.get('run')}", **changes}
    return make_rank(number, state=RankState.EXITED, **values)


LIVE = make_rank(0)
DEAD = ended(1)
BEFORE = ended(2, run="before")
ELSEWHERE = ended(3, job="4710.0")
STOCK = ended(0, job="classic", address="gpu013:?1")
KNOWN = (LIVE, DEAD, BEFORE, ELSEWHERE, STOCK)


def shown(text: str | None, *, with_exited: bool, known: tuple[RankInfo, ...] = KNOWN) -> list[RankInfo]:
    target = parse_target(text) if text is not None else None
    found = select(target, known, any_job=True).ranks if target is not None else ()
    return listed(known, target, found, with_exited=with_exited)


def test_a_list_shows_who_is_there_and_who_ended_in_that_run() -> None:
    assert there(KNOWN) == [LIVE]
    assert shown(None, with_exited=False) == [LIVE, DEAD]
    assert shown("all", with_exited=False) == [LIVE, DEAD]
    assert shown("1", with_exited=False) == [DEAD]
    assert shown("stopped", with_exited=False) == [LIVE]
    assert shown("3", with_exited=False) == []


def test_all_adds_the_exited_ones_of_jobs_that_live() -> None:
    assert shown(None, with_exited=True) == [LIVE, DEAD, BEFORE, STOCK]
    assert shown("all", with_exited=True) == [LIVE, DEAD, BEFORE, STOCK]
    assert exited(KNOWN, None) == [DEAD, BEFORE, STOCK]


def test_all_adds_those_of_the_jobs_that_a_target_names() -> None:
    assert set(shown("*/all", with_exited=True)) == set(KNOWN)
    assert shown("4710.0/all", with_exited=True) == [ELSEWHERE]
    assert shown("47*/3", with_exited=True) == [ELSEWHERE]


def test_where_no_job_lives_all_have_ended() -> None:
    assert set(shown(None, with_exited=True, known=KNOWN[1:])) == set(KNOWN[1:])
    assert shown(None, with_exited=False, known=KNOWN[1:]) == []
