"""The parser of each verb, made of the options of its fields. Pure.

Only the parser of the verb that was typed is built: all of them together take longer than to start Python.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from dbg_client.verbs.option import Heading, Option, options_in
from dbg_client.verbs.table import VERBS
from dbg_client.verbs.verb import Verb
from dbg_command.command_line import CommandParser, options_of
from dbg_wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

LEADING = {"--broker": True, "--timeout": True} | dict.fromkeys(
    ("--json", "--no-pager", "-v", "--verbose", "-y", "--yes"), False
)
"""Options that may stand before the verb, as an alias of a shell puts them, and whether they take a value."""


class VerbParser(CommandParser):
    """Parser of one verb's options; the words between them are left over, in their order.

    ``page`` makes what ``--help`` shows. In a session there are fewer options.
    """

    def __init__(self, verb: type[Verb], *, page: Callable[[], str], in_session: bool) -> None:
        super().__init__(prog=f"dbg-attach {verb.name}", allow_abbrev=False, argument_default=argparse.SUPPRESS)
        self._page = page
        self._in_session = in_session
        self._headings: dict[Heading, argparse._ArgumentGroup] = {}
        for name, options in groupby(options_in(verb), key=lambda found: found[0]):
            self._add(name, [option for _, option in options])

    @property
    def help_page(self) -> str:
        """Return what to type for help."""
        return "help" if self._in_session else "dbg-attach --help"

    @property
    def groups(self) -> Iterator[tuple[Heading, argparse.Action]]:
        """Yield the options that the help shows, each with its heading."""
        shown = options_of(self)
        for heading, group in self._headings.items():
            yield from ((heading, action) for action in group._group_actions if action in shown)

    def _add(self, name: str, options: list[Option]) -> None:
        """Add the options of one field: of several, a command line has one at most."""
        offered = [option for option in options if option.in_session or not self._in_session]
        if not offered:
            return
        heading = offered[0].heading
        if heading not in self._headings:
            self._headings[heading] = self.add_argument_group(heading.value)
        group: argparse._ActionsContainer = self._headings[heading]
        if len(offered) > 1:
            group = group.add_mutually_exclusive_group()
        for option in offered:
            if option.metavar is None:
                group.add_argument(*option.flags, dest=name, action="store_const", const=option.const, help=option.help)
                continue
            group.add_argument(
                *option.flags,
                dest=name,
                action="append" if option.repeats else "store",
                metavar=option.metavar,
                choices=option.choices or None,
                help=option.help,
            )

    def format_help(self) -> str:
        """Return the page of the verb."""
        return self._page()

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # argparse passes over an error of the write, and a page that is longer than a buffer is lost by that.
        if message and file is not None:
            file.write(message)


def parser_of(verb: type[Verb], *, page: Callable[[], str] = str, in_session: bool = False) -> VerbParser:
    """Return the parser of a verb."""
    parser = VerbParser(verb, page=page, in_session=in_session)
    if verb.name == "attach":
        version = f"dbg-attach {RELEASE} (protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}, Python {sys.version.split()[0]})"
        parser.add_argument("--version", action="version", version=version, help=argparse.SUPPRESS)
    return parser


@dataclass(frozen=True, slots=True)
class SharedOption:
    """An option, its heading in the help, and the verbs that take it."""

    action: argparse.Action
    heading: Heading
    verbs: tuple[str, ...]

    @property
    def is_of_all(self) -> bool:
        """Whether each verb takes it."""
        return len(self.verbs) == len(VERBS)


def all_options() -> list[SharedOption]:
    """Return all options in the order of the help."""
    found: dict[tuple[str, ...], SharedOption] = {}
    for row in VERBS:
        for heading, action in parser_of(row.load()).groups:
            key = tuple(action.option_strings)
            before = found[key].verbs if key in found else ()
            found[key] = SharedOption(action, heading, (*before, row.name))
    return list(found.values())
