"""Argument parser of `dbg-broker`: its verbs, corrections of mistyped words, and completions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import NoReturn

from dbg_command.command_line import CommandParser, complete_option, lines, nearest
from dbg_wire import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE
from dbg_wire.errors import BadInput, printable

VERBS: Mapping[str, str] = MappingProxyType(
    {
        "serve": "run a broker until it is stopped by SIGTERM or Ctrl-C",
        "status": "show whether the broker is up, and how many ranks are connected",
        "token": "print, make, list or revoke tokens of this home",
        "certificate": "print the fingerprint of the home's certificate; make it if needed",
        "log": "show who did what to which rank, from where and when",
        "check": "connect to a broker step by step, and explain what fails",
        "completion": "print the shell script that completes verbs and options",
    }
)
"""Verbs and their help lines, in the order of `--help`. The module with the verb's name adds its options and runs it.
Only the module of the given verb is imported, so that `--help` is instant.
"""


def parser_of_the_command(verbs: Collection[str] = tuple(VERBS)) -> argparse.ArgumentParser:
    """Return the parser with the options of these verbs. Completion and manual page are made from it."""
    parser = CommandParser(
        prog="dbg-broker",
        description="The broker connects ranks that stop in a debugger with terminals that attach to them.",
        epilog="The home is $DBG_HOME, or dbg-broker under $XDG_STATE_HOME or ~/.local/state. "
        "More: dbg-broker help VERB, and the manual page.",
    )
    parser.add_argument("--version", action="version", version=_version())
    added = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    for name, summary in VERBS.items():
        verb = added.add_parser(name, help=summary)
        if name in verbs:
            import_module(f"dbg_broker.cli.{name}").add_options(verb)
            verb.add_argument("--home", metavar="DIR", help="directory of certificate, tokens and broker.json")
    return parser


def _version() -> str:
    return f"dbg-broker {RELEASE} (Python {sys.version.split()[0]}, protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR})"


OF_THE_TERMINAL = frozenset(
    {"attach", "wait", "run", "list", "where", "why", "collectives", "eval", "command", "exec", "screen", "interrupt"}
    | {"continue", "release", "kill", "tmux", "slow", "watch", "numbers", "report", "adopt", "mcp", "dap", "web"}
)
"""Verbs of ``dbg-attach`` that this command does not have."""


def verbs_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parser of each verb."""
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found: Mapping[str, argparse.ArgumentParser] = verbs.choices
    return found


def complete_words(argv: Sequence[str]) -> list[str]:
    """Return the completions of the last word, one line each: the word, a tab, and its meaning."""
    *before, current = argv or [""]
    parser = parser_of_the_command(before[:1])
    verb = verbs_of(parser).get(before[0]) if before else None
    found = complete_option(verb or parser, before, current)
    if found is not None:
        return found
    if verb is None:
        return lines(VERBS.items(), current)
    return lines([(each, "") for action in verb._get_positional_actions() for each in action.choices or ()], current)


def refuse_mistyped(parser: argparse.ArgumentParser, argv: Sequence[str], left: Sequence[str]) -> None:
    """Raise BadInput, with a suggestion, for an unknown verb and for words that the parser did not accept."""
    verbs = verbs_of(parser)
    if argv and not argv[0].startswith("-") and argv[0] not in verbs:
        if argv[0] in OF_THE_TERMINAL:
            raise BadInput(f"`{argv[0]}` is a verb of dbg-attach", f"type `dbg-attach {argv[0]}`")
        _refuse_verb(argv[0], verbs)
    for word in left:
        if word.startswith("-"):
            raise BadInput(f"there is no option {printable(word.partition('=')[0])}", "see `dbg-broker --help`")
        raise BadInput(f"'{printable(word)}' is one word too many", "see `dbg-broker --help`")


def _refuse_verb(word: str, verbs: Iterable[str]) -> NoReturn:
    what, meant = f"unknown verb `{printable(word)}`", nearest(word, verbs)
    raise BadInput(what, f"did you mean `{meant}`?" if meant is not None else f"type one of {', '.join(verbs)}")
