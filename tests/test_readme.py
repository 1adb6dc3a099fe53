"""The README is short, its links lead somewhere, its options exist; and each setting is in the table of variables."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from dbg_agent.program.script import FLAGS, OPTIONS
from dbg_agent.settings import Settings
from dbg_client.words.help import whole_page

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TABLE = (ROOT / "docs/reference/variables.md").read_text()
VARIABLES = {"rc": "DBG_PDBRC"}
"""Arguments whose variable has another name."""

MOST_BYTES = 8 * 1024
"""The README is for somebody who decides whether to read on; all else is in docs/."""


@pytest.mark.parametrize("argument", [field.name for field in fields(Settings)])
def test_each_argument_is_in_the_table_with_its_variable(argument: str) -> None:
    variable = VARIABLES.get(argument, f"DBG_{argument.upper()}")
    assert re.search(rf"^\| `{variable}` \| `{argument}=` \| `\w+`", TABLE, re.MULTILINE)


def test_each_option_that_follows_a_command_is_one_of_it() -> None:
    of_terminal = set(re.findall(r"(?<![\w-])--?[a-z][-a-z]*", whole_page()))
    commands = re.findall(r"\bdbg-attach\b([^`\n#|]*)", README)
    options = {option for command in commands for option in re.findall(r"(?<=\s)--?[a-z][-a-z]*", command)}
    assert "--mine" in options
    assert options <= of_terminal


def test_each_option_of_the_runner_is_one_of_it() -> None:
    pages = [README, *(page.read_text() for page in (ROOT / "docs").rglob("*.md"))]
    commands = [command for page in pages for command in re.findall(r"python -m dbg_agent\b([^`\n#|]*)", page)]
    options = {option for command in commands for option in re.findall(r"(?<=\s)--[a-z][-a-z]*", command)}
    assert "--post-mortem" in options
    assert options <= {*OPTIONS, *FLAGS, "--help"}


def test_it_is_short() -> None:
    assert len(README.encode()) <= MOST_BYTES


def test_it_begins_with_the_commands_of_a_clone_and_the_one_of_a_job() -> None:
    commands = re.findall(r"^(?:    )?((?:make|dbg-broker) .*)$", README.partition("\n## ")[0], re.MULTILINE)
    assert [re.split(r" {2,}| --", command)[0] for command in commands] == ["make demo", "make test", "dbg-broker run"]


def test_it_ends_with_a_dozen_links_at_most() -> None:
    read_on = README.partition("\n## Read on\n")[2]
    assert "\n## " not in read_on
    assert 0 < len(re.findall(r"\]\(", read_on)) <= 12


def test_each_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name for page in (README, (ROOT / "docs/start.md").read_text()) for name in re.findall(r"\bmake ([a-z]+)", page)
    }
    assert named >= {"demo", "test", "docs"}
    assert named - targets == set()


@pytest.mark.parametrize("tool", ["debugpy", "flight recorder", "ncclras", "Ray", "STAT"])
def test_the_comparison_has_a_column_and_a_source_for_each_tool(tool: str) -> None:
    page = (ROOT / "docs/compare.md").read_text()
    heads = [line for line in page.splitlines() if line.startswith("| |")]
    assert any(tool in cell for head in heads for cell in head.split("|"))
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    assert any(tool in section and "](http" in section for section in sections)


@pytest.mark.parametrize(
    "page",
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
        *(ROOT / f"{folder}/README.md" for folder in ("agent", "broker", "client", "wire", "deploy", "examples")),
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_each_link_leads_to_a_file_and_to_a_heading_of_it(page: Path) -> None:
    for to, anchor in re.findall(r"\]\((?![a-z]+:)([^)\s#]*)(?:#([^)\s]+))?\)", page.read_text()):
        target = page.parent / to.removesuffix("?raw=true") if to else page
        assert target.exists(), to
        assert not anchor or anchor in headings(target), f"{to}#{anchor}"


def headings(page: Path) -> set[str]:
    """Return the anchors that a forge makes of the headings of a page."""
    titles = re.findall(r"^#+ +(.+?) *$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_no_page_needs_a_second_reading() -> None:
    riddles = ["of a directory the last two are kept", "ranks come from a line", "Other stops in place of those"]
    riddles += ["has told is told", "Of a flood you are told", "which is told. `TORCH", "costs the rank its time"]
    riddles += ["nobody looks any more", "comes into the middle of three", "are bars", "stays as it is, and `run`"]
    riddles += ["wait so long for a chosen rank", "since it never comes by", "One in a line without code"]
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        assert [riddle for riddle in riddles if riddle in " ".join(page.read_text().split())] == []
