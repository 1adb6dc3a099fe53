"""Parser of a command line: the verb, its operands and its options become one object.

Pure, except that argparse reads the environment to choose colours.
An option takes precedence over the environment, and the environment over the default.
"""

from __future__ import annotations

import argparse
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from dbg_client.verbs.option import NO_FLAGS, Heading, Operands, Option, Preferred
from dbg_client.verbs.table import BY_NAME, VERBS, VerbRow, is_target, refuse_mistyped
from dbg_client.verbs.verb import Verb
from dbg_command.command_line import CommandParser, options_of
from dbg_wire import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.record import Record

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_LETTERS = re.compile(r"[A-Za-z]+")
_PATHS = ("/", "./", "../")
"""Beginnings of words that are always files; otherwise ``./5`` could be rank 5 of a job named ``.``."""

TEXTS = (Operands.EXPRESSION, Operands.COMMAND)
"""Operands that end in an expression or a pdb command."""

_R = TypeVar("_R", bound=Record)


@dataclass(frozen=True, slots=True)
class Words:
    """A command line in its parts: the options, the words between them, and the words after ``--``."""

    row: VerbRow
    verb: type[Verb]
    options: argparse.Namespace
    operands: list[str]
    behind: list[str]
    in_session: bool
    help_page: str


def read_verb(
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    in_session: bool = False,
    page: Callable[[str], str] = str,
) -> Verb:
    """Return the verb that was typed; raise BadInput. argparse itself exits for --help and --version.

    ``page`` returns the page for ``--help``. It gets the name of the verb, or an empty text if no verb was typed.
    """
    row, topic, argv = verb_first(argv)
    verb = row.load()
    front, behind = _part(argv)
    parser = parser_of(verb, page=partial(page, topic), in_session=in_session)
    options, left = parser.parse_known_args(front)
    for word in filter(_is_option, left):
        raise BadInput(f"{row.name} has no option {printable(word.partition('=')[0])}", f"see `{parser.help_page}`")
    given = _OPERANDS[verb.operands](Words(row, verb, options, left, behind, in_session, parser.help_page))
    return build(verb, options, environ, given)


def build(
    verb: type[Verb], options: argparse.Namespace, environ: Mapping[str, str], given: Mapping[str, object]
) -> Verb:
    """Build a verb with these options and operands. Raises BadInput for options that contradict each other."""
    found = _record(verb, options, environ, given, "", has_flags=True)
    found.check()
    return found


def _record(
    kind: type[_R],
    options: argparse.Namespace,
    environ: Mapping[str, str],
    given: Mapping[str, object],
    prefix: str,
    *,
    has_flags: bool,
) -> _R:
    values = dict(given)
    for field in fields_of(kind):
        if field.nested is not None:
            inner = f"{prefix}{field.name}."
            flags = has_flags and field.has_flags
            values[field.name] = _record(field.nested, options, environ, {}, inner, has_flags=flags)
        elif has_flags and hasattr(options, f"{prefix}{field.name}"):
            values[field.name] = _typed(field, getattr(options, f"{prefix}{field.name}"))
        elif field.preferred is not None:
            text = _preferred(field.preferred, environ)
            if text is not None:
                values[field.name] = field.preferred.read(text)
    return kind(**values)


def _preferred(preferred: Preferred, environ: Mapping[str, str]) -> str | None:
    """Return the text for a field whose option was not typed.

    It is the text of the environment variable, else the default, else None.
    """
    text = environ.get(preferred.variable)
    return text if text or (text is not None and preferred.empty_counts) else preferred.usual


def _typed(field: Field, value: Any) -> object:
    """Return the value of a typed option: the parsed text after the option, or the fixed value of a switch."""
    read = next((option.read for option in field.options if option.takes_value), None)
    if read is None:
        return value
    return tuple(map(read, value)) if isinstance(value, list) else read(value)


# -------------------------------------------------------------------------------------------------------- the operands


