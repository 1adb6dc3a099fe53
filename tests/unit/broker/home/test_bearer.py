"""The holder of a token: what it is called in a log, and when its token is over."""

from __future__ import annotations

from dbg_broker.home.bearer import ANY_RANK, Bearer, Role


def test_a_bearer_is_over_at_the_first_of_its_ends() -> None:
    assert not ANY_RANK.is_expired(1e12)
    assert Bearer(role=Role.DRIVER, expires=9.0, dial_by=3.0).is_expired(3.0)
    assert not Bearer(role=Role.DRIVER, expires=9.0).is_expired(8.9)


def test_a_bearer_sees_its_job_and_is_named_as_in_a_log() -> None:
    alice = Bearer(role=Role.WATCHER, name="alice", job="train-1", digest=b"d")
    assert (alice.may_see("train-1"), alice.may_see("train-2")) == (True, False)
    assert (alice.shown, ANY_RANK.shown) == ("a watcher (alice)", "a rank")
    assert (alice.shared_digest, Bearer(role=Role.RANK, digest=b"d").shared_digest) == (b"d", None)
