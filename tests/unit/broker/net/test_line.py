"""Each token, each address of it and each connection of that has a fair share of the time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.net.turns import Account, FairQueue, Work


def named() -> Work:
    """Return work that is only told apart from other work."""
    return lambda is_over: not is_over()


def serve(line: FairQueue, slices: int, seconds: float = 1.0) -> list[Account]:
    """Serve workers that always have more, and return whose turn it was."""
    served = []
    for _ in range(slices):
        worker, share = line.pop()
        line.charge(share, seconds)
        line.put(worker, share)
        served.append(share)
    return served


def line_of(*shares: Account) -> FairQueue:
    line = FairQueue()
    for share in shares:
        line.put(named(), share)
    return line


def test_five_hundred_connections_of_a_token_have_the_share_of_one() -> None:
    flood = [Account("job", "10.0.0.1", number) for number in range(500)]
    mine = Account("mine", "10.0.0.1", 1)
    served = Counter(share.token for share in serve(line_of(*flood, mine), 100))
    assert served == {"job": 50, "mine": 50}


def test_connections_of_one_address_have_the_share_of_one_among_those_of_a_token() -> None:
    flood = [Account("job", "10.0.0.1", number) for number in range(500)]
    others = [Account("job", f"10.0.0.{host}", 1) for host in (2, 3)]
    served = Counter(share.address for share in serve(line_of(*flood, *others), 90))
    assert served == {"10.0.0.1": 30, "10.0.0.2": 30, "10.0.0.3": 30}


def test_who_asks_for_little_waits_for_one_slice_though_a_whole_crowd_floods() -> None:
    line = line_of(*(Account("job", "10.0.0.1", number) for number in range(100)))
    serve(line, 250)
    light = Account("job", "10.0.0.1", "light")
    for _ in range(5):
        line.put(named(), light)
        before = serve_until(line, light)
        assert before <= 51  # half of the crowd had two slices, and half three
        serve(line, 100)


def serve_until(line: FairQueue, wanted: Account) -> int:
    for count in range(1000):
        worker, share = line.pop()
        if share == wanted:
            line.charge(share, 0.01)
            return count
        line.charge(share, 1.0)
        line.put(worker, share)
    raise AssertionError("its turn never came")


SHARES = st.builds(Account, st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 3))
EVENTS = st.lists(st.tuples(st.sampled_from(["put", "serve", "end", "forget"]), SHARES), max_size=60)


@given(EVENTS)
def test_all_that_wait_are_served_and_nobody_else(events: list[tuple[str, Account]]) -> None:
    line = FairQueue()
    waiting: set[Account] = set()
    for event, share in events:
        if event == "put" and share not in waiting:
            line.put(named(), share)
            waiting.add(share)
        elif event in ("serve", "end") and waiting:
            worker, served = line.pop()
            line.charge(served, 0.5)
            if event == "serve":
                line.put(worker, served)
            else:
                waiting.remove(served)
        elif event == "forget":
            line.forget(share)
        assert len(line) == len(waiting)
    left = set()
    while line:
        _, served = line.pop()
        line.charge(served, 0.5)
        left.add(served)
    assert left == waiting
