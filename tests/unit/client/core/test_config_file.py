from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbg_client.core.config_file import read_config
from tests.conftest import Approved


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dbg-broker/config.toml"
    path.parent.mkdir()
    return path


def environ(file: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(file.parents[1])}


def test_a_file_is_read(file: Path) -> None:
    file.write_text('escape = "^^"\ntimeout = 3.5\n')

    config = read_config(environ(file))

    assert (config.path, config.problems) == (str(file), {})
    assert config.values == {"escape": "^^", "timeout": "3.5"}


def test_no_file_says_nothing(file: Path) -> None:
    assert read_config(environ(file)).problems == {}
    assert read_config({}).values == {}


@pytest.mark.parametrize("text", ["engine = \n", 'engine = "pdb', "\x00", "engine = pdb"])
def test_what_is_no_toml_says_where(file: Path, text: str) -> None:
    file.write_text(f"timeout = 3\n{text}")

    (problem,) = read_config(environ(file)).problems.values()

    assert str(file) in str(problem)
    assert "line" in str(problem) or "end of document" in str(problem)
    assert str(problem).isprintable()


def test_bytes_that_are_no_text_are_no_toml(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")

    assert "is no TOML" in str(read_config(environ(file)).problems[""])


def test_a_file_that_others_can_write_is_not_taken(approved: Approved, file: Path) -> None:
    file.write_text('pager = "evil"\n')
    file.chmod(0o666)

    config = read_config(environ(file))

    assert config.values == {}
    approved(str(config.problems[""]))


def test_a_pipe_and_a_folder_in_its_place_hold_up_nobody(file: Path) -> None:
    os.mkfifo(file)
    assert "no regular file" in str(read_config(environ(file)).problems[""])
    file.unlink()
    file.mkdir()
    assert "config.toml" in str(read_config(environ(file)).problems[""])
