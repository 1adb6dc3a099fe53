"""The argparse parser of `dbg-broker`: each verb with its options, in the order in which ``--help`` lists them."""

from __future__ import annotations

import argparse
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn, TypeAlias

from dbg_wire.command_line.completion import SHELLS, nearest
from dbg_wire.command_line.parser import CommandParser, complete_option, lines, refuse_unknown_option
from dbg_wire.errors import BadInput, printable
from dbg_wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE

Verbs: TypeAlias = "argparse._SubParsersAction[CommandParser]"


def add_status(verbs: Verbs) -> argparse.ArgumentParser:
    """Add the verb with its options, and return its parser."""
    status = verbs.add_parser("status", help="show whether the broker is up, and what is connected")
    status.add_argument("--json", action="store_true", help="one JSON document")
    return status


def add_token(verbs: Verbs) -> argparse.ArgumentParser:
    """Add the verb with its options, and return its parser."""
    token = verbs.add_parser("token", help="print a token of this home, make one for somebody, or take it back")
    token.add_argument(
        "--role",
        choices=("rank", "driver", "watcher"),
        help="what it lets its bearer be: a rank, a terminal that types, or one that looks (default: rank)",
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
    return token


def add_certificate(verbs: Verbs) -> argparse.ArgumentParser:
    """Add the verb with its options, and return its parser."""
    return verbs.add_parser("certificate", help="print the fingerprint of the home's certificate; makes one if needed")


def add_log(verbs: Verbs) -> argparse.ArgumentParser:
    """Add the verb with its options, and return its parser."""
    log = verbs.add_parser("log", help="show who did what to which rank, from where and when")
    log.add_argument("--follow", action="store_true", help="go on with what happens, until Ctrl-C")
    log.add_argument("--job", metavar="JOB", help="this job alone")
    log.add_argument("--since", metavar="S", help="the last S seconds, as in 30m, 2h or 7d")
    log.add_argument("--json", action="store_true", help="the lines as they are in the file")
    return log


def add_check(verbs: Verbs) -> argparse.ArgumentParser:
    """Add the verb with its options, and return its parser."""
    check = verbs.add_parser("check", help="try to reach a broker step by step, and explain what fails")
    check.add_argument(
        "url", metavar="URL", nargs="?", help="host:port or wss://…#sha256:… (default: $DBG_BROKER, or the home's)"
    )
    check.add_argument("--rank", action="store_true", help="as a rank here would, with a rank's token")
    return check


def add_completion(verbs: Verbs) -> argparse.ArgumentParser:
    """Add the verb with its options, and return its parser."""
    completion = verbs.add_parser("completion", help="print what makes a shell complete verbs and options")
    completion.add_argument("shell", choices=SHELLS, help="the shell that it is for")
    return completion


def add_serve(verbs: Verbs) -> argparse.ArgumentParser:
    """Add the verb with its options, and return its parser."""
    serve = verbs.add_parser("serve", help="run a broker until it is stopped by SIGTERM or Ctrl-C")
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where to listen (default: 127.0.0.1:6900, or a free port if that is taken; 0.0.0.0 lets other hosts in; "
        "where systemd holds a socket for the service, at that one)",
    )
    serve.add_argument(
        "--certificate",
        metavar="FILE",
        help="a PEM file with a certificate of your own and its chain, which the broker shows in place of the one that "
        "it makes; with it goes --key",
    )
    serve.add_argument("--key", metavar="FILE", help="the PEM file with its key, mode 600, without a password")
    _add_open_doors(serve)
    _add_cluster(serve)
    _add_account_options(serve)
    serve.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="write the log as text, or as one JSON document a line (default: text)",
    )
    # `dbg-attach run` starts its own broker with it.
    serve.add_argument("--while-used", action="store_true", help=argparse.SUPPRESS)
    serve.add_argument("-v", "--verbose", action="count", default=0, help="log what happens; twice: all of it")
    return serve


def _add_open_doors(serve: ArgumentParser) -> None:
    """Add what lets peers in that can't authenticate."""
    serve.add_argument(
        "--classic",
        metavar="[HOST:]PORT",
        nargs="?",
        const="6899",
        help="take stock pudb.remote.set_trace(reverse=True) there, which can't authenticate (default: not at all)",
    )


def _add_cluster(serve: ArgumentParser) -> None:
    """Add what makes this broker one of several."""
    serve.add_argument(
        "--cluster",
        metavar="nats://HOST,HOST,HOST",
        help="be one of several brokers that act as one, joined by these servers of NATS; tls:// for TLS (default: one "
        "broker alone; needs pip install 'dbg-broker[cluster]')",
    )
    serve.add_argument(
        "--cluster-credentials",
        metavar="FILE",
        help="what these servers ask for: a .creds file, or one with a line of user:password or a token, mode 600 "
        "(default: $DBG_CLUSTER_CREDENTIALS, or nothing)",
    )


def _add_account_options(to: ArgumentParser) -> None:
    """Add whom a broker lets in, how long stops last, and what it tells and keeps of them."""
    to.add_argument(
        "--allow",
        metavar="NET",
        action="append",
        default=[],
        help="take ranks and terminals from this network alone, e.g. 10.0.0.0/8; may be given again; this host always "
        "may (default: from everywhere)",
    )
    to.add_argument(
        "--audit-input",
        action="store_true",
        help="have the audit log hold what is typed, too, passwords included (default: who did what, and no keys)",
    )
    to.add_argument(
        "--on-event",
        metavar="CMD",
        help="run this command, with a JSON document on its stdin, for the first stop of a run, a crash, a hang that "
        "`why` or `run --hang-after` finds, a stop that ends by itself soon, and a refused token (default: none)",
    )
    to.add_argument(
        "--max-lease",
        metavar="S",
        help="let a stop end by itself when nobody has typed at it for so long, e.g. 8h: in seconds, or with s, m, h "
        "or d (default: a stop lasts until somebody ends it)",
    )


ADDED = (add_serve, add_status, add_token, add_certificate, add_log, add_check, add_completion)
"""What adds each verb, in the order in which `--help` lists them."""


def parser_of_the_command() -> argparse.ArgumentParser:
    """Return the parser; completion and man page are made from it."""
    parser = CommandParser(
        prog="dbg-broker",
        description="The meeting point of ranks that stop in a debugger and of terminals that attach to them.",
        epilog="The home is $DBG_HOME, or dbg-broker under $XDG_STATE_HOME or ~/.local/state. "
        "More: dbg-broker help VERB, and the manual page.",
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    for add in ADDED:
        add(verbs).add_argument("--home", metavar="DIR", help="where certificate, tokens and broker.json are")
    return parser


def _version() -> str:
    return f"dbg-broker {RELEASE} (Python {sys.version.split()[0]}, protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR})"


OF_THE_TERMINAL = frozenset(
    {"attach", "wait", "run", "list", "where", "why", "collectives", "eval", "command", "exec", "screen", "interrupt"}
    | {"continue", "release", "kill", "tmux", "slow", "report", "adopt", "mcp", "dap", "web"}
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
