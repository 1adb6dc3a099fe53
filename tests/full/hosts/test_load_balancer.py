"""Two brokers with the same tokens behind one address of a plain TCP load balancer, which knows nothing of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.certificates import Authority
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.ranks import attach, start_ranks, wait_until_stopped

STOPS = "from dbg_agent import set_trace\nset_trace()\n"


@pytest.mark.parametrize("known_by", ["fingerprints", "authority"])
def test_ranks_and_terminals_get_through_a_load_balancer_and_past_a_broker_that_is_killed(
    processes: Processes, home: Path, tmp_path: Path, known_by: str
) -> None:
    authority = Authority(tmp_path)
    options = [authority.issue(f"own{number}", "127.0.0.1") if known_by == "authority" else () for number in range(2)]
    first = running_broker(processes, home, *options[0])
    other_home = tmp_path / "home2"
    other_home.mkdir(mode=0o700)
    shutil.copytree(home / "tokens", other_home / "tokens")
    second = running_broker(processes, other_home, *options[1])

    with Proxy(("127.0.0.1", first.port), ("127.0.0.1", second.port)) as balancer:
        pins = ",".join(broker.rendezvous["fingerprint"] for broker in (first, second))
        address = f"127.0.0.1:{balancer.port}"
        known = {"DBG_BROKER": f"{address}#{pins}"} if known_by == "fingerprints" else {"DBG_BROKER": address}
        away = {"DBG_HOME": str(tmp_path / "none"), **known}
        if known_by == "authority":
            away["DBG_CA"] = str(authority.path)
        start_ranks(processes, home, STOPS, 2, env={**away, "DBG_TOKEN_FILE": str(home / "tokens" / "rank")})
        # The balancer gives each broker one of them.
        wait_until_stopped(home, 1)
        wait_until_stopped(other_home, 1)
        first.kill()
        wait_until_stopped(other_home, 2)
        told = attach(home, "list", "--plain", env={**away, "DBG_TOKEN_FILE": str(home / "tokens" / "driver")})
        assert told.returncode == 0, told.stderr
        assert len(told.stdout.splitlines()) == 2
