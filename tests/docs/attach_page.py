"""The manual page of ``dbg-attach``, made of the verbs and their parsers. Pure."""

from __future__ import annotations

from dbg_client.words.config import PREFERENCES
from dbg_client.words.help import DESCRIPTION, ENVIRONMENT, EXAMPLES, EXIT_STATUSES, MORE, TARGETS, full_help
from dbg_client.words.parsers import ASKING, ATTACH, OTHER, all_options
from dbg_client.words.verbs import VERBS, VerbRow
from dbg_wire.command_line.parser import usage_of
from tests.docs.roff import ManPage

SUMMARY = "attach a terminal to the debugger of any rank of a running job"

_FILE = """\
~/.config/dbg-broker/config.toml, or dbg-broker/config.toml in $XDG_CONFIG_HOME, has defaults for the settings below.
A variable goes before it, and an option before that; `dbg-attach config` shows what holds.
"""


def man_page() -> str:
    """Return dbg-attach.1."""
    page = ManPage("dbg-attach", SUMMARY)
    page.section("synopsis")
    page.synopsis("dbg-attach [VERB] [TARGET] [options]")
    page.section("description")
    page.paragraphs(DESCRIPTION)
    page.paragraphs(TARGETS)
    page.paragraphs(MORE)
    page.section("verbs")
    page.entries((_usage(row), _verb_text(row)) for row in VERBS)
    page.section("options")
    options = all_options()
    for group in (ASKING, ATTACH, OTHER):
        page.subsection(group[0].upper() + group[1:])
        page.entries((usage_of(one.action), f"{full_help(one)}.") for one in options if one.group == group)
    page.entries(
        [("-h, --help", "Show a short page of this, or that of the verb."), ("--version", "Show release and protocol.")]
    )
    page.section("environment")
    page.entries((name, f"{meaning}.") for name, meaning in ENVIRONMENT)
    page.section("files")
    page.paragraphs(_FILE)
    page.entries((f"{row.key} =", f"{row.help}: {row.takes}.") for row in PREFERENCES.values())
    page.section("exit status")
    page.entries((status, f"{meaning}.") for status, meaning in EXIT_STATUSES)
    page.section("examples")
    page.entries((command, f"{meaning}.") for command, meaning in EXAMPLES)
    page.section("see also")
    page.paragraphs("dbg-broker(1), tmux(1)")
    return str(page)


def _usage(row: VerbRow) -> str:
    return ", ".join(filter(None, [row.usage, row.short]))


def _verb_text(row: VerbRow) -> str:
    spoken = f" In a session: {row.usage_in_session}." if row.in_session is not None else ""
    return f"{row.help[0].upper()}{row.help[1:]}. Example: dbg-attach {row.example}.{spoken}"
