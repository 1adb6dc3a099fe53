"""The parser of a verb, made from the fields of its record."""

from __future__ import annotations

import argparse
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from dbg_client.verbs.option import NO_FLAGS, Heading, Option, Preferred
from dbg_client.verbs.table import VERBS
from dbg_client.verbs.verb import Verb
from dbg_command.command_line import CommandParser, options_of
from dbg_wire import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE
from dbg_wire.records.record import Record

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


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


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: its options, its preference, or the record that is nested in it."""

    name: str
    kind: Any
    default: object
    options: tuple[Option, ...] = ()
    preferred: Preferred | None = None
    nested: type[Record] | None = None
    has_flags: bool = True


@cache
def fields_of(record: type[Record]) -> tuple[Field, ...]:
    """Return the fields of a record, those of its own class before those of its bases."""
    hints = typing.get_type_hints(record, include_extras=True)
    names: dict[str, None] = {}
    records = [base for base in record.__mro__ if issubclass(base, Record)]
    for base, above in pairwise(records):
        names.update(dict.fromkeys(name for name in base.__struct_fields__ if name not in above.__struct_fields__))
    defaults = dict(zip(record.__struct_fields__, record.__struct_defaults__, strict=True))
    return tuple(_field(name, hints[name], defaults[name]) for name in names)


def _field(name: str, hint: Any, default: object) -> Field:
    extras: tuple[object, ...] = getattr(hint, "__metadata__", ())
    kind = hint.__origin__ if extras else hint
    return Field(
        name=name,
        kind=kind,
        default=default,
        options=tuple(extra for extra in extras if isinstance(extra, Option)),
        preferred=next((extra for extra in extras if isinstance(extra, Preferred)), None),
        nested=kind if isinstance(kind, type) and issubclass(kind, Record) else None,
        has_flags=NO_FLAGS not in extras,
    )


def options_in(record: type[Record], prefix: str = "") -> Iterator[tuple[str, Option]]:
    """Yield each option with the dotted name of its field."""
    for field in fields_of(record):
        if field.nested is not None and field.has_flags:
            yield from options_in(field.nested, f"{prefix}{field.name}.")
        yield from ((f"{prefix}{field.name}", option) for option in field.options)
