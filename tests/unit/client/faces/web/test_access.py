"""Tests of who may use the page."""

from __future__ import annotations

import pytest

from dbg_client.faces.web.access import Access, NotAdmitted, content_policy, require_own


def test_a_token_is_good_once_and_the_next_one_is_told() -> None:
    told: list[str] = []
    access = Access(41234, told.append)
    first = access.new_token()
    value = access.exchange(first)
    with pytest.raises(NotAdmitted, match="used before"):
        access.exchange(first)
    assert access.exchange(told[0]) == value
    assert access.has_cookie({"dbg-web-41234": value})


@pytest.mark.parametrize("token", ["", "x", "é", "\udcff", "a" * 10_000])
def test_no_other_token_is_good_and_none_is_used_up(token: str) -> None:
    access = Access(41234, lambda _: None)
    good = access.new_token()
    with pytest.raises(NotAdmitted):
        access.exchange(token)
    access.exchange(good)


def test_a_cookie_of_another_port_or_server_does_not_count() -> None:
    access, other = Access(41234, lambda _: None), Access(41234, lambda _: None)
    value = access.exchange(access.new_token())
    for cookies in (
        {},
        {"dbg-web-41234": ""},
        {"dbg-web-41235": value},
        {"dbg-web-41234": other.exchange(other.new_token())},
    ):
        assert not access.has_cookie(cookies)


@pytest.mark.parametrize("host", ["127.0.0.1:41234", "localhost:8765", "[::1]:41234", "localhost"])
def test_our_own_page_is_let_in_by_each_name_of_loopback(host: str) -> None:
    require_own(host, f"http://{host}", "same-origin", of_page=True)
    require_own(host, None, None, of_page=True)
    require_own(host, None, "cross-site", of_page=False)


@pytest.mark.parametrize(
    "host", ["evil.example:41234", "127.0.0.1.evil.example", "gpu013:41234", "", "[::1", "localhost.", "0.0.0.0:41234"]
)
def test_a_name_that_leads_here_by_rebinding_is_refused(host: str) -> None:
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
def test_what_another_page_sends_is_refused(origin: str | None, site: str | None) -> None:
    with pytest.raises(NotAdmitted, match="another page"):
        require_own("127.0.0.1:41234", origin, site, of_page=True)


def test_the_policy_of_the_page_has_nothing_unsafe() -> None:
    policy = content_policy("n0nce")
    assert "unsafe" not in policy
    assert "'nonce-n0nce'" in policy
    assert "default-src 'none'" in policy
