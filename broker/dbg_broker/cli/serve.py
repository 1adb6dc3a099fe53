"""``dbg-broker serve``: its options. Its action is in ``serve/``, which takes long to import."""

from __future__ import annotations

import argparse
import os

from dbg_broker.cli.console import columns, directory_of, print_line


def add_options(serve: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="address to listen at (default: the socket that systemd provides; without one 127.0.0.1:6900, or a free "
        "port if 6900 is taken); 0.0.0.0 admits other hosts",
    )
    serve.add_argument(
        "--certificate",
        metavar="FILE",
        help="PEM file with your own certificate and its chain, which the broker serves instead of the one that "
        "it makes; requires --key",
    )
    serve.add_argument("--key", metavar="FILE", help="PEM file with its key, mode 600, without a password")
    _add_open_doors(serve)
    _add_cluster(serve)
    _add_account_options(serve)
    serve.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="write the log as text, or as one JSON document per line (default: text)",
    )
    # Hidden: `dbg-attach run` uses this option when it starts a broker of its own.
    serve.add_argument("--while-used", action="store_true", help=argparse.SUPPRESS)
    serve.add_argument("-v", "--verbose", action="count", default=0, help="log events; twice: also each message")


def _add_open_doors(serve: argparse.ArgumentParser) -> None:
    """Add the options that admit peers that can't authenticate."""
    serve.add_argument(
        "--classic",
        metavar="[HOST:]PORT",
        nargs="?",
        const="6899",
        help="accept stock pudb.remote.set_trace(reverse=True), which can't authenticate, at this address "
        "(default: off)",
    )


def _add_cluster(serve: argparse.ArgumentParser) -> None:
    """Add the options that make this broker a member of a cluster."""
    serve.add_argument(
        "--cluster",
        metavar="nats://HOST,HOST,HOST",
        help="join other brokers through these NATS servers, and act as one broker; tls:// for TLS (default: a "
        "single broker; needs pip install 'dbg-broker[cluster]')",
    )
    serve.add_argument(
        "--cluster-credentials",
        metavar="FILE",
        help="file with one line, user:password or a token, for these servers; mode 600 "
        "(default: $DBG_CLUSTER_CREDENTIALS, or none)",
    )


def _add_account_options(to: argparse.ArgumentParser) -> None:
    """Add the options for admitted networks, the duration of stops, event reports and the audit log."""
    to.add_argument(
        "--allow",
        metavar="NET",
        action="append",
        default=[],
        help="accept ranks and terminals only from this network, e.g. 10.0.0.0/8; repeatable; this host is always "
        "allowed (default: from everywhere)",
    )
    to.add_argument(
        "--audit-input",
        action="store_true",
        help="record input in the audit log too, including passwords (default: actions only, no input)",
    )
    to.add_argument(
        "--on-event",
        metavar="CMD",
        help="run this command, with a JSON document on its stdin, for the first stop of a run, a crash, a hang that "
        "`why` or `run --hang-after` finds, a stop that will soon end by itself, and a refused token (default: none)",
    )
    to.add_argument(
        "--max-lease",
        metavar="S",
        help="end a stop if nobody has typed at it for this time, e.g. 8h: in seconds, or with s, m, h "
        "or d (default: a stop lasts until somebody ends it)",
    )


def run(given: argparse.Namespace) -> int:
    """Run the broker until a signal ends it, and return the exit status. Raise DbgError."""
    from dbg_broker.serve.serve import serve
    from dbg_broker.settings import serve_settings

    return serve(serve_settings(given, os.environ, directory_of(given.home)), print_line, columns())
