from __future__ import annotations

import hashlib
import ipaddress
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_dial.endpoint import (
    MAX_TOKEN,
    MIN_TOKEN,
    Endpoint,
    Route,
    canonical_pin,
    fingerprint_of,
    parse_endpoint,
    parse_token,
    spread,
    weight_of,
    wrong_host_reason,
)
from dbg_wire.errors import BadEndpoint, BadSecretFile
from tests.conftest import Approved
from tests.support.reach import OTHER_PIN, PIN, SECRET, all_text, any_text, endpoints, near_misses, refusal, tokens

# addresses


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("login1", "wss://login1:6900"),
        ("login1:7000", "wss://login1:7000"),
        ("WSS://login1:1/", "wss://login1:1"),
        ("wss://login1:65535", "wss://login1:65535"),
        ("10.0.0.1", "wss://10.0.0.1:6900"),
        ("[::1]", "wss://[::1]:6900"),
        ("[0:0:0:0:0:0:0:1]:7000", "wss://[::1]:7000"),
        ("wss://[fe80::1%eth0]:7000", "wss://[fe80::1%eth0]:7000"),
    ],
)
def test_an_address_is_read_in_every_form(text: str, url: str) -> None:
    endpoint = parse_endpoint(text, source="DBG_BROKER")
    assert endpoint.url == url
    assert endpoint.fingerprint is None


@pytest.mark.parametrize("address", ["login1", "login1:6900", "wss://login1:6900", "wss://login1:6900/"])
@pytest.mark.parametrize("pin", [PIN, PIN.upper(), "sha256:" + ":".join(["AB"] * 32)])
def test_an_address_carries_a_pin(address: str, pin: str) -> None:
    endpoint = parse_endpoint(f"{address}#{pin}", source="DBG_BROKER")
    assert endpoint.url == "wss://login1:6900"
    assert endpoint.fingerprint == canonical_pin(pin)


@pytest.mark.parametrize("pin", ["", PIN[:-1], f"{PIN},{OTHER_PIN}", SECRET])
def test_invalid_pin_is_refused(pin: str) -> None:
    with pytest.raises(BadEndpoint, match="64 hexadecimal digits") as caught:
        parse_endpoint(f"login1#{pin}", source="DBG_BROKER")
    assert SECRET not in all_text(caught.value)


@given(endpoints())
def test_an_endpoint_reads_back_from_its_own_text(endpoint: Endpoint) -> None:
    assert parse_endpoint(str(endpoint), source="x") == endpoint
    assert parse_endpoint(endpoint.url, source="x") == replace(endpoint, fingerprint=None)


@pytest.mark.parametrize(
    "text",
    [
        "", ":6900", "wss://:6900", "300.1.1.1", "-x", "höst", "[::1", "::1", "login1:0", "login1:65536", "login1:٣",
        "login1:6900:1", "tcp://login1:6900", "login1\x1b[2J", "wss://me@login1", "login1?token=x",
        "login1#sha1:" + "a" * 40, "login1#" + PIN[:-1], "ws://login1",
    ],
)  # fmt: skip
def test_a_bad_address_is_refused_with_its_source(approved: Approved, text: str) -> None:
    with pytest.raises(BadEndpoint) as caught:
        parse_endpoint(text, source="DBG_BROKER")
    approved(str(caught.value))
    assert str(caught.value).startswith("DBG_BROKER ")
    assert str(caught.value).isprintable()


@given(any_text | near_misses)
def test_any_text_is_parsed_or_raises_bad_endpoint(text: str) -> None:
    refused = refusal(lambda: parse_endpoint(text, source="DBG_BROKER"))
    assert refused is None or (type(refused) is BadEndpoint and str(refused).isprintable())


@given(
    st.sampled_from(["", "wss://", "ws://", "http://"]),
    st.sampled_from(["login1", "login1:6900", "[::1]:6900", "", "log in1"]),
    st.sampled_from(["{t}@{h}", "u:{t}@{h}", "{t}:p@{h}", "{h}?{t}", "{h}/{t}", "{h}#{t}", "{h}:{t}", "{h} {t}"])
    | st.sampled_from(["{h}?a@{t}", "{h}#" + PIN + "?{t}", "{h}/#{t}", "{h}\\{t}", "{h}\n{t}", "u:a/{t}@{h}"]),
    near_misses,
)
def test_refusal_never_shows_a_possible_token(scheme: str, host: str, form: str, tail: str) -> None:
    with pytest.raises(BadEndpoint) as caught:
        parse_endpoint(scheme + form.format(t=SECRET, h=host) + tail, source="DBG_BROKER")
    assert SECRET not in all_text(caught.value)


# fingerprints


def test_a_fingerprint_is_the_sha256_of_the_certificate() -> None:
    assert fingerprint_of(b"der") == f"sha256:{hashlib.sha256(b'der').hexdigest()}"


@given(st.binary(), st.booleans())
def test_a_fingerprint_reads_back(der: bytes, upper: bool) -> None:
    pin = fingerprint_of(der)
    assert canonical_pin(pin.upper() if upper else pin) == pin


