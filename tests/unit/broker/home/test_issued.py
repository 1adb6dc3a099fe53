"""Tokens that were made for somebody: the list keeps digests, and comes back as it was written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.home.bearer import Role
from dbg_broker.home.issued import (
    ISSUED_FILE,
    MAX_ISSUED,
    MAX_REVOKED,
    IssuedToken,
    IssuedTokens,
    RevokedToken,
    format_issued,
    join_issued,
    load_issued,
    parse_issued,
    save_issued,
)
from dbg_broker.home.private_files import open_home, write_private
from dbg_broker.home.tokens import digest_of
from dbg_wire.errors import BadInput, BadSecretFile
from tests.conftest import Approved

TEXT = "x" * 43
ALICE = IssuedToken(name="alice", role=Role.WATCHER, digest=digest_of(TEXT), made=1.5, job="train-1", expires=9.0)
BOB = IssuedToken(name="bob", role=Role.DRIVER, digest=digest_of(TEXT[1:]), made=2.0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return open_home(str(tmp_path / "home"))


def test_a_list_comes_back_and_holds_no_token(home: Path) -> None:
    assert load_issued(home) == IssuedTokens()
    both = IssuedTokens((ALICE, BOB))
    save_issued(home, both)
    assert load_issued(home) == both
    assert (home / ISSUED_FILE).stat().st_mode & 0o777 == 0o600
    assert TEXT not in (home / ISSUED_FILE).read_text()


def test_a_name_is_taken_once(approved: Approved) -> None:
    with pytest.raises(BadInput, match="the name 'alice' already; take another one"):
        IssuedTokens((ALICE,)).issue(ALICE)
    assert IssuedTokens((ALICE, BOB)).revoke("alice", 3.0).tokens == (BOB,)
    with pytest.raises(BadInput) as caught:
        IssuedTokens((ALICE, BOB)).revoke("carol", 3.0)
    approved(str(caught.value))


def test_there_are_only_so_many() -> None:
    many = tuple(IssuedToken(name=f"n{i}", role=Role.RANK, digest="0" * 64, made=0.0) for i in range(MAX_ISSUED))
    with pytest.raises(BadInput, match="revoke some"):
        IssuedTokens(many).issue(ALICE)


def test_the_longest_list_is_read_again(home: Path) -> None:
    long = {"role": Role.WATCHER, "job": "j" * 200, "made": 1764115200.123456, "expires": 1764115200.123456}
    tokens = tuple(IssuedToken(name=f"{i:064}", digest=f"{i:064x}", **long) for i in range(MAX_ISSUED))  # type: ignore[arg-type]
    revoked = tuple(RevokedToken(digest=f"{i:064x}", since=1764115200.123456) for i in range(MAX_REVOKED))
    longest = IssuedTokens(tokens, revoked)
    save_issued(home, longest)
    assert load_issued(home) == longest
    # What NATS takes as one message, unless its configuration says less.
    assert len(format_issued(longest)) < 1024 * 1024 - 4096


def test_what_one_home_has_revoked_stays_revoked() -> None:
    here, there = IssuedTokens((ALICE, BOB)), IssuedTokens((ALICE, BOB)).revoke("alice", 3.0)
    assert here.joined(there) == there.joined(here) == there
    assert there.joined(here).tokens == (BOB,)
    # A token of that name may be made anew.
    again = replace(ALICE, digest=digest_of("again"), made=4.0)
    assert there.issue(again).joined(here).tokens == (BOB, again)


def test_a_list_is_joined_into_that_of_a_home_and_written_if_it_is_another_one(home: Path) -> None:
    save_issued(home, IssuedTokens((ALICE,)))
    written = (home / ISSUED_FILE).stat().st_ino
    assert join_issued(home, IssuedTokens((ALICE,))) == IssuedTokens((ALICE,))
    assert (home / ISSUED_FILE).stat().st_ino == written
    both = join_issued(home, IssuedTokens((ALICE, BOB)).revoke("alice", 3.0))
    assert both == load_issued(home)
    assert both.tokens == (BOB,)


def test_of_two_tokens_of_one_name_the_later_one_is_renamed() -> None:
    other = replace(ALICE, digest=digest_of("other"), made=2.5)
    joined = IssuedTokens((ALICE,)).joined(IssuedTokens((other,)))
    assert joined == IssuedTokens((other,)).joined(IssuedTokens((ALICE,)))
    first, second = joined.tokens
    assert (first, second.name) == (ALICE, f"alice-{other.digest[:6]}")
    assert (second.digest, second.role, second.job) == (other.digest, other.role, other.job)
    # Whoever still has it under its old name does not take the new one away.
    assert joined.joined(IssuedTokens((other,))) == joined


def test_the_oldest_tombstones_go_first() -> None:
    old = IssuedTokens(revoked=tuple(RevokedToken(digest=f"{i:064x}", since=float(i)) for i in range(MAX_REVOKED)))
    joined = IssuedTokens((BOB,)).revoke("bob", MAX_REVOKED + 1.0).joined(old)
    assert len(joined.revoked) == MAX_REVOKED
    assert joined.revoked[0].digest == BOB.digest
    assert "0" * 64 not in {one.digest for one in joined.revoked}


names = st.sampled_from(["a", "b", "a-000000", "n" * 64])
numbers = st.integers(0, 5)
digests = numbers.map(lambda number: f"{number:064x}")
times = st.integers(0, 9).map(float)
# A digest belongs to one token; only its name may differ, since another broker may have renamed it.
issued_tokens = st.builds(
    lambda name, number: IssuedToken(
        name=name, role=[*Role][number % len(Role)], digest=f"{number:064x}", made=float(number // 2)
    ),
    names,
    numbers,
)
lists = st.builds(
    lambda tokens, revoked: IssuedTokens().joined(IssuedTokens(tuple(tokens), tuple(revoked))),
    st.lists(issued_tokens, max_size=5),
    st.lists(st.builds(RevokedToken, digest=digests, since=times), max_size=3),
)


@given(lists, lists, lists)
def test_lists_join_to_the_same_in_any_order(one: IssuedTokens, two: IssuedTokens, three: IssuedTokens) -> None:
    assert one.joined(two) == two.joined(one)
    assert one.joined(one) == one
    # So that a broker which has taken another one's list has nothing to tell it.
    assert one.joined(two).joined(two) == one.joined(two)
    all_three = one.joined(two).joined(three)
    # What was renamed on the way keeps its name, so that the third join makes up for the order.
    assert all_three.joined(three.joined(two).joined(one)) == three.joined(two).joined(one).joined(all_three)
    assert {token.digest for token in all_three.tokens}.isdisjoint(one.digest for one in all_three.revoked)
    assert parse_issued(format_issued(all_three)) == all_three


def entry(**changes: object) -> dict[str, object]:
    good: dict[str, object] = {
        "name": "a",
        "role": "rank",
        "job": None,
        "digest": "0" * 64,
        "made": 1,
        "expires": None,
    }
    return {**good, **changes}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema":2,"tokens":[]}',
        '{"schema":1,"tokens":7}',
        *(
            json.dumps({"schema": 1, "tokens": [wrong]})
            for wrong in (
                {},
                entry(name=""),
                entry(name="a b"),
                entry(role="king"),
                entry(job=7),
                entry(digest="no"),
                entry(made="today"),
                entry(expires=True),
            )
        ),
        json.dumps({"schema": 1, "tokens": [], "revoked": [{"digest": "no", "since": 1}]}),
        json.dumps({"schema": 1, "tokens": [entry(), entry()]}),
    ],
)
def test_another_file_is_refused_with_what_to_do(approved: Approved, home: Path, text: str) -> None:
    write_private(home / ISSUED_FILE, text)
    with pytest.raises(BadSecretFile) as caught:
        load_issued(home)
    approved(str(caught.value))


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    home = tmp_path_factory.mktemp("home", numbered=True)
    write_private(home / ISSUED_FILE, text)
    with pytest.raises(BadSecretFile):
        load_issued(home)
