"""What a subscriber has still to hear."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.terminals.changes import Feed


def listed(feed: Feed) -> list[str]:
    keys = []
    while (key := feed.next_listed()) is not None:
        keys.append(key)
    return keys


def test_snapshot_comes_in_order_and_before_changes() -> None:
    feed = Feed()
    feed.subscribe(["a", "b", "c"], once=False)
    feed.add("b")
    assert feed.change() is None
    assert feed.next_listed() == "a"
    assert not feed.end_page()
    assert listed(feed) == ["b", "c"]
    assert feed.end_page()
    assert not feed.has_snapshot
    assert feed.change() == "b"
    assert feed.change() is None


def test_empty_snapshot_has_one_page() -> None:
    feed = Feed()
    feed.subscribe([], once=True)
    assert feed.has_snapshot
    assert feed.next_listed() is None
    assert feed.end_page()
    assert not feed.has_snapshot
    assert not feed.subscribed


def test_subscribing_again_begins_anew() -> None:
    feed = Feed()
    feed.subscribe(["a", "b"], once=False)
    feed.next_listed()
    feed.add("z")
    feed.subscribe(["a", "b"], once=False)
    assert listed(feed) == ["a", "b"]
    feed.end_page()
    assert feed.change() is None


def test_terminal_without_subscription_hears_of_its_rank_alone() -> None:
    feed = Feed()
    feed.add("mine")
    assert feed.change() == "mine"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_last_state_of_each_rank_is_heard_however_slow_the_subscriber(events: list[tuple[str, bool]]) -> None:
    feed, truth, heard = Feed(), dict.fromkeys("abc", 0), {}
    feed.subscribe("abc", once=False)
    for key, reads in events:
        truth[key] += 1
        feed.add(key)
        if reads and feed.has_snapshot:
            if (next_key := feed.next_listed()) is not None:
                heard[next_key] = truth[next_key]
            feed.end_page()
        elif reads and (changed := feed.change()) is not None:
            heard[changed] = truth[changed]
    for key in listed(feed):
        heard[key] = truth[key]
    feed.end_page()
    while (changed := feed.change()) is not None:
        heard[changed] = truth[changed]
    assert heard == truth