@pytest.mark.parametrize(
    "text", ["", "sha256:", PIN[7:], PIN + "0", PIN + ":", "sha256:" + ":ab" * 32, PIN + "\n", SECRET]
)
def test_invalid_fingerprint_gives_none(text: str) -> None:
    assert canonical_pin(text) is None


# tokens


@given(tokens, st.sampled_from(["", "\n", "\r\n"]))
def test_token_is_parsed_without_its_line_end(token: str, end: str) -> None:
    assert parse_token(token + end, source="file") == token


@pytest.mark.parametrize(
    "text",
    ["", "\n", "short", "x" * (MIN_TOKEN - 1), "x" * (MAX_TOKEN + 1), SECRET + " x", SECRET + "\nx", SECRET + "é"],
)
def test_bad_token_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(BadSecretFile, match="/run/token") as caught:
        parse_token(text, source="/run/token")
    assert SECRET not in all_text(caught.value)


# the loopback of another host


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST.", "0.0.0.0", "::ffff:127.0.0.1"],  # noqa: S104
)
def test_another_hosts_loopback_is_named(approved: Approved, host: str) -> None:
    endpoint = Endpoint(host=host, port=6900, fingerprint=PIN)
    approved(wrong_host_reason(endpoint, "login1", "gpu013"))


@pytest.mark.parametrize(
    ("host", "theirs", "ours"),
    [
        ("127.0.0.1", "login1", "login1"),
        ("127.0.0.1", "login1", "Login1.cluster.org"),
        ("login1", "login1", "gpu013"),
        ("fe80::1", "login1", "gpu013"),
    ],
)
def test_usable_address_has_no_wrong_host_reason(host: str, theirs: str, ours: str) -> None:
    endpoint = Endpoint(host=host, port=6900, fingerprint=PIN)
    assert wrong_host_reason(endpoint, theirs, ours) is None


@given(st.ip_addresses(v=4))
def test_loopback_is_127_alone(address: ipaddress.IPv4Address) -> None:
    endpoint = Endpoint(host=str(address), port=6900, fingerprint=PIN)
    expected = address.packed[0] == 127 or int(address) == 0
    assert (wrong_host_reason(endpoint, "login1", "gpu013") is not None) == expected


# several brokers

BROKERS = tuple(Endpoint(host=f"login{number}", port=6900, fingerprint=PIN) for number in range(1, 4))
NAMES = [f"4711.0/gpu{number // 8:03}:{number}" for number in range(3000)]


def by_weight(brokers: Sequence[Endpoint], name: str) -> list[Endpoint]:
    return sorted(brokers, key=lambda one: weight_of(one.url, name), reverse=True)


def test_names_spread_evenly_over_endpoints_and_again_after_one_is_removed() -> None:
    firsts = {name: by_weight(BROKERS, name)[0] for name in NAMES}
    times = Counter(firsts.values())
    assert all(900 < times[broker] < 1100 for broker in BROKERS)
    left = BROKERS[1:]
    moved = Counter(by_weight(left, name)[0] for name in NAMES if firsts[name] == BROKERS[0])
    assert all(400 < moved[broker] < 600 for broker in left)
    assert all(by_weight(left, name)[0] == first for name, first in firsts.items() if first != BROKERS[0])


def test_endpoint_order_of_a_name_is_the_same_in_all_processes() -> None:
    hosts = [endpoint.host for endpoint in by_weight(BROKERS, "4711.0/gpu013:5")]
    assert hosts == ["login3", "login2", "login1"]


def reach(endpoint: Endpoint, *others: Endpoint, address: str = "broker.json", token: str = SECRET) -> Route:
    return Route(
        endpoint=endpoint, token=token, sources={"address": address, "fingerprint": "", "token": ""}, others=others
    )


def test_rank_dials_brokers_in_the_order_of_its_name_and_terminal_the_home_broker_first() -> None:
    first, *others = by_weight(BROKERS, "me")
    assert spread(reach(others[0], others[1], first), (), "me").routes() == [reach(one) for one in (first, *others)]
    kept = spread(reach(others[1], first, others[0]), (), "me", keeps_first=True)
    assert (kept.endpoint, kept.others) == (others[1], (first, others[0]))


def test_address_given_by_the_user_is_dialled_before_addresses_of_a_welcome() -> None:
    entry = Endpoint(host="balancer", port=6900, fingerprint=PIN)
    found = spread(reach(entry, address="DBG_BROKER"), BROKERS, "me")
    assert (found.endpoint, found.others) == (entry, tuple(by_weight(BROKERS, "me")))


def test_fingerprint_in_the_home_overrides_a_learned_one() -> None:
    learned = replace(BROKERS[0], fingerprint=OTHER_PIN)
    assert spread(reach(BROKERS[0]), [learned], "me") == reach(BROKERS[0])


def test_a_silent_broker_is_dialled_last() -> None:
    routes = reach(*BROKERS).routes(BROKERS[0].url)
    assert [route.endpoint for route in routes] == [*BROKERS[1:], BROKERS[0]]
