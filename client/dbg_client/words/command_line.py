"""The command line as it was typed: a verb, its operands and its options. Pure."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from dbg_client.words.parsers import LEADING, VerbParser, parser_of
from dbg_client.words.verbs import BY_NAME, OF_THE_BROKER, VERBS, Operands, VerbRow, is_target, refuse_mistyped
from dbg_wire.command_line.completion import nearest
from dbg_wire.command_line.parser import refuse_unknown_option
from dbg_wire.errors import BadInput, printable

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_LETTERS = re.compile(r"[A-Za-z]+")
_PATHS = ("/", "./", "../")
"""The beginnings of words that are always files: a job could have the name of a dot."""

_TEXTS = (Operands.EXPRESSION, Operands.COMMAND)


@dataclass(frozen=True, slots=True)
class Typed:
    """A command line, before its options are checked against each other.

    ``text`` is the expression or the command of pdb, the shell behind ``completion``, or the verb behind ``help``;
    ``program`` are the words of a command beside ranks. ``files`` can be no target; a target may be a file as well.
    ``notes`` are told to the user, each a sentence.
    """

    verb: VerbRow
    options: argparse.Namespace
    target: str | None = None
    text: str = ""
    program: tuple[str, ...] = ()
    pids: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def parse(words: Sequence[str], *, in_session: bool = False) -> Typed:
    """Return what was typed; raise BadInput. argparse itself exits for --help and --version."""
    row, topic, words = verb_first(words)
    front, behind = _part(words)
    parser = parser_of(row, page=partial(_page, topic), in_session=in_session)
    options, left = parser.parse_known_args(front)
    if left and left[0] in OF_THE_BROKER and not topic:
        what, command = f"`{left[0]}` is a verb of dbg-broker", f"dbg-broker {left[0]}"
        raise BadInput(what, f"type `{command}`; all ranks of a host of that name are {left[0]}:*")
    for word in left:
        if _is_option(word):
            _refuse_option(word, row, words, parser, in_session=in_session)
    if row.operands is Operands.JOB:
        return _job(row, options, left, behind)
    if row.operands is Operands.PROGRAM:
        return _beside(row, options, left, behind)
    return _with_operands(row, options, [*left, *behind], parser.help_page, in_session=in_session)


def parse_question(row: VerbRow, text: str) -> Typed:
    """Return what was typed in a session behind ``eval`` or ``command``: options, ranks, and a text as it stands."""
    parser = parser_of(row, in_session=True)
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
    return Typed(row, parser.parse_args(words), target, behind.strip() if target else text)


def verb_first(words: Sequence[str]) -> tuple[VerbRow, str, list[str]]:
    """Return the verb, the topic of its help, and the words without it; ``attach`` if the first word is no verb."""
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


def _with_operands(
    row: VerbRow, options: argparse.Namespace, operands: list[str], help_page: str, *, in_session: bool
) -> Typed:
    if row.operands is Operands.NONE and operands:
        raise BadInput(f"{row.name} takes no word behind it, and has '{printable(operands[0])}'", "leave it out")
    if row.operands in (Operands.SHELL, Operands.VERB):
        return Typed(row, options, text=" ".join(operands))
    if row.operands is Operands.PROCESSES:
        return Typed(row, options, pids=tuple(operands))
    if row.operands is Operands.MAYBE_FILES and not in_session and _are_files(operands):
        return Typed(row, options, files=tuple(operands))
    if row.operands in _TEXTS:
        return _asked(row, options, operands)
    if row.name == "wait" and len(operands) == 2 and operands[1].isdecimal():
        what, (first, second) = "wait takes one TARGET", map(printable, operands)
        raise BadInput(
            what, f"for {second} seconds write `wait {first} --for {second}s`, for both ranks {first},{second}"
        )
    return Typed(row, options, _target(operands, help_page, in_session=in_session))


def _are_files(operands: list[str]) -> bool:
    """Tell whether these words can't be one target: paths, or names with letters that no target has."""
    if any(word.startswith(_PATHS) for word in operands):
        return True
    if len(operands) == 1:
        return not is_target(operands[0]) and not _LETTERS.fullmatch(operands[0])
    return not all(word in BY_NAME or is_target(word) for word in operands)


def _job(row: VerbRow, options: argparse.Namespace, operands: list[str], command: list[str]) -> Typed:
    """Return the command behind ``--``, or none with ``--again``."""
    first = next(iter([*operands, *command]), None)
    if options.again and first is not None:
        raise BadInput(
            f"--again repeats the last command, and '{printable(first)}' is another", "leave one of them out"
        )
    if not options.again and (operands or not command):
        raise BadInput("there is no command to run", "write it behind `--`, such as dbg-attach run -- python train.py")
    return Typed(row, options, program=tuple(command))


