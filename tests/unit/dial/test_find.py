"""Secrets are read only where others can't have touched them, and no read waits without a bound."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dbg_dial.endpoint import TokenRole, format_driver_tokens, format_rendezvous
from dbg_dial.find import MAX_SECRET_BYTES, DiscoveryOptions, check_own, find_broker, open_at_once, read_secret
from dbg_wire.errors import BadInput, BadSecretFile, NoBroker
from tests.conftest import Approved
from tests.support.reach import PIN, RENDEZVOUS, SECRET, TOKENS, all_text


def seeker(**changes: object) -> DiscoveryOptions:
    given: dict[str, object] = {"role": "driver", "argument_name": "--broker"}
    return DiscoveryOptions(**{**given, **changes})  # type: ignore[arg-type]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602])
def test_own_secret_is_read_unless_others_can_access_it(secret: Path, mode: int) -> None:
    assert read_secret(str(secret)) == SECRET
    secret.chmod(mode)
    with pytest.raises(BadSecretFile) as caught:
        read_secret(str(secret))
    assert SECRET not in all_text(caught.value)


def test_secret_of_another_user_is_refused(approved: Approved, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # This user is neither the owner of the file nor root.
    monkeypatch.setattr(os, "getuid", partial(int, os.getuid() + 1))
    if os.geteuid() == 0:
        os.chown(secret, 4711, -1)
    with pytest.raises(BadSecretFile) as caught:
        read_secret(str(secret))
    approved(str(caught.value))


def test_checked_file_is_the_one_that_is_read(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.fstat

    def swapped(descriptor: int) -> os.stat_result:
        found = really(descriptor)
        other = secret.with_name("other")
        other.write_text("of somebody else")
        other.replace(secret)
        return found

    monkeypatch.setattr(os, "fstat", swapped)
    assert read_secret(str(secret)) == SECRET


def test_owner_and_mode_of_the_open_file_are_checked(secret: Path) -> None:
    with open_at_once(str(secret)) as file:
        secret.unlink()
        secret.symlink_to("/etc/passwd")
        assert stat.S_ISREG(check_own(file, str(secret), os.getuid()))
        os.fchmod(file.fileno(), 0o644)
        with pytest.raises(BadSecretFile):
            check_own(file, str(secret), os.getuid())
        check_own(file, str(secret), os.getuid(), others_may_read=True)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/tty", "/proc/self", "pipe"])
def test_secret_must_be_a_regular_file(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    path = path if path.startswith("/") else str(tmp_path / path)
    with pytest.raises((BadSecretFile, OSError)):
        read_secret(path)


def test_secret_file_is_read_up_to_a_limit(secret: Path) -> None:
    secret.write_text("x" * 1_000_000)
    assert len(read_secret(str(secret))) == MAX_SECRET_BYTES


def write_home(home: Path, tokens: Mapping[TokenRole, str] = TOKENS) -> Path:
    path = home / "broker.json"
    path.write_text(format_rendezvous(replace(RENDEZVOUS, tokens=tokens)))
    path.chmod(0o600)
    return path


def write_drivers(home: Path, tokens: Mapping[TokenRole, str]) -> Path:
    path = home / "driver.json"
    path.write_text(format_driver_tokens(tokens))
    path.chmod(0o600)
    return path


SECOND_FILES: dict[str, tuple[set[TokenRole], set[TokenRole] | None, TokenRole, str]] = {
    "of a driver": ({"rank"}, {"driver", "watcher"}, "driver", "driver.json"),
    "of a watcher": ({"rank"}, {"watcher"}, "watcher", "driver.json"),
    "of no terminal": ({"rank", "driver", "watcher"}, None, "driver", "broker.json"),
}
"""The tokens in both files, and which a terminal takes; a broker of release 0.1 has all of them in one file."""


@pytest.mark.parametrize("case", SECOND_FILES)
def test_a_terminal_takes_its_token_from_the_second_file_if_there_is_one(tmp_path: Path, case: str) -> None:
    first, second, role, source = SECOND_FILES[case]
    write_home(tmp_path, {name: TOKENS[name] for name in first})
    if second is not None:
        write_drivers(tmp_path, {name: TOKENS[name] for name in second})
    reach = find_broker(seeker(), None, {}, str(tmp_path))
    assert (reach.token, reach.sources["token"]) == (TOKENS[role], source)


def test_broker_is_found_by_the_home_of_environment_or_argument(tmp_path: Path) -> None:
    with pytest.raises(NoBroker):
        find_broker(seeker(), None, {}, str(tmp_path))
    write_home(tmp_path)
    for environ, home in (({"DBG_HOME": str(tmp_path)}, None), ({}, str(tmp_path))):
        reach = find_broker(seeker(), None, environ, home)
        assert (reach.endpoint, reach.token) == (RENDEZVOUS.endpoint, TOKENS["driver"])


@pytest.mark.parametrize("role", ["driver", "rank"])
def test_home_that_is_open_to_others_is_reported_to_terminals_and_ranks(
    approved: Approved, tmp_path: Path, role: TokenRole
) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(BadSecretFile) as caught:
        find_broker(seeker(role=role), None, {}, str(tmp_path))
    approved(str(caught.value))


def test_rank_dials_a_broker_whose_home_is_open_to_others(tmp_path: Path) -> None:
    write_home(tmp_path)
    tmp_path.chmod(0o755)
    assert find_broker(seeker(role="rank"), None, {}, str(tmp_path)).endpoint.url == RENDEZVOUS.url


def test_broken_home_is_reported_unless_it_is_not_needed(tmp_path: Path) -> None:
    write_home(tmp_path).chmod(0o666)
    environ = {"DBG_TOKEN": SECRET, "DBG_HOME": str(tmp_path)}
    with pytest.raises(BadSecretFile):
        find_broker(seeker(), f"one:1#{PIN}", environ)
    assert find_broker(seeker(role="rank"), f"one:1#{PIN}", environ).token == SECRET
    with pytest.raises(BadInput):
        find_broker(seeker(role="rank"), "one:1", environ)


def test_unreadable_home_is_reported(approved: Approved, tmp_path: Path) -> None:
    write_home(tmp_path).write_bytes(b"\xff\xfe")
    with pytest.raises(BadSecretFile) as caught:
        find_broker(seeker(), None, {}, str(tmp_path))
    approved(str(caught.value), "no text")
    (tmp_path / "broker.json").unlink()
    (tmp_path / "broker.json").symlink_to(tmp_path / "broker.json")
    with pytest.raises(BadSecretFile) as caught:
        find_broker(seeker(), None, {}, str(tmp_path))
    approved(str(caught.value), "a link to itself")
