from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbg_broker.home.private_files import MAX_PRIVATE_FILE, open_home, read_private, write_private
from dbg_broker.home.rendezvous import lock, read_rendezvous, remove_rendezvous, write_rendezvous
from dbg_dial.endpoint import RENDEZVOUS_FILE, format_rendezvous, parse_driver_tokens
from dbg_dial.find import DRIVER_FILE
from dbg_wire.errors import BadSecretFile
from tests.conftest import Approved
from tests.support.reach import RENDEZVOUS, SECRET, TOKENS, all_text


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(params=[0, 0o077, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Set the umask; ``tmp_path`` is made before."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return open_home(str(tmp_path / "home"))


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the process take itself for another user: the owner's id plus one, which is not root's id either."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


# the directory


@pytest.mark.usefixtures("umask")
def test_home_is_created_private(tmp_path: Path) -> None:
    home = open_home(str(tmp_path / "state" / "dbg-broker"))
    assert mode(home) == 0o700
    assert mode(home.parent) == 0o700
    assert open_home(str(home)) == home


@pytest.mark.parametrize("bits", [0o755, 0o710, 0o701, 0o770])
def test_a_home_that_others_can_enter_is_refused(approved: Approved, tmp_path: Path, bits: int) -> None:
    path = tmp_path / "my home"
    path.mkdir()
    path.chmod(bits)
    with pytest.raises(BadSecretFile) as caught:
        open_home(str(path))
    approved(str(caught.value))
    assert mode(path) == bits


@pytest.mark.usefixtures("stranger")
def test_home_of_another_user_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSecretFile, match=rf"belongs to user {os.getuid()}, not to you; set DBG_HOME"):
        open_home(str(tmp_path))


# private files


@pytest.mark.usefixtures("umask")
def test_private_file_reads_back_and_only_its_owner_can_access_it(tmp_path: Path) -> None:
    home = open_home(str(tmp_path / "home"))
    write_private(home / "file", "one")
    write_private(home / "file", "two")
    assert read_private(home / "file") == "two"
    assert mode(home / "file") == 0o600


def test_a_write_that_fails_leaves_the_old_file_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_private(home / "file", "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadSecretFile, match=r"file can't be written \(No space left on device\)"):
        write_private(home / "file", SECRET)
    assert read_private(home / "file") == "old"
    assert [path.name for path in home.iterdir()] == ["file"]


def test_a_writer_never_writes_through_a_link(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("theirs")
    (home / "file").symlink_to(tmp_path / "elsewhere")
    write_private(home / "file", SECRET)
    assert (tmp_path / "elsewhere").read_text() == "theirs"


def test_a_file_open_to_others_is_refused(approved: Approved, home: Path) -> None:
    write_private(home / "file", SECRET)
    (home / "file").chmod(0o644)
    with pytest.raises(BadSecretFile) as caught:
        read_private(home / "file")
    approved(str(caught.value))
    assert SECRET not in all_text(caught.value)
    assert read_private(home / "file", others_may_read=True) == SECRET
    (home / "file").chmod(0o664)
    with pytest.raises(BadSecretFile) as caught:
        read_private(home / "file", others_may_read=True)
    approved(str(caught.value), "2")


def test_unreadable_private_file_is_refused(home: Path) -> None:
    (home / "directory").mkdir()
    os.mkfifo(home / "pipe", 0o600)
    (home / "loop").symlink_to(home / "loop")
    write_private(home / "large", "x" * (MAX_PRIVATE_FILE + 1))
    write_private(home / "binary", "")
    (home / "binary").write_bytes(b"\xff")
    for name in ("directory", "pipe", "loop", "large", "binary"):
        with pytest.raises(BadSecretFile, match=name):
            read_private(home / name)


# broker.json


@pytest.mark.usefixtures("umask")
def test_broker_json_reads_back(tmp_path: Path) -> None:
    home = open_home(str(tmp_path / "home"))
    assert read_rendezvous(home) is None
    write_rendezvous(home, RENDEZVOUS)
    assert read_rendezvous(home) == RENDEZVOUS
    assert mode(home / RENDEZVOUS_FILE) == mode(home / DRIVER_FILE) == 0o600
    assert (home / RENDEZVOUS_FILE).read_text() == format_rendezvous(RENDEZVOUS) + "\n"


def test_tokens_of_terminals_are_in_a_separate_file(home: Path) -> None:
    write_rendezvous(home, replace(RENDEZVOUS, tokens={"rank": TOKENS["rank"]}, driver_tokens=TOKENS))
    assert TOKENS["driver"] not in (home / RENDEZVOUS_FILE).read_text()
    assert parse_driver_tokens((home / DRIVER_FILE).read_text(), "p") == TOKENS


def test_a_bad_broker_json_is_named(approved: Approved, home: Path) -> None:
    write_private(home / RENDEZVOUS_FILE, SECRET)
    with pytest.raises(BadSecretFile) as caught:
        read_rendezvous(home)
    approved(str(caught.value))
    assert SECRET not in all_text(caught.value)


def test_broker_json_is_removed_by_its_writer(home: Path) -> None:
    write_rendezvous(home, RENDEZVOUS)
    remove_rendezvous(home, pid=RENDEZVOUS.pid, host=RENDEZVOUS.host)
    assert list(home.iterdir()) == []


def test_broker_json_of_another_broker_stays(home: Path) -> None:
    write_rendezvous(home, RENDEZVOUS)
    remove_rendezvous(home, pid=RENDEZVOUS.pid + 1, host=RENDEZVOUS.host)
    remove_rendezvous(home, pid=RENDEZVOUS.pid, host="login2")
    assert read_rendezvous(home) == RENDEZVOUS
    write_rendezvous(home, replace(RENDEZVOUS, pid=1))
    remove_rendezvous(home, pid=RENDEZVOUS.pid, host=RENDEZVOUS.host)


# the lock


def test_only_one_broker_can_lock_a_home(home: Path) -> None:
    held = lock(home)
    assert held is not None
    assert lock(home) is None
    held.close()
    with lock(home) or pytest.fail("the lock was not released"):
        assert lock(home) is None


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_file_system_without_locks_refuses_no_broker(home: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(fcntl, "flock", refuse(number))
    with lock(home) or pytest.fail("taken for held"), lock(home) or pytest.fail("taken for held"):
        pass


def refuse(number: int) -> object:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    return flock
