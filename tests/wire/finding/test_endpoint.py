from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.errors import BadEndpoint, BadSecretFile
from dbg_wire.finding.endpoint import (
    MAX_TOKEN,
    MIN_TOKEN,
    Endpoint,
    canonical_pin,
    fingerprint_of,
    parse_endpoint,
    parse_token,
    same_fingerprint,
    wrong_host_reason,
)
from tests.support.reach import OTHER_PIN, PIN, SECRET, any_text, endpoints, near_misses, refusal, said, tokens

# addresses


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("login1", "wss://login1:6900"),
        ("login1:7000", "wss://login1:7000"),
        ("Login1.Cluster.org:7000", "wss://login1.cluster.org:7000"),
        ("wss://login1", "wss://login1:6900"),
        ("WSS://login1:1/", "wss://login1:1"),
        ("ws://login1:65535", "ws://login1:65535"),
        ("10.0.0.1", "wss://10.0.0.1:6900"),
        ("[::1]", "wss://[::1]:6900"),
        ("[0:0:0:0:0:0:0:1]:7000", "wss://[::1]:7000"),
        ("ws://[fe80::1%eth0]:7000", "ws://[fe80::1%eth0]:7000"),
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


def test_an_address_carries_the_pin_of_the_next_certificate_too() -> None:
    endpoint = parse_endpoint(f"login1#{PIN},{OTHER_PIN.upper()}", source="DBG_BROKER")
    assert endpoint.fingerprints == (PIN, OTHER_PIN)
    assert str(endpoint) == f"wss://login1:6900#{PIN},{OTHER_PIN}"
    assert parse_endpoint(f"login1#{PIN},{PIN}", source="DBG_BROKER").fingerprints == (PIN,)


@pytest.mark.parametrize(
    ("pins", "why"),
    [
        (f"{PIN},", "64 hexadecimal digits"),
        (f",{PIN}", "64 hexadecimal digits"),
        (f"{PIN},{PIN[:-1]}", "64 hexadecimal digits"),
        (f"{PIN},{SECRET}", "64 hexadecimal digits"),
        (",".join([PIN] * 5), "has 5 fingerprints; name 4 at most"),
    ],
)
def test_pins_that_are_none_or_too_many_are_refused(pins: str, why: str) -> None:
    with pytest.raises(BadEndpoint, match=why) as caught:
        parse_endpoint(f"login1#{pins}", source="DBG_BROKER")
    assert SECRET not in said(caught.value)


@given(endpoints())
def test_an_endpoint_reads_back_from_its_own_text(endpoint: Endpoint) -> None:
    assert parse_endpoint(str(endpoint), source="x") == endpoint
    assert parse_endpoint(endpoint.url, source="x") == replace(endpoint, fingerprint=None, other_fingerprints=())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no host"),
        (":6900", "has no host"),
        ("wss://:6900", "has no host"),
        ("6900", "neither a name nor an IP address"),
        ("300.1.1.1", "neither a name nor an IP address"),
        ("-x", "neither a name nor an IP address"),
        ("höst", "neither a name nor an IP address"),
        ("[::z]:1", "neither a name nor an IP address"),
        ("[::1", "is not host:port"),
        ("::1", "write [::1]:6900"),
        ("fe80::1:6900", "without brackets"),
        ("login1:", "port"),
        ("login1:0", "port"),
        ("login1:65536", "port"),
        ("login1:٣", "port"),
        ("login1:+80", "port"),
        ("login1:6900:1", "port"),
        ("tcp://login1:6900", "wss:// or ws://"),
        ("https://login1:6900", "wss:// or ws://"),
        ("login 1", "space or a control"),
        ("login1\n", "space or a control"),
        ("login1\x1b[2J", "space or a control"),
        ("wss://me@login1", "user info"),
        ("login1?token=x", "query"),
        ("wss://login1/agent", "path"),
        ("login1#", "fingerprint"),
        ("login1#sha1:" + "a" * 40, "fingerprint"),
        ("login1#" + PIN[:-1], "fingerprint"),
        (f"ws://login1#{PIN}", "ws:// shows no certificate"),
    ],
)
def test_a_bad_address_is_refused_with_its_source(text: str, reason: str) -> None:
    with pytest.raises(BadEndpoint) as caught:
        parse_endpoint(text, source="DBG_BROKER")
    assert reason in str(caught.value)
    assert str(caught.value).startswith("DBG_BROKER '")
    assert str(caught.value).isprintable()


