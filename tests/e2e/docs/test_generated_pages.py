"""The generated pages are the ones that their tables make: manual pages, and the reference of the commands."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence

import pytest

from dbg_broker.cli.parser import parser_of_the_command, verbs_of
from dbg_client.verbs.table import VERBS
from dbg_command.command_line import options_of
from tests.docs import reference
from tests.docs.man_pages import PAGES, all_options
from tests.docs.pages import ROOT
from tests.docs.refresh import renewed
from tests.docs.roff import ManPage, escaped
from tests.support.requirements import needs_man

BROKER = parser_of_the_command()

NAMED: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "dbg-attach": ([verb.name for verb in VERBS], [flags[-1] for flags in all_options()]),
    "dbg-broker": (
        list(verbs_of(BROKER)),
        [
            action.option_strings[-1]
            for verb in verbs_of(BROKER).values()
            for action in options_of(verb)
            if action.dest != "help"
        ],
    ),
}
"""Verbs and options of each command."""


@pytest.mark.parametrize("name", PAGES)
def test_the_manual_page_is_generated_from_the_tables(name: str) -> None:
    assert (ROOT / f"docs/man/{name}.1").read_text() == PAGES[name], "run python -m tests.docs.man_pages"
    assert f'"docs/man/{name}.1" = "share/man/man1/{name}.1"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("name", PAGES)
def test_the_manual_page_has_each_verb_and_option(name: str) -> None:
    text = PAGES[name].replace("\\-", "-")
    verbs, options = NAMED[name]
    for verb in verbs:
        assert re.search(rf"^(?:\\fB|\.SS ){verb}\b", text, re.MULTILINE), verb
    for option in options:
        assert re.search(rf"^\\fB.*{re.escape(option)}", text, re.MULTILINE), option
    assert "%(" not in text


@needs_man
@pytest.mark.parametrize("name", PAGES)
def test_the_manual_page_renders_without_a_warning(name: str) -> None:
    page = ROOT / f"docs/man/{name}.1"
    checked = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], capture_output=True, text=True, check=True)
    shown = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", page],
        env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (checked.stderr, shown.stderr) == ("", "")
    assert f"{name.upper()}(1)" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 90


def test_the_reference_of_the_commands_is_generated_from_the_parsers() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.text(), "run `python -m tests.docs.reference`"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--live", "\\-\\-live"),
        (".pdbrc", "\\&.pdbrc"),
        ("'loss'", "\\(aqloss\\(aq"),
        ("^\\", "\\(ha\\e"),
        ("a\n b", "a b"),
        ("COMMAND …", "COMMAND \\[u2026]"),
    ],
)
def test_text_is_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_no_line_of_text_becomes_a_request() -> None:
    page = ManPage("dbg-x", "does x")
    page.section("options")
    page.synopsis("dbg-x A", "dbg-x B")
    page.paragraphs("One.\n\n" + " ".join(["word"] * 30) + " .pdbrc")
    page.entries([("-x FILE", "'reads' it.")])

    lines = str(page).splitlines()
    requests = {line.split()[0] for line in lines if line.startswith((".", "'"))}
    assert requests == {".TH", ".nh", ".SH", ".PP", ".TP", ".br"}
    assert "dbg\\-x \\- does x" in lines
    assert lines[-2:] == ["\\fB\\-x FILE\\fR", "\\(aqreads\\(aq it."]


@pytest.mark.parametrize(
    ("on_page", "printed", "kept"),
    [
        (["for 3 s"], ["for 5 s"], ["for 3 s"]),
        (["4 ranks"], ["5 ranks"], ["5 ranks"]),
        (["pid …", "4 ranks"], ["pid 17", "5 ranks"], ["pid …", "5 ranks"]),
        (["head", "…", "4 ranks"], ["head", "one", "two", "5 ranks"], ["head", "one", "two", "5 ranks"]),
        (["old", "…", "tail"], ["new", "one", "two", "tail"], ["new", "one", "two", "tail"]),
        (["old", "head", "…", "tail"], ["new", "head", "one", "two", "tail"], ["new", "head", "…", "tail"]),
        ([], ["first"], ["first"]),
    ],
)
def test_lines_that_still_agree_are_kept(on_page: list[str], printed: list[str], kept: list[str]) -> None:
    assert renewed(on_page, printed) == kept
