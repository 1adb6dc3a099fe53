"""Read a command line: the verb, its operands and its options become one object. Pure but for the terminal's colours.

An option applies before a preference of the environment, and that before the user's file.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeVar

from dbg_client.command_line.parser import Field, VerbParser, fields_of, parser_of
from dbg_client.verbs.option import Operands, Preferred
from dbg_client.verbs.table import BY_NAME, OF_THE_BROKER, VERBS, VerbRow, is_target, refuse_mistyped
from dbg_client.verbs.verb import Verb
from dbg_command.command_line import refuse_unknown_option
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.record import Record

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_LETTERS = re.compile(r"[A-Za-z]+")
_PATHS = ("/", "./", "../")
"""The beginnings of words that are always files: a job could have the name of a dot."""

TEXTS = (Operands.EXPRESSION, Operands.COMMAND)
"""Operands that end in a text."""

_R = TypeVar("_R", bound=Record)


@dataclass(frozen=True, slots=True)
class Words:
    """A command line in its parts: the options, the words between them, and those after ``--``."""

    row: VerbRow
    verb: type[Verb]
    options: argparse.Namespace
    operands: list[str]
    behind: list[str]
    in_session: bool
    help_page: str


def read_verb(words: Sequence[str], environ: Mapping[str, str], *, in_session: bool = False) -> Verb:
    """Return the verb that was typed; raise BadInput. argparse itself exits for --help and --version."""
    return made(part(words, in_session=in_session), environ)


def part(words: Sequence[str], *, in_session: bool = False) -> Words:
    """Return a command line in its parts; raise BadInput for an option that the verb does not have."""
    row, topic, words = verb_first(words)
    verb = row.load()
    front, behind = _part(words)
    parser = parser_of(verb, page=partial(_page, topic), in_session=in_session)
    options, left = parser.parse_known_args(front)
    if left and left[0] in OF_THE_BROKER and not topic:
        what, command = f"`{left[0]}` is a verb of dbg-broker", f"dbg-broker {left[0]}"
        raise BadInput(what, f"type `{command}`; all ranks of a host of that name are {left[0]}:*")
    for word in left:
        if _is_option(word):
            _refuse_option(word, row, parser, in_session=in_session)
    return Words(row, verb, options, left, behind, in_session, parser.help_page)


def made(words: Words, environ: Mapping[str, str]) -> Verb:
    """Return the verb that a command line makes. Raises BadInput."""
    given = _OPERANDS[words.verb.operands](words)
    return build(words.verb, words.options, environ, given)


def build(
    verb: type[Verb], options: argparse.Namespace, environ: Mapping[str, str], given: Mapping[str, object]
) -> Verb:
    """Return a verb with these options and operands. Raises BadInput for options that contradict each other."""
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
    """Return the text that applies to a field without an option, None for none."""
    found = (environ.get(name) for name in preferred.variables)
    return next((text for text in found if text or (text is not None and preferred.empty_counts)), preferred.usual)


def _typed(field: Field, value: Any) -> object:
    """Return the value of an option that was typed: a switch has it already, a text is read."""
    read = next((option.read for option in field.options if option.takes_value), None)
    if read is None:
        return value
    return tuple(map(read, value)) if isinstance(value, list) else read(value)


# -------------------------------------------------------------------------------------------------------- the operands


def read_question(row: VerbRow, text: str, environ: Mapping[str, str]) -> tuple[Verb, bool]:
    """Return ``eval`` or ``command`` as typed in a session, and whether the line names ranks.

    Options stand first, then ranks, and then a text that is taken as it stands.
    """
    verb = row.load()
    parser = parser_of(verb, in_session=True)
    known, words = parser._option_string_actions, list[str]()
    while (option := known.get(text.split(" ", 1)[0].partition("=")[0])) is not None:
        word, _, text = text.partition(" ")
        words.append(word)
        if option.nargs is None and "=" not in word:
            value, _, text = text.strip().partition(" ")
            words += [value] if value else []
        text = text.strip()
    first, _, behind = text.partition(" ")
    target = first if behind.strip() and is_target(first) else None
    given = {"target": target, text_field(verb): behind.strip() if target else text}
    return build(verb, parser.parse_args(words), environ, given), target is not None


def text_field(verb: type[Verb]) -> str:
    """Return the name of the field that has the expression or the command."""
    return "expression" if verb.operands is Operands.EXPRESSION else "command"


def verb_first(words: Sequence[str]) -> tuple[VerbRow, str, list[str]]:
    """Return the verb, the topic of its help, and the words without it; ``attach`` if the first word is not a verb."""
    at = leading(words)
    row = BY_NAME.get(words[at]) if at < len(words) else None
    if row is None:
        return BY_NAME["attach"], "", list(words)
    return row, row.name, [*words[:at], *words[at + 1 :]]


def leading(words: Sequence[str]) -> int:
    """Return how many words belong to options that may stand before the verb."""
    at = 0
    while at < len(words) and (takes_value := LEADING.get(words[at].partition("=")[0])) is not None:
        at += 2 if takes_value and "=" not in words[at] else 1
    return at


def _nothing(words: Words) -> dict[str, object]:
    if words.operands or words.behind:
        first = printable([*words.operands, *words.behind][0])
        raise BadInput(f"{words.row.name} takes no word behind it, and has '{first}'", "leave it out")
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
    """Whether these words can't be one target: paths, or names with letters that no target has."""
    if any(word.startswith(_PATHS) for word in operands):
        return True
    if len(operands) == 1:
        return not is_target(operands[0]) and not _LETTERS.fullmatch(operands[0])
    return not all(word in BY_NAME or is_target(word) for word in operands)


