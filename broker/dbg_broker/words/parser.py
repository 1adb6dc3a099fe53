"""The whole command line: all verbs in the order in which `--help` lists them."""

from __future__ import annotations

import argparse
import platform

from dbg_broker.words.command_parser import BrokerParser
from dbg_broker.words.run import add_run
from dbg_broker.words.serve import add_serve
from dbg_broker.words.small_verbs import (
    add_certificate,
    add_check,
    add_completion,
    add_config,
    add_log,
    add_status,
    add_token,
)
from dbg_wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE

ADDED = (add_serve, add_run, add_status, add_token, add_certificate, add_log, add_check, add_config, add_completion)
"""What adds each verb, in the order in which `--help` lists them."""


def parser_of_the_command() -> argparse.ArgumentParser:
    """Return the parser; completion and man page are made from it."""
    parser = BrokerParser(
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
    return f"dbg-broker {RELEASE} (Python {platform.python_version()}, protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR})"
