"""Tests of what all pages are told."""

from __future__ import annotations

import asyncio
import socket

import msgspec
import pytest
from yarl import URL

from dbg_client.faces.web.messages import Link
from dbg_client.faces.web.rows import row_of
from dbg_wire.messages import Change, Gone
from dbg_wire.records.ranks import Coordinate, RankInfo, RankState
from tests.support.pages import Browser, browser_at, opened, run, served
from tests.support.rank_infos import changed
from tests.unit.client.fake_broker import FakeBroker, make_rank


def test_a_page_gets_all_there_is_and_then_what_changes(broker: FakeBroker) -> None:
    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            hello = await live.until("hello")
            assert (hello["job"], hello["drive"], hello["target"]) == ("4711.0", True, "")
            assert set(await live.rows()) == {5, 6, 7}
            rank = make_rank(7, coordinates=(Coordinate(axis="tp", index=3),))
            broker.ranks[rank.key] = rank
            broker.tell(Change(rank=rank))
            axes = await live.until("axes", lambda said: bool(said["axes"]))
            assert axes["axes"] == [{"name": "tp", "size": 4}]
            change = await live.until("change")
            assert [(row["rank"], row["state"]) for row in change["rows"]] == [(7, "stopped")]
            event = await live.until("event")
            assert (event["kind"], event["ranks"]) == ("stop", "7")
            broker.tell(Gone(key=rank.key))
            assert (await live.until("change", lambda said: bool(said["gone"])))["gone"] == [rank.key]

    run(work)


def test_all_pages_get_the_same_text_and_a_page_that_has_gone_none(broker: FakeBroker) -> None:
    async def work() -> None:
        async with (
            served(broker.environment) as (base, access, server),
            browser_at(base, access.new_token()) as browser,
            browser.live() as one,
        ):
            async with browser.live() as two:
                await asyncio.gather(one.rows(), two.rows())
                assert len(server.feed.pages) == 2
                broker.tell(Change(rank=changed(make_rank(5), state=RankState.RUNNING)))
                first, second = await asyncio.gather(one.until("change"), two.until("change"))
                assert first == second
            broker.tell(Change(rank=make_rank(5)))
            await one.until("change")
            number = 0
            while len(server.feed.pages) > 1:
                number += 1
                await one.answer(number, "list")

    run(work)


def test_a_row_is_made_once_for_all_pages(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counting(rank: RankInfo) -> msgspec.Raw:
        made.append(rank.rank)
        return row_of(rank)

    monkeypatch.setattr("dbg_client.faces.web.rows.row_of", counting)

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as one, browser.live() as two:
            await asyncio.gather(one.rows(), two.rows())
            broker.tell(Change(rank=changed(make_rank(5), watchers=3)))
            await asyncio.gather(one.until("change"), two.until("change"))
            assert sorted(made) == [5, 5, 6, 7]

    run(work)


def test_a_target_shows_its_ranks_alone(broker: FakeBroker) -> None:
    async def work() -> None:
        async with opened(broker.environment, target="5-6") as browser, browser.live() as live:
            assert (await live.until("hello"))["target"] == "5-6"
            assert set(await live.rows()) == {5, 6}
            assert (await live.answer(1, "where"))["document"]["asked"] == 2

    run(work)


def test_the_broker_that_goes_and_comes_back_is_told(broker: FakeBroker) -> None:
    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            await live.rows()
            broker.cut()
            assert (await live.until("link"))["up"] is False
            assert (await live.until("link", lambda said: bool(said["up"])))["reason"] == ""
            assert [said["kind"] for said in live.said if said["type"] == "event"] == ["broker", "broker"]
            # The same ranks are no news.
            assert not any(said["type"] == "change" for said in live.said)
            assert (await live.answer(1, "where"))["type"] == "answer"

    run(work)


def test_a_page_that_does_not_read_is_cut_off_and_the_others_go_on(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beyond what the kernel's buffers of both ends take.
    monkeypatch.setattr("dbg_client.faces.web.outbox.Outbox.__init__.__defaults__", (256 * 1024,))

    async def work() -> None:
        async with (
            served(broker.environment) as (base, access, server),
            browser_at(base, access.new_token()) as browser,
            browser.live() as reads,
        ):
            await reads.rows()
            silent = await handshake(browser)
            while len(server.feed.pages) < 2:
                await reads.answer(len(reads.said), "list 5")
            while len(server.feed.pages) == 2:
                server.feed.say(Link(up=True, reason="x" * 100_000))
                await reads.until("link")
            silent.close()
            assert (await reads.answer(1_000_000, "where"))["type"] == "answer"

    run(work)


async def handshake(browser: Browser) -> socket.socket:
    """Open the socket of a page that never reads what comes behind the answer."""
    host, _, port = browser.base.removeprefix("http://").partition(":")
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, (host, int(port)))
    cookies = browser.session.cookie_jar.filter_cookies(URL(browser.base))
    cookie = "; ".join(f"{one.key}={one.value}" for one in cookies.values())
    head = {"Host": f"{host}:{port}", "Origin": browser.base, "Cookie": cookie, "Upgrade": "websocket"}
    more = {"Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**head, **more}.items())
    await loop.sock_sendall(raw, f"GET /live HTTP/1.1\r\n{lines}\r\n".encode())
    answer = await loop.sock_recv(raw, 64)
    assert answer.startswith(b"HTTP/1.1 101")
    return raw
