from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.settings import EVERYBODY, parse_allowed
from dbg_wire.errors import BadInput

ALLOWED = parse_allowed(["10.1.0.0/16", "192.0.2.7", "fd00::/8"])


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("10.1.2.3", True),
        ("10.2.2.3", False),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("::ffff:10.1.2.3", True),
        ("::ffff:10.2.2.3", False),
        ("fd00::1%eth0", True),
        ("fe80::1", False),
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("no address", False),
    ],
)
def test_who_is_in_a_network_may_come_and_this_host_may(host: str, may: bool) -> None:
    assert ALLOWED.admits((host, 4711)) is may


def test_an_address_of_this_host_may_come() -> None:
    assert ALLOWED.admits(("10.2.2.3", 1), lambda: ("10.2.2.3", 6900))
    assert not ALLOWED.admits(("10.2.2.3", 1), lambda: ("10.2.2.4", 6900))


def test_without_networks_everybody_may_come() -> None:
    assert EVERYBODY.admits(("203.0.113.1", 1))
    assert EVERYBODY.admits("")


@pytest.mark.parametrize("address", ["", (), None, 7])
def test_an_address_that_is_none_may_not(address: object) -> None:
    assert not ALLOWED.admits(address)


@pytest.mark.parametrize("text", ["", "10.1.0.1/16", "10/8", "host", "10.0.0.0/33"])
def test_what_is_no_network_is_named(text: str) -> None:
    with pytest.raises(BadInput, match=f"^--allow '{text}' is no network; "):
        parse_allowed(["10.0.0.0/8", text])


@given(st.text())
def test_any_text_is_a_network_or_refused(text: str) -> None:
    with suppress(BadInput):
        parse_allowed([text])
