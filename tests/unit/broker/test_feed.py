"""Changes reach each reader in their last state, in slices, with a rest after each pass, whatever happens to others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.feed import MAX_REST_SECONDS, NOTHING, Feed, Passes
from dbg_broker.terminals.link import PendingChanges
from dbg_broker.timers import Timers


def test_a_reader_is_told_each_key_once_in_the_order_of_the_last_changes() -> None:
    feed: Feed[str] = Feed()
    for key in "abca":
        feed.changed(key)
    assert (feed.since(NOTHING), feed.since(2), feed.since(feed.end)) == (["b", "c", "a"], ["c", "a"], [])
    assert (feed.has_changed("b", 1), feed.has_changed("b", 2), feed.has_changed("z", 0)) == (True, False, False)
    feed.forget("c")
    feed.forget("c")
    assert feed.since(0) == ["b", "a"]


class Loop:
    """An event loop that makes a call only when the test says so, and readers that are told one after another."""

    def __init__(self, readers: int) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.steps: Iterator[None] = iter(())
        self.readers, self.waiting, self.told = readers, 0, 0
        timers = Timers(lambda: self.now, lambda seconds, call: self.due.append((self.now + seconds, call)))
        self.passes = Passes(self.all, self.begin, timers, rest=0.05, rest_each=0.01)

    def begin(self, steps: Iterator[None]) -> None:
        self.steps = steps

    def all(self) -> Iterator[Callable[[], None]]:
        told, self.waiting = self.waiting, 0
        return iter([self.tell] * (self.readers if told else 0))

    def tell(self) -> None:
        self.told += 1
        if self.told == 2:
            raise MemoryError

    def change(self) -> None:
        self.waiting += 1
        self.passes.changed()

    def start(self) -> float:
        """Make the call that is due next; return how long nothing was done before."""
        ((at, call),) = self.due
        self.due, rest, self.now = [], round(at - self.now, 6), at
        call()
        return rest

    def go_on(self, steps: int) -> int:
        return len(list(islice(self.steps, steps)))


def test_all_readers_are_told_though_one_fails_and_then_comes_a_rest() -> None:
    loop = Loop(5)
    loop.change()
    loop.change()
    assert loop.start() == 0.0
    assert loop.go_on(9) == 5
    assert loop.told == 5
    loop.change()
    assert loop.start() == 0.1
    assert loop.go_on(9) == 5


def test_a_change_during_a_pass_waits_for_the_next_one() -> None:
    loop = Loop(1000)
    loop.change()
    loop.start()
    assert loop.go_on(500) == 500
    loop.change()
    assert loop.due == []
    assert loop.go_on(1000) == 500
    assert loop.start() == MAX_REST_SECONDS
    assert loop.go_on(2000) == 1000


def test_a_pass_that_tells_nobody_is_followed_by_no_rest() -> None:
    loop = Loop(0)
    loop.change()
    loop.start()
    assert loop.go_on(1) == 0
    loop.change()
    assert loop.start() == 0.0


def listed(changes: PendingChanges) -> list[str]:
    keys = []
    while (key := changes.next_listed()) is not None:
        keys.append(key)
    return keys


def test_snapshot_comes_in_order_and_before_changes() -> None:
    feed, changes = Feed[str](), PendingChanges()
    feed.changed("a")
    changes.subscribe(["a", "b", "c"], feed.end, once=False)
    feed.changed("b")
    assert changes.change(feed, None) is None
    assert changes.next_listed() == "a"
    assert not changes.end_page()
    assert listed(changes) == ["b", "c"]
    assert changes.end_page()
    assert not changes.has_snapshot
    assert changes.change(feed, None) == "b"
    assert changes.change(feed, None) is None


def test_without_a_subscription_a_terminal_is_told_of_the_rank_where_it_sits() -> None:
    feed, changes = Feed[str](), PendingChanges()
    for key in "ab":
        feed.changed(key)
    assert [changes.change(feed, "a"), changes.change(feed, "a")] == ["a", None]
    feed.changed("b")
    assert changes.change(feed, "a") is None
    assert changes.change(feed, None) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_last_state_of_each_rank_is_heard_however_slow_the_subscriber(events: list[tuple[str, bool]]) -> None:
    feed, changes, truth, heard = Feed[str](), PendingChanges(), dict.fromkeys("abc", 0), {}
    changes.subscribe("abc", feed.end, once=False)
    for key, reads in events:
        truth[key] += 1
        feed.changed(key)
        if reads and changes.has_snapshot:
            if (next_key := changes.next_listed()) is not None:
                heard[next_key] = truth[next_key]
            changes.end_page()
        elif reads and (changed := changes.change(feed, None)) is not None:
            heard[changed] = truth[changed]
    for key in listed(changes):
        heard[key] = truth[key]
    changes.end_page()
    while (changed := changes.change(feed, None)) is not None:
        heard[changed] = truth[changed]
    assert heard == truth
