"""Tokens that were made for somebody: the list keeps digests, and comes back as it was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.home.bearer import (
    ISSUED_FILE,
    MAX_ISSUED,
    IssuedToken,
    Role,
    load_issued,
    save_issued,
    with_token,
    without_token,
)
from dbg_broker.home.private_files import open_home, write_private
from dbg_broker.home.tokens import digest_of
from dbg_wire.errors import BadInput, BadSecretFile

TEXT = "x" * 43
ALICE = IssuedToken(name="alice", role=Role.WATCHER, digest=digest_of(TEXT), made=1.5, job="train-1", expires=9.0)
BOB = IssuedToken(name="bob", role=Role.DRIVER, digest=digest_of(TEXT[1:]), made=2.0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return open_home(str(tmp_path / "home"))


def test_a_list_comes_back_and_holds_no_token(home: Path) -> None:
    assert load_issued(home) == ()
    save_issued(home, [ALICE, BOB])
    assert load_issued(home) == (ALICE, BOB)
    assert (home / ISSUED_FILE).stat().st_mode & 0o777 == 0o600
    assert TEXT not in (home / ISSUED_FILE).read_text()


def test_a_name_is_taken_once() -> None:
    with pytest.raises(BadInput, match="the name 'alice' already; take another one"):
        with_token((ALICE,), ALICE)
    assert without_token((ALICE, BOB), "alice") == (BOB,)
    with pytest.raises(BadInput, match="no token has the name 'carol'"):
        without_token((ALICE, BOB), "carol")


def test_there_are_only_so_many() -> None:
    many = tuple(IssuedToken(name=f"n{i}", role=Role.RANK, digest="0" * 64, made=0.0) for i in range(MAX_ISSUED))
    with pytest.raises(BadInput, match="revoke some"):
        with_token(many, ALICE)


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
        '{"schema":1}',
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
        json.dumps({"schema": 1, "tokens": [entry(), entry()]}),
    ],
)
def test_another_file_is_refused_with_what_to_do(home: Path, text: str) -> None:
    write_private(home / ISSUED_FILE, text)
    with pytest.raises(BadSecretFile, match="remove it, which revokes all tokens that have a name"):
        load_issued(home)


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    home = tmp_path_factory.mktemp("home", numbered=True)
    write_private(home / ISSUED_FILE, text)
    with pytest.raises(BadSecretFile):
        load_issued(home)
