"""Tests of what others did, from the audit log of the broker's home."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from dbg_broker.audit.entries import encode_entry
from dbg_client.core.switchboard import person_name
from dbg_client.faces.web.home import CHANGES, MAX_READ
from dbg_wire.finding.rendezvous import Rendezvous, format_rendezvous
from dbg_wire.records.audit import Entry, What
from tests.support.pages import Said, Socket, opened, run
from tests.unit.client.fake_broker import TOKEN, FakeBroker


def asked(
    text: str, action: str = "eval", ranks: str = "5-6", job: str = "4711.0", terminal: str = "bob@login1"
) -> bytes:
    entry = Entry(
        at=1760000000.0, what=What.QUESTION, terminal=terminal, job=job, ranks=ranks, action=action, text=text
    )
    return encode_entry(entry)


@pytest.fixture
def log(broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the audit log of the broker's home."""
    monkeypatch.setattr("dbg_client.faces.web.home.LOOK_SECONDS", 0.02)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    url = f"ws://127.0.0.1:{broker.port}"
    told = Rendezvous(url=url, host="h", pid=7, fingerprint=None, tokens={"rank": TOKEN})
    (home / "broker.json").write_text(format_rendezvous(told))
    (home / "broker.json").chmod(0o600)
    monkeypatch.setenv("DBG_HOME", str(home))
    return home / "audit.jsonl"


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


async def next_text(live: Socket) -> Said:
    return await live.until("event", lambda said: said["kind"] == "asked")


def test_what_others_did_before_and_do_now_is_on_the_time_line(broker: FakeBroker, log: Path) -> None:
    append(log, asked("loss"))

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            event = await next_text(live)
            assert (event["text"], event["who"], event["ranks"], event["at"]) == (
                "eval loss",
                "bob@login1",
                "5-6",
                1760000000.0,
            )
            append(log, asked("n", "command", ranks="gpu013:5"))
            event = await next_text(live)
            assert (event["text"], event["rank"], event["count"]) == ("command n", "gpu013:5", 1)

    run(work)


def test_only_what_may_change_something_at_ranks_that_are_shown_is_told(broker: FakeBroker, log: Path) -> None:
    assert "eval" in CHANGES

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            append(log, asked("", "where"))
            append(log, asked("x", job="other"))
            append(log, asked("x", ranks="99"))
            append(log, asked("x", ranks="no ranks"))
            append(log, asked("x", terminal=person_name("web")))
            append(log, encode_entry(Entry(at=1.0, what=What.ATTACH, terminal="bob", job="4711.0", ranks="5")))
            append(log, b'{"at":1}\n[]\nnull\n' + b"[" * 5000 + b"\n\xff\n")
            append(log, asked("the last"))
            assert (await next_text(live))["text"] == "eval the last"

    run(work)


def test_half_a_line_waits_for_its_end_and_a_new_file_is_read_from_its_beginning(broker: FakeBroker, log: Path) -> None:
    append(log, asked("one"))

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            assert (await next_text(live))["text"] == "eval one"
            line = asked("two")
            append(log, line[:20])
            await live.answer(1, "where")
            append(log, line[20:])
            assert (await next_text(live))["text"] == "eval two"
            await asyncio.to_thread(log.rename, log.with_suffix(".1"))
            append(log, asked("three"))
            assert (await next_text(live))["text"] == "eval three"

    run(work)


def test_of_a_long_log_the_end_is_read(broker: FakeBroker, log: Path) -> None:
    append(log, asked("old") + json.dumps({"what": "x" * MAX_READ}).encode() + b"\n" + asked("new"))

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            assert (await next_text(live))["text"] == "eval new"

    run(work)
