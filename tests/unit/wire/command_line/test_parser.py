from __future__ import annotations

import pytest

from dbg_wire.command_line.parser import CommandParser, complete_option, options_of, refuse_unknown_option, usage_of
from dbg_wire.errors import BadInput
from tests.conftest import Approved


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


@pytest.mark.parametrize(
    ("option", "says"),
    [("--exat", "did you mean `--exact`?"), ("--exat=3", "did you mean `--exact`?"), ("-Q", "see `h`")],
)
def test_an_option_that_there_is_not_is_told_the_nearest(approved: Approved, option: str, says: str) -> None:
    with pytest.raises(BadInput) as error:
        refuse_unknown_option(option, ["--exact", "--every"], "h")

    approved(str(error.value))
