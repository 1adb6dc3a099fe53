"""How many texts of log points clients are sent: within a rate, each job by itself, and all counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.terminals.notices import MAX_A_SECOND, MAX_JOBS, LogListeners, LogPace


def sent(listeners: LogListeners, job: str, now: float, count: int) -> int:
    """Offer so many texts of a job, and return how many of them are sent."""
    return sum(listeners.may_send(listeners.pace(job, now), now) for _ in range(count))


def test_clients_and_jobs_share_the_rate() -> None:
    listeners = LogListeners()
    for number in (1, 2):
        listeners.set(number, wants=True)
    assert sent(listeners, "a", 0.0, 9999) == MAX_A_SECOND / 2
    # Another job has a part of its own, and the first one has less from then on.
    assert sent(listeners, "b", 0.0, 9999) == MAX_A_SECOND / 4
    assert abs(sent(listeners, "a", 0.5, 9999) - MAX_A_SECOND / 8) <= 1
    # The part of a job that logs nothing any more is free again, and so is that of a client that has gone.
    listeners.set(2, wants=False)
    assert abs(sent(listeners, "a", 2.0, 9999) - MAX_A_SECOND) <= 1


def test_a_client_that_asks_again_is_as_far_behind_as_before() -> None:
    listeners = LogListeners()
    listeners.set(1, wants=True)
    listeners.behind[1] = 7
    listeners.set(1, wants=True)
    assert listeners.behind == {1: 7}
    listeners.set(1, wants=False)
    assert listeners.behind == {}


def test_jobs_beyond_the_most_share_a_pace_until_others_rest() -> None:
    listeners = LogListeners()

    def pace_in_use(job: str, now: float) -> LogPace:
        pace = listeners.pace(job, now)
        assert listeners.may_send(pace, now)
        return pace

    paces = {pace_in_use(f"{number}", 0.0) for number in range(MAX_JOBS)}
    assert len(paces) == MAX_JOBS
    assert pace_in_use("x", 0.0) is pace_in_use("y", 0.0)
    assert pace_in_use("x", 10.0) is not pace_in_use("y", 10.0)


def test_the_last_text_of_a_flood_comes_with_the_count_of_the_others_unless_another_one_has_told_it() -> None:
    listeners = LogListeners()
    pace = listeners.pace("a", 0.0)
    assert [pace.leave_out("key", text) for text in ("1", "2", "3")] == [True, False, False]
    assert pace.last() == ("key", "3", 2)
    assert pace.last() is None
    assert pace.leave_out("key", "4")
    assert pace.left_out() == 1
    # The call for the first one is still due, and serves the second.
    assert not pace.leave_out("key", "5")
    assert pace.last() == ("key", "5", 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 0.01)), max_size=300))
def test_of_any_flood_the_rate_is_kept_and_all_are_counted(texts: list[tuple[str, float]]) -> None:
    listeners, now, shown, counted = LogListeners(), 0.0, 0, 0
    for number in range(100):
        listeners.set(number, wants=True)
    due = set()
    for job, later in texts:
        now += later
        pace = listeners.pace(job, now)
        if listeners.may_send(pace, now):
            shown, counted = shown + 1, counted + pace.left_out()
        elif pace.leave_out("key", "text"):
            due.add(pace)
    lasts = [last for pace in due if (last := pace.last()) is not None]
    assert shown + counted + sum(last.before + 1 for last in lasts) == len(texts)
    assert shown <= (1 + now) * MAX_A_SECOND / 100 + 3
