"""Changes that a subscriber has not been told yet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.hub.links import PendingChanges


def listed(changes: PendingChanges) -> list[str]:
    keys = []
    while (key := changes.next_listed()) is not None:
        keys.append(key)
    return keys


def test_snapshot_comes_in_order_and_before_changes() -> None:
    changes = PendingChanges()
    changes.subscribe(["a", "b", "c"], once=False)
    changes.add("b")
    assert changes.change() is None
    assert changes.next_listed() == "a"
    assert not changes.end_page()
    assert listed(changes) == ["b", "c"]
    assert changes.end_page()
    assert not changes.has_snapshot
    assert changes.change() == "b"
    assert changes.change() is None


def test_empty_snapshot_has_one_page() -> None:
    changes = PendingChanges()
    changes.subscribe([], once=True)
    assert changes.has_snapshot
    assert changes.next_listed() is None
    assert changes.end_page()
    assert not changes.has_snapshot
    assert not changes.subscribed


def test_subscribing_again_begins_anew() -> None:
    changes = PendingChanges()
    changes.subscribe(["a", "b"], once=False)
    changes.next_listed()
    changes.add("z")
    changes.subscribe(["a", "b"], once=False)
    assert listed(changes) == ["a", "b"]
    changes.end_page()
    assert changes.change() is None


def test_terminal_without_subscription_hears_of_its_rank_alone() -> None:
    changes = PendingChanges()
    changes.add("mine")
    assert changes.change() == "mine"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_last_state_of_each_rank_is_heard_however_slow_the_subscriber(events: list[tuple[str, bool]]) -> None:
    changes, truth, heard = PendingChanges(), dict.fromkeys("abc", 0), {}
    changes.subscribe("abc", once=False)
    for key, reads in events:
        truth[key] += 1
        changes.add(key)
        if reads and changes.has_snapshot:
            if (next_key := changes.next_listed()) is not None:
                heard[next_key] = truth[next_key]
            changes.end_page()
        elif reads and (changed := changes.change()) is not None:
            heard[changed] = truth[changed]
    for key in listed(changes):
        heard[key] = truth[key]
    changes.end_page()
    while (changed := changes.change()) is not None:
        heard[changed] = truth[changed]
    assert heard == truth
