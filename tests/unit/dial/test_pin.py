"""Which broker may be dialled with which token, and when a certificate is the pinned one."""

from __future__ import annotations

import hmac
import ssl

import pytest

from dbg_dial.pin import check_certificate, check_endpoint, check_token, client_context
from dbg_wire.errors import BadEndpoint, WrongCertificate
from dbg_wire.finding.endpoint import Endpoint, fingerprint_of
from tests.support.reach import PIN, THROW_AWAY, TOKENS

PINNED = Endpoint(host="login1", port=6900, secure=True, fingerprint=PIN)
UNPINNED = Endpoint(host="login1", port=6900, secure=True, fingerprint=None)
PLAIN = Endpoint(host="login1", port=6900, secure=False, fingerprint=None)
WORDING = "it shows {shown}, not {pinned}"


def test_a_pinned_broker_gets_any_token_and_one_without_tls_those_that_end_with_it() -> None:
    check_token(PINNED, TOKENS["rank"])
    check_token(PINNED, THROW_AWAY["rank"])
    check_token(PLAIN, THROW_AWAY["rank"])


@pytest.mark.parametrize("token", [TOKENS["rank"], THROW_AWAY["rank"]])
def test_tls_without_a_pin_is_refused(token: str) -> None:
    with pytest.raises(BadEndpoint, match="has no fingerprint"):
        check_token(UNPINNED, token)


def test_a_lasting_token_does_not_travel_in_the_clear() -> None:
    with pytest.raises(BadEndpoint, match="must not travel") as caught:
        check_token(PLAIN, TOKENS["rank"])
    assert TOKENS["rank"] not in str(caught.value)


def test_a_pin_without_tls_would_be_looked_at_by_nobody() -> None:
    with pytest.raises(BadEndpoint, match="shows no certificate"):
        check_endpoint(Endpoint(host="login1", port=6900, secure=False, fingerprint=PIN))


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


@pytest.mark.parametrize("certificate", [None, b""])
def test_no_certificate_is_not_the_pinned_one(certificate: bytes | None) -> None:
    with pytest.raises(WrongCertificate, match="no certificate"):
        check_certificate(PINNED, certificate, WORDING)


def test_no_certificate_is_that_of_a_broker_without_a_pin() -> None:
    with pytest.raises(WrongCertificate):
        check_certificate(UNPINNED, b"certificate", WORDING)


def test_tls_is_1_2_or_later() -> None:
    assert client_context(PINNED).minimum_version is ssl.TLSVersion.TLSv1_2
