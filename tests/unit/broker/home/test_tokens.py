"""The holder of a token: what it is called in a log, and when its token is over."""

from __future__ import annotations

import hmac
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.cli.token import TokenOptions, print_token, revoke
from dbg_broker.home.private_files import open_home, write_private
from dbg_broker.home.rendezvous import TOKENS_LOCK_FILE, tokens_locked
from dbg_broker.home.tokens import (
    ANY_RANK,
    ISSUED_FILE,
    TOKENS_DIRECTORY,
    Bearer,
    IssuedToken,
    IssuedTokens,
    RevokedToken,
    Role,
    Tokens,
    digest_of,
    format_issued,
    load_issued,
    load_tokens,
    may_open,
    parse_issued,
    renew_job_tokens,
    rotate_tokens,
    save_issued,
)
from dbg_command.home import JOB_MARK, JOB_TOKENS_DIRECTORY, job_token
from dbg_dial.endpoint import parse_token
from dbg_wire.errors import BadInput, BadSecretFile
from tests.conftest import Approved
from tests.support.reach import SECRET, all_text, any_text

TOKENS = Tokens(rank="rank-" + SECRET, driver="driver-" + SECRET, watcher="watcher-" + SECRET)


@pytest.fixture(params=[0, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER   {} "])
def test_token_gives_its_role(role: Role, form: str) -> None:
    bearer = TOKENS.bearer_of(form.format(TOKENS.of(role)))
    assert bearer is not None
    assert (bearer.role, bearer.name, bearer.job, bearer.expires) == (role, "", None, None)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        TOKENS.rank,
        f"Basic {TOKENS.rank}",
        f"Bearer{TOKENS.rank}",
        f"Bearer {TOKENS.rank[:-1]}",
        f"Bearer {TOKENS.rank}x",
        f"Bearer {TOKENS.rank.upper()}",
        f"Bearer {TOKENS.rank} {TOKENS.driver}",
        f"Bearer {SECRET}",
        "Bearer \ud800",
    ],
)
def test_other_headers_give_no_bearer(header: str | None) -> None:
    assert TOKENS.bearer_of(header) is None


