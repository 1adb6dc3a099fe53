from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.client.test_terminal_raw import Window
from tests.full.terminals.test_actions_from_shell import command
from tests.unit.client.fake_broker import FakeBroker, make_rank

BROKER = [sys.executable, "-m", "dbg_broker"]


def run(words: list[str], environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environ, timeout=60, check=False
    )


@pytest.fixture
def file(environ: dict[str, str], tmp_path: Path) -> Path:
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    path = tmp_path / "config/dbg-broker/config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.parametrize("words", [command("config", "--json"), [*BROKER, "config", "--json"]])
def test_both_commands_tell_each_setting_and_where_it_comes_from(
    words: list[str], file: Path, environ: dict[str, str]
) -> None:
    file.write_text('engine = "pdb"\n')
    environ |= {"DBG_TIMEOUT": "7", "DBG_HOME": "/nowhere"}
    done = run(words, environ)
    settings = {one["key"]: (one["value"], one["from"]) for one in json.loads(done.stdout)["settings"]}

    assert (done.returncode, done.stderr) == (0, "")
    assert settings["engine"] == ("pdb", "file")
    assert settings["timeout"] == ("7", "variable")
    assert settings["escape"] == ("^]", "default")
    assert settings["home"] == ("/nowhere", "variable")
    assert settings["broker"][1] == "default"


def test_a_bad_file_is_said_by_config_warned_of_by_a_list_and_stops_a_session(
    file: Path, environ: dict[str, str]
) -> None:
    file.write_text('engine = "gdb"\n')
    says = f'{file}, `engine`: \'gdb\' can\'t be used; give it "pudb" or "pdb"'
    told, listed, attached = (run(command(*words), environ) for words in (["config"], ["list"], ["5"]))

    assert (told.returncode, says in told.stdout) == (2, True)
    assert (listed.returncode, listed.stderr.splitlines()[0]) == (4, f"dbg-attach: {says} (left out)")
    assert (attached.returncode, attached.stderr) == (2, f"dbg-attach: {says}\n")


def test_the_escape_key_of_the_file_is_that_of_a_session(file: Path, environ: dict[str, str]) -> None:

    file.write_text('escape = "^^"\n')
    with FakeBroker(make_rank(5)) as broker, Window(broker, environ, "5") as window:
        window.wait_for("Ctrl-^ d detaches")
        window.send("\x1ed")
        assert window.exit_status() == 0
