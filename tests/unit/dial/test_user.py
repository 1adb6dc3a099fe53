from __future__ import annotations

import getpass
import os
from types import SimpleNamespace

import pytest

from dbg_dial.kernel import user_name


def test_the_name_is_the_users_at_the_short_name_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename="login1.cluster.example"))

    assert user_name() == f"{getpass.getuser()}@login1"


def test_the_environment_names_the_user_before_the_systems_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "")
    monkeypatch.setenv("USER", "ada")

    assert user_name().startswith("ada@")
