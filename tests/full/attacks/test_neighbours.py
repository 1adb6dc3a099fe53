"""Attacks of another user of the broker's host: no key waits for long, and nothing of the broker's is theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.full.attacks import neighbours
from tests.full.attacks.attacker import ROOT
from tests.full.attacks.conftest import Attacked, under_attack
from tests.support.time_unit import seconds

CALLS = {
    "calls of the port for stock debuggers that say nothing": neighbours.calls,
    "calls that send odd sequences": neighbours.odd_bytes,
}


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A broker that takes stock debuggers, too."""
    with under_attack(tmp_path_factory.mktemp("classic"), "--classic", "127.0.0.1:0") as attacked:
        yield attacked


@pytest.fixture(scope="module")
def port(classic: Attacked) -> int:
    """The port for stock debuggers."""
    found = classic.broker.process.wait_for_output(r"set_trace\(host='127\.0\.0\.1', port=(\d+)")
    return int(found[1])


@pytest.mark.parametrize("name", CALLS)
def test_other_users_of_the_host_delay_no_key(classic: Attacked, port: int, name: str) -> None:
    classic.measure(name, CALLS[name], port=port)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_another_user_cannot_read_signal_or_replace_anything(classic: Attacked) -> None:
    home, pid = classic.broker.home, classic.broker.process.pid
    # The folders above a home are open as a rule, so that the home itself has to be enough.
    for folder in home.parents[:3]:
        folder.chmod(0o711)
    done = subprocess.run(
        [sys.executable, "-m", neighbours.__name__, str(home), str(pid)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds(30),
        check=True,
    )
    assert done.stdout.splitlines() == ["was another user"]
    assert classic.broker.process.exit_status is None
