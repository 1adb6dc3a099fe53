"""The options of the verbs that ask, show or change one thing and end."""

from __future__ import annotations

import argparse

from dbg_broker.words.command_parser import Verbs
from dbg_wire.command_line.completion import SHELLS


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
    certificate = verbs.add_parser("certificate", help="show, rotate or switch the broker's certificate")
    certificate.add_argument("file", metavar="FILE", nargs="?", help="show the certificate of this PEM file instead")
    one = certificate.add_mutually_exclusive_group()
    one.add_argument(
        "--rotate",
        action="store_true",
        help="first step: make the next certificate, so that ranks and terminals come to know both fingerprints",
    )
    one.add_argument(
        "--switch",
        action="store_true",
        help="second step: have the broker show the next one, or the renewed files of `serve --certificate`",
    )
    return certificate


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


def add_config(verbs: Verbs) -> argparse.ArgumentParser:
    """Add the verb with its options, and return its parser."""
    config = verbs.add_parser("config", help="show what config.toml, variables and defaults make of each setting")
    config.add_argument("--json", action="store_true", help="one JSON document")
    return config


def add_completion(verbs: Verbs) -> argparse.ArgumentParser:
    """Add the verb with its options, and return its parser."""
    completion = verbs.add_parser("completion", help="print what makes a shell complete verbs and options")
    completion.add_argument("shell", choices=SHELLS, help="the shell that it is for")
    return completion
