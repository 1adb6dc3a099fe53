"""Where a rank finds its broker, and what it says if it finds none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbg_agent.link.lookup import find_ranks_broker
from dbg_wire.errors import BadSecretFile, NoBroker, WrongHost
from dbg_wire.finding.endpoint import Reach
from dbg_wire.finding.rendezvous import Rendezvous, format_rendezvous
from tests.conftest import Approved

PIN = "sha256:" + "ab" * 32
TOKEN = "t" * 43


def write_home(home: Path, url: str = "wss://login1:6900", host: str = "login1") -> Path:
    path = home / "broker.json"
    path.write_text(format_rendezvous(Rendezvous(url=url, host=host, pid=7, fingerprint=PIN, tokens={"rank": TOKEN})))
    path.chmod(0o600)
    return path


def find(home: Path, **variables: str) -> tuple[Reach, list[str]]:
    """Return how to reach the broker, and the files that were opened for it."""
    opened: list[str] = []
    return find_ranks_broker(None, {"DBG_HOME": str(home), **variables}, opened.append), opened


def test_the_broker_of_the_shared_home_is_found(tmp_path: Path) -> None:
    path = write_home(tmp_path)
    reach, opened = find(tmp_path)
    assert reach.endpoint.url == "wss://login1:6900"
    assert (reach.endpoint.fingerprint, reach.token) == (PIN, TOKEN)
    assert opened == [str(path)]


def test_the_file_with_the_tokens_of_terminals_is_not_opened(tmp_path: Path) -> None:
    path = write_home(tmp_path)
    (tmp_path / "driver.json").write_text("not for ranks")
    assert find(tmp_path)[1] == [str(path)]


def test_no_broker_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(NoBroker):
        find(tmp_path)


def test_a_file_that_others_can_read_is_refused_unless_everything_is_given_otherwise(tmp_path: Path) -> None:
    write_home(tmp_path).chmod(0o644)
    with pytest.raises(BadSecretFile, match="chmod 600"):
        find(tmp_path)
    reach, opened = find(tmp_path, DBG_BROKER=f"login1:6900#{PIN}", DBG_TOKEN=TOKEN)
    assert (reach.token, opened) == (TOKEN, [])


def test_each_file_is_told_before_it_is_opened(tmp_path: Path) -> None:
    path = write_home(tmp_path)
    missing = str(tmp_path / "token")
    told: list[str] = []
    with pytest.raises(BadSecretFile, match="token"):
        find_ranks_broker(None, {"DBG_HOME": str(tmp_path), "DBG_TOKEN_FILE": missing}, told.append)
    assert told == [str(path), missing]


def test_a_pipe_is_refused_at_once_since_a_rank_waits_for_nobody(approved: Approved, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "broker.json", 0o600)
    with pytest.raises(BadSecretFile) as caught:
        find(tmp_path)
    approved(str(caught.value))


def test_a_file_that_can_not_be_read_is_named_in_the_words_of_ranks(approved: Approved, tmp_path: Path) -> None:
    (tmp_path / "broker.json").symlink_to(tmp_path / "broker.json")
    with pytest.raises(BadSecretFile) as caught:
        find(tmp_path)
    approved(str(caught.value))


def test_the_loopback_of_another_host_is_no_ranks(tmp_path: Path) -> None:
    write_home(tmp_path, url="wss://127.0.0.1:6900", host="login1")
    with pytest.raises(WrongHost, match="this rank is on"):
        find(tmp_path)
    # A typed address of the loopback may be that of a tunnel.
    assert find(tmp_path, DBG_BROKER="127.0.0.1:6900")[0].endpoint.fingerprint == PIN
