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


def test_a_user_with_a_password_and_a_token(tmp_path: Path) -> None:
    assert read_login(written(tmp_path, "me:pass:word\n")) == {"user": "me", "password": "pass:word"}
    assert read_login(written(tmp_path, "a-token\n")) == {"token": "a-token"}


@pytest.mark.parametrize(
    ("text", "mode"),
    [("", 0o600), ("two words\n", 0o600), ("me:secret\n", 0o644)],
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
    assert "word" not in repr(Servers(("nats://h1",), read_login(written(tmp_path, "me:word"))))
