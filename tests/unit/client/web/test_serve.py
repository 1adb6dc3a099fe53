"""Tests of the server: its answers and refusals, over real sockets."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar, DummyCookieJar, WSServerHandshakeError

from dbg_client.web.serve import Access, NotAdmitted, announcement, is_same, listen, new_secret, require_own
from dbg_wire.errors import BadInput
from tests.conftest import Approved
from tests.support.pages import Socket, browser_at, opened, served, stranger
from tests.unit.client.fake_broker import FakeBroker, make_rank


async def test_the_page_needs_a_link_that_works_once(broker: FakeBroker) -> None:
    async with served(broker.environment) as (base, access, _), stranger(base) as nobody:
        token = access.new_token()
        for path in ("/", "/static/main.js", "/live", "/terminal?key=x", "/nothing"):
            assert await nobody.status(path) == 403, path
        assert "needs the link" in await nobody.text("/")
        assert await nobody.status("/?token=wrong") == 403
        async with browser_at(base, token) as browser:
            assert await browser.status("/") == 200
            assert "already used" in await nobody.text(f"/?token={token}")
            assert await browser.status("/nothing") == 404
            # Whoever is in stays in, by an old link, too, and uses up no new one.
            later = access.new_token()
            for old in (token, later):
                assert await browser.status(f"/?token={old}") == 303
            assert await nobody.status(f"/?token={later}") == 303


async def test_a_page_receives_heartbeats(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbg_client.web.outbox.BEAT_SECONDS", 0.01)

    async with (
        opened(broker.environment) as browser,
        browser.live() as live,
        browser.terminal(make_rank(5).key) as terminal,
    ):
        for _ in range(2):
            await live.until("beat")
            await terminal.until("beat")


async def test_the_cookie_is_limited_to_its_port_and_hidden_from_scripts(broker: FakeBroker) -> None:
    async with (
        served(broker.environment) as (base, access, _),
        served(broker.environment) as (other, elsewhere, _),
        ClientSession(cookie_jar=DummyCookieJar()) as session,
    ):
        async with session.get(f"{base}/?token={access.new_token()}", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
        value = cookie.partition(";")[0]
        assert value.partition("=")[0].endswith(base.rpartition(":")[2])
        for where, status in ((base, 200), (other, 403)):
            async with session.get(f"{where}/", headers={"Cookie": value}) as answer:
                assert answer.status == status
        # The same value under the name of the other port is not that server's either.
        renamed = value.replace(access.cookie, elsewhere.cookie)
        async with session.get(f"{other}/", headers={"Cookie": renamed}) as answer:
            assert answer.status == 403


async def test_other_origins_and_hosts_are_refused_even_with_the_cookie(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser:
        port = browser.base.rpartition(":")[2]
        assert await browser.status("/", Host=f"evil.example:{port}") == 421
        assert await browser.status("/", Origin="http://evil.example") == 403
        assert await browser.status("/static/x.js", **{"Sec-Fetch-Site": "cross-site"}) == 403
        assert await browser.status("/", Host=f"localhost:{port}") == 200
        for path in ("/live", "/terminal"):
            for origin in ("http://evil.example", f"http://localhost:{port}", "null", None):
                with pytest.raises(WSServerHandshakeError) as refused:
                    await browser.session.ws_connect(browser.base + path, origin=origin)
                assert refused.value.status == 403


async def test_each_response_has_security_headers(broker: FakeBroker) -> None:
    async def headers(session: ClientSession, url: str) -> Mapping[str, str]:
        async with session.get(url, allow_redirects=False) as answer:
            return {name.lower(): value for name, value in answer.headers.items()}

    async with opened(broker.environment) as browser:
        page = await headers(browser.session, browser.base)
        nonce = page["content-security-policy"].partition("'nonce-")[2].partition("'")[0]
        assert nonce
        assert nonce not in await browser.text("/")  # another one each time
        assert "unsafe" not in page["content-security-policy"]
        for path in ("/", "/nothing", "/?token=wrong"):
            found = await headers(browser.session, browser.base + path)
            assert found["x-content-type-options"] == "nosniff", path
            assert found["referrer-policy"] == "no-referrer"
            assert found["cross-origin-resource-policy"] == "same-origin"
            assert found["cache-control"] == "no-store"
            assert "default-src 'none'" in found["content-security-policy"]
            assert "aiohttp" not in found["server"]
            assert "access-control-allow-origin" not in found


async def test_only_files_of_the_page_are_served(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser:
        for path in ("../serve.py", "%2e%2e/serve.py", "..%2fserve.py", "/etc/passwd", "x%00.js"):
            assert await browser.status(f"/static/{path}") in (403, 404), path
        for name, kind in (("main.js", "javascript"), ("vendor/xterm.mjs", "javascript"), ("page.css", "css")):
            async with browser.session.get(f"{browser.base}/static/{name}") as answer:
                assert kind in answer.headers["Content-Type"]
                assert answer.headers["Cache-Control"] == "no-cache"
                tag = answer.headers["ETag"]
            assert await browser.status(f"/static/{name}", **{"If-None-Match": tag}) == 304


async def test_only_get_requests_are_allowed(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser:
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            async with browser.session.request(method, browser.base) as answer:
                assert answer.status == 405, method


async def test_sockets_are_closed_when_the_server_ends(broker: FakeBroker) -> None:
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        async with served(broker.environment) as (base, access, _):
            await session.get(f"{base}/?token={access.new_token()}")
            live = await session.ws_connect(f"{base}/live", origin=base)
            waiting = asyncio.create_task(Socket(live).until_end())
        assert await waiting == 1001


async def test_the_number_of_pages_is_limited(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbg_client.web.serve.MAX_SOCKETS", 1)

    async with opened(broker.environment) as browser, browser.live() as live:
        await live.rows()
        with pytest.raises(WSServerHandshakeError) as refused:
            await browser.session.ws_connect(f"{browser.base}/live", origin=browser.base)
        assert refused.value.status == 503


def test_a_port_in_use_is_reported() -> None:
    taken = listen(0)
    with pytest.raises(BadInput):
        listen(taken.getsockname()[1])
    taken.close()


def test_the_tunnel_command_is_shown_over_ssh(approved: Approved) -> None:
    approved("\n".join(announcement("http://127.0.0.1:41234/?token=T", 41234, "it only looks", "Ctrl-C ends", {})))
    ssh = {"SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22"}
    approved(announcement("http://x", 41234, "", "", ssh)[1], "ssh")


@pytest.mark.parametrize("token", ["", "x", "é", "\udcff", "a" * 10_000])
def test_a_token_is_valid_once_and_wrong_tokens_do_not_use_it_up(token: str) -> None:
    announced: list[str] = []
    access = Access(41234, announced.append)
    first = access.new_token()
    with pytest.raises(NotAdmitted):
        access.exchange(token)
    value = access.exchange(first)
    with pytest.raises(NotAdmitted):
        access.exchange(first)
    assert access.exchange(announced[0]) == value
    assert access.has_cookie({"dbg-web-41234": value})


@pytest.mark.parametrize("host", ["127.0.0.1:41234", "localhost:8765", "[::1]:41234", "localhost"])
def test_our_page_is_admitted_at_each_loopback_name(host: str) -> None:
    require_own(host, f"http://{host}", "same-origin", of_page=True)
    require_own(host, None, None, of_page=True)
    require_own(host, None, "cross-site", of_page=False)


@pytest.mark.parametrize(
    "host", ["evil.example:41234", "127.0.0.1.evil.example", "gpu013:41234", "", "[::1", "localhost.", "0.0.0.0:41234"]
)
def test_a_host_name_from_dns_rebinding_is_refused(host: str) -> None:
    with pytest.raises(NotAdmitted) as refused:
        require_own(host, f"http://{host}", "same-origin", of_page=False)
    assert refused.value.status == 421


@pytest.mark.parametrize(
    ("origin", "site"),
    [
        ("http://evil.example", "cross-site"),
        ("null", "cross-site"),
        ("", None),
        ("http://127.0.0.1:41235", "same-site"),
        ("https://127.0.0.1:41234", "same-site"),
        ("http://localhost:41234", "same-site"),
        (None, "same-site"),
        (None, "cross-site"),
    ],
)
def test_requests_of_other_pages_are_refused(origin: str | None, site: str | None) -> None:
    with pytest.raises(NotAdmitted):
        require_own("127.0.0.1:41234", origin, site, of_page=True)


ROOT = Path(__file__).parents[4]

VENDOR = ROOT / "client/dbg_client/web/static/vendor"

TABLE = (VENDOR / "README.md").read_text(encoding="utf-8")

ROW = re.compile(r"^\| `(\S+)` \| `(\S+)` (\S+) \| (\S+) \| `([0-9a-f]{64})` \|$", re.MULTILINE)
"""A file, its package and version, its licence, and its checksum."""


def test_each_vendored_file_matches_the_table() -> None:
    rows = {name: digest for name, _, _, _, digest in ROW.findall(TABLE)}
    files = {path.name for path in VENDOR.iterdir()} - {"README.md"}
    ours = {name for name in files if name.endswith(".d.mts")}
    assert set(rows) == files - ours
    assert rows == {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in rows}


def test_each_vendored_package_has_its_licence() -> None:
    for name, package, _, licence, _ in ROW.findall(TABLE):
        assert licence == "MIT"
        text = (VENDOR / f"LICENSE.{package.rpartition('/')[2]}").read_text(encoding="utf-8")
        assert "Permission is hereby granted, free of charge" in text, name


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / "scripts/javascript/package-lock.json").read_text(encoding="utf-8"))
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert len(packages) > 20
    assert [name for name, one in packages.items() if "resolved" in one] == []
    assert [name for name, one in packages.items() if not one["integrity"].startswith("sha512-")] == []


def test_the_page_loads_no_files_from_other_hosts() -> None:
    ours = [path for path in VENDOR.parent.rglob("*") if path.suffix in (".js", ".css", ".html")]
    found = {
        (path.name, address)
        for path in ours
        if path.parent != VENDOR
        for address in re.findall(r"\bhttps?://[^\s'\"`]+|url\([^)]*\)|@import", path.read_text(encoding="utf-8"))
    }
    # Names of XML, which nothing fetches.
    assert {address for _, address in found} == {"http://www.w3.org/2000/svg"}


def test_secrets_are_random_and_compared_completely() -> None:
    secret = new_secret()
    assert is_same(secret, secret)
    for wrong in (new_secret(), secret[:-1], f"{secret}x", "", "\udc80", None, 1, [secret]):
        assert not is_same(wrong, secret)
