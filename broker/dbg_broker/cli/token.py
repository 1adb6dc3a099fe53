"""``dbg-broker token``: print a home's tokens, make others for somebody, and take them back."""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dbg_broker.cli.console import Say, home_of, say, say_aside
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
from dbg_command.audit import What
from dbg_command.command_line import read_duration
from dbg_dial.endpoint import RENDEZVOUS_FILE
from dbg_wire.errors import BadInput, BadSecretFile, printable

MAX_SECONDS = 10 * 365 * 86400.0
"""Seconds for which a token may be made, ten years; without --for it has no end."""


TAKEN_SECONDS = 3.0
"""Seconds for a broker that serves to take a change: it looks each second, and its look takes a second at most."""

AGAIN_SECONDS = 0.05
"""Seconds between two looks whether it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """What was typed; ``seconds`` is for how long a new token is good, None for always."""

    role: Role
    job: str | None = None
    name: str | None = None
    seconds: float | None = None


def print_token(home: Path, options: TokenOptions, say: Say, aside: Say) -> int:
    """Print the token that is wished for, which is made if it is for somebody, or for a time. Raise DbgError."""
    if options.job is not None and not JOB.fullmatch(options.job):
        raise BadInput(f"--job {printable(options.job)!r} is no job", "write one as `dbg-attach list` shows it")
    if options.name is not None and not NAME.fullmatch(options.name):
        raise BadInput(f"--name {printable(options.name)!r} is no name", "use up to 64 of A-Z a-z 0-9 . _ -")
    if options.name is None and options.seconds is None:
        if options.job is None:
            say(load_tokens(home).of(options.role))
            return 0
        if options.role is Role.RANK:
            say(load_tokens(home).for_job(options.job))
            return 0
    _make(home, options, say, aside)
    return 0


def _make(home: Path, options: TokenOptions, say: Say, aside: Say) -> None:
    name = options.name if options.name is not None else f"{options.role.value}-{secrets.token_hex(3)}"
    now, text = time.time(), new_token()
    expires = None if options.seconds is None else now + options.seconds
    made = IssuedToken(name=name, role=options.role, digest=digest_of(text), made=now, job=options.job, expires=expires)
    with _taken_by_broker(home, aside), tokens_locked(home):
        save_issued(home, load_issued(home).issue(made))
    note(home, What.TOKEN_MADE, text=f"{name}, {_described(made, now)}", job=options.job or "")
    say(text)
    aside(f"{name}: {_described(made, now)}; `dbg-broker token --revoke {name}` takes it back")


def list_tokens(home: Path, say: Say, *, as_json: bool) -> int:
    """Print the tokens that have been made, none of their texts. Raise BadSecretFile."""
    found, now = load_issued(home).tokens, time.time()
    if as_json:
        say(json.dumps({"schema": 1, "tokens": [_document(one, now) for one in found]}))
    elif not found:
        say("no token has a name; `dbg-broker token --name NAME` makes one")
    else:
        width = max(len(one.name) for one in found)
        for one in found:
            say(f"{one.name:<{width}}  {_described(one, now)}")
    return 0


def revoke(home: Path, name: str, say: Say, aside: Say) -> int:
    """Take a token back; a broker that serves closes its connections. Raise DbgError."""
    with _taken_by_broker(home, aside), tokens_locked(home):
        save_issued(home, load_issued(home).revoke(name, time.time()))
    note(home, What.TOKEN_REVOKED, text=name)
    say(f"{name} is revoked")
    return 0


def rotate(home: Path, say: Say, aside: Say) -> int:
    """Replace the home's own three tokens; terminals that have the old ones are closed. Raise DbgError."""
    _require_no_others(home)
    with _taken_by_broker(home, aside), tokens_locked(home):
        renew_job_tokens(home, rotate_tokens(home))
    note(home, What.TOKENS_ROTATED)
    say("the home has new tokens; give them to the jobs that don't share this home before their ranks dial again")
    return 0


@contextlib.contextmanager
def _taken_by_broker(home: Path, aside: Say) -> Iterator[None]:
    """Let the block change tokens of the home, then wait until the broker has them: it writes broker.json again."""
    path = home / RENDEZVOUS_FILE
    is_served, before = path.exists(), state_of(path)
    yield
    until = time.monotonic() + TAKEN_SECONDS
    while is_served and state_of(path) == before:
        if time.monotonic() > until:
            aside(f"the broker that {RENDEZVOUS_FILE} names has not taken the change yet; it looks each second")
            return
        time.sleep(AGAIN_SECONDS)


def _require_no_others(home: Path) -> None:
    """Raise BadInput if another broker of the cluster serves, whose home has the same three tokens."""
    try:
        serving = read_rendezvous(home)
    except BadSecretFile:
        return
    if serving is not None and serving.brokers:
        url = serving.brokers[0].url
        raise BadInput(
            f"the broker at {printable(url)} has the tokens of this home too, and would not know the new ones",
            "stop all brokers of the cluster, rotate in one home, and copy its directory tokens/ into the other homes",
        )


def _described(one: IssuedToken, now: float) -> str:
    job = f" of job {one.job}" if one.job is not None else ""
    if one.expires is None:
        end = "without an end"
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
        help="what it lets its bearer be: a rank, a terminal that types, or one that looks (default: rank)",
    )
    parser.add_argument("--job", metavar="JOB", help="for this job alone")
    parser.add_argument(
        "--for", dest="bound", metavar="S", help="make a token that is good for this time, as in 30m, 2h or 7d"
    )
    parser.add_argument("--name", metavar="NAME", help="make a token of this name, which can be revoked")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--list", action="store_true", help="list the tokens that have names")
    one.add_argument(
        "--revoke", metavar="NAME", help="make the token of this name void; what is connected with it is closed"
    )
    one.add_argument("--rotate", action="store_true", help="replace the home's own three tokens by new ones")
    parser.add_argument("--json", action="store_true", help="with --list: one JSON document")


def run(given: argparse.Namespace) -> int:
    """Do what was typed, and return the exit status. Raise DbgError."""
    _refuse_beside(given)
    home = open_home(home_of(given))
    if given.list:
        return list_tokens(home, say, as_json=given.json)
    if given.revoke is not None:
        return revoke(home, given.revoke, say, say_aside)
    if given.rotate:
        return rotate(home, say, say_aside)
    seconds = None if given.bound is None else read_duration(given.bound, "--for", MAX_SECONDS)
    options = TokenOptions(role=Role(given.role or Role.RANK.value), job=given.job, name=given.name, seconds=seconds)
    return print_token(home, options, say, say_aside)


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
