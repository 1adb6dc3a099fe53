"""``dbg-broker``: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from dbg_broker.cli.console import prepare_streams, print_line, print_note, silence_stdout
from dbg_broker.cli.parser import VERBS, complete_words, parser_of_the_command, refuse_mistyped
from dbg_wire.errors import BadInput, DbgError, OutputError

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells: 128 plus SIGINT."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit status; print an error as one line on stderr."""
    prepare_streams()
    try:
        status = _act(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except OutputError as error:
        silence_stdout()
        print_note(str(error))
        return error.exit_status
    except DbgError as error:
        print_note(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return 1
    return status


def _act(argv: list[str]) -> int:
    """Execute the command line, and return the exit status. Raise DbgError."""
    if argv[:1] == ["--complete"]:
        for line in complete_words(argv[1:]):
            print_line(line)
        return 0
    if argv[:1] == ["run"]:
        # `dbg-broker run` is an alias of `dbg-attach run`. No module of this package imports the client, so the client
        # is loaded by name.
        return int(import_module("dbg_client.command_line.main").main(argv))
    given = parse(argv)
    return int(import_module(f"dbg_broker.cli.{given.verb}").run(given))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Raise BadInput, which suggests a correction for a mistyped word."""
    argv = list(arguments)
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help"]
    if not argv:
        raise BadInput("no verb was given", f"type one of {', '.join(VERBS)}")
    parser = parser_of_the_command(argv[:1])
    if argv[0] not in VERBS:
        refuse_mistyped(parser, argv, [])
    given, left = parser.parse_known_args(argv)
    refuse_mistyped(parser, argv, left)
    return given
