"""The daily look at the certificate: what was renewed is taken, an end is told and warned of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from dbg_broker.home.certificate import DAY_SECONDS, Shown, load_given
from dbg_broker.home.tokens import Tokens
from dbg_broker.verbs.credentials import Credentials, CredentialSources
from dbg_broker.verbs.service import LogFormatter
from dbg_wire.errors import BadSecretFile
from tests.support.certificates import Authority

TOKENS = Tokens(rank="r" * 43, driver="d" * 43, watcher="w" * 43)


async def look_once(home: Path, sources: list[Callable[[], Shown]]) -> tuple[Credentials, float]:
    """Look until the first end is told, and return it; each source is asked once, and the last one ever after."""
    told: asyncio.Queue[float] = asyncio.Queue()

    def certificate() -> Shown:
        return (sources.pop(0) if len(sources) > 1 else sources[0])()

    found = CredentialSources(tokens=lambda _: TOKENS, certificate=certificate)
    credentials = Credentials(home, found, LogFormatter())
    credentials.serve_at("h", 1)
    looking = asyncio.ensure_future(credentials.check_each_day(told.put_nowait, lambda _: None))
    try:
        return credentials, await told.get()
    finally:
        # What follows the end in the same step, such as the warning, has been done by then.
        await asyncio.sleep(0)
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def given(options: tuple[str, ...]) -> Shown:
    return load_given(Path(options[1]), Path(options[3]))


async def test_files_that_were_renewed_are_taken(
    authority: Authority, made_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = authority.issue("own", "h", days=3)
    before = given(options)
    authority.issue("own", "h", days=400)
    credentials, ends = await look_once(made_home, [lambda: before, lambda: given(options)])
    assert credentials.shown is not None
    assert credentials.endpoint.fingerprint == credentials.shown.fingerprint != before.fingerprint
    assert ends > 0
    assert caplog.records == []


async def test_an_end_within_thirty_days_is_warned_of(
    authority: Authority, made_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = authority.issue("own", "h", days=12.5)
    with caplog.at_level(logging.WARNING):
        await look_once(made_home, [lambda: given(options)])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the broker's certificate is near its end: until " in caplog.text
    assert "(in 12 days)" in caplog.text


async def test_files_that_went_bad_change_nothing_and_are_named(
    authority: Authority, made_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = authority.issue("own", "h", days=100)
    shown = given(options)

    def broken() -> Shown:
        raise BadSecretFile("--key x is gone", "put it back")

    credentials, ends = await look_once(made_home, [lambda: shown, broken])
    assert credentials.shown is shown
    assert "the certificate can't be read anew: --key x is gone; put it back" in caplog.text
    assert ends - DAY_SECONDS > 0
