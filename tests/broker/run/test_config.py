from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dbg_broker.run.config import show_config
from tests.support.environment import clean_environment


@pytest.mark.parametrize("home", [None, "/elsewhere"])
def test_the_settings_are_those_of_the_terminals(
    home: str | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    environ = {**clean_environment(os.environ, tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "DBG_HOME": "/nowhere"}
    file = tmp_path / "dbg-broker/config.toml"
    file.parent.mkdir()
    file.write_text('engine = "pdb"\n')

    assert show_config(home, environ, as_json=True) == 0

    settings = {one["key"]: one["value"] for one in json.loads(capfd.readouterr().out)["settings"]}
    assert (settings["engine"], settings["home"]) == ("pdb", home or "/nowhere")


def test_a_bad_file_shows_in_the_status(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    environ = {**clean_environment(os.environ, tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    file = tmp_path / "dbg-broker/config.toml"
    file.parent.mkdir()
    file.write_text("engine = \n")

    assert show_config(None, environ, as_json=False) == 2
    assert "is no TOML" in capfd.readouterr().out
