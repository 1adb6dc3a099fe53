"""``dbg-broker token``: print a home's tokens, and make, list and revoke named tokens."""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dbg_broker.cli.console import PrintLine, home_of, print_line, print_note
from dbg_broker.home.certificate import date_of
from dbg_broker.home.private_files import open_home, state_of
from dbg_broker.home.rendezvous import read_rendezvous, tokens_locked
from dbg_broker.home.tokens import (
    JOB,
    NAME,
    IssuedToken,
    Role,
    digest_of,
    load_issued,
    load_tokens,
    new_token,
    renew_job_tokens,
    rotate_tokens,
    save_issued,
)
from dbg_broker.journal.audit import note
from dbg_command.audit import AuditEvent
from dbg_command.command_line import read_duration
from dbg_dial.endpoint import RENDEZVOUS_FILE
from dbg_wire.errors import BadInput, BadSecretFile, printable

MAX_SECONDS = 10 * 365 * 86400.0
"""Maximum validity of a new token, in seconds: ten years. Without --for it does not expire."""


TAKEN_SECONDS = 3.0
"""Maximum time for a broker to load a change, in seconds: it checks each second, and a check takes up to a second."""

AGAIN_SECONDS = 0.05
"""Interval between two checks whether the broker has loaded the change, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """Options of the command line; ``seconds`` is the validity of a new token, or None if it does not expire."""

    role: Role
    job: str | None = None
    name: str | None = None
    seconds: float | None = None


def print_token(home: Path, options: TokenOptions, print_line: PrintLine, aside: PrintLine) -> int:
    """Print the requested token. If the options give a name or a validity, make a new one. Raise DbgError."""
    if options.job is not None and not JOB.fullmatch(options.job):
        raise BadInput(f"--job {printable(options.job)!r} is not a job name", "write it as `dbg-attach list` shows it")
    if options.name is not None and not NAME.fullmatch(options.name):
        raise BadInput(f"--name {printable(options.name)!r} is not a name", "use up to 64 of A-Z a-z 0-9 . _ -")
    if options.name is None and options.seconds is None:
        if options.job is None:
            print_line(load_tokens(home).of(options.role))
            return 0
        if options.role is Role.RANK:
            print_line(load_tokens(home).for_job(options.job))
            return 0
    _make(home, options, print_line, aside)
    return 0


def _make(home: Path, options: TokenOptions, print_line: PrintLine, aside: PrintLine) -> None:
    name = options.name if options.name is not None else f"{options.role.value}-{secrets.token_hex(3)}"
    now, text = time.time(), new_token()
    expires = None if options.seconds is None else now + options.seconds
    made = IssuedToken(name=name, role=options.role, digest=digest_of(text), made=now, job=options.job, expires=expires)
    with _taken_by_broker(home, aside), tokens_locked(home):
        save_issued(home, load_issued(home).issue(made))
    note(home, AuditEvent.TOKEN_MADE, text=f"{name}, {_described(made, now)}", job=options.job or "")
    print_line(text)
    aside(f"{name}: {_described(made, now)}; `dbg-broker token --revoke {name}` revokes it")


def list_tokens(home: Path, print_line: PrintLine, *, as_json: bool) -> int:
    """Print the named tokens without their texts. Raise BadSecretFile."""
    found, now = load_issued(home).tokens, time.time()
    if as_json:
        print_line(json.dumps({"schema": 1, "tokens": [_document(one, now) for one in found]}))
    elif not found:
        print_line("no token has a name; `dbg-broker token --name NAME` makes one")
    else:
        width = max(len(one.name) for one in found)
        for one in found:
            print_line(f"{one.name:<{width}}  {_described(one, now)}")
    return 0


def revoke(home: Path, name: str, print_line: PrintLine, aside: PrintLine) -> int:
    """Revoke a token; a running broker closes its connections. Raise DbgError."""
    with _taken_by_broker(home, aside), tokens_locked(home):
        save_issued(home, load_issued(home).revoke(name, time.time()))
    note(home, AuditEvent.TOKEN_REVOKED, text=name)
    print_line(f"{name} is revoked")
    return 0


def rotate(home: Path, print_line: PrintLine, aside: PrintLine) -> int:
    """Replace the home's own three tokens; terminals with an old token are disconnected. Raise DbgError."""
    _require_no_others(home)
    with _taken_by_broker(home, aside), tokens_locked(home):
        renew_job_tokens(home, rotate_tokens(home))
    note(home, AuditEvent.TOKENS_ROTATED)
    print_line("the home has new tokens; give them to the jobs that don't share this home before their ranks reconnect")
    return 0


