"""The lock of a home's tokens, between commands that run at the same time."""

from __future__ import annotations

import errno
import fcntl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dbg_broker.home.bearer import Role
from dbg_broker.home.issued import load_issued
from dbg_broker.home.rendezvous import TOKENS_LOCK_FILE, tokens_locked
from dbg_broker.verbs.token import TokenOptions, print_token, revoke
from dbg_wire.errors import BadSecretFile


def silent(_: str) -> None:
    """Print nothing."""


def make(home: Path, name: str) -> None:
    print_token(home, TokenOptions(role=Role.WATCHER, name=name), silent, silent)


def test_a_token_that_is_made_while_another_is_revoked_does_not_bring_that_back(made_home: Path) -> None:
    for number in range(8):
        make(made_home, f"old-{number}")
    start = threading.Barrier(16)

    def change(number: int) -> None:
        start.wait()
        if number < 8:
            revoke(made_home, f"old-{number}", silent, silent)
        else:
            make(made_home, f"new-{number}")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(change, range(16)))
    names = {one.name for one in load_issued(made_home).tokens}
    assert names == {f"new-{number}" for number in range(8, 16)}


def test_where_no_lock_can_be_had_the_tokens_are_changed_without(
    made_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> None:
        def lock(*_: object) -> None:
            raise OSError(number, "no")

        monkeypatch.setattr(fcntl, "flock", lock)

    fail(errno.ENOLCK)
    make(made_home, "alice")
    fail(errno.EIO)
    with pytest.raises(BadSecretFile, match=r"tokens\.lock can't be locked"):
        make(made_home, "bob")


def test_a_link_in_its_place_is_refused(made_home: Path) -> None:
    (made_home / TOKENS_LOCK_FILE).symlink_to("elsewhere")
    with pytest.raises(BadSecretFile, match="can't be made"), tokens_locked(made_home):
        pass
