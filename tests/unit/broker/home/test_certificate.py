"""A certificate of the user's own: what can be served, and one sentence for each pair that can't."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from dbg_broker.home.certificate import (
    CERTIFICATE_FILE,
    KEY_FILE,
    load_given,
    load_own,
)
from dbg_dial.endpoint import canonical_pin, fingerprint_of
from dbg_wire.errors import BadSecretFile
from tests.conftest import Approved
from tests.support.certificates import Authority


@pytest.fixture(params=[0, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def shown_by(server: ssl.SSLContext, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """Shake hands in memory and return the certificate that the server shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = newest
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [context.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    certificate = ends[0].getpeercert(binary_form=True)
    if certificate is None:
        pytest.fail("the server showed no certificate")
    return certificate


def shown_of(home: Path) -> tuple[ssl.SSLContext, str]:
    shown = load_own(home)
    return shown.context, shown.fingerprint


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_fingerprint_matches_the_served_certificate(tmp_path: Path, newest: ssl.TLSVersion) -> None:
    context, fingerprint = shown_of(tmp_path)
    assert fingerprint_of(shown_by(context, newest)) == fingerprint == canonical_pin(fingerprint)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_the_next_start_shows_the_same_certificate(tmp_path: Path) -> None:
    _, before = shown_of(tmp_path)
    context, after = shown_of(tmp_path)
    assert after == before == fingerprint_of(shown_by(context))


@pytest.mark.usefixtures("umask")
def test_key_file_is_private(tmp_path: Path) -> None:
    shown_of(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [CERTIFICATE_FILE, KEY_FILE]
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, bits: int) -> None:
    shown_of(tmp_path)
    (tmp_path / KEY_FILE).chmod(bits)
    with pytest.raises(BadSecretFile, match=f"type `chmod 600 {tmp_path / KEY_FILE}`"):
        shown_of(tmp_path)


def test_both_files_are_created_again_if_one_is_missing(tmp_path: Path) -> None:
    _, before = shown_of(tmp_path)
    (tmp_path / CERTIFICATE_FILE).unlink()
    context, after = shown_of(tmp_path)
    assert after == fingerprint_of(shown_by(context)) != before
    assert sorted(path.name for path in tmp_path.iterdir()) == [CERTIFICATE_FILE, KEY_FILE]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def files(options: tuple[str, ...]) -> tuple[Path, Path]:
    return Path(options[1]), Path(options[3])


def refusal(certificate: Path, key: Path) -> str:
    with pytest.raises(BadSecretFile) as caught:
        load_given(certificate, key)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_given_pair_is_served_also_through_links(authority: Authority, tmp_path: Path) -> None:
    certificate, key = files(authority.issue("own", "login1"))
    certificate.chmod(0o644)
    shown = load_given(certificate, key)
    assert shown.fingerprint == fingerprint_of(shown.certificate)
    link = tmp_path / "live.pem"
    link.symlink_to(certificate)
    assert load_given(link, key).fingerprint == shown.fingerprint


def test_mismatched_pair_is_refused(approved: Approved, authority: Authority) -> None:
    one, key = files(authority.issue("one", "h"))[0], files(authority.issue("two", "h"))[1]
    approved(refusal(one, key))


def test_expired_or_future_certificate_is_refused(authority: Authority) -> None:
    certificate, key = files(authority.issue("old", "h", days=-1, from_days=-2))
    assert refusal(certificate, key).startswith(f"--certificate {certificate} expired 20")
    certificate, key = files(authority.issue("future", "h", from_days=1))
    assert refusal(certificate, key).startswith(f"--certificate {certificate} ")


def test_key_with_a_password_is_refused(approved: Approved, authority: Authority) -> None:
    certificate, key = files(authority.issue("own", "h"))
    made = serialization.load_pem_private_key(key.read_bytes(), password=None)
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL):
        key.write_bytes(
            made.private_bytes(serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"password"))
        )
        approved(refusal(certificate, key))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_given_key_that_others_can_read_is_refused(authority: Authority, mode: int) -> None:
    certificate, key = files(authority.issue("own", "h"))
    key.chmod(mode)
    assert refusal(certificate, key).endswith(f"type `chmod 600 {key}`")


def test_given_certificate_that_others_can_write_is_refused(authority: Authority) -> None:
    certificate, key = files(authority.issue("own", "h"))
    certificate.chmod(0o666)
    assert str(certificate) in refusal(certificate, key)


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAA\n"])
def test_invalid_certificate_is_refused(authority: Authority, content: bytes) -> None:
    certificate, key = files(authority.issue("own", "h"))
    certificate.write_bytes(content)
    assert refusal(certificate, key).startswith(f"--certificate {certificate} ")


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff\xfe", b"-----BEGIN PRIVATE KEY-----\nAA\n"])
def test_invalid_key_is_refused(authority: Authority, content: bytes) -> None:
    certificate, key = files(authority.issue("own", "h"))
    key.write_bytes(content)
    assert f"--key {key} " in refusal(certificate, key)
