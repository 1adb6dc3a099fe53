"""What a word of ``dbg-broker`` may be completed to, and what a mistyped one was meant to be, by its parser. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from dbg_wire.command_line.completion import FILES, nearest
from dbg_wire.errors import BadInput, printable

OF_THE_TERMINAL = frozenset(
    {"attach", "wait", "list", "where", "why", "collectives", "eval", "command", "exec", "screen", "interrupt"}
    | {"continue", "release", "kill", "tmux", "stops", "report", "adopt", "mcp", "dap"}
)
"""Verbs that ``dbg-attach`` has and this command has not."""

_FILES = frozenset({"FILE", "DIR"})
"""Metavars of options that take a file or a folder."""


def verbs_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parser of each verb."""
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found: Mapping[str, argparse.ArgumentParser] = verbs.choices
    return found


def summaries_of(parser: argparse.ArgumentParser) -> Mapping[str, str]:
    """Return the line of help of each verb."""
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {choice.dest: choice.help or "" for choice in verbs._choices_actions}


def options_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options that the help shows."""
    return [action for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]


def help_of(option: argparse.Action) -> str:
    """Return the help of an option, its default filled in."""
    return (option.help or "") % vars(option)


def complete_words(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Return a line for each word that the last of these may become: the word, and its meaning behind a tab."""
    *before, current = words or [""]
    if "--" in before:
        return [FILES]
    verbs = verbs_of(parser)
    verb = verbs.get(before[0]) if before else None
    if verb is None:
        options = [(flag, help_of(action)) for action in options_of(parser) for flag in action.option_strings]
        return _lines(options if current.startswith("-") else summaries_of(parser).items(), current)
    option = next((action for action in options_of(verb) if before[-1] in action.option_strings), None)
    if option is not None and option.nargs is None:
        return [FILES] if option.metavar in _FILES else _lines([(each, "") for each in option.choices or ()], current)
    if current.startswith("-"):
        return _lines(
            [(flag, help_of(action)) for action in options_of(verb) for flag in action.option_strings], current
        )
    return _lines([(each, "") for action in verb._get_positional_actions() for each in action.choices or ()], current)


def refuse_mistyped(parser: argparse.ArgumentParser, words: Sequence[str], left: Sequence[str]) -> None:
    """Raise BadInput, with what it may be, for a verb that there is not, and for words that the parser left over."""
    verbs = verbs_of(parser)
    if words and not words[0].startswith("-") and words[0] not in verbs:
        if words[0] in OF_THE_TERMINAL:
            raise BadInput(f"`{words[0]}` is a verb of dbg-attach", f"type `dbg-attach {words[0]}`")
        _refuse(f"unknown verb `{printable(words[0])}`", words[0], list(verbs), ", ".join(verbs))
    verb = verbs.get(words[0]) if words else None
    for word in left:
        if word.startswith("-"):
            known = [flag for action in (verb or parser)._actions for flag in action.option_strings]
            name = word.partition("=")[0]
            _refuse(f"there is no option {printable(name)}", name, known, "")
        raise BadInput(f"'{printable(word)}' is one word too many", "see `dbg-broker --help`")


def _refuse(what: str, word: str, known: Sequence[str], choices: str) -> None:
    meant = nearest(word, known)
    if meant is not None:
        raise BadInput(what, f"did you mean `{meant}`?")
    raise BadInput(what, f"type one of {choices}" if choices else "see `dbg-broker --help`")


def _lines(candidates: Iterable[tuple[str, str]], current: str) -> list[str]:
    return [f"{word}\t{meaning}" if meaning else word for word, meaning in candidates if word.startswith(current)]
