"""The home of a broker: its certificate, its lock, and the directories above it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dbg_broker.home.certificate import (
    load_own,
)
from dbg_broker.home.private_files import open_home
from dbg_broker.home.rendezvous import lock
from dbg_wire.errors import BadSecretFile
from tests.conftest import Approved
from tests.support.requirements import needs_root
from tests.support.serving import run
from tests.unit.broker.home.test_private_files import OTHER, directory


def test_a_start_with_a_certificate_does_not_load_cryptography(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys; from dbg_broker.home.certificate import load_own; "
        "print(load_own(pathlib.Path(sys.argv[1])).fingerprint, 'cryptography' in sys.modules)"
    )
    start = [sys.executable, "-c", program, str(tmp_path)]
    first, second = (subprocess.run(start, capture_output=True, text=True, check=True).stdout for _ in range(2))
    fingerprint = load_own(tmp_path).fingerprint
    assert (first, second) == (f"{fingerprint} True\n", f"{fingerprint} False\n")


@needs_root
def test_serve_names_the_unsafe_directory_in_one_sentence(approved: Approved, tmp_path: Path) -> None:
    theirs = directory(tmp_path / "theirs", 0o755, OTHER)
    ended = run(theirs / "home", "serve", "--listen", "127.0.0.1:0")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    approved(line)


def test_a_lock_ends_with_its_process(made_home: Path) -> None:
    program = (
        "import pathlib, sys; from dbg_broker.home.rendezvous import lock; held = lock(pathlib.Path(sys.argv[1]));"
        "print(held is not None, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(made_home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == "True\n"
        assert lock(made_home) is None
        broker.kill()
    with lock(made_home) or pytest.fail("the lock outlived its process"):
        pass


@needs_root
def test_a_home_below_a_directory_of_another_user_is_refused_and_not_created(
    approved: Approved, tmp_path: Path
) -> None:
    theirs = directory(tmp_path / "theirs", 0o755, OTHER)
    with pytest.raises(BadSecretFile) as caught:
        open_home(str(theirs / "mine" / "home"))
    approved(str(caught.value))
    assert list(theirs.iterdir()) == []


@needs_root
def test_an_existing_home_below_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = directory(tmp_path / "theirs", 0o1777, OTHER)
    directory(theirs / "home", 0o700)
    with pytest.raises(BadSecretFile, match=f"is below {theirs}, "):
        open_home(str(theirs / "home"))
