"""Files of credentials for NATS."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dbg_broker.cluster.login import read_login
from dbg_wire.errors import BadSecretFile
from tests.conftest import Approved

SEED = bytes(range(32))


def seed_text(seed: bytes, wrong: int = 0) -> str:
    """Return a user's seed as NATS writes it."""
    raw = bytes([(18 << 3) | (20 << 3 >> 5), (20 << 3 & 31) << 3]) + seed
    return base64.b32encode(raw + (binascii.crc_hqx(raw, 0) ^ wrong).to_bytes(2, "little")).decode().rstrip("=")


def creds(seed: str, jwt: str = "eyJ0.eyJz.c2ln") -> str:
    """Return a file of credentials as NATS' tools write it."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


def written(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "credentials"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_user_with_a_password_and_a_token(tmp_path: Path) -> None:
    assert read_login(written(tmp_path, "me:pass:word\n")).options == {"user": "me", "password": "pass:word"}
    assert read_login(written(tmp_path, "a-token\n")).options == {"token": "a-token"}


def test_a_creds_file_signs_with_its_key(tmp_path: Path) -> None:
    options = read_login(written(tmp_path, creds(seed_text(SEED)))).options
    assert bytes(options["user_jwt_cb"]()) == b"eyJ0.eyJz.c2ln"
    signed = base64.b64decode(options["signature_cb"]("a challenge"))
    Ed25519PrivateKey.from_private_bytes(SEED).public_key().verify(signed, b"a challenge")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("", 0o600),
        ("two words\n", 0o600),
        (creds(seed_text(SEED, wrong=1)), 0o600),
        (creds("SU1"), 0o600),
        ("me:secret\n", 0o644),
    ],
)
def test_what_can_not_be_used_is_said_without_quoting_it(
    approved: Approved, tmp_path: Path, text: str, mode: int
) -> None:
    with pytest.raises(BadSecretFile) as caught:
        read_login(written(tmp_path, text, mode))
    approved(str(caught.value))
    assert "secret" not in str(caught.value).replace("BadSecret", "")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSecretFile, match=r"--cluster-credentials .*none can't be read \(No such file"):
        read_login(tmp_path / "none")


def test_no_form_of_it_shows_the_password(tmp_path: Path) -> None:
    assert "word" not in repr(read_login(written(tmp_path, "me:word")))
