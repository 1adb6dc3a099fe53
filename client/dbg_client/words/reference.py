"""The manual page and the reference of ``dbg-attach``, made of the tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dbg_wire.roff import ManPage
from dbg_wire.version import RELEASE

from .config import PREFERENCES
from .help import DESCRIPTION, ENVIRONMENT, EXAMPLES, EXIT_STATUSES, MORE, TARGETS
from .options import ASKING, ATTACH, OPTIONS, OTHER, OptionRow, options_of
from .verbs import VERBS, VerbRow

SUMMARY = "attach a terminal to the debugger of any rank of a running job"

_FILE = """\
~/.config/dbg-broker/config.toml, or dbg-broker/config.toml in $XDG_CONFIG_HOME, has defaults for the settings below.
A variable goes before it, and an option before that; `dbg-attach config` shows what holds.
"""


def man_page() -> str:
    """Return dbg-attach.1."""
    page = ManPage("dbg-attach", RELEASE, SUMMARY)
    page.section("synopsis")
    page.synopsis("dbg-attach [VERB] [TARGET] [options]", "dbg-attach [TARGET] [flag of a verb] [options]")
    page.section("description")
    page.paragraphs(DESCRIPTION)
    page.paragraphs(TARGETS)
    page.paragraphs(MORE)
    page.section("verbs")
    page.entries((_usage(row), _verb_text(row)) for row in VERBS)
    page.section("options")
    for group in (ASKING, ATTACH, OTHER):
        page.subsection(group[0].upper() + group[1:])
        page.entries((_flags(row), f"{row.full_help}.") for row in OPTIONS if row.group == group)
    page.entries([("-h, --help", "Show a short page of this."), ("--version", "Show release and protocol.")])
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


def reference_page() -> str:
    """Return the reference of verbs, options and settings as Markdown."""
    verbs = [(f"[`{row.usage}`](#{row.name})", _code(row.flags), row.help) for row in VERBS]
    parts = [
        "# dbg-attach\n",
        f"{SUMMARY[0].upper()}{SUMMARY[1:]}.\n",
        "## Verbs\n",
        "The first word is a verb if it stands here, else a TARGET. A flag says the same as its verb.\n",
        _table(("verb", "flag", "does"), verbs),
        *(_verb_section(row) for row in VERBS),
        "## Targets\n",
        TARGETS,
        "## Options\n",
        *(f"### {group[0].upper()}{group[1:]}\n\n{_options_table(group)}" for group in (ASKING, ATTACH, OTHER)),
        "## Settings\n",
        _FILE,
        _table(
            ("key", "default", "takes", "is"),
            [(f"`{row.key}`", f"`{row.default}`", row.takes, row.help) for row in PREFERENCES.values()],
        ),
        "## Variables\n",
        _table(("variable", "is"), [(_code(name.split(", ")), meaning) for name, meaning in ENVIRONMENT]),
        "## Exit status\n",
        _table(("status", "means"), EXIT_STATUSES),
    ]
    return "\n".join(parts)


def _usage(row: VerbRow) -> str:
    return ", ".join([row.usage, *row.flags])


def _verb_text(row: VerbRow) -> str:
    spoken = f" In a session: {row.usage_in_session}." if row.in_session is not None else ""
    return f"{row.help[0].upper()}{row.help[1:]}. Example: dbg-attach {row.example}.{spoken}"


def _verb_section(row: VerbRow) -> str:
    own = [option.name for option in options_of(row.name) if option.verbs]
    lines = [f"### {row.name}\n", f"{row.help[0].upper()}{row.help[1:]}.\n", f"    dbg-attach {row.example}\n"]
    if row.in_session is not None:
        lines.append(f"In a session, behind `Ctrl-] :`: `{row.usage_in_session}`.\n")
    if row.changes:
        lines.append("Ranks may move or end by it.\n")
    if own:
        lines.append(f"Options of its own: {_code(own)}.\n")
    return "\n".join(lines)


def _options_table(group: str) -> str:
    rows = [(f"`{_flags(row)}`", _code(row.verbs) or "all", row.help) for row in OPTIONS if row.group == group]
    return _table(("option", "of", "does"), rows)


def _flags(row: OptionRow) -> str:
    return ", ".join(row.flags) + (f" {row.metavar}" if row.metavar is not None else "")


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
