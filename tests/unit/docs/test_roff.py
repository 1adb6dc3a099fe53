from __future__ import annotations

import pytest

from tests.docs.roff import ManPage, escaped


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
def test_text_is_shown_as_it_is(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_no_line_of_a_page_is_a_request_by_accident() -> None:
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
