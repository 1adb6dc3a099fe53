from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.home import tokens as home_tokens
from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.issued import IssuedToken, IssuedTokens
from dbg_broker.home.private_files import write_private
from dbg_broker.home.tokens import (
    DIAL_MARK,
    JOB_MARK,
    PATHS,
    TOKENS_DIRECTORY,
    Tokens,
    digest_of,
    job_token,
    load_tokens,
    may_open,
    new_token,
    proof,
    rotate_tokens,
)
from dbg_wire.errors import BadSecretFile
from dbg_wire.finding.endpoint import THROW_AWAY_MARK, is_throw_away, parse_token
from tests.conftest import Approved
from tests.support.reach import SECRET, any_text, said

TOKENS = Tokens(rank="rank-" + SECRET, driver="driver-" + SECRET, watcher="watcher-" + SECRET)


@pytest.fixture(params=[0, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER   {} "])
def test_a_token_stands_for_its_role(role: Role, form: str) -> None:
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
def test_anything_else_stands_for_nobody(header: str | None) -> None:
    assert TOKENS.bearer_of(header) is None


def test_a_request_costs_one_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    digested: list[str] = []
    digest = home_tokens._digest

    def counted(text: str) -> bytes:
        digested.append(text)
        return digest(text)

    monkeypatch.setattr(home_tokens, "_digest", counted)
    assert TOKENS.bearer_of(f"Bearer {TOKENS.driver}") is not None
    assert digested == [TOKENS.driver]


@given(any_text | any_text.map("Bearer {}".format))
def test_no_header_raises_or_guesses(header: str) -> None:
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


def test_who_may_open_what() -> None:
    allowed = {(role, path) for role in Role for path in PATHS if may_open(role, path)}
    assert allowed == {(Role.RANK, "/agent"), (Role.DRIVER, "/client"), (Role.WATCHER, "/client")}


@given(st.sampled_from(Role), any_text)
def test_other_paths_are_open_to_nobody(role: Role, path: str) -> None:
    assert not may_open(role, path)
    assert not may_open(role, f"/agent{path}/")


@pytest.mark.usefixtures("umask")
def test_tokens_are_made_once_and_for_us_alone(tmp_path: Path) -> None:
    tokens = load_tokens(tmp_path)
    directory = tmp_path / TOKENS_DIRECTORY
    assert directory.stat().st_mode & 0o777 == 0o700
    for role in Role:
        file = directory / role.value
        assert file.stat().st_mode & 0o777 == 0o600
        assert parse_token(file.read_text(), source="file") == tokens.of(role)
    assert load_tokens(tmp_path) == tokens
    assert len({tokens.of(role) for role in Role}) == 3


def test_two_homes_have_nothing_in_common(tmp_path: Path) -> None:
    one, two = load_tokens(tmp_path / "one"), load_tokens(tmp_path / "two")
    assert not {*one.by_name().values()} & {*two.by_name().values()}


def test_a_missing_token_alone_is_made_anew(tmp_path: Path) -> None:
    before = load_tokens(tmp_path)
    (tmp_path / TOKENS_DIRECTORY / "driver").unlink()
    after = load_tokens(tmp_path)
    assert after.driver != before.driver
    assert (after.rank, after.watcher) == (before.rank, before.watcher)


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
    assert SECRET not in said(caught.value)


def test_one_token_for_two_roles_is_refused(approved: Approved, tmp_path: Path) -> None:
    tokens = load_tokens(tmp_path)
    write_private(tmp_path / TOKENS_DIRECTORY / "watcher", tokens.driver)
    with pytest.raises(BadSecretFile) as caught:
        load_tokens(tmp_path)
    approved(str(caught.value))
    assert tokens.driver not in said(caught.value)


def test_no_place_for_tokens_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadSecretFile, match=r"file/tokens can't be made \(Not a directory\)"):
        load_tokens(tmp_path / "file")


def bearer_of(tokens: Tokens, token: str) -> Bearer | None:
    return tokens.bearer_of(f"Bearer {token}")


@pytest.mark.parametrize("rank", [TOKENS.rank, THROW_AWAY_MARK + TOKENS.rank])
def test_a_jobs_token_stands_for_ranks_of_that_job(rank: str) -> None:
    tokens = replace(TOKENS, rank=rank)
    token = tokens.for_job("train.py-4711.2")
    bearer = bearer_of(tokens, token)
    assert bearer is not None
    assert (bearer.role, bearer.job) == (Role.RANK, "train.py-4711.2")
    assert is_throw_away(token) == is_throw_away(rank)
    assert tokens.still_know(bearer)
    assert not replace(tokens, rank="n" * 43).still_know(bearer)


def test_a_jobs_token_can_not_be_made_into_that_of_another() -> None:
    token = TOKENS.for_job("train-1")
    assert bearer_of(TOKENS, token.replace("train-1", "train-2")) is None
    assert bearer_of(TOKENS, f"{JOB_MARK}train-1.") is None
    assert bearer_of(replace(TOKENS, rank=TOKENS.driver), token) is None


@pytest.mark.parametrize("form", ["{}", "ranks of {}", "job: {}", "dbg-broker job: {}"])
@pytest.mark.parametrize("what", ["train-1", "driver until 9999999999"])
def test_no_code_made_for_one_purpose_is_a_token_of_another(what: str, form: str) -> None:
    words = form.format(what)
    codes = {proof(TOKENS.of(role), words) for role in Role}
    codes.add(TOKENS.for_a_while(Role.WATCHER, 9999999999).rpartition(".")[2])
    if words != "train-1":
        codes.add(TOKENS.for_job(words).rpartition(".")[2])
    forged = [f"{mark}.{code}" for code in codes for mark in (f"{JOB_MARK}train-1", f"{DIAL_MARK}driver.9999999999")]
    assert [bearer_of(TOKENS, token) for token in forged] == [None] * len(forged)


def test_a_typed_token_goes_through_scrypt_before_others_hold_a_code_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stretched: list[bytes] = []
    scrypt = hashlib.scrypt

    def counting(password: bytes, *, salt: bytes, n: int, r: int, p: int) -> bytes:
        stretched.append(password)
        return scrypt(password, salt=salt, n=n, r=r, p=p)

    monkeypatch.setattr(hashlib, "scrypt", counting)
    typed, made = f"{new_token()[:15]}!", new_token()
    for token in (typed, made, f"{THROW_AWAY_MARK}{made}"):
        proof(token, "c0ffee")
        job_token(token, "train-1")
    tokens = Tokens(rank=made, driver=typed, watcher=new_token())
    bearer = bearer_of(tokens, tokens.for_a_while(Role.DRIVER, 9999999999))
    assert bearer is not None
    assert bearer.role is Role.DRIVER
    # Once, as a stranger who sends many tokens is not to make the broker do it again.
    assert stretched == [typed.encode()]


def test_an_issued_token_stands_for_what_it_was_made_for() -> None:
    made = IssuedToken(name="alice", role=Role.WATCHER, digest=digest_of(SECRET), made=1.0, job="j", expires=9.0)
    tokens = replace(TOKENS, issued=IssuedTokens((made,)))
    bearer = bearer_of(tokens, SECRET)
    assert bearer == made.bearer
    assert tokens.still_know(made.bearer)
    assert not TOKENS.still_know(made.bearer)
    # A bearer whom another broker tells of, without the end of the token.
    assert tokens.still_know(Bearer(role=made.role, digest=made.bearer.digest, name="alice"))
    other = IssuedTokens((replace(made, digest=digest_of("other")),))
    assert not replace(tokens, issued=other).still_know(made.bearer)
    assert (made.bearer.is_expired(8.9), made.bearer.is_expired(9.0)) == (False, True)


def test_rotation_leaves_no_old_token(tmp_path: Path) -> None:
    before = load_tokens(tmp_path)
    after = rotate_tokens(tmp_path)
    assert not {*before.by_name().values()} & {*after.by_name().values()}
    assert load_tokens(tmp_path) == after
