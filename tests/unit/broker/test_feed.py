"""Changes reach each reader in their last state, in slices, with a rest after each pass, whatever happens to others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.feed import MAX_REST_SECONDS, NOTHING, Feed, Passes
from dbg_broker.terminals.link import PendingChanges
from dbg_broker.timers import Timers


def test_reader_receives_each_key_once_in_order_of_last_change() -> None:
    feed: Feed[str] = Feed()
    for key in "abca":
        feed.changed(key)
    assert (feed.since(NOTHING), feed.since(2), feed.since(feed.end)) == (["b", "c", "a"], ["c", "a"], [])
    assert (feed.has_changed("b", 1), feed.has_changed("b", 2), feed.has_changed("z", 0)) == (True, False, False)
    feed.forget("c")
    feed.forget("c")
    assert feed.since(0) == ["b", "a"]


class Loop:
    """An event loop that makes calls only when the test starts them, and readers that are notified one by one."""

    def __init__(self, readers: int) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.steps: Iterator[None] = iter(())
        self.readers, self.waiting, self.notified = readers, 0, 0
        timers = Timers(lambda: self.now, lambda seconds, call: self.due.append((self.now + seconds, call)))
        self.passes = Passes(self.all, self.begin, timers, rest=0.05, rest_each=0.01)

    def begin(self, steps: Iterator[None]) -> None:
        self.steps = steps

    def all(self) -> Iterator[Callable[[], None]]:
        changes, self.waiting = self.waiting, 0
        return iter([self.notify] * (self.readers if changes else 0))

    def notify(self) -> None:
        self.notified += 1
        if self.notified == 2:
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

    def run(self, steps: int) -> int:
        return len(list(islice(self.steps, steps)))


def test_all_readers_are_notified_before_the_pause_although_one_fails() -> None:
    loop = Loop(5)
    loop.change()
    loop.change()
    assert loop.start() == 0.0
    assert loop.run(9) == 5
    assert loop.notified == 5
    loop.change()
    assert loop.start() == 0.1
    assert loop.run(9) == 5


def test_a_change_during_a_pass_waits_for_the_next_one() -> None:
    loop = Loop(1000)
    loop.change()
    loop.start()
    assert loop.run(500) == 500
    loop.change()
    assert loop.due == []
    assert loop.run(1000) == 500
    assert loop.start() == MAX_REST_SECONDS
    assert loop.run(2000) == 1000


def test_pass_without_readers_is_followed_by_no_pause() -> None:
    loop = Loop(0)
    loop.change()
    loop.start()
    assert loop.run(1) == 0
    loop.change()
    assert loop.start() == 0.0


def listed(changes: PendingChanges) -> list[str]:
    keys = []
    while (key := changes.next_listed()) is not None:
        keys.append(key)
    return keys


def test_snapshot_is_sent_in_order_before_changes() -> None:
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


def test_terminal_without_subscription_receives_changes_of_its_own_rank() -> None:
    feed, changes = Feed[str](), PendingChanges()
    for key in "ab":
        feed.changed(key)
    assert [changes.change(feed, "a"), changes.change(feed, "a")] == ["a", None]
    feed.changed("b")
    assert changes.change(feed, "a") is None
    assert changes.change(feed, None) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_slow_subscriber_receives_the_last_state_of_each_rank(events: list[tuple[str, bool]]) -> None:
    feed, changes, truth, received = Feed[str](), PendingChanges(), dict.fromkeys("abc", 0), {}
    changes.subscribe("abc", feed.end, once=False)
    for key, reads in events:
        truth[key] += 1
        feed.changed(key)
        if reads and changes.has_snapshot:
            if (next_key := changes.next_listed()) is not None:
                received[next_key] = truth[next_key]
            changes.end_page()
        elif reads and (changed := changes.change(feed, None)) is not None:
            received[changed] = truth[changed]
    for key in listed(changes):
        received[key] = truth[key]
    changes.end_page()
    while (changed := changes.change(feed, None)) is not None:
        received[changed] = truth[changed]
    assert received == truth
