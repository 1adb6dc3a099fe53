from __future__ import annotations

import os

import pytest

from tests.unit.client.shell.desk import Desk


@pytest.fixture
def desk(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Desk:
    """Return the desk of a user who has set up nothing."""
    for name in os.environ.keys() - environ.keys():
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return Desk(capfd, monkeypatch)
