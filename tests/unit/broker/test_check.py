"""``dbg-broker check``: each step, and the one that fails."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dbg_broker.cli.check import check
from dbg_broker.home.certificate import load_own
from dbg_wire.errors import BadSecretFile, BrokerUnreachable, DbgError, WrongToken
from tests.support import fake_brokers as fake
from tests.support.fake_brokers import FakeBroker, Impostor
from tests.support.reach import PIN
from tests.unit.broker.peers import Broker, running_broker

STEPS = ["name", "port", "TLS", "fingerprint", "token", "round trip"]
GIVEN = {"DBG_TOKEN": "x" * 43}


@dataclass
class Checked:
    """The lines of a check, and the error by which it has ended."""

    lines: list[str] = field(default_factory=list)
    error: DbgError | None = None

    @property
    def status(self) -> int:
        """The exit status of the command."""
        return 0 if self.error is None else self.error.exit_status

    @property
    def steps(self) -> list[tuple[str, str]]:
        """The steps with what became of them, without the lines of what ends when."""
        found = [(line[:12].strip(), line[13:].split()[0]) for line in self.lines[1:]]
        return [(name, became) for name, became in found if became in ("ok", "FAILED")]


def checked(home: Path, url: str | None, environ: dict[str, str], *, as_rank: bool = False) -> Checked:
    done = Checked()
    try:
        assert check(url, str(home), environ, done.lines.append, as_rank=as_rank) == 0
    except DbgError as error:
        done.error = error
    return done


@pytest.fixture
async def broker(made_home: Path) -> AsyncIterator[Broker]:
    async with running_broker(made_home, tls=True) as running:
        yield running


def address(broker: Broker) -> str:
    return str(broker.endpoint).removeprefix("wss://")


async def test_check_runs_all_steps(broker: Broker, home: Path) -> None:
    done = await asyncio.to_thread(checked, home, address(broker), {"DBG_TOKEN": broker.tokens.driver})
    assert done.error is None
    assert done.steps == [(step, "ok") for step in STEPS]
    assert all(re.search(r"ok +\d+\.\d ms", line) for line in done.lines[1 : 1 + len(STEPS)])


async def test_check_as_rank_uses_the_token_of_ranks(broker: Broker, home: Path) -> None:
    environ = {"DBG_TOKEN": broker.tokens.rank}
    done = await asyncio.to_thread(lambda: checked(home, address(broker), environ, as_rank=True))
    assert (done.error, done.steps[-1]) == (None, ("round trip", "ok"))


@pytest.mark.parametrize(
    ("token", "as_rank"),
    [(lambda _: "wrong" * 9, False), (lambda tokens: tokens.rank, False), (lambda tokens: tokens.driver, True)],
    ids=["unknown", "a rank's", "a driver's"],
)
async def test_check_stops_at_a_wrong_token_without_repeating_it(
    broker: Broker, home: Path, token: Callable[..., str], as_rank: bool
) -> None:
    environ = {"DBG_TOKEN": token(broker.tokens)}
    done = await asyncio.to_thread(lambda: checked(home, address(broker), environ, as_rank=as_rank))
    assert done.steps == [*((step, "ok") for step in STEPS[:4]), ("token", "FAILED")]
    assert (type(done.error), done.status) == (WrongToken, 5)
    assert environ["DBG_TOKEN"] not in str(done.error) + str(done.lines)


async def test_check_refuses_another_certificate_before_it_sends_anything(
    broker: Broker, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "impostor").mkdir(mode=0o700)
    fingerprint = load_own(tmp_path / "impostor").fingerprint
    url = f"127.0.0.1:{broker.endpoint.port}#{fingerprint}"
    done = await asyncio.to_thread(checked, home, url, {"DBG_TOKEN": broker.tokens.driver})
    assert done.steps == [*((step, "ok") for step in STEPS[:3]), ("fingerprint", "FAILED")]
    assert done.status == 5


def test_web_server_receives_no_token(made_home: Path) -> None:
    pin = load_own(made_home).fingerprint
    with Impostor(0, "http") as web_server:
        done = checked(made_home, f"127.0.0.1:{web_server.port}#{pin}", GIVEN)
    assert (done.steps[-1], done.status) == (("TLS", "FAILED"), 5)
    assert GIVEN["DBG_TOKEN"].encode() not in b"".join(web_server.heard())


def test_unknown_host_name_and_closed_port_fail_at_their_steps(made_home: Path) -> None:
    name = checked(made_home, f"no-such-host.invalid:6900#{PIN}", GIVEN)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = checked(made_home, f"127.0.0.1:{unused.getsockname()[1]}#{PIN}", GIVEN)
    assert [one.steps[-1] for one in (name, port)] == [("name", "FAILED"), ("port", "FAILED")]
    assert [type(one.error) for one in (name, port)] == [BrokerUnreachable] * 2
    assert (name.status, port.status) == (4, 4)


def test_token_file_that_others_can_read_is_refused(made_home: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x" * 43)
    (tmp_path / "token").chmod(0o644)
    done = checked(made_home, f"127.0.0.1:1#{PIN}", {"DBG_TOKEN_FILE": str(tmp_path / "token")})
    assert (type(done.error), done.lines) == (BadSecretFile, [])


def test_check_explains_another_version(made_home: Path) -> None:
    refuse = fake.answer_status("426 Upgrade Required", "this broker speaks protocol version 7\n")
    with FakeBroker(refuse) as broker:
        done = checked(made_home, f"127.0.0.1:{broker.port}#{broker.fingerprint}", GIVEN)
    assert [step for step, _ in done.steps] == STEPS[:5]
    assert (done.steps[-1], done.status) == (("token", "FAILED"), 5)
