"""One look a host, by a clock that the test turns: how many looks there are, and how soon a silence is known."""

from __future__ import annotations

from dbg_broker.ranks.liveness import HostLooks
from dbg_wire.limits import SILENT_SECONDS

ROUND = 1.0


def crowd(hosts: int, ranks: int) -> HostLooks:
    """Return the looks at some hosts with so many ranks each, which were heard at 0."""
    looks = HostLooks()
    for host in range(hosts):
        for rank in range(ranks):
            looks.add(f"{host}/{rank}", host, 0.0)
    return looks


def round_at(looks: HostLooks, now: float, unheard: dict[str, float] | None = None) -> list[str]:
    """Look at what is due, where hosts were last heard so long ago (now, by default); return who was looked at."""
    seen = []
    for key in looks.due(now):
        seen.append(key)
        looks.seen(key, (unheard or {}).get(key, 0.0), now)
    return seen


def test_hosts_that_answer_are_looked_at_once_for_all_their_ranks_and_not_before_they_may_be_silent() -> None:
    looks = crowd(hosts=5, ranks=8)
    rounds = [round_at(looks, now * ROUND) for now in range(61)]
    assert sum(map(len, rounds)) <= 5 * 60 / SILENT_SECONDS
    assert not any(rounds[: int(SILENT_SECONDS)])


def test_ranks_of_a_host_take_turns() -> None:
    looks = crowd(hosts=1, ranks=3)
    seen = [key for now in range(0, 60, 5) for key in round_at(looks, float(now))]
    assert seen[:6] == ["0/0", "0/1", "0/2"] * 2


def test_what_was_heard_long_ago_is_looked_at_again_as_soon_as_it_may_be_silent() -> None:
    looks = crowd(hosts=1, ranks=1)
    assert round_at(looks, 5.0, {"0/0": 4.0}) == ["0/0"]
    assert round_at(looks, 5.4) == []
    assert round_at(looks, 5.5) == ["0/0"]


def test_all_ranks_of_a_host_are_looked_at_as_soon_as_one_of_them_is_silent_and_until_all_are_back() -> None:
    looks = crowd(hosts=2, ranks=4)
    silent = {f"0/{rank}": 5.0 for rank in range(4)}
    assert set(round_at(looks, 5.0, silent)) == {*silent, "1/0"}
    assert set(round_at(looks, 6.0, silent)) == set(silent)
    assert set(round_at(looks, 7.0, {"0/2": 7.0})) == set(silent)
    assert set(round_at(looks, 8.0)) == set(silent)
    assert round_at(looks, 9.0) == []


def test_begin_and_end_of_a_silence_are_news_once() -> None:
    looks = crowd(hosts=1, ranks=1)
    told = [looks.seen("0/0", unheard, 9.0) for unheard in (0.0, SILENT_SECONDS, 6.0, 0.1, 0.1)]
    assert told == [False, True, False, True, False]


def test_rank_that_left_or_moved_to_another_host_is_not_looked_at_there() -> None:
    looks = crowd(hosts=1, ranks=2)
    looks.seen("0/0", 9.0, 1.0)
    looks.remove("0/0")
    looks.remove("0/0")
    assert not looks.seen("0/0", 9.0, 2.0)
    looks.add("0/1", "another", 2.0)
    assert round_at(looks, 2.5) == []
    assert round_at(looks, 20.0) == ["0/1"]
    looks.remove("0/1")
    assert round_at(looks, 40.0) == []


def test_host_whose_ranks_leave_during_a_round_is_passed_over() -> None:
    looks = crowd(hosts=3, ranks=1)
    due = looks.due(10.0)
    assert next(due) == "0/0"
    looks.remove("1/0")
    assert list(due) == ["2/0"]