def _asked(words: Words) -> dict[str, object]:
    """Part what follows ``eval`` and ``command``: the first word is the target if it can be one.

    ``--wait`` names the ranks of a command, too: those that are stopped then.
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
    notes: tuple[str, ...] = ()
    count = len(operands) - (target is not None)
    if is_expression and count > 1:
        notes = (f"{count} words are read as one expression, {printable(text)}; quote it, or the shell may change it.",)
    elif is_expression and target is None and is_target(text):
        notes = (f"'{printable(text)}' is asked for as an expression; to ask ranks, write one behind it.",)
    return {"target": target, text_field(verb): text, "notes": notes}


def _job(words: Words) -> dict[str, object]:
    """Return the command after ``--``."""
    if words.operands or not words.behind:
        raise BadInput("there is no command to run", "write it behind `--`, such as dbg-attach run -- python train.py")
    return {"command": tuple(words.behind)}


def _program(words: Words) -> dict[str, object]:
    """Return the ranks before ``--`` and the program after it."""
    verb = words.verb
    if not words.behind or not words.behind[0]:
        what = f"{verb.name} needs ranks and, behind --, a command"
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
    Operands.SHELL: lambda words: {"shell": " ".join([*words.operands, *words.behind])},
    Operands.PROGRAM: _program,
    Operands.JOB: _job,
    Operands.PROCESSES: lambda words: {"pids": (*words.operands, *words.behind)},
    Operands.VERB: lambda words: {"topic": " ".join([*words.operands, *words.behind])},
}
"""The reader of each kind of operands; it returns the fields of the verb that they give."""


def _target(operands: list[str], words: Words) -> str | None:
    """Return the only word as target. Raise BadInput for several, and for one that is mistyped."""
    if not operands:
        return None
    if operands[0] in BY_NAME:
        raise BadInput(f"'{operands[0]}' is a verb and stands first", f"a host of that name is `{operands[0]}:0`")
    refuse_mistyped(operands[0], [row.name for row in VERBS])
    if len(operands) > 1:
        first, second = (printable(word) for word in operands[:2])
        raise BadInput(f"'{second}' is one word too many behind '{first}'", f"see `{words.help_page}`")
    return operands[0]


def _refuse_option(word: str, row: VerbRow, parser: VerbParser, *, in_session: bool) -> NoReturn:
    """Raise BadInput for an option that the verb does not have, with those that have it, or one like it."""
    name = word.partition("=")[0]
    owners = [each.name for each in VERBS if name in parser_of(each.load())._option_string_actions]
    if in_session and row.name in owners:
        raise BadInput(f"{name} is not for the command line of a session", "run dbg-attach in another terminal")
    if owners:
        *others, last = owners[:3]
        who = f"{', '.join(others)} and {last} have" if others else f"{last} has"
        raise BadInput(f"{row.name} has no option {name}", f"{who} it")
    refuse_unknown_option(word, parser._option_string_actions, parser.help_page)


def _page(topic: str) -> str:
    from dbg_client.command_line.help import help_on  # hardly any command asks for it

    return help_on(topic)


def _part(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part the words at the first ``--``: what is after it is not an option."""
    parted = list(words)
    at = parted.index("--") if "--" in parted else len(parted)
    return parted[:at], parted[at + 1 :]


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and " " not in word and not _NEGATIVE_NUMBER.fullmatch(word)


LEADING = {"--broker": True, "--timeout": True} | dict.fromkeys(
    ("--json", "--no-pager", "-v", "--verbose", "-y", "--yes"), False
)
"""Options that may stand before the verb, as an alias of a shell puts them, and whether they take a value."""