@pytest.mark.parametrize(
    "header", [None, "x", f"Bearer {TOKENS.rank}", f"Bearer {TOKENS.watcher}", f"Basic {TOKENS.rank}", "Bearer no"]
)
def test_every_header_is_compared_with_all_three(header: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    compare = hmac.compare_digest

    def counting(a: bytes, b: bytes) -> bool:
        compared.append(len(a) - len(b))
        return compare(a, b)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    TOKENS.bearer_of(header)
    assert compared == [0, 0, 0]


def test_tokens_are_not_shown() -> None:
    assert SECRET not in repr(TOKENS) + str(TOKENS)
    assert TOKENS.by_name() == {role.value: TOKENS.of(role) for role in Role}


@given(st.sampled_from(Role), any_text)
def test_no_role_may_open_other_paths(role: Role, path: str) -> None:
    assert not may_open(role, path)
    assert not may_open(role, f"/agent{path}/")


@pytest.mark.usefixtures("umask")
def test_tokens_are_created_once_in_private_files(tmp_path: Path) -> None:
    tokens = load_tokens(tmp_path)
    directory = tmp_path / TOKENS_DIRECTORY
    assert directory.stat().st_mode & 0o777 == 0o700
    for role in Role:
        file = directory / role.value
        assert file.stat().st_mode & 0o777 == 0o600
        assert parse_token(file.read_text(), source="file") == tokens.of(role)
    assert load_tokens(tmp_path) == tokens
    assert len({tokens.of(role) for role in Role}) == 3


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_tokens(tmp_path)
    path = tmp_path / TOKENS_DIRECTORY / "watcher"
    path.chmod(0o640)
    with pytest.raises(BadSecretFile, match=f"type `chmod 600 {path}`"):
        load_tokens(tmp_path)


@pytest.mark.parametrize("text", ["", "short", f"{SECRET} {SECRET}"])
def test_a_file_without_a_token_is_refused(approved: Approved, tmp_path: Path, text: str) -> None:
    load_tokens(tmp_path)
    write_private(tmp_path / TOKENS_DIRECTORY / "rank", text)
    with pytest.raises(BadSecretFile) as caught:
        load_tokens(tmp_path)
    approved(str(caught.value))
    assert SECRET not in all_text(caught.value)


def test_one_token_for_two_roles_is_refused(approved: Approved, tmp_path: Path) -> None:
    tokens = load_tokens(tmp_path)
    write_private(tmp_path / TOKENS_DIRECTORY / "watcher", tokens.driver)
    with pytest.raises(BadSecretFile) as caught:
        load_tokens(tmp_path)
    approved(str(caught.value))
    assert tokens.driver not in all_text(caught.value)


def bearer_of(tokens: Tokens, token: str) -> Bearer | None:
    return tokens.bearer_of(f"Bearer {token}")


def test_job_token_admits_ranks_of_its_job() -> None:
    token = TOKENS.for_job("train.py-4711.2")
    bearer = bearer_of(TOKENS, token)
    assert bearer is not None
    assert (bearer.role, bearer.job) == (Role.RANK, "train.py-4711.2")
    assert TOKENS.still_know(bearer)
    assert not replace(TOKENS, rank="n" * 43).still_know(bearer)


def test_job_token_cannot_be_changed_to_another_job() -> None:
    token = TOKENS.for_job("train-1")
    assert bearer_of(TOKENS, token.replace("train-1", "train-2")) is None
    assert bearer_of(TOKENS, f"{JOB_MARK}train-1.") is None
    assert bearer_of(replace(TOKENS, rank=TOKENS.driver), token) is None


def test_site_code_is_not_accepted_as_job_token() -> None:
    assert bearer_of(TOKENS, f"{JOB_MARK}rank.{TOKENS.site()}") is None
    assert TOKENS.for_job("site: rank").rpartition(".")[2] != TOKENS.for_job("rank").rpartition(".")[2]


def test_issued_token_gives_its_role_job_and_end() -> None:
    made = IssuedToken(name="alice", role=Role.WATCHER, digest=digest_of(SECRET), made=1.0, job="j", expires=9.0)
    tokens = replace(TOKENS, issued=IssuedTokens((made,)))
    bearer = bearer_of(tokens, SECRET)
    assert bearer == made.bearer
    assert tokens.still_know(made.bearer)
    assert not TOKENS.still_know(made.bearer)
    # A bearer that another broker reports, without the end of the token.
    assert tokens.still_know(Bearer(role=made.role, digest=made.bearer.digest, name="alice"))
    other = IssuedTokens((replace(made, digest=digest_of("other")),))
    assert not replace(tokens, issued=other).still_know(made.bearer)
    assert (made.bearer.is_expired(8.9), made.bearer.is_expired(9.0)) == (False, True)


def test_rotation_leaves_no_old_token(tmp_path: Path) -> None:
    before = load_tokens(tmp_path)
    after = rotate_tokens(tmp_path)
    assert not {*before.by_name().values()} & {*after.by_name().values()}
    assert load_tokens(tmp_path) == after
    connected = bearer_of(before, before.driver)
    assert connected is not None
    assert not after.still_know(connected)


def test_bearer_expires_at_its_end() -> None:
    assert not ANY_RANK.is_expired(1e12)
    alice = Bearer(role=Role.DRIVER, expires=9.0)
    assert (alice.is_expired(8.9), alice.is_expired(9.0)) == (False, True)


def test_bearer_sees_only_its_job_and_shows_role_and_name() -> None:
    alice = Bearer(role=Role.WATCHER, name="alice", job="train-1", digest=b"d")
    assert (alice.may_see("train-1"), alice.may_see("train-2")) == (True, False)
    assert (alice.shown, ANY_RANK.shown) == ("a watcher (alice)", "a rank")


TEXT = "x" * 43
ALICE = IssuedToken(name="alice", role=Role.WATCHER, digest=digest_of(TEXT), made=1.5, job="train-1", expires=9.0)
BOB = IssuedToken(name="bob", role=Role.DRIVER, digest=digest_of(TEXT[1:]), made=2.0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return open_home(str(tmp_path / "home"))


def test_list_reads_back_and_contains_no_token(home: Path) -> None:
    assert load_issued(home) == IssuedTokens()
    both = IssuedTokens((ALICE, BOB))
    save_issued(home, both)
    assert load_issued(home) == both
    assert (home / ISSUED_FILE).stat().st_mode & 0o777 == 0o600
    assert TEXT not in (home / ISSUED_FILE).read_text()


def test_name_can_be_issued_only_once(approved: Approved) -> None:
    with pytest.raises(BadInput, match="the name 'alice' already; use another name"):
        IssuedTokens((ALICE,)).issue(ALICE)
    assert IssuedTokens((ALICE, BOB)).revoke("alice", 3.0).tokens == (BOB,)
    with pytest.raises(BadInput) as caught:
        IssuedTokens((ALICE, BOB)).revoke("carol", 3.0)
    approved(str(caught.value))


def test_token_revoked_in_one_home_stays_revoked() -> None:
    here, there = IssuedTokens((ALICE, BOB)), IssuedTokens((ALICE, BOB)).revoke("alice", 3.0)
    assert here.joined(there) == there.joined(here) == there
    assert there.joined(here).tokens == (BOB,)
    # A token of that name may be made anew.
    again = replace(ALICE, digest=digest_of("again"), made=4.0)
    assert there.issue(again).joined(here).tokens == (BOB, again)


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
def test_lists_join_equally_in_any_order(one: IssuedTokens, two: IssuedTokens, three: IssuedTokens) -> None:
    assert one.joined(two) == two.joined(one)
    assert one.joined(one) == one
    # A broker that has joined another one's list has nothing new to send to it.
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
def test_invalid_list_is_refused_with_advice(approved: Approved, home: Path, text: str) -> None:
    write_private(home / ISSUED_FILE, text)
    with pytest.raises(BadSecretFile) as caught:
        load_issued(home)
    approved(str(caught.value))


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_refused_as_list(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    home = tmp_path_factory.mktemp("home", numbered=True)
    write_private(home / ISSUED_FILE, text)
    with pytest.raises(BadSecretFile):
        load_issued(home)


TOKENS_JOB_TOKENS = Tokens(rank="r" * 43, driver="d" * 43, watcher="w" * 43)


def test_new_rank_token_renews_all_job_tokens(tmp_path: Path) -> None:
    path = tmp_path / JOB_TOKENS_DIRECTORY / "train-1"
    path.parent.mkdir()
    path.write_text("old")
    renew_job_tokens(tmp_path, replace(TOKENS_JOB_TOKENS, rank="n" * 43))
    assert path.read_text() == job_token("n" * 43, "train-1") + "\n"


def silent(_: str) -> None:
    """Print nothing."""


def make(home: Path, name: str) -> None:
    print_token(home, TokenOptions(role=Role.WATCHER, name=name), silent, silent)


def test_concurrent_issue_does_not_restore_a_revoked_token(home: Path) -> None:
    for number in range(8):
        make(home, f"old-{number}")
    start = threading.Barrier(16)

    def change(number: int) -> None:
        start.wait()
        if number < 8:
            revoke(home, f"old-{number}", silent, silent)
        else:
            make(home, f"new-{number}")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(change, range(16)))
    names = {one.name for one in load_issued(home).tokens}
    assert names == {f"new-{number}" for number in range(8, 16)}


def test_link_in_place_of_the_lock_is_refused(home: Path) -> None:
    (home / TOKENS_LOCK_FILE).symlink_to("elsewhere")
    with pytest.raises(BadSecretFile, match="can't be made"), tokens_locked(home):
        pass