@contextlib.contextmanager
def _taken_by_broker(home: Path, aside: PrintLine) -> Iterator[None]:
    """After the block has changed tokens, wait until the broker has loaded them and written broker.json again."""
    path = home / RENDEZVOUS_FILE
    is_served, before = path.exists(), state_of(path)
    yield
    until = time.monotonic() + TAKEN_SECONDS
    while is_served and state_of(path) == before:
        if time.monotonic() > until:
            aside(f"the broker in {RENDEZVOUS_FILE} has not loaded the change yet; it checks each second")
            return
        time.sleep(AGAIN_SECONDS)


def _require_no_others(home: Path) -> None:
    """Raise BadInput if another broker of the cluster runs: its home would keep the old tokens."""
    try:
        serving = read_rendezvous(home)
    except BadSecretFile:
        return
    if serving is not None and serving.brokers:
        url = serving.brokers[0].url
        raise BadInput(
            f"the broker at {printable(url)} shares the tokens of this home, and would not get the new ones",
            "stop all brokers of the cluster, run `token --rotate` in one home, and copy its tokens/ to the others",
        )


def _described(one: IssuedToken, now: float) -> str:
    job = f" of job {one.job}" if one.job is not None else ""
    if one.expires is None:
        end = "without expiry"
    elif one.expires <= now:
        end = f"expired {date_of(one.expires)}"
    else:
        end = f"until {date_of(one.expires)}"
    return f"a {one.role.value}{job}, {end}"


def _document(one: IssuedToken, now: float) -> dict[str, object]:
    return {
        "name": one.name,
        "role": one.role.value,
        "job": one.job,
        "made": one.made,
        "expires": one.expires,
        "expired": one.bearer.is_expired(now),
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "--role",
        choices=("rank", "driver", "watcher"),
        help="role of the token's bearer: a rank, a terminal that may type, or one that may watch (default: rank)",
    )
    parser.add_argument("--job", metavar="JOB", help="only for this job")
    parser.add_argument(
        "--for", dest="bound", metavar="S", help="make a token that is valid for this time, e.g. 30m, 2h or 7d"
    )
    parser.add_argument("--name", metavar="NAME", help="make a token with this name, which can be revoked")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--list", action="store_true", help="list the named tokens")
    one.add_argument("--revoke", metavar="NAME", help="revoke the token of this name, and close its connections")
    one.add_argument("--rotate", action="store_true", help="replace the home's own three tokens by new ones")
    parser.add_argument("--json", action="store_true", help="with --list: one JSON document")


def run(given: argparse.Namespace) -> int:
    """Run the verb, and return the exit status. Raise DbgError."""
    _refuse_beside(given)
    home = open_home(home_of(given))
    if given.list:
        return list_tokens(home, print_line, as_json=given.json)
    if given.revoke is not None:
        return revoke(home, given.revoke, print_line, print_note)
    if given.rotate:
        return rotate(home, print_line, print_note)
    seconds = None if given.bound is None else read_duration(given.bound, "--for", MAX_SECONDS)
    options = TokenOptions(role=Role(given.role or Role.RANK.value), job=given.job, name=given.name, seconds=seconds)
    return print_token(home, options, print_line, print_note)


def _refuse_beside(given: argparse.Namespace) -> None:
    """Raise BadInput if options that describe a new token are combined with an option that makes no token."""
    makes_none = {"--list": given.list, "--revoke": given.revoke is not None, "--rotate": given.rotate}
    makes = {"--role": given.role, "--job": given.job, "--for": given.bound, "--name": given.name}
    chosen = next((option for option, is_given in makes_none.items() if is_given), None)
    beside = next((option for option, value in makes.items() if value is not None), None)
    if chosen is not None and beside is not None:
        raise BadInput(f"{beside} describes a new token, and {chosen} does not make one", "leave one of them out")
    if given.json and not given.list:
        raise BadInput("--json works only with --list", "leave it out; without --list only the token is printed")