def read_question(row: VerbRow, text: str, environ: Mapping[str, str]) -> tuple[Verb, bool]:
    """Return ``eval`` or ``command`` as typed in a session, and whether the line names ranks.

    Options come first, then ranks, and then a text, which is used unchanged.
    """
    verb = row.load()
    parser = parser_of(verb, in_session=True)
    known, argv = parser._option_string_actions, list[str]()
    while (option := known.get(text.split(" ", 1)[0].partition("=")[0])) is not None:
        word, _, text = text.partition(" ")
        argv.append(word)
        if option.nargs is None and "=" not in word:
            value, _, text = text.strip().partition(" ")
            argv += [value] if value else []
        text = text.strip()
    first, _, behind = text.partition(" ")
    target = first if behind.strip() and is_target(first) else None
    given = {"target": target, text_field(verb): behind.strip() if target else text}
    return build(verb, parser.parse_args(argv), environ, given), target is not None


def text_field(verb: type[Verb]) -> str:
    """Return the name of the field for the expression or the command."""
    return "expression" if verb.operands is Operands.EXPRESSION else "command"


def verb_first(argv: Sequence[str]) -> tuple[VerbRow, str, list[str]]:
    """Return the verb, the topic of its help, and the words after it; ``attach`` if the first word is not a verb."""
    row = BY_NAME.get(argv[0]) if argv else None
    return (row, row.name, list(argv[1:])) if row is not None else (BY_NAME["attach"], "", list(argv))


def _nothing(words: Words) -> dict[str, object]:
    if words.operands or words.behind:
        first = printable([*words.operands, *words.behind][0])
        raise BadInput(f"{words.row.name} takes no argument, but got '{first}'", "leave it out")
    return {}


def _one_target(words: Words) -> dict[str, object]:
    operands = [*words.operands, *words.behind]
    return {"target": _target(operands, words)}


def _files(words: Words) -> dict[str, object]:
    operands = [*words.operands, *words.behind]
    if not words.in_session and _are_files(operands):
        return {"files": tuple(operands)}
    return _one_target(words)


def _are_files(operands: list[str]) -> bool:
    """Return True if these words are files: paths, or words that can't be one target.

    A single word of letters only is not a file, because it may be a mistyped verb.
    """
    if any(word.startswith(_PATHS) for word in operands):
        return True
    if len(operands) == 1:
        return not is_target(operands[0]) and not _LETTERS.fullmatch(operands[0])
    return not all(word in BY_NAME or is_target(word) for word in operands)


def _asked(words: Words) -> dict[str, object]:
    """Split the words after ``eval`` and ``command``: the first one is the target if it can be one.

    With ``--wait``, a command needs no target: it runs on the ranks that are stopped after the wait.
    """
    verb, operands = words.verb, [*words.operands, *words.behind]
    is_expression = verb.operands is Operands.EXPRESSION
    target, text = None, " ".join(operands)
    if len(operands) > 1 and is_target(operands[0]):
        target, text = operands[0], " ".join(operands[1:])
    elif not is_expression and not (operands and hasattr(words.options, "wait")):
        raise BadInput(f"{verb.name} needs ranks and a command", f"write both, e.g. `{verb.example}`")
    elif not operands:
        raise BadInput(f"{verb.name} needs an expression", f"write one, e.g. `{verb.example}`")
    return {"target": target, text_field(verb): text}


def _watch(words: Words) -> dict[str, object]:
    """Split the words after ``watch``: the kind of the watch, and the target."""
    watch, *operands = [*words.operands, *words.behind] or [""]
    return {"watch": watch, "target": _target(operands, words)}


def _two_runs(words: Words) -> dict[str, object]:
    """Return the two runs, or the target, of ``numbers``."""
    operands = [*words.operands, *words.behind]
    return {"runs": tuple(operands)} if len(operands) == 2 else _one_target(words)


def _job(words: Words) -> dict[str, object]:
    """Return the command after ``--``."""
    if words.operands or not words.behind:
        raise BadInput("there is no command to run", "write it after `--`, as in dbg-attach run -- python train.py")
    return {"command": tuple(words.behind)}


