"""``dbg-broker``: the command line. Each verb imports its own code, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sys
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from dbg_broker.verbs.candidates import complete_words, refuse_mistyped, verbs_of
from dbg_wire.completion import SHELLS, completion_script
from dbg_wire.errors import BadInput, CantPrint, DbgError, printable
from dbg_wire.look_alikes import HANDLER
from dbg_wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE

INTERRUPTED = 130


class _BrokerParser(argparse.ArgumentParser):
    """Parser that reports a mistake in one sentence, like every other error of this command."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(printable(message, 300), "see `dbg-broker --help`")


_Verbs: TypeAlias = "argparse._SubParsersAction[_BrokerParser]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit status; errors are one line on stderr."""
    _prepare_streams()
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        if words[:1] == ["--complete"]:
            return _complete(words[1:])
        given = parse(words)
        status: int = given.run(given)
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
    words, behind = _parted(list(arguments))
    given = _read(words)
    given.behind, given.words = behind, words[1:]
    return given


def parser_of_the_command() -> argparse.ArgumentParser:
    """Return the parser; completion and man page are made from it."""
    parser = _BrokerParser(
        prog="dbg-broker",
        description="The meeting point of ranks that stop in a debugger and of terminals that attach to them.",
        epilog="The home is $DBG_HOME, or dbg-broker under $XDG_STATE_HOME or ~/.local/state.",
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    # In the order in which `--help` lists them.
    for add in (_add_serve, _add_run, _add_status, _add_token, _add_log, _add_check, _add_config, _add_completion):
        add(verbs).add_argument("--home", metavar="DIR", help="where certificate, tokens and broker.json are")
    return parser


def _read(words: list[str]) -> argparse.Namespace:
    """Return the words as values. Raise BadInput, which says what a mistyped one may be."""
    parser = parser_of_the_command()
    if words and words[0] not in verbs_of(parser):
        refuse_mistyped(parser, words, [])
    given, left = parser.parse_known_args(words)
    refuse_mistyped(parser, words, left)
    return given


def _complete(words: list[str]) -> int:
    for line in complete_words(parser_of_the_command(), words):
        print(line)
    return 0


def _parted(words: list[str]) -> tuple[list[str], list[str] | None]:
    """Part the words of ``run`` at the first ``--``: the words behind it are the job's command."""
    if words[:1] != ["run"] or "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _add_serve(verbs: _Verbs) -> argparse.ArgumentParser:
    serve = verbs.add_parser("serve", help="run a broker until it is stopped by SIGTERM or Ctrl-C")
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where to listen (default: 127.0.0.1:6900, or a free port if that is taken; 0.0.0.0 lets other hosts in)",
    )
    serve.add_argument(
        "--allow",
        metavar="NET",
        action="append",
        default=[],
        help="take ranks and terminals from this network alone, e.g. 10.0.0.0/8; may be given again; this host always "
        "may (default: from everywhere)",
    )
    serve.add_argument(
        "--classic",
        metavar="[HOST:]PORT",
        nargs="?",
        const="6899",
        help="take stock pudb.remote.set_trace(reverse=True) there, which can't authenticate (default: not at all)",
    )
    serve.add_argument(
        "--classic-size", metavar="COLUMNSxROWS", help="the term_size of those sessions (default: as seen, e.g. 240x72)"
    )
    serve.add_argument(
        "--insecure",
        action="store_true",
        help="plain ws without TLS, on loopback only, with tokens that end with this broker",
    )
    serve.add_argument(
        "--insecure-anywhere",
        action="store_true",
        help="the same where other hosts reach it, too: whoever is on the network can read and take over everything",
    )
    serve.add_argument(
        "--audit-input",
        action="store_true",
        help="have the audit log hold what is typed, too, passwords included (default: who did what, and no keys)",
    )
    # `run` starts its own broker with this option.
    serve.add_argument("--while-used", action="store_true", help=argparse.SUPPRESS)
    serve.add_argument("-v", "--verbose", action="count", default=0, help="log what happens; twice: all of it")
    serve.set_defaults(run=_serve)
    return serve


