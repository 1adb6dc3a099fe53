"""Files of credentials for NATS."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbg_broker.cluster.nats import Servers
from dbg_broker.serve.joining import read_login
from dbg_wire.errors import BadSecretFile
from tests.conftest import Approved


def written(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "credentials"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_user_with_password_or_token_is_read(tmp_path: Path) -> None:
    assert read_login(written(tmp_path, "me:pass:word\n")) == {"user": "me", "password": "pass:word"}
    assert read_login(written(tmp_path, "a-token\n")) == {"token": "a-token"}


@pytest.mark.parametrize(
    ("text", "mode"),
    [("", 0o600), ("two words\n", 0o600), ("me:secret\n", 0o644)],
)
def test_unusable_credentials_are_reported_without_quoting_them(
    approved: Approved, tmp_path: Path, text: str, mode: int
) -> None:
    with pytest.raises(BadSecretFile) as caught:
        read_login(written(tmp_path, text, mode))
    approved(str(caught.value))
    assert "secret" not in str(caught.value).replace("BadSecret", "")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSecretFile, match=r"--cluster-credentials .*none can't be read \(No such file"):
        read_login(tmp_path / "none")


def test_repr_hides_the_password(tmp_path: Path) -> None:
    assert "word" not in repr(Servers(("nats://h1",), read_login(written(tmp_path, "me:word"))))
