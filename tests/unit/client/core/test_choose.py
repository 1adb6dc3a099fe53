from __future__ import annotations

import pytest

from dbg_client.core.choose import choose, choose_when_ready, is_ready, neighbour
from dbg_client.core.errors import LostRank, NotStopped, RankEnded
from dbg_wire.errors import AmbiguousTarget, DbgError, NoSuchRank
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.selection import parse_target
from tests.unit.client.fake_broker import HERE, make_rank

RUNNING: dict[str, object] = {"state": RankState.RUNNING, "where": None, "reason": None}


def ranks(*numbers: int, **changes: object) -> list[RankInfo]:
    return [make_rank(number, **changes) for number in numbers]


def relaunched(number: int, **changes: object) -> RankInfo:
    values = {"job": "4712.0", "key": f"4712.0/0.0/gpu020:{number}/99", "host": "gpu020", "address": f"gpu020:{number}"}
    return make_rank(number, **{**values, **changes})


def test_the_stopped_rank_is_chosen() -> None:
    assert choose(parse_target("gpu013:6"), ranks(5, 6, 7)).rank.rank == 6


def test_a_set_with_one_stopped_rank_means_that_one() -> None:
    known = [*ranks(0, 1, **RUNNING), *ranks(2)]

    assert choose(parse_target("gpu013:*"), known).rank.rank == 2


def test_a_set_with_several_stopped_ranks_is_ambiguous_and_names_them() -> None:
    with pytest.raises(AmbiguousTarget) as caught:
        choose(parse_target("all"), [*ranks(0, 1), *ranks(2, **RUNNING)])

    assert caught.value.candidates == ("gpu013:0", "gpu013:1")
    assert caught.value.exit_status == 2


def test_a_held_rank_is_taken_if_it_alone_is_named() -> None:
    known = ranks(5, state=RankState.HELD)

    assert choose(parse_target("5"), known).rank is known[0]


@pytest.mark.parametrize(
    ("changes", "error", "status"),
    [
        (RUNNING, NotStopped, 1),
        ({"state": RankState.UNRESPONSIVE, "where": None}, NotStopped, 1),
        ({"state": RankState.HELD, "where": None}, NotStopped, 1),
        ({"state": RankState.LOST}, LostRank, 1),
        ({"state": RankState.EXITED, "exit": 1}, RankEnded, 8),
    ],
)
def test_a_rank_that_is_not_stopped_is_refused_with_its_own_status(
    changes: dict[str, object], error: type[DbgError], status: int
) -> None:
    with pytest.raises(error) as caught:
        choose(parse_target("5"), ranks(5, **changes))

    assert caught.value.exit_status == status
    assert "gpu013:5" in str(caught.value)


def test_a_running_rank_is_refused_with_the_commands_that_wait_and_break_in() -> None:
    says = r"gpu013:5 is running; `dbg-attach wait 5` waits .*, `dbg-attach interrupt 5` breaks in now$"
    with pytest.raises(NotStopped, match=says):
        choose(parse_target("5"), ranks(5, **RUNNING))


def test_an_unknown_rank_is_refused() -> None:
    with pytest.raises(NoSuchRank):
        choose(parse_target("9"), ranks(5))


def test_a_set_of_exited_ranks_has_exited() -> None:
    with pytest.raises(RankEnded):
        choose(parse_target("all"), ranks(0, 1, state=RankState.EXITED))


def test_a_stopped_rank_that_fell_silent_can_be_attached_to() -> None:
    assert is_ready(make_rank(state=RankState.UNRESPONSIVE, where=HERE))
    assert not is_ready(make_rank(state=RankState.UNRESPONSIVE, where=None))


@pytest.mark.parametrize("changes", [RUNNING, {"state": RankState.EXITED}, {"state": RankState.LOST}])
def test_whoever_waits_has_no_rank_yet(changes: dict[str, object]) -> None:
    assert choose_when_ready(parse_target("5"), ranks(5, **changes)) is None
    assert choose_when_ready(parse_target("5"), []) is None


def test_whoever_waits_for_a_set_gets_the_first() -> None:
    choice = choose_when_ready(parse_target("all"), [*ranks(3, 1), *ranks(0, **RUNNING)])

    assert choice is not None
    assert choice.rank.rank == 1


def test_a_stop_that_has_ended_is_not_taken_again() -> None:
    ended = make_rank(5, since=100.0)

    assert choose_when_ready(parse_target("5"), [ended], ended) is None
    again = choose_when_ready(parse_target("5"), [make_rank(5, since=101.0)], ended)
    assert again is not None


def test_following_a_set_comes_back_to_the_same_address() -> None:
    choice = choose_when_ready(parse_target("all"), ranks(1, 5, since=200.0), make_rank(5, since=100.0))

    assert choice is not None
    assert choice.rank.rank == 5


def test_following_stays_in_the_job_while_it_lives() -> None:
    ended = make_rank(5, since=100.0)
    known = [make_rank(5, **RUNNING), relaunched(5)]

    assert choose_when_ready(parse_target("5"), known, ended) is None


def test_following_goes_over_to_a_relaunch_of_the_script() -> None:
    ended = make_rank(5, since=100.0)
    other = relaunched(5, job="9.0", key="9.0/x", host="gpu030", address="gpu030:5", script="/other.py")
    known = [make_rank(5, state=RankState.EXITED), relaunched(5), other]

    choice = choose_when_ready(parse_target("5"), known, ended)

    assert choice is not None
    assert choice.rank.job == "4712.0"


def test_following_takes_any_job_last() -> None:
    ended = make_rank(5, since=100.0)
    known = [make_rank(5, state=RankState.EXITED), relaunched(5, script="/other.py")]

    choice = choose_when_ready(parse_target("5"), known, ended)

    assert choice is not None
    assert choice.rank.script == "/other.py"


def test_neighbours_go_round_through_the_stopped_ranks_of_the_job() -> None:
    known = [*ranks(0, 2, 5), *ranks(3, **RUNNING), relaunched(4)]

    def goes(current: int, step: int) -> int | None:
        found = neighbour(make_rank(current), known, step)
        return found.rank if found else None

    assert [goes(0, 1), goes(2, 1), goes(5, 1)] == [2, 5, 0]
    assert [goes(0, -1), goes(2, -1), goes(5, -1)] == [5, 0, 2]
    assert neighbour(make_rank(0), ranks(0), 1) is None


def test_a_wait_may_be_for_a_rank_of_any_job_whose_name_fits() -> None:
    running = make_rank(5, job="train-1", key="one", **RUNNING)
    other = make_rank(5, job="eval", key="two")
    for text in ("train*/5", "train*/all", "*-1/5"):
        assert choose_when_ready(parse_target(text), [running, other]) is None
        stopped = running.replace(state=RankState.STOPPED)
        choice = choose_when_ready(parse_target(text), [stopped, other])
        assert choice is not None
        assert choice.rank.job == "train-1"
    with pytest.raises(AmbiguousTarget) as caught:
        choose(parse_target("*/5"), [make_rank(5, job="train-1", key="one"), other])
    assert caught.value.candidates == ("eval/gpu013:5", "train-1/gpu013:5")