def _add_run(verbs: _Verbs) -> argparse.ArgumentParser:
    run = verbs.add_parser(
        "run",
        usage="dbg-broker run [options] -- COMMAND …    or    dbg-broker run --again [options]",
        help="run a command, and attach this terminal wherever one of its ranks stops",
        epilog="Ctrl-C goes to the job. Leaving the debugger leaves the job running; closing the terminal, too.",
    )
    run.add_argument(
        "--stop-at",
        metavar="'FILE:LINE[, CONDITION]'",
        action="append",
        default=[],
        help="stop before this line, if the condition is true there; may be given again",
    )
    run.add_argument(
        "--stop-in", metavar="MODULE:FUNCTION", action="append", default=[], help="stop at the beginning of a function"
    )
    run.add_argument("--ranks", metavar="SET", help="only these ranks stop, e.g. 0-3,7; the others wait for them")
    run.add_argument("--rank-filter", metavar="SET", help="which ranks' stops this terminal follows (default: all)")
    run.add_argument("--engine", metavar="NAME", help="the debugger to open, pudb or pdb")
    run.add_argument("-x", dest="commands", metavar="FILE", help="tell pdb the lines of FILE first")
    run.add_argument("--post-mortem", action="store_true", help="keep ranks that crash, and stop there")
    run.add_argument(
        "--collective-timeout", metavar="S", help="give collectives at least S seconds, so that ranks can wait"
    )
    run.add_argument(
        "--hang-after",
        metavar="S",
        help="say why, once no rank has moved for S seconds and none stands in a debugger (default: never)",
    )
    run.add_argument(
        "--again", action="store_true", help="the last command of this directory, with its stops and breakpoints"
    )
    run.add_argument(
        "--pty",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="the job writes to a terminal of its own, where bars are bars (default: on a terminal, unless the command "
        "is a launcher for many hosts such as srun or mpirun)",
    )
    run.add_argument(
        "--tmux",
        action="store_true",
        help="the job's output in this pane of tmux, and each rank that stops in a pane beside; outside of tmux in a "
        "new session",
    )
    run.add_argument("--output", metavar="FILE", help="where to write what the job prints (default: in the home)")
    run.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where a broker of its own listens (default: everywhere under srun, mpirun and alike, else 127.0.0.1)",
    )
    run.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    run.set_defaults(run=_run)
    return run


def _add_status(verbs: _Verbs) -> argparse.ArgumentParser:
    status = verbs.add_parser("status", help="is it up, and which ranks, sessions and terminals has it")
    status.add_argument("--json", action="store_true", help="one JSON document")
    status.set_defaults(run=_status)
    return status


def _add_token(verbs: _Verbs) -> argparse.ArgumentParser:
    token = verbs.add_parser("token", help="print a token of this home, make one for somebody, or take it back")
    token.add_argument(
        "--role",
        choices=("rank", "driver", "watcher"),
        default="rank",
        help="what it lets its bearer be: a rank, a terminal that types, or one that looks (default: %(default)s)",
    )
    token.add_argument("--job", metavar="JOB", help="for this job alone")
    token.add_argument(
        "--for", dest="bound", metavar="S", help="make a token that is good for this time, as in 30m, 2h or 7d"
    )
    token.add_argument("--name", metavar="NAME", help="make a token of this name, which can be revoked")
    one = token.add_mutually_exclusive_group()
    one.add_argument("--list", action="store_true", help="list the tokens that have names")
    one.add_argument(
        "--revoke", metavar="NAME", help="make the token of this name void; what is connected with it is closed"
    )
    one.add_argument("--rotate", action="store_true", help="replace the home's own three tokens by new ones")
    token.add_argument("--json", action="store_true", help="with --list: one JSON document")
    token.set_defaults(run=_token)
    return token


def _add_log(verbs: _Verbs) -> argparse.ArgumentParser:
    log = verbs.add_parser("log", help="show who did what to which rank, from where and when")
    log.add_argument("--follow", action="store_true", help="go on with what happens, until Ctrl-C")
    log.add_argument("--job", metavar="JOB", help="this job alone")
    log.add_argument("--since", metavar="S", help="the last S seconds, as in 30m, 2h or 7d")
    log.add_argument("--json", action="store_true", help="the lines as they are in the file")
    log.set_defaults(run=_log)
    return log


def _add_check(verbs: _Verbs) -> argparse.ArgumentParser:
    check = verbs.add_parser("check", help="try to reach a broker step by step, and explain what fails")
    check.add_argument(
        "url", metavar="URL", nargs="?", help="host:port or wss://…#sha256:… (default: $DBG_BROKER, or the home's)"
    )
    check.set_defaults(run=_check)
    return check


