"""The manual pages, made of the tables of verbs and options: ``python -m tests.docs.man_pages`` writes them."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator

from dbg_broker.cli.parser import VERBS as BROKER_VERBS
from dbg_broker.cli.parser import parser_of_the_command, verbs_of
from dbg_client.command_line.help import TARGETS
from dbg_client.command_line.reading import parser_of
from dbg_client.verbs.option import Heading
from dbg_client.verbs.table import VERBS, VerbRow
from dbg_command.command_line import help_of, options_of, usage_of
from tests.docs.pages import ROOT
from tests.docs.roff import ManPage

ATTACH_SUMMARY = "attach a terminal to the debugger of any rank of a running job"

TEXTS = tomllib.loads((ROOT / "docs/man/dbg-attach.toml").read_text(encoding="utf-8"))

MOST_NAMED = 6
"""Verbs that are named beside an option; most verbs take one that more have."""


def all_options() -> dict[tuple[str, ...], tuple[Heading, argparse.Action, list[str]]]:
    """Return the options by their flags, each with its heading and the verbs that take it."""
    found: dict[tuple[str, ...], tuple[Heading, argparse.Action, list[str]]] = {}
    for row in VERBS:
        for heading, action in parser_of(row.load()).groups:
            found.setdefault(tuple(action.option_strings), (heading, action, []))[2].append(row.name)
    return found


def _options(wanted: Heading) -> Iterator[tuple[str, str]]:
    """Yield the options of one heading; that few verbs take is told, unless the heading says it."""
    says_it = wanted in (Heading.ATTACH, Heading.RUNNING)
    for heading, action, verbs in all_options().values():
        if heading is wanted:
            whose = f"with {', '.join(verbs)}: " if not says_it and len(verbs) <= MOST_NAMED else ""
            yield usage_of(action), f"{whose}{help_of(action)}."


def attach_page() -> str:
    """Return dbg-attach.1."""
    page = ManPage("dbg-attach", ATTACH_SUMMARY)
    page.section("synopsis")
    page.synopsis("dbg-attach [VERB] [TARGET] [options]")
    page.section("description")
    page.paragraphs(TEXTS["description"])
    page.paragraphs(TARGETS)
    page.paragraphs(TEXTS["more"])
    page.section("verbs")
    page.entries((_usage(row), _verb_text(row)) for row in VERBS)
    page.section("options")
    for heading in Heading:
        page.subsection(heading.value[0].upper() + heading.value[1:])
        page.entries(_options(heading))
    page.entries(
        [("-h, --help", "Show a short page of this, or that of the verb."), ("--version", "Show release and protocol.")]
    )
    page.section("environment")
    page.entries((name, f"{meaning}.") for name, meaning in TEXTS["environment"].items())
    page.section("exit status")
    page.entries((status, f"{meaning}.") for status, meaning in TEXTS["statuses"].items())
    page.section("examples")
    page.entries((command, f"{meaning}.") for command, meaning in TEXTS["examples"].items())
    page.section("see also")
    page.paragraphs("dbg-broker(1), tmux(1)")
    return str(page)


def _usage(row: VerbRow) -> str:
    return ", ".join(filter(None, [row.load().usage(), row.short]))


def _verb_text(row: VerbRow) -> str:
    verb = row.load()
    usage = f"{row.name} {verb.in_session.value}".rstrip() if verb.in_session is not None else ""
    spoken = f" In a session: {usage}." if usage else ""
    return f"{row.help[0].upper()}{row.help[1:]}. Example: dbg-attach {verb.example}.{spoken}"


BROKER_SUMMARY = "connect ranks that stop in a debugger with terminals that attach to them"

BROKER_STATUSES = (
    ("0", "done"),
    ("1", "error"),
    ("2", "usage"),
    ("4", "no broker answers"),
    ("5", "the broker refused us, or is not the one pinned"),
    ("130", "interrupted"),
)
"""Those of `run` are its command's own."""


def broker_page(parser: argparse.ArgumentParser) -> str:
    """Return dbg-broker.1."""
    page = ManPage("dbg-broker", BROKER_SUMMARY)
    page.section("synopsis")
    page.synopsis("dbg-broker VERB [options]", "dbg-attach run [options] -- COMMAND …")
    page.section("description")
    page.paragraphs(f"{parser.description}\n\n{parser.epilog}")
    page.section("verbs")
    for name, verb in verbs_of(parser).items():
        page.subsection(name)
        page.paragraphs(f"{_sentence(BROKER_VERBS[name])}\n\n{verb.epilog or ''}".strip())
        page.entries((usage_of(action), _sentence(help_of(action))) for action in _shown(verb))
    page.section("exit status")
    page.entries((status, f"{meaning}.") for status, meaning in BROKER_STATUSES)
    page.paragraphs("run ends with the status of its command.")
    page.section("see also")
    page.paragraphs("dbg-attach(1)")
    return str(page)


def _shown(verb: argparse.ArgumentParser) -> list[argparse.Action]:
    operands = [action for action in verb._get_positional_actions() if action.help != argparse.SUPPRESS]
    return [*operands, *(action for action in options_of(verb) if action.dest != "help")]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


PAGES = {"dbg-attach": attach_page(), "dbg-broker": broker_page(parser_of_the_command())}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / f"docs/man/{name}.1").write_text(page)
