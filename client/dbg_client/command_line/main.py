"""The command ``dbg-attach``: parses the command line, runs the verb, and turns errors into exit statuses.

Everything heavier than argparse is imported after the command line has been parsed.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dbg_client.shell.streams import notify, prepare_streams, write_result
from dbg_wire.errors import DbgError

if TYPE_CHECKING:
    from dbg_client.verbs.verb import Verb

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells: 128 plus SIGINT."""

ENOUGH = 141
"""Exit status if the reader of stdout has closed it, as in `dbg-attach list | head`: 128 plus SIGPIPE."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; argparse itself exits for --help and --version."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if sys.version_info >= (3, 15):
        # Lazy imports make the start faster, because a verb uses only two thirds of the modules that are imported.
        sys.set_lazy_imports("all")
    verbose = "-v" in arguments or "--verbose" in arguments
    prepare_streams()
    try:
        return _act(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return ENOUGH
    except DbgError as error:
        return _fail(str(error), error.exit_status, verbose)
    except Exception as error:
        from dbg_client.core.errors import bug

        return _fail(bug(error), 1, verbose)


def _act(arguments: list[str]) -> int:
    """Run the command line and return the exit status. Raises DbgError."""
    if arguments[:1] == ["--complete"]:
        from dbg_client.command_line.completion import complete

        return complete(arguments[1:])
    from dbg_client.command_line.reading import read_verb

    # argparse ignores write errors, so its output goes to a string first.
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            verb = read_verb(arguments, os.environ, page=_page)
    except SystemExit:
        write_result(printed.getvalue())
        raise
    return carry_out(verb)


def _page(topic: str) -> str:
    from dbg_client.command_line.help import help_on  # rarely needed

    return help_on(topic)


def carry_out(verb: Verb) -> int:
    """Run a verb and return the exit status. Raises DbgError."""
    import logging

    from dbg_client.verbs.verb import RanksVerb

    # Log lines would corrupt a terminal that shows a debugger. Problems are reported as errors instead.
    logging.getLogger().addHandler(logging.NullHandler())
    if not isinstance(verb, RanksVerb):
        return verb.run()
    status = verb.start()
    if status is not None:
        return status
    import asyncio

    from dbg_client.shell.ask import AttachInstead, ask_ranks

    try:
        return asyncio.run(ask_ranks(verb))
    except AttachInstead as instead:
        return instead.attach()


def _fail(sentence: str, status: int, verbose: bool) -> int:
    if verbose:
        import traceback

        traceback.print_exc()
    notify(f"dbg-attach: {sentence}")
    return status
