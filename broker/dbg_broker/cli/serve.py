"""``dbg-broker serve``: its options. What it does is in ``serve/``, which takes long to import."""

from __future__ import annotations

import argparse
import os

from dbg_broker.cli.console import columns, directory_of, say


def add_options(serve: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
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


def _add_open_doors(serve: argparse.ArgumentParser) -> None:
    """Add what lets peers in that can't authenticate."""
    serve.add_argument(
        "--classic",
        metavar="[HOST:]PORT",
        nargs="?",
        const="6899",
        help="take stock pudb.remote.set_trace(reverse=True) there, which can't authenticate (default: not at all)",
    )


def _add_cluster(serve: argparse.ArgumentParser) -> None:
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
        help="what these servers ask for: a file with a line of user:password or a token, mode 600 "
        "(default: $DBG_CLUSTER_CREDENTIALS, or nothing)",
    )


def _add_account_options(to: argparse.ArgumentParser) -> None:
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


def run(given: argparse.Namespace) -> int:
    """Serve until a signal ends it, and return the exit status. Raise DbgError."""
    from dbg_broker.serve.serve import serve
    from dbg_broker.settings import serve_settings

    return serve(serve_settings(given, os.environ, directory_of(given.home)), say, columns())