def test_a_refusal_shows_the_value() -> None:
    with pytest.raises(BadEndpoint, match=r"^the argument broker='login1:70000' has a port"):
        parse_endpoint("login1:70000", source="the argument broker=")


@given(any_text | near_misses)
def test_no_text_raises_anything_but_bad_endpoint(text: str) -> None:
    refused = refusal(lambda: parse_endpoint(text, source="DBG_BROKER"))
    assert refused is None or (type(refused) is BadEndpoint and str(refused).isprintable())


@given(
    st.sampled_from(["", "wss://", "ws://", "http://"]),
    st.sampled_from(["login1", "login1:6900", "[::1]:6900", "", "log in1"]),
    st.sampled_from(["{t}@{h}", "u:{t}@{h}", "{t}:p@{h}", "{h}?{t}", "{h}/{t}", "{h}#{t}", "{h}:{t}", "{h} {t}"])
    | st.sampled_from(["{h}?a@{t}", "{h}#" + PIN + "?{t}", "{h}/#{t}", "{h}\\{t}", "{h}\n{t}", "u:a/{t}@{h}"]),
    near_misses,
)
def test_a_refusal_never_shows_what_may_be_a_token(scheme: str, host: str, form: str, tail: str) -> None:
    with pytest.raises(BadEndpoint) as caught:
        parse_endpoint(scheme + form.format(t=SECRET, h=host) + tail, source="DBG_BROKER")
    assert SECRET not in said(caught.value)


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
def test_what_is_no_fingerprint_is_none(text: str) -> None:
    assert canonical_pin(text) is None


def test_fingerprints_are_compared() -> None:
    assert same_fingerprint(PIN, PIN[:])
    assert not same_fingerprint(PIN, OTHER_PIN)
    assert not same_fingerprint(PIN, "\ud800")


# tokens


@given(tokens, st.sampled_from(["", "\n", "\r\n"]))
def test_a_token_comes_without_its_line_end(token: str, end: str) -> None:
    assert parse_token(token + end, source="file") == token


@pytest.mark.parametrize(
    "text",
    ["", "\n", "short", "x" * (MIN_TOKEN - 1), "x" * (MAX_TOKEN + 1), SECRET + " x", SECRET + "\nx", SECRET + "é"],
)
def test_a_bad_token_is_refused_unseen(text: str) -> None:
    with pytest.raises(BadSecretFile, match="/run/token") as caught:
        parse_token(text, source="/run/token")
    assert SECRET not in said(caught.value)


# the loopback of another host


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST.", "0.0.0.0", "::ffff:127.0.0.1"],  # noqa: S104
)
def test_another_hosts_loopback_is_named(host: str) -> None:
    endpoint = Endpoint(host=host, port=6900, secure=True, fingerprint=PIN)
    assert wrong_host_reason(endpoint, "login1", "gpu013") == (
        "the broker listens only on the loopback of login1, this rank is on gpu013: "
        "restart it with `dbg-broker serve --listen 0.0.0.0`"
    )
    assert "this terminal is on gpu013" in str(wrong_host_reason(endpoint, "login1", "gpu013", who="terminal"))


@pytest.mark.parametrize(
    ("host", "theirs", "ours"),
    [
        ("127.0.0.1", "login1", "login1"),
        ("127.0.0.1", "login1", "Login1.cluster.org"),
        ("127.0.0.1", "login1.cluster.org.", "login1"),
        ("login1", "login1", "gpu013"),
        ("10.0.0.1", "login1", "gpu013"),
        ("fe80::1", "login1", "gpu013"),
    ],
)
def test_an_address_that_may_work_has_no_reason(host: str, theirs: str, ours: str) -> None:
    endpoint = Endpoint(host=host, port=6900, secure=True, fingerprint=PIN)
    assert wrong_host_reason(endpoint, theirs, ours) is None


def test_two_full_names_of_one_short_name_are_two_hosts() -> None:
    endpoint = Endpoint(host="127.0.0.1", port=6900, secure=True, fingerprint=PIN)
    assert wrong_host_reason(endpoint, "login1.a.org", "login1.b.org") is not None


@given(st.ip_addresses(v=4))
def test_loopback_is_127_alone(address: ipaddress.IPv4Address) -> None:
    endpoint = Endpoint(host=str(address), port=6900, secure=True, fingerprint=PIN)
    expected = address.packed[0] == 127 or int(address) == 0
    assert (wrong_host_reason(endpoint, "login1", "gpu013") is not None) == expected
