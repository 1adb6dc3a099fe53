from __future__ import annotations

import pytest

from dbg_command.command_line import (
    CommandParser,
    complete_option,
    nearest,
    options_of,
    read_duration,
    usage_of,
)
from dbg_wire.errors import BadInput
from tests.conftest import Approved


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 60.0), ("60s", 60.0), ("5m", 300.0), ("1h", 3600.0), ("0.5", 0.5), ("1.5m", 90.0), ("2d", 172800.0)],
)
def test_duration_is_read(text: str, seconds: float) -> None:
    assert read_duration(text, "--for", 1e6) == seconds


@pytest.mark.parametrize(
    ("text", "most", "hint"),
    [("999999999h", 864000.0, "use 10d at most"), ("2m", 119.5, "use 119.5s at most"), ("1e9", 1e6, "60s, 5m or 1h")],
)
def test_too_long_duration_error_names_the_maximum(text: str, most: float, hint: str) -> None:
    with pytest.raises(BadInput, match=f"--for '{text}' .*; .*{hint}"):
        read_duration(text, "--for", most)


@pytest.mark.parametrize("text", ["", "0", "-1", "soon", "5 m", "1w", "nan", "inf", "s", "\x1b"])
def test_invalid_duration_is_refused_with_the_name_of_the_option(text: str) -> None:
    with pytest.raises(BadInput, match="--for") as error:
        read_duration(text, "--for", 1e6)

    assert str(error.value).isprintable()
    assert "60s, 5m or 1h" in str(error.value)


def test_most_similar_word_is_found_or_none() -> None:
    assert nearest("wher", ("where", "here", "list")) == "where"
    assert nearest("zebra", ("where", "list")) is None
    assert nearest("", ()) is None


def parser() -> CommandParser:
    made = CommandParser(prog="dbg-x verb", allow_abbrev=False)
    made.add_argument("-o", "--output", metavar="FILE", help="where to")
    made.add_argument("--engine", metavar="NAME", choices=("pudb", "pdb"), help="which; default: %(default)s")
    made.add_argument("--exact", action="store_true", help="count more")
    return made


def test_a_mistake_is_one_sentence(approved: Approved) -> None:
    with pytest.raises(BadInput, match=r"expected one argument; see `dbg-x --help`"):
        parser().parse_args(["--output"])
    with pytest.raises(BadInput) as caught:
        parser().parse_args(["--engine", "gdb"])
    approved(str(caught.value))


def test_options_are_shown_as_they_are_typed() -> None:
    assert [usage_of(option) for option in options_of(parser())] == [
        "-h, --help",
        "-o, --output FILE",
        "--engine NAME",
        "--exact",
    ]


@pytest.mark.parametrize(
    ("before", "current", "lines"),
    [
        ([], "--e", ["--engine\twhich; default: None", "--exact\tcount more"]),
        (["--engine"], "pu", ["pudb"]),
        (["-o"], "x", [":files"]),
        (["--exact"], "x", None),
    ],
)
def test_an_option_or_its_value_is_completed(before: list[str], current: str, lines: list[str] | None) -> None:
    assert complete_option(parser(), before, current) == lines
