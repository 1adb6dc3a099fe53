"""``dbg-broker``: the command line. Each verb imports its own code, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from dbg_broker.cli.parser import complete_words, parser_of_the_command, refuse_mistyped, verbs_of
from dbg_wire.command_line.completion import completion_script
from dbg_wire.command_line.look_alikes import HANDLER
from dbg_wire.errors import BadInput, CantPrint, DbgError

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit status; errors are one line on stderr."""
    _prepare_streams()
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        if words[:1] == ["--complete"]:
            return _complete(words[1:])
        if words[:1] == ["run"]:
            # Another name for it; this package imports nothing of the terminal.
            status: int = import_module("dbg_client.cli.main").main(words)
            return status
        given = parse(words)
        status = RUNS[given.verb](given)
        sys.stdout.flush()
    except CantPrint as error:
        _silence_stdout()
        print(f"dbg-broker: {error}", file=sys.stderr)
        return error.exit_status
    except DbgError as error:
        print(f"dbg-broker: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return 1
    return status


def _prepare_streams() -> None:
    """Let both streams write what their encoding lacks as look-alikes."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=HANDLER)


def _silence_stdout() -> None:
    """Lead stdout to the null device: Python would report once more, while it exits, that it can't be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what the command line asks for; raise BadInput, which says what a mistyped word may be."""
    words = list(arguments)
    parser = parser_of_the_command()
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words:
        raise BadInput("no verb is given", f"type one of {', '.join(verbs_of(parser))}")
    if words[0] not in verbs_of(parser):
        refuse_mistyped(parser, words, [])
    given, left = parser.parse_known_args(words)
    refuse_mistyped(parser, words, left)
    return given


def _complete(words: list[str]) -> int:
    for line in complete_words(parser_of_the_command(), words):
        print(line)
    return 0


def _say(line: str) -> None:
    _write(f"{line}\n")


def _columns() -> int | None:
    """Return the width of the terminal that stdout is; None if it is none."""
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    return None


def _write(text: str) -> None:
    """Write to stdout. Raise CantPrint, and BrokenPipeError if its reader has enough."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CantPrint(error.strerror or type(error).__name__) from None


def _directory(path: str | None) -> str:
    """Return the directory that a path starts from. Raise BadInput if the path needs it and it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        if path is None or os.path.isabs(path):  # noqa: PTH117
            return "/"
        raise BadInput("the current directory was removed", "change to one that is there") from None


def _home(given: argparse.Namespace) -> str:
    from dbg_broker.settings import home

    return home(given.home, os.environ, _directory(given.home))


def _serve(given: argparse.Namespace) -> int:
    from dbg_broker.settings import serve_settings
    from dbg_broker.verbs.serve import serve

    return serve(serve_settings(given, os.environ, _directory(given.home)), _say, _columns())


def _say_aside(line: str) -> None:
    """Write a line to stderr; a terminal that was closed is no error."""
    with contextlib.suppress(OSError):
        print(f"dbg-broker: {line}", file=sys.stderr, flush=True)


def _status(given: argparse.Namespace) -> int:
    from dbg_broker.verbs.status import status

    return status(_home(given), os.environ, _say, as_json=given.json)


def _token(given: argparse.Namespace) -> int:
    from dbg_broker.home.bearer import Role
    from dbg_broker.home.private_files import open_home
    from dbg_broker.verbs.token import MAX_SECONDS, TokenOptions, list_tokens, print_token, revoke, rotate
    from dbg_wire.command_line.parser import read_duration

    _refuse_beside(given)
    home = open_home(_home(given))
    if given.list:
        return list_tokens(home, _say, as_json=given.json)
    if given.revoke is not None:
        return revoke(home, given.revoke, _say, _say_aside)
    if given.rotate:
        return rotate(home, _say, _say_aside)
    seconds = None if given.bound is None else read_duration(given.bound, "--for", MAX_SECONDS)
    options = TokenOptions(role=Role(given.role or Role.RANK.value), job=given.job, name=given.name, seconds=seconds)
    return print_token(home, options, _say, _say_aside)


def _refuse_beside(given: argparse.Namespace) -> None:
    """Refuse what says how to make a token beside what makes none: it would be left out in silence. Raise BadInput."""
    makes_none = {"--list": given.list, "--revoke": given.revoke is not None, "--rotate": given.rotate}
    makes = {"--role": given.role, "--job": given.job, "--for": given.bound, "--name": given.name}
    chosen = next((option for option, is_given in makes_none.items() if is_given), None)
    beside = next((option for option, value in makes.items() if value is not None), None)
    if chosen is not None and beside is not None:
        raise BadInput(
            f"{beside} says what token to make, and {chosen} makes none for anybody", "leave one of them out"
        )
    if given.json and not given.list:
        raise BadInput("--json is for --list", "leave it out; what is printed is the token alone")


def _certificate(given: argparse.Namespace) -> int:
    from dbg_broker.home.private_files import open_home
    from dbg_broker.verbs.certificate import print_fingerprint

    return print_fingerprint(open_home(_home(given)), _say)


def _log(given: argparse.Namespace) -> int:
    from dbg_broker.home.private_files import open_home
    from dbg_broker.verbs.log import MAX_SECONDS, LogOptions, show_log
    from dbg_wire.command_line.parser import read_duration

    since = None if given.since is None else read_duration(given.since, "--since", MAX_SECONDS)
    options = LogOptions(job=given.job, since=since, follow=given.follow, as_json=given.json)
    return show_log(open_home(_home(given)), options, _say)


def _completion(given: argparse.Namespace) -> int:
    _write(completion_script("dbg-broker", given.shell))
    return 0


def _check(given: argparse.Namespace) -> int:
    from dbg_broker.verbs.check import check

    return check(given.url, _home(given), os.environ, _say, as_rank=given.rank)


RUNS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "serve": _serve,
    "status": _status,
    "token": _token,
    "certificate": _certificate,
    "log": _log,
    "check": _check,
    "completion": _completion,
}
"""What each verb does with what was given."""
