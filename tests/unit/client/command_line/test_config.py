from __future__ import annotations

from pathlib import Path

import pytest

from dbg_client.terminal.verb import Attach
from dbg_client.verbs.list import ListRanks
from dbg_client.verbs.preferences import (
    PREFERENCES,
    Config,
    config_path,
    read_values,
)
from dbg_wire.errors import BadInput
from tests.conftest import Approved
from tests.unit.client.command_line.typed import settled

PATH = "/home/ada/.config/dbg-broker/config.toml"


def session(words: str, environ: dict[str, str], **file: object) -> Attach:
    return settled(words, Attach, environ, config=read_values(file, PATH))


def listing(environ: dict[str, str], **file: object) -> ListRanks:
    return settled("list", ListRanks, environ, config=read_values(file, PATH))


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}, "/c/dbg-broker/config.toml"),
        ({"XDG_CONFIG_HOME": "c", "HOME": "/h"}, "/h/.config/dbg-broker/config.toml"),
        ({"HOME": "/h"}, "/h/.config/dbg-broker/config.toml"),
        ({}, None),
    ],
)
def test_the_file_is_where_other_programs_have_theirs(environ: dict[str, str], path: str | None) -> None:
    assert config_path(environ) == path


def test_the_file_makes_defaults() -> None:
    settings = session("5", {}, escape="^^", engine="pdb", editing="vi", colors="never", timeout=3, pager="cat")

    assert (settings.attach.prefix, settings.attach.wish.default, settings.attach.vi) == (b"\x1e", "pdb", True)
    assert (settings.color, settings.broker.timeout) == (False, 3.0)
    assert listing({}, pager="cat").output.pager == "cat"


def test_variables_go_before_the_file_and_options_before_variables() -> None:
    file = {"escape": "^^", "engine": "pdb", "timeout": 3, "editing": "vi", "pager": "cat"}
    environ = {
        "DBG_ESCAPE": "^_",
        "DBG_ENGINE": "pudb",
        "DBG_TIMEOUT": "4",
        "DBG_EDITING": "emacs",
        "DBG_PAGER": "most",
    }

    by_variable = session("5", environ, **file)
    assert listing(environ, **file).output.pager == "most"
    by_option = session("5 --escape none --engine pdb --timeout 5 --vi", environ, **file)

    assert (by_variable.attach.prefix, by_variable.attach.wish.default, by_variable.broker.timeout) == (
        b"\x1f",
        "pudb",
        4.0,
    )
    assert by_variable.attach.vi is False
    attach = by_option.attach
    assert (attach.prefix, attach.wish.asked, by_option.broker.timeout, attach.vi) == (None, "pdb", 5.0, True)


def test_the_pager_of_all_programs_goes_behind_the_file() -> None:
    assert listing({"PAGER": "most"}).output.pager == "most"
    assert listing({"PAGER": "most"}, pager="").output.pager == ""
    assert listing({"PAGER": "more", "DBG_PAGER": ""}).output.pager == ""
    assert listing({}).output.pager == "less"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("escape", "x"),
        ("escape", 3),
        ("engine", "gdb\x1b"),
        ("engine", True),
        ("editing", "nano"),
        ("colors", "red"),
        ("timeout", -1),
        ("timeout", "soon"),
        ("timeout", float("nan")),
        ("timeout", True),
        ("pager", ["less"]),
        ("colours", "never"),
        ("zebra", 1),
        ("engine", {"name": "pdb"}),
    ],
)
def test_what_is_wrong_with_a_key_is_one_sentence(approved: Approved, key: str, value: object) -> None:
    config = read_values(
        {key: value, "timeout" if key != "timeout" else "engine": "5" if key != "timeout" else "pdb"}, PATH
    )

    approved(str(config.problems[key]))
    assert str(config.problems[key]).isprintable()
    assert len(config.problems) == len(config.values) == 1


@pytest.mark.parametrize("file", [{"escape": "x"}, {"engine": "gdb"}, {"editing": "nano"}])
def test_a_bad_value_stops_a_session_and_no_list(file: dict[str, object]) -> None:
    assert listing({}, **file).broker.timeout == 10
    with pytest.raises(BadInput, match=r"config\.toml"):
        session("5", {}, **file)


def test_a_bad_file_stops_a_session_and_no_list() -> None:
    bad = Config(PATH, problems={"": BadInput("no TOML", "mend it")})

    assert settled("list", ListRanks, config=bad).broker.timeout == 10
    with pytest.raises(BadInput, match="no TOML"):
        settled("5", Attach, config=bad)


def test_the_page_of_the_file_has_each_key() -> None:
    page = (Path(__file__).parents[4] / "docs/reference/config.md").read_text()

    for row in PREFERENCES.values():
        assert f"| `{row.key}` | `{row.default}` | {row.takes} | {row.help} |\n" in page
