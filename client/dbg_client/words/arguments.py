"""The command line of ``dbg-attach``: from the words of a shell to the values of its verb and options. Pure."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from dbg_client.words.near import is_target, refuse_mistyped, refuse_unknown_option
from dbg_client.words.options import MAYBE_PORT, OPTIONS
from dbg_client.words.verbs import BY_FLAG, BY_NAME, OF_THE_BROKER, VERBS, Operands, VerbRow
from dbg_wire.errors import BadInput, printable
from dbg_wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

ANY_PORT = ""
"""What argparse puts for ``--dap`` without a value."""

WAIT_FOR_EVER = ""
"""What argparse puts for ``--wait`` without a value."""

HELP_PAGE = "dbg-attach --help"

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The command line as it was typed, before options are checked against each other.

    ``verb`` is the verb that was spoken if no flag means the same; ``spoken`` is it in any case, None for a flag.
    ``operand`` is the shell behind ``completion``, or the verb behind ``help``. ``notes`` are told to the user, each a
    sentence.
    """

    target: str | None = None
    verb: str | None = None
    spoken: str | None = field(default=None, compare=False)
    operand: str | None = None
    pids: tuple[str, ...] = ()
    mine: bool = False
    list: bool = False
    screen: bool = False
    resume: bool = False
    kill: bool = False
    expression: str | None = None
    command: str | None = None
    program: tuple[str, ...] | None = None
    where: bool = False
    interrupt: bool = False
    release: bool = False
    tmux: bool = False
    report: bool = False
    output: str | None = None
    exact: bool = False
    tol: str | None = None
    stats: bool = False
    live: bool = False
    threads: bool = False
    native: bool = False
    per_host: bool = False
    frame: str | None = None
    save: str | None = None
    against: str | None = None
    fail_if_differ: bool = False
    every: str | None = None
    watch: bool = False
    take: bool = False
    wait: str | None = None
    bound: str | None = None
    follow: bool = False
    all: bool = False
    all_rows: bool = False
    json: bool = False
    plain: bool = False
    timeout: str | None = None
    escape: str | None = None
    yes: bool = False
    no_pager: bool = False
    no_status: bool = False
    engine: str | None = None
    commands: str | None = None
    no_rc: bool = False
    vi: bool = False
    broker: str | None = None
    ask_token: bool = False
    port: str | None = None
    no_secret: bool = False
    vscode: bool = False
    verbose: bool = False
    run: int | None = None
    breakpoints_to: str | None = None
    notes: tuple[str, ...] = ()


class _ArgumentParser(argparse.ArgumentParser):
    """Say what is wrong in one sentence, like every other error of this command."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(printable(message, 300), f"see `{HELP_PAGE}`")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # argparse passes over an error of the write, and a page that is longer than a buffer is lost by that.
        if message and file is not None:
            file.write(message)

    def format_help(self) -> str:
        """Return the page of one screen."""
        from dbg_client.words.help import SHORT  # hardly any command asks for it

        return SHORT


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of options and flags; the words between them are left over, in their order."""
    parser = _ArgumentParser(prog="dbg-attach", usage="dbg-attach [VERB] [TARGET] [options]", allow_abbrev=False)
    for verb in VERBS:
        if verb.name == "wait":
            parser.add_argument(*verb.flags, nargs="?", const=WAIT_FOR_EVER)
        elif verb.flags and verb.operands in (Operands.EXPRESSION, Operands.COMMAND):
            parser.add_argument(*verb.flags, dest=verb.field)
        elif verb.flags:
            parser.add_argument(*verb.flags, dest=verb.field, action="store_true")
    for option in OPTIONS:
        if option.metavar is None:
            parser.add_argument(*option.flags, dest=option.field, action="store_true")
        elif option.metavar == MAYBE_PORT:
            parser.add_argument(*option.flags, dest=option.field, nargs="?", const=ANY_PORT)
        else:
            parser.add_argument(*option.flags, dest=option.field, metavar=option.metavar)
    # What `dbg-broker run` starts its terminal with: the socket by which the two talk.
    parser.add_argument("--run", type=int)
    # The file in which a pane of `dbg-broker run --tmux` tells the breakpoints that are set in it.
    parser.add_argument("--breakpoints-to")
    parser.add_argument(
        "--version",
        action="version",
        version=f"dbg-attach {RELEASE} (protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}, Python {sys.version.split()[0]})",
    )
    return parser


