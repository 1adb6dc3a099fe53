from __future__ import annotations

from dbg_client.words.arguments import Arguments, build_parser, read_arguments


def test_the_parser_gives_what_settings_take() -> None:
    assert read_arguments(["5", "--wait", "3", "-y"]) == Arguments(target="5", wait="3", yes=True)


def test_help_leads_with_examples_and_tells_every_exit_status() -> None:
    text = build_parser().format_help()

    assert text.index("examples:") < text.index("--watch  ")
    for status in ("0", "1", "2", "3", "4", "5", "6", "7", "8", "130"):
        assert f" {status}  " in text[text.index("exit status:") :]