def _add_config(verbs: _Verbs) -> argparse.ArgumentParser:
    config = verbs.add_parser("config", help="show what config.toml, variables and defaults make of each setting")
    config.add_argument("--json", action="store_true", help="one JSON document")
    config.set_defaults(run=_config)
    return config


def _add_completion(verbs: _Verbs) -> argparse.ArgumentParser:
    completion = verbs.add_parser("completion", help="print what makes a shell complete verbs and options")
    completion.add_argument("shell", choices=SHELLS, help="the shell that it is for")
    completion.set_defaults(run=_completion)
    return completion


def _version() -> str:
    return f"dbg-broker {RELEASE} (Python {platform.python_version()}, protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR})"


def _say(line: str) -> None:
    _write(f"{line}\n")


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

    return serve(serve_settings(given, os.environ, _directory(given.home)), _say)


def _run(given: argparse.Namespace) -> int:
    from dbg_broker.run.job_terminal import NO, YES
    from dbg_broker.run.life import run
    from dbg_broker.run.settings import RunSettings, Wishes, command_of

    wishes = Wishes(
        stop_at=tuple(given.stop_at),
        stop_in=tuple(given.stop_in),
        ranks=given.ranks,
        engine=given.engine,
        post_mortem=given.post_mortem,
        collective_timeout=given.collective_timeout,
        commands=given.commands,
        rank_filter=given.rank_filter,
        listen=given.listen,
        output=given.output,
        pty={True: YES, False: NO}.get(given.pty),
        hang_after=given.hang_after,
    )
    settings = RunSettings(
        home=_home(given),
        directory=_directory("."),
        wishes=wishes,
        command=command_of(given.command, given.behind),
        again=given.again,
        tmux=given.tmux,
    )
    if given.tmux and not os.environ.get("TMUX"):
        from dbg_broker.run.own_programs import own_command
        from dbg_broker.run.settings import check
        from dbg_broker.run.tmux_session import run_in_session

        check(settings)
        words = ["run", *given.words, *(["--", *given.behind] if given.behind is not None else [])]
        return run_in_session(own_command("dbg_broker.cli", words), os.environ, settings.directory, _say_aside)
    return run(settings, os.environ, _say_aside)


def _say_aside(line: str) -> None:
    """Write a line to stderr; a terminal that was closed is no error."""
    with contextlib.suppress(OSError):
        print(f"dbg-broker: {line}", file=sys.stderr, flush=True)


def _status(given: argparse.Namespace) -> int:
    from dbg_broker.verbs.status import status

    return status(_home(given), os.environ, _say, as_json=given.json)


def _token(given: argparse.Namespace) -> int:
    from dbg_broker.home.bearer import Role
    from dbg_broker.home.rendezvous import open_home
    from dbg_broker.verbs.token import MAX_SECONDS, TokenWishes, list_tokens, print_token, revoke, rotate
    from dbg_wire.duration import read_duration

    home = open_home(_home(given))
    if given.list:
        return list_tokens(home, _say, as_json=given.json)
    if given.revoke is not None:
        return revoke(home, given.revoke, _say, _say_aside)
    if given.rotate:
        return rotate(home, _say, _say_aside)
    seconds = None if given.bound is None else read_duration(given.bound, "--for", MAX_SECONDS)
    wishes = TokenWishes(role=Role(given.role), job=given.job, name=given.name, seconds=seconds)
    return print_token(home, wishes, _say, _say_aside)


def _log(given: argparse.Namespace) -> int:
    from dbg_broker.home.rendezvous import open_home
    from dbg_broker.verbs.log import MAX_SECONDS, LogWishes, show_log
    from dbg_wire.duration import read_duration

    since = None if given.since is None else read_duration(given.since, "--since", MAX_SECONDS)
    wishes = LogWishes(job=given.job, since=since, follow=given.follow, as_json=given.json)
    return show_log(open_home(_home(given)), wishes, _say)


def _config(given: argparse.Namespace) -> int:
    from dbg_broker.run.config import show_config

    return show_config(None if given.home is None else _home(given), os.environ, as_json=given.json)


def _completion(given: argparse.Namespace) -> int:
    _write(completion_script("dbg-broker", given.shell))
    return 0


def _check(given: argparse.Namespace) -> int:
    from dbg_broker.verbs.check import check

    return check(given.url, _home(given), os.environ, _say)