def read_arguments(words: Sequence[str], *, help_page: str = HELP_PAGE) -> Arguments:
    """Return the command line as values; raise BadInput. argparse itself exits for --help and --version.

    ``help_page`` is named where the user is sent to it.
    """
    front, behind = _part(words)
    parser = build_parser()
    found, left = parser.parse_known_args(front)
    if left and (row := BY_NAME.get(left[0])) is not None and row.operands is Operands.PROGRAM:
        return Arguments(**vars(found), **_beside(row, left[1:], behind, help_page))
    if left and left[0] in OF_THE_BROKER:
        what, command = f"`{left[0]}` is a verb of dbg-broker", f"dbg-broker {left[0]}"
        raise BadInput(what, f"type `{command}`; all ranks of a host of that name are {left[0]}:*")
    for word in left:
        if _is_option(word):
            refuse_unknown_option(word, parser._option_string_actions, help_page)
    given = vars(found)
    operands = [*left, *behind]
    _refuse_forgotten_quotes(front, given, operands)
    row = BY_NAME.get(operands[0]) if operands else None
    if row is None:
        return Arguments(**given, target=_target(operands, help_page))
    return Arguments(**_spoken(row, operands[1:], given, help_page))


def _read_operands(row: VerbRow, words: Sequence[str], *, waits_for_ranks: bool) -> tuple[str | None, str]:
    """Part what stands behind ``eval`` and ``command``; return the target, if there is one, and the text to ask.

    The first word is the target if it can be one and something stands behind it. ``waits_for_ranks`` says that
    ``--wait`` names the ranks.
    """
    if len(words) > 1 and is_target(words[0]):
        return words[0], " ".join(words[1:])
    if row.operands is Operands.COMMAND and not (words and waits_for_ranks):
        raise BadInput(f"{row.name} needs ranks and a command", f"write both, e.g. `{row.example}`")
    if not words:
        raise BadInput(f"{row.name} needs an expression", f"write one, e.g. `{row.example}`")
    return None, " ".join(words)


def _spoken(row: VerbRow, operands: list[str], given: dict[str, Any], help_page: str) -> dict[str, Any]:
    """Return the arguments that a verb and its operands make, together with the options."""
    given = given | {"spoken": row.name}
    if row.operands is Operands.NONE and operands:
        raise BadInput(f"{row.name} takes no word behind it, and has '{printable(operands[0])}'", "leave it out")
    if row.operands is Operands.PROGRAM:
        return given | _beside(row, *_part(operands), help_page)
    if row.operands in (Operands.SHELL, Operands.VERB):
        return given | {"verb": row.name, "operand": " ".join(operands)}
    if row.operands is Operands.PROCESSES:
        return given | {"verb": row.name, "pids": tuple(operands)}
    if row.operands in (Operands.EXPRESSION, Operands.COMMAND):
        return given | _asked(row, operands, given)
    if row.name == "wait" and len(operands) == 2 and operands[1].isdecimal():
        what, (first, second) = "wait takes one TARGET", map(printable, operands)
        raise BadInput(
            what, f"for {second} seconds write `wait {first} --for {second}s`, for both ranks {first},{second}"
        )
    target = _target(operands, help_page)
    if row.name == "wait":
        # As with the flag, `wait --for 60s 5` and `--wait 5` are the same, and whatever the flag has taken is its own.
        wait = given["wait"] if given["wait"] is not None else WAIT_FOR_EVER
        return given | {"wait": wait, "target": target}
    return given | {"target": target} | ({"verb": row.name} if row.field is None else {row.field: True})


