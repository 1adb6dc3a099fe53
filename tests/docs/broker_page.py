"""The manual page of ``dbg-broker``, made of its parser. Pure."""

from __future__ import annotations

import argparse

from dbg_broker.cli.parser import summaries_of, verbs_of
from dbg_wire.command_line.parser import help_of, options_of, usage_of
from tests.docs.roff import ManPage

SUMMARY = "the meeting point of ranks that stop in a debugger and of terminals that attach to them"

EXIT_STATUSES = (
    ("0", "done"),
    ("1", "error"),
    ("2", "usage"),
    ("4", "no broker answers"),
    ("5", "the broker refused us, or is not the one pinned"),
    ("130", "interrupted"),
)
"""Those of `run` are its command's own."""


def man_page(parser: argparse.ArgumentParser) -> str:
    """Return dbg-broker.1."""
    page = ManPage("dbg-broker", SUMMARY)
    page.section("synopsis")
    page.synopsis("dbg-broker VERB [options]", "dbg-broker run [options] -- COMMAND …")
    page.section("description")
    page.paragraphs(f"{parser.description}\n\n{parser.epilog}")
    page.section("verbs")
    summaries = summaries_of(parser)
    for name, verb in verbs_of(parser).items():
        page.subsection(name)
        page.paragraphs(f"{_sentence(summaries[name])}\n\n{verb.epilog or ''}".strip())
        page.entries((usage_of(action), _sentence(help_of(action))) for action in _shown(verb))
    page.section("exit status")
    page.entries((status, f"{meaning}.") for status, meaning in EXIT_STATUSES)
    page.paragraphs("run ends with the status of its command.")
    page.section("see also")
    page.paragraphs("dbg-attach(1)")
    return str(page)


def _shown(verb: argparse.ArgumentParser) -> list[argparse.Action]:
    operands = [action for action in verb._get_positional_actions() if action.help != argparse.SUPPRESS]
    return [*operands, *(action for action in options_of(verb) if action.dest != "help")]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")