def _program(words: Words) -> dict[str, object]:
    """Return the ranks before ``--`` and the program after it."""
    verb = words.verb
    if not words.behind or not words.behind[0]:
        what = f"{verb.name} needs ranks and, after --, a command"
        raise BadInput(what, f"write both, e.g. `{verb.example}`")
    if not words.operands:
        raise BadInput(f"{verb.name} needs ranks before the --", f"write them, e.g. `{verb.example}`")
    return {"target": _target(words.operands, words), "program": tuple(words.behind)}


_OPERANDS: Mapping[Operands, Callable[[Words], dict[str, object]]] = {
    Operands.NONE: _nothing,
    Operands.TARGET: _one_target,
    Operands.MAYBE_TARGET: _one_target,
    Operands.MAYBE_FILES: _files,
    Operands.EXPRESSION: _asked,
    Operands.COMMAND: _asked,
    Operands.WATCH: _watch,
    Operands.TWO_RUNS: _two_runs,
    Operands.SHELL: lambda words: {"shell": " ".join([*words.operands, *words.behind])},
    Operands.PROGRAM: _program,
    Operands.JOB: _job,
    Operands.PROCESSES: lambda words: {"pids": (*words.operands, *words.behind)},
    Operands.VERB: lambda words: {"topic": " ".join([*words.operands, *words.behind])},
}
"""The reader for each kind of operands; it returns the fields of the verb that the operands set."""


def _target(operands: list[str], words: Words) -> str | None:
    """Return the only word as target. Raise BadInput for several words, and for a mistyped one."""
    if not operands:
        return None
    if operands[0] in BY_NAME:
        raise BadInput(f"'{operands[0]}' is a verb, which must come first", f"a host of that name is `{operands[0]}:0`")
    refuse_mistyped(operands[0], [row.name for row in VERBS])
    if len(operands) > 1:
        first, second = (printable(word) for word in operands[:2])
        raise BadInput(f"'{second}' is one word too many after '{first}'", f"see `{words.help_page}`")
    return operands[0]


def _part(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the words at the first ``--``: words after it are not options."""
    parted = list(argv)
    at = parted.index("--") if "--" in parted else len(parted)
    return parted[:at], parted[at + 1 :]


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and " " not in word and not _NEGATIVE_NUMBER.fullmatch(word)


# ------------------------------------------------------------------------------------------------- the parser of a verb


class VerbParser(CommandParser):
    """Parser of one verb's options; it returns the words between the options separately, in their order.

    ``page`` returns the page for ``--help``. A session has fewer options.
    """

    def __init__(self, verb: type[Verb], *, page: Callable[[], str], in_session: bool) -> None:
        super().__init__(prog=f"dbg-attach {verb.name}", allow_abbrev=False, argument_default=argparse.SUPPRESS)
        self._page = page
        self._own = f" {verb.name}" if verb.name != "attach" else ""
        self._in_session = in_session
        self._headings: dict[Heading, argparse._ArgumentGroup] = {}
        for name, options in groupby(options_in(verb), key=lambda found: found[0]):
            self._add(name, [option for _, option in options])

    @property
    def help_page(self) -> str:
        """The command that shows the help."""
        return f"help{self._own}" if self._in_session else f"dbg-attach{self._own} --help"

    @property
    def groups(self) -> Iterator[tuple[Heading, argparse.Action]]:
        """The options that the help shows, each with its heading."""
        shown = options_of(self)
        for heading, group in self._headings.items():
            yield from ((heading, action) for action in group._group_actions if action in shown)

    def _add(self, name: str, options: list[Option]) -> None:
        """Add the options of one field; a command line may contain only one of them."""
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
        """Return the help page of the verb."""
        return self._page()

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # argparse ignores write errors, so a page longer than the buffer could be lost without an error.
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
class Field:
    """One field of a record: its options, its environment variable, or the record that is nested in it."""

    name: str
    kind: Any
    default: object
    options: tuple[Option, ...] = ()
    preferred: Preferred | None = None
    nested: type[Record] | None = None
    has_flags: bool = True


@cache
def fields_of(record: type[Record]) -> tuple[Field, ...]:
    """Return the fields of a record: first of its own class, then of its bases."""
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