def _beside(row: VerbRow, operands: list[str], program: list[str], help_page: str) -> dict[str, Any]:
    """Return the ranks that stand before ``--`` and the program behind it."""
    if not program or not program[0]:
        what = f"{row.name} needs ranks and, behind --, a command"
        raise BadInput(what, f"write both, e.g. `{row.example}`")
    for word in operands:
        if _is_option(word):
            refuse_unknown_option(word, build_parser()._option_string_actions, help_page)
    if not operands:
        raise BadInput(f"{row.name} needs ranks before the --", f"write them, e.g. `{row.example}`")
    return {"target": _target(operands, help_page), str(row.field): tuple(program)}


def _asked(row: VerbRow, operands: list[str], given: dict[str, Any]) -> dict[str, Any]:
    target, text = _read_operands(row, operands, waits_for_ranks=bool(given["wait"]))
    if given[str(row.field)] is not None:
        raise BadInput(f"{row.name} and {row.flags[0]} are the same, and both are given", "give one of them")
    notes: tuple[str, ...] = ()
    words = len(operands) - (target is not None)
    if row.operands is Operands.EXPRESSION and words > 1:
        notes = (f"{words} words are read as one expression, {printable(text)}; quote it, or the shell may change it.",)
    elif row.operands is Operands.EXPRESSION and words == 1 and target is None and is_target(text):
        notes = (f"'{printable(text)}' is asked for as an expression; to ask ranks, write one behind it.",)
    return {"target": target, str(row.field): text, "notes": notes}


def _target(operands: list[str], help_page: str) -> str | None:
    """Return the only word as target. Raise BadInput for several, and for one that is a verb mistyped."""
    if not operands:
        return None
    refuse_mistyped(operands[0], [row.name for row in VERBS])
    if len(operands) > 1:
        _refuse_several(operands, help_page)
    return operands[0]


def _refuse_several(operands: list[str], help_page: str) -> NoReturn:
    first, second = (printable(word) for word in operands[:2])
    if operands[1] in BY_NAME:
        raise BadInput(f"the verb '{second}' stands behind '{first}'", f"write `{second} {first}`")
    if operands[0].startswith("@") and operands[1].startswith("@"):
        raise BadInput(
            f"'{first}' and '{second}' are two targets", "if the shell has made them of @?, put that into quotes: '@?'"
        )
    if all(map(is_target, operands)):
        raise BadInput(f"'{first}' and '{second}' are two targets", f"write one: {printable(','.join(operands))}")
    raise BadInput(f"'{second}' is one word too many behind '{first}'", f"see `{help_page}`")


def _refuse_forgotten_quotes(words: list[str], given: dict[str, Any], operands: list[str]) -> None:
    """Raise BadInput if words stand behind the value of ``-e`` or ``-c`` which can only be more of it."""
    for at, flag in enumerate(words[:-2]):
        row = BY_FLAG.get(flag)
        if row is None or row.operands not in (Operands.EXPRESSION, Operands.COMMAND):
            continue
        if given[str(row.field)] != words[at + 1]:
            continue
        behind = _up_to_option(words[at + 2 :])
        if not behind or (len(operands) == 1 and is_target(behind[0])):
            return
        if len(behind) > 1 and len(operands) == len(behind) and is_target(behind[-1]):
            behind.pop()
        text = shlex.quote(" ".join([words[at + 1], *behind]))
        raise BadInput(
            f"'{printable(behind[0])}' stands behind {flag} {printable(words[at + 1])}",
            f"did you forget quotes: {flag} {printable(text)}?",
        )


def _up_to_option(words: list[str]) -> list[str]:
    end = next((at for at, word in enumerate(words) if _is_option(word)), len(words))
    return words[:end]


def _part(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part the words at the first ``--``: what is behind it is no option."""
    parted = list(words)
    at = parted.index("--") if "--" in parted else len(parted)
    return parted[:at], parted[at + 1 :]


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and " " not in word and not _NEGATIVE_NUMBER.fullmatch(word)
