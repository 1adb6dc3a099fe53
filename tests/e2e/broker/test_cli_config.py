from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dbg_broker.cli.main import main
from tests.support.environment import clean_environment


def use_config(folder: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    """Have the environment be one in which a config.toml is looked for in a folder."""
    environ = {**clean_environment(os.environ, folder), "XDG_CONFIG_HOME": str(folder), **more}
    for name in os.environ:
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("home", [None, "/elsewhere"])
def test_the_settings_are_those_of_the_terminals(
    home: str | None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(tmp_path, monkeypatch, DBG_HOME="/nowhere")
    file = tmp_path / "dbg-broker/config.toml"
    file.parent.mkdir()
    file.write_text('engine = "pdb"\n')

    assert main(["config", "--json", *([] if home is None else ["--home", home])]) == 0

    settings = {one["key"]: one["value"] for one in json.loads(capfd.readouterr().out)["settings"]}
    assert (settings["engine"], settings["home"]) == ("pdb", home or "/nowhere")


def test_a_bad_file_shows_in_the_status(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(tmp_path, monkeypatch)
    file = tmp_path / "dbg-broker/config.toml"
    file.parent.mkdir()
    file.write_text("engine = \n")

    assert main(["config"]) == 2
    assert "is no TOML" in capfd.readouterr().out