def _beside(row: VerbRow, options: argparse.Namespace, operands: list[str], program: list[str]) -> Typed:
    """Return the ranks that stand before ``--`` and the program behind it."""
    if not program or not program[0]:
        what = f"{row.name} needs ranks and, behind --, a command"
        raise BadInput(what, f"write both, e.g. `{row.example}`")
    if not operands:
        raise BadInput(f"{row.name} needs ranks before the --", f"write them, e.g. `{row.example}`")
    target = _target(operands, "dbg-attach --help", in_session=False)
    return Typed(row, options, target, program=tuple(program))


def _asked(row: VerbRow, options: argparse.Namespace, operands: list[str]) -> Typed:
    """Part what stands behind ``eval`` and ``command``: the first word is the target if it can be one.

    ``--wait`` names the ranks of a command, too: those that are stopped then.
    """
    target, text = None, " ".join(operands)
    if len(operands) > 1 and is_target(operands[0]):
        target, text = operands[0], " ".join(operands[1:])
    elif row.operands is Operands.COMMAND and not (operands and options.wait):
        raise BadInput(f"{row.name} needs ranks and a command", f"write both, e.g. `{row.example}`")
    elif not operands:
        raise BadInput(f"{row.name} needs an expression", f"write one, e.g. `{row.example}`")
    notes: tuple[str, ...] = ()
    words = len(operands) - (target is not None)
    if row.operands is Operands.EXPRESSION and words > 1:
        notes = (f"{words} words are read as one expression, {printable(text)}; quote it, or the shell may change it.",)
    elif row.operands is Operands.EXPRESSION and words == 1 and target is None and is_target(text):
        notes = (f"'{printable(text)}' is asked for as an expression; to ask ranks, write one behind it.",)
    return Typed(row, options, target, text, notes=notes)


def _target(operands: list[str], help_page: str, *, in_session: bool) -> str | None:
    """Return the only word as target. Raise BadInput for several, and for one that is a verb mistyped."""
    if not operands:
        return None
    verb = next((word for word in operands if word in BY_NAME), None)
    if verb is not None:
        _refuse_verb(verb, operands, in_session=in_session)
    refuse_mistyped(operands[0], [row.name for row in VERBS])
    if len(operands) > 1:
        _refuse_several(operands, help_page)
    return operands[0]


def _refuse_verb(verb: str, operands: list[str], *, in_session: bool) -> NoReturn:
    others = [word for word in operands if word != verb]
    if not others:
        raise BadInput(f"'{verb}' is a verb, which stands first, and no rank", f"a host of that name is `{verb}:0`")
    what = f"the verb '{verb}' stands first, and not beside '{printable(others[0])}'"
    raise BadInput(what, f"write {_line(verb, others, in_session)}")


def _refuse_several(operands: list[str], help_page: str) -> NoReturn:
    first, second = (printable(word) for word in operands[:2])
    if operands[0].startswith("@") and operands[1].startswith("@"):
        raise BadInput(
            f"'{first}' and '{second}' are two targets", "if the shell has made them of @?, put that into quotes: '@?'"
        )
    if all(map(is_target, operands)):
        raise BadInput(f"'{first}' and '{second}' are two targets", f"write one: {printable(','.join(operands))}")
    raise BadInput(f"'{second}' is one word too many behind '{first}'", f"see `{help_page}`")


def _refuse_option(word: str, row: VerbRow, words: list[str], parser: VerbParser, *, in_session: bool) -> NoReturn:
    """Raise BadInput for an option that the verb has not, with what the user may have meant."""
    name = word.partition("=")[0]
    verb = BY_NAME.get(name.lstrip("-"))
    if verb is not None:
        at = words.index(word)
        others = [*words[:at], *words[at + 1 :]]
        if verb.operands in _TEXTS and len(others) > at:
            others.append(others.pop(at))
        typed = _line(verb.name, others, in_session)
        raise BadInput(f"{printable(name)} is no option, {verb.name} is a verb and stands first", f"write {typed}")
    owners = [each.name for each in VERBS if name in parser_of(each)._option_string_actions]
    if in_session and row.name in owners:
        raise BadInput(f"{name} is not for the command line of a session", "run dbg-attach in another terminal")
    if owners:
        *others, last = owners[:3]
        who = f"{', '.join(others)} and {last} have" if others else f"{last} has"
        raise BadInput(f"{row.name} has no option {name}", f"{who} it")
    known = parser._option_string_actions
    meant = None if nearest(name, known) else nearest(name.lstrip("-"), [each.name for each in VERBS])
    if meant is not None:
        raise BadInput(f"there is no option {printable(name)}", f"did you mean the verb `{meant}`?")
    refuse_unknown_option(word, known, parser.help_page)


def _line(verb: str, words: Sequence[str], in_session: bool) -> str:
    typed = shlex.join([*([] if in_session else ["dbg-attach"]), verb, *words])
    return f"`{printable(typed, 300)}`"


def _page(topic: str) -> str:
    from dbg_client.words.help import help_on  # hardly any command asks for it

    return help_on(topic)


def _part(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part the words at the first ``--``: what is behind it is no option."""
    parted = list(words)
    at = parted.index("--") if "--" in parted else len(parted)
    return parted[:at], parted[at + 1 :]


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and " " not in word and not _NEGATIVE_NUMBER.fullmatch(word)
