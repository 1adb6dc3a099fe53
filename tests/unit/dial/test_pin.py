"""Which broker may be dialled with which token, and when a certificate is the pinned one."""

from __future__ import annotations

import hmac
import ssl

import pytest

from dbg_dial.pin import check_certificate, check_token, client_context
from dbg_wire.errors import BadEndpoint, WrongCertificate
from dbg_wire.finding.endpoint import Endpoint, fingerprint_of
from tests.conftest import Approved
from tests.support.reach import PIN, THROW_AWAY, TOKENS

PINNED = Endpoint(host="login1", port=6900, secure=True, fingerprint=PIN)
UNPINNED = Endpoint(host="login1", port=6900, secure=True, fingerprint=None)
PLAIN = Endpoint(host="login1", port=6900, secure=False, fingerprint=None)
UNSHOWN = Endpoint(host="login1", port=6900, secure=False, fingerprint=PIN)
WORDING = "it shows {shown}, not {pinned}"


def test_a_pinned_broker_gets_any_token_and_one_without_tls_those_that_end_with_it() -> None:
    check_token(PINNED, TOKENS["rank"])
    check_token(PINNED, THROW_AWAY["rank"])
    check_token(PLAIN, THROW_AWAY["rank"])


@pytest.mark.parametrize(
    ("endpoint", "token"),
    [
        (UNPINNED, TOKENS["rank"]),
        (UNPINNED, THROW_AWAY["rank"]),
        (PLAIN, TOKENS["rank"]),
        (UNSHOWN, THROW_AWAY["rank"]),
    ],
    ids=["no pin", "no pin, throw-away token", "in the clear", "a pin that nobody would look at"],
)
def test_nobody_else_gets_a_token(approved: Approved, endpoint: Endpoint, token: str) -> None:
    with pytest.raises(BadEndpoint) as caught:
        check_token(endpoint, token)
    assert token not in str(caught.value)
    approved(str(caught.value))


def test_a_certificate_is_known_by_its_fingerprint_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    really = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return really(a, b)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    right = Endpoint(host="h", port=1, secure=True, fingerprint=fingerprint_of(b"certificate"))
    assert check_certificate(right, b"certificate", WORDING) == right.fingerprint
    with pytest.raises(WrongCertificate, match=f"it shows {fingerprint_of(b'other')}, not {right.fingerprint}"):
        check_certificate(right, b"other", WORDING)
    assert len(compared) == 2


@pytest.mark.parametrize(("endpoint", "certificate"), [(PINNED, None), (PINNED, b""), (UNPINNED, b"certificate")])
def test_no_certificate_or_no_pin_is_no_match(endpoint: Endpoint, certificate: bytes | None) -> None:
    with pytest.raises(WrongCertificate):
        check_certificate(endpoint, certificate, WORDING)


def test_tls_is_1_2_or_later() -> None:
    assert client_context(PINNED).minimum_version is ssl.TLSVersion.TLSv1_2
