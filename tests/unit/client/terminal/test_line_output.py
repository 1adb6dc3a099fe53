"""The lines round the current one, as ``sticky`` shows them."""

from __future__ import annotations

from dbg_client.terminal.line_prompt import line_lexer, show_source
from dbg_wire.messages import Source
from tests.unit.client.fake_broker import HERE


def shown_source(source: Source, columns: int = 40) -> list[str]:
    return "".join(part[1] for part in show_source(source, columns, line_lexer(color=True))).split("\n")


def test_the_source_has_numbers_breakpoints_and_the_current_line() -> None:
    lines = ("def f():", "    a = 1", "    b = 2")

    assert shown_source(Source(where=HERE.replace(line=10), first=9, lines=lines, breakpoints=(9, 10))) == [
        "train.py:10 in step",
        " 9 B   def f():",
        "10 B->     a = 1",
        "11         b = 2",
        "",
    ]


def test_the_source_is_cut_to_the_terminal_and_acts_on_nothing() -> None:
    lines = ("x = '\x1b[2J'\t# tab", "y = " + "界" * 40)

    shown = shown_source(Source(where=HERE, first=41, lines=lines, breakpoints=()), columns=30)

    assert shown[1] == "41  -> x = '\\x1b[2J'      # ta"
    assert len(shown[2]) == 7 + 4 + (30 - 11) // 2
    assert all(line.isprintable() for line in shown)


def test_a_place_without_source_is_named_alone() -> None:
    assert shown_source(Source(where=HERE, first=0, lines=(), breakpoints=())) == ["train.py:41 in step", ""]
