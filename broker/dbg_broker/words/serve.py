"""The options of ``dbg-broker serve``."""

from __future__ import annotations

import argparse

from dbg_broker.words.account import add_account_options
from dbg_broker.words.command_parser import Verbs


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
    serve.add_argument(
        "--driver-token",
        choices=("file", "memory", "ask"),
        default="file",
        help="where the driver's token is: in the home; in the broker's memory, from where terminals of this host get "
        "it; or as you type it here, so that each terminal asks for it, too (default: %(default)s)",
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
    add_account_options(serve)
    serve.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="write the log as text, or as one JSON document a line (default: text)",
    )
    # `run` starts its own broker with these two.
    serve.add_argument("--while-used", action="store_true", help=argparse.SUPPRESS)
    serve.add_argument("--event-directory", help=argparse.SUPPRESS)
    serve.add_argument("-v", "--verbose", action="count", default=0, help="log what happens; twice: all of it")
    return serve
