"""Fixtures of the broker's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dbg_broker.cli.main import main
from tests.unit.broker.peers import Broker, running_broker


@pytest.fixture(params=["plain", "tls"])
async def any_broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Broker]:
    """Run a broker, once without TLS and once with it."""
    async with running_broker(tmp_path, tls=request.param == "tls") as running:
        yield running


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """Run a broker without TLS."""
    async with running_broker(tmp_path) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a path for a home; the directory does not exist yet."""
    return tmp_path / "home"


@pytest.fixture
def made_home(home: Path) -> Path:
    """Return a home whose directory exists."""
    home.mkdir(mode=0o700)
    return home


@dataclass(frozen=True)
class Done:
    """A verb that has ended: its exit status and what it has written."""

    status: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def command(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run ``dbg-broker`` in this process with the test's home; more variables are given by their names."""

    def run(*words: str, **environ: str) -> Done:
        with monkeypatch.context() as patch:
            for name, value in {"DBG_HOME": str(home), **environ}.items():
                patch.setenv(name, value)
            try:
                status = main(words)
            except SystemExit as ended:
                status = int(ended.code or 0)
        written = capsys.readouterr()
        return Done(status, written.out, written.err)

    return run
