"""A run gives its job a token for that job alone, where broker and token are the home's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbg_broker.home.private_files import open_home
from dbg_broker.home.rendezvous import write_rendezvous
from dbg_broker.home.tokens import job_token
from dbg_broker.run.environment import token_file_of
from dbg_wire.finding.rendezvous import Rendezvous
from tests.support.reach import PIN, TOKENS


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return open_home(str(tmp_path / "home"))


def serving(home: Path) -> None:
    told = Rendezvous(url="wss://h:1", host="h", pid=7, fingerprint=PIN, tokens={"rank": TOKENS["rank"]})
    write_rendezvous(home, told)


def test_the_file_holds_a_token_of_the_job(home: Path) -> None:
    serving(home)
    path = token_file_of("train-1", str(home), {})
    assert path is not None
    assert Path(path).read_text().strip() == job_token(TOKENS["rank"], "train-1")


@pytest.mark.parametrize("chosen", ["DBG_BROKER", "DBG_TOKEN", "DBG_TOKEN_FILE"])
def test_what_the_user_has_chosen_is_left_alone(home: Path, chosen: str) -> None:
    serving(home)
    assert token_file_of("train-1", str(home), {chosen: "x"}) is None


def test_a_home_without_a_broker_has_no_such_token(home: Path) -> None:
    assert token_file_of("train-1", str(home), {}) is None


def test_a_run_inside_of_another_ones_job_has_a_token_of_its_own(home: Path) -> None:
    serving(home)
    outer = token_file_of("train-1", str(home), {})
    assert outer is not None
    inner = token_file_of("train-1-2", str(home), {"DBG_TOKEN_FILE": outer})
    assert inner is not None
    assert Path(inner).read_text().strip() == job_token(TOKENS["rank"], "train-1-2")
