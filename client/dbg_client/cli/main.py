"""The command ``dbg-attach``: reads the command line, calls what was asked for, turns errors into exit statuses.

Everything heavier than argparse is imported after the command line is known to be good.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dbg_client.actions.streams import prepare_streams, tell, write_result
from dbg_wire.errors import AmbiguousTarget, DbgError, NeedsExtra

if TYPE_CHECKING:
    from dbg_client.words.settings import Attach, Dap, VerbSettings, Web

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells give it: 128 plus SIGINT."""

ENOUGH = 141
"""Exit status where the reader of stdout has enough, as in `dbg-attach list | head`: 128 plus SIGPIPE."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; argparse itself exits for --help and --version."""
    words = sys.argv[1:] if argv is None else list(argv)
    if sys.version_info >= (3, 15):
        # A verb uses two thirds of the modules that it imports.
        sys.set_lazy_imports("all")
    verbose = "-v" in words or "--verbose" in words
    prepare_streams()
    try:
        return _act(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return ENOUGH
    except AmbiguousTarget as error:
        return _fail(_offer(error, words), error.exit_status, verbose)
    except DbgError as error:
        return _fail(str(error), error.exit_status, verbose)
    except Exception as error:
        from dbg_client.core.errors import bug

        return _fail(bug(error), 1, verbose)


def _act(words: list[str]) -> int:
    """Do what the command line says and return the exit status. Raises DbgError."""
    if words[:1] == ["--complete"]:
        from dbg_client.cli.completion import complete

        return complete(words[1:])
    import contextlib
    import io

    from dbg_client.words.command_line import parse

    # argparse drops the error of a write, so it prints into a text.
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            typed = parse(words)
    except SystemExit:
        write_result(printed.getvalue())
        raise
    # Help, version and what can't be understood have ended by now, and need none of these.
    from dbg_client.core.config_file import read_config
    from dbg_client.words.settle import settle

    config = read_config(os.environ)
    settings = settle(typed, os.environ, stdout_is_tty=sys.stdout.isatty(), config=config)
    for note in (*settings.notes, *(f"{problem} (left out)" for problem in config.problems.values())):
        tell(f"dbg-attach: {note}")
    return carry_out(settings)


def _offer(error: AmbiguousTarget, words: Sequence[str]) -> str:
    """Return the error with the whole command for each target that it offers, as the user typed the rest."""
    from dbg_client.words.command_line import parse

    def command(target: str) -> str:
        return f"`{shlex.join(['dbg-attach', *_retyped(words, error.target, target)])}`"

    takes_one = parse(words).verb.name in ("attach", "wait", "screen", "tmux")
    return error.sentence(command, takes_several=not takes_one)


def _retyped(words: Sequence[str], before: str, target: str) -> list[str]:
    """Return the command line with another target; an expression that reads like the target stays."""
    from dbg_client.words.command_line import parse

    places = [place for place, word in enumerate(words) if word == before]
    versions = [[*words[:place], target, *words[place + 1 :]] for place in places]
    meant = [typed for typed in versions if parse(typed).target == target]
    return meant[0] if meant else [target]


def _fail(sentence: str, status: int, verbose: bool) -> int:
    if verbose:
        import traceback

        traceback.print_exc()
    tell(f"dbg-attach: {sentence}")
    return status


def carry_out(settings: VerbSettings) -> int:
    """Do what the settings ask for and return the exit status. Raises DbgError."""
    from dbg_client.words.settings import ShowCompletion, ShowHelp, Why

    if isinstance(settings, ShowCompletion):
        from dbg_client.cli.completion import write_script

        return write_script(settings.shell)
    if isinstance(settings, ShowHelp):
        from dbg_client.words.help import help_on

        write_result(help_on(settings.topic))
        return 0
    if isinstance(settings, Why) and (settings.files or settings.target):
        from dbg_client.actions.why_of_files import files_meant, show_why_of_files

        files = files_meant(settings)
        if files:
            return show_why_of_files(settings, files)
    import logging

    # Nothing may write into a terminal that shows a debugger; what matters is told in errors.
    logging.getLogger().addHandler(logging.NullHandler())
    return _use_broker(settings)


def _use_broker(settings: VerbSettings) -> int:
    import asyncio

    from dbg_client.words.settings import Adopt, Attach, Dap, RankSettings, Run, Tmux, Web

    if isinstance(settings, Attach):
        return asyncio.run(_attach(settings))
    if isinstance(settings, Run):
        from dbg_client.run.start import run

        return run(settings, os.environ)
    if isinstance(settings, RankSettings):
        from dbg_client.actions.from_shell import run_action

        return asyncio.run(run_action(settings, _attach))
    if isinstance(settings, Adopt):
        from dbg_client.adopt.adopt import adopt

        return asyncio.run(adopt(settings))
    if isinstance(settings, Dap):
        return _serve_ide(settings)
    if isinstance(settings, Web):
        return _serve_page(settings)
    if isinstance(settings, Tmux):
        from dbg_client.run.panes import open_panes

        return open_panes(settings)
    from dbg_client.faces.mcp.server import serve_mcp

    return asyncio.run(serve_mcp(settings.broker))


def _serve_ide(settings: Dap) -> int:
    if settings.vscode:
        from dbg_client.faces.dap.ide_entries import show_entries

        return show_entries(settings.target)
    import asyncio

    from dbg_client.faces.dap.serve import serve_dap

    return asyncio.run(serve_dap(settings))


def _serve_page(settings: Web) -> int:
    import asyncio
    from importlib.util import find_spec

    if find_spec("aiohttp") is None:
        raise NeedsExtra("the page", "aiohttp", "web")
    from dbg_client.faces.web.serve import serve_web  # hardly any command loads a server

    return asyncio.run(serve_web(settings))


async def _attach(settings: Attach) -> int:
    from dbg_client.terminal.attach import attach  # hardly any action ends in a session

    return await attach(settings)
