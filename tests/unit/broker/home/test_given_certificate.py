"""A certificate of the user's own: what can be served, and one sentence for each pair that can't."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from dbg_broker.home.certificate import load_given
from dbg_wire.errors import BadSecretFile
from dbg_wire.finding.endpoint import fingerprint_of
from tests.conftest import Approved
from tests.support.certificates import Authority


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


def test_a_pair_is_served_also_where_links_lead_to_it(authority: Authority, tmp_path: Path) -> None:
    certificate, key = files(authority.issue("own", "login1"))
    certificate.chmod(0o644)
    shown = load_given(certificate, key)
    assert shown.fingerprint == fingerprint_of(shown.certificate)
    assert shown.others == ()
    link = tmp_path / "live.pem"
    link.symlink_to(certificate)
    assert load_given(link, key).fingerprint == shown.fingerprint


def test_a_pair_that_does_not_match(approved: Approved, authority: Authority) -> None:
    one, key = files(authority.issue("one", "h"))[0], files(authority.issue("two", "h"))[1]
    approved(refusal(one, key))


def test_a_time_that_is_over_or_to_come(authority: Authority) -> None:
    certificate, key = files(authority.issue("old", "h", days=-1, from_days=-2))
    assert refusal(certificate, key).startswith(f"--certificate {certificate} expired 20")
    certificate, key = files(authority.issue("future", "h", from_days=1))
    assert refusal(certificate, key).startswith(f"--certificate {certificate} is not valid before 20")


def test_a_key_with_a_password_is_not_asked_for_it(approved: Approved, authority: Authority) -> None:
    certificate, key = files(authority.issue("own", "h"))
    made = serialization.load_pem_private_key(key.read_bytes(), password=None)
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL):
        key.write_bytes(
            made.private_bytes(serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"password"))
        )
        approved(refusal(certificate, key))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_key_that_others_can_read(authority: Authority, mode: int) -> None:
    certificate, key = files(authority.issue("own", "h"))
    key.chmod(mode)
    assert refusal(certificate, key).endswith(f"type `chmod 600 {key}`")


def test_a_certificate_that_others_can_write(authority: Authority) -> None:
    certificate, key = files(authority.issue("own", "h"))
    certificate.chmod(0o666)
    assert "can be written by others" in refusal(certificate, key) or "open to others" in refusal(certificate, key)


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAA\n"])
def test_what_is_no_certificate(authority: Authority, content: bytes) -> None:
    certificate, key = files(authority.issue("own", "h"))
    certificate.write_bytes(content)
    assert refusal(certificate, key).startswith(f"--certificate {certificate} ")


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff\xfe", b"-----BEGIN PRIVATE KEY-----\nAA\n"])
def test_what_is_no_key(authority: Authority, content: bytes) -> None:
    certificate, key = files(authority.issue("own", "h"))
    key.write_bytes(content)
    assert f"--key {key} " in refusal(certificate, key)


def test_what_is_not_there(authority: Authority, tmp_path: Path) -> None:
    certificate, key = files(authority.issue("own", "h"))
    assert "--certificate /gone.pem can't be read (No such file" in refusal(Path("/gone.pem"), key)
    assert "--key /gone.key can't be read (No such file" in refusal(certificate, Path("/gone.key"))
    assert f"--certificate {tmp_path} can't be read (Is a directory)" in refusal(tmp_path, key)
