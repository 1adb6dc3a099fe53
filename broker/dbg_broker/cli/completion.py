"""What a word of ``dbg-broker`` may be completed to, and what a mistyped one was meant to be, by its parser. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from dbg_wire.command_line.completion import FILES, nearest
from dbg_wire.command_line.parser import complete_option, lines, refuse_unknown_option
from dbg_wire.errors import BadInput, printable

OF_THE_TERMINAL = frozenset(
    {"attach", "wait", "list", "where", "why", "collectives", "eval", "command", "exec", "screen", "interrupt"}
    | {"continue", "release", "kill", "tmux", "stops", "report", "adopt", "mcp", "dap"}
)
"""Verbs that ``dbg-attach`` has and this command has not."""


def verbs_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parser of each verb."""
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found: Mapping[str, argparse.ArgumentParser] = verbs.choices
    return found


def summaries_of(parser: argparse.ArgumentParser) -> Mapping[str, str]:
    """Return the line of help of each verb."""
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {choice.dest: choice.help or "" for choice in verbs._choices_actions}


def complete_words(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Return a line for each word that the last of these may become: the word, and its meaning behind a tab."""
    *before, current = words or [""]
    if "--" in before:
        return [FILES]
    verbs = verbs_of(parser)
    verb = verbs.get(before[0]) if before else None
    found = complete_option(verb or parser, before, current)
    if found is not None:
        return found
    if verb is None:
        return lines(summaries_of(parser).items(), current)
    return lines([(each, "") for action in verb._get_positional_actions() for each in action.choices or ()], current)


def refuse_mistyped(parser: argparse.ArgumentParser, words: Sequence[str], left: Sequence[str]) -> None:
    """Raise BadInput, with what it may be, for a verb that there is not, and for words that the parser left over."""
    verbs = verbs_of(parser)
    if words and not words[0].startswith("-") and words[0] not in verbs:
        if words[0] in OF_THE_TERMINAL:
            raise BadInput(f"`{words[0]}` is a verb of dbg-attach", f"type `dbg-attach {words[0]}`")
        _refuse_verb(words[0], verbs)
    verb = verbs.get(words[0]) if words else None
    for word in left:
        if word.startswith("-"):
            refuse_unknown_option(word, (verb or parser)._option_string_actions, "dbg-broker --help")
        raise BadInput(f"'{printable(word)}' is one word too many", "see `dbg-broker --help`")


def _refuse_verb(word: str, verbs: Iterable[str]) -> NoReturn:
    what, meant = f"unknown verb `{printable(word)}`", nearest(word, verbs)
    raise BadInput(what, f"did you mean `{meant}`?" if meant is not None else f"type one of {', '.join(verbs)}")
