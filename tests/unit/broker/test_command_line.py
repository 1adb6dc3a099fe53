"""The command line of ``dbg-broker``: usage, completion, tokens, the log and the status, in this process."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dbg_broker.cli import log
from dbg_broker.cli.log import shown
from dbg_broker.cli.main import main
from dbg_broker.cli.parser import complete_words, parser_of_the_command, refuse_mistyped
from dbg_broker.cli.status import status
from dbg_broker.home.certificate import load_own
from dbg_broker.home.private_files import open_home
from dbg_broker.home.tokens import load_tokens
from dbg_broker.journal.audit import append, encode_entry
from dbg_command.audit import AuditEntry, AuditEvent
from dbg_wire.errors import OutputError
from dbg_wire.messages import Goodbye
from tests.conftest import Approved
from tests.support.sentence import refusals
from tests.unit.broker.conftest import Command
from tests.unit.broker.peers import Broker, running_broker

PARSER = parser_of_the_command()


# -------------------------------------------------------------------------------------------------- usage, completion


REFUSED = [
    "",
    "dance",
    "serve --no-such-option",
    "serve --listen \x1b[31m",
    "status --jsn",
    "token --role king",
    "token --name a\N{NO-BREAK SPACE}b",
    "token --name x --job a/b",
    "token --for soon",
    "token --for 99999d",
    "token --name=",
    "token --revoke x --for 2h",
    "token --rotate --job x",
    "token --list --role rank",
    "token --json",
    "token --revoke nobody",
    "token --list --rotate",
    "log --since soon",
]


def test_invalid_command_line_is_one_sentence_with_status_2(command: Command, approved: Approved) -> None:
    lines: list[str] = []
    for line in REFUSED:
        done = command(*line.split(" ") if line else [])
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1), line
        assert done.err[:-1].isprintable()
        lines.append(f"{line!r}: {done.err[:-1]}")
    approved("\n".join(lines))


MISTYPED: list[tuple[list[str], list[str]]] = [
    (["serv"], []),
    (["list"], []),
    (["zebra\x1b"], []),
    (["serve", "--lisen=x"], ["--lisen=x"]),
    (["status", "--zebra"], ["--zebra"]),
    (["status", "x"], ["x"]),
]


def test_mistyped_word_is_refused_with_a_suggestion(approved: Approved) -> None:
    approved(refusals(lambda words: refuse_mistyped(PARSER, *words), MISTYPED))
    for words in (["serve", "--listen", "x"], ["--version"], []):
        refuse_mistyped(PARSER, words, [])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("s", ["serve", "status"]),
        ("token --rol", ["--role"]),
        ("token --role ", ["rank", "driver", "watcher"]),
        ("completion z", ["zsh"]),
        ("serve --while", []),
        ("status --home ", [":files"]),
        ("serve --listen ", []),
        ("--ver", ["--version"]),
        ("zebra ", ["serve", "status", "token", "certificate", "log", "check", "completion"]),
    ],
)
def test_words_are_completed(line: str, words: list[str]) -> None:
    assert [each.partition("\t")[0] for each in complete_words(line.split(" "))] == words


def test_run_is_another_name_for_the_verb_of_dbg_attach(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--no-such-option", "--", "true"]) == 2
    assert capsys.readouterr().err.startswith("dbg-attach: ")


def test_a_full_disk_is_one_sentence(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        done = command("completion", "bash")
        assert (done.status, done.err) == (1, f"dbg-broker: {OutputError('No space left on device')}\n")


# ------------------------------------------------------------------------------------------- tokens and certificates


def test_token_prints_the_token_of_the_role(command: Command, home: Path) -> None:
    printed = [command("token", "--role", role).out.strip() for role in ("rank", "driver", "watcher")]
    assert printed == [*load_tokens(home).by_name().values()]
    assert command("token").out.strip() == printed[0]


def test_the_list_shows_names_and_no_tokens(command: Command) -> None:
    assert json.loads(command("token", "--list", "--json").out) == {"schema": 1, "tokens": []}
    token = command("token", "--role", "driver", "--name", "bob").out.strip()
    listed = command("token", "--list", "--json").out
    assert token not in listed + command("token", "--list").out
    (one,) = json.loads(listed)["tokens"]
    assert (one["name"], one["role"], one["job"], one["expired"]) == ("bob", "driver", None, False)


def test_the_certificate_is_made_once_and_its_fingerprint_printed(command: Command, home: Path) -> None:
    printed = command("certificate").out
    assert printed == f"{load_own(home).fingerprint}\n"
    assert command("certificate").out == printed


# ------------------------------------------------------------------------------------------------------------ the log


ASKED = AuditEntry(
    at=1_700_000_000.25,
    what=AuditEvent.QUESTION,
    action="eval",
    role="driver",
    token="alice",  # noqa: S106 - a name
    terminal="me@login1\x1b[2J",
    address="10.0.0.7:4711",
    job="train-1",
    ranks="0-7",
    text="os.remove('x')",
)


def test_log_entry_is_one_line_without_control_characters(approved: Approved) -> None:
    entries = [
        ASKED,
        AuditEntry(at=0.0, what=AuditEvent.CUT, count=7),
        AuditEntry(at=0.0, what=AuditEvent.REFUSE, address="h:1", text="no", count=3),
    ]
    lines = [shown(entry) for entry in entries]
    assert all(line.isprintable() for line in lines)
    approved("\n".join(re.sub(r"^\S+ \S+", "DATE", line) for line in lines))


@pytest.mark.parametrize("name", ['me" from 10.0.0.1:1', 'me\\" from 10.0.0.1:1', 'a: b "c\\', "é\x1b", "\\x1b"])
def test_name_in_the_log_is_quoted(name: str) -> None:
    line = shown(
        AuditEntry(at=0.0, what=AuditEvent.ATTACH, role="watcher", terminal=name, address="h:1", text="x : y (9 times)")
    )
    found = re.fullmatch(r'.* by a watcher ("(?:[^"\\]|\\.)*") from h:1: x : y \(9 times\)', line)
    assert found is not None
    # The form is that of a string in Python, so that each name has a line of its own.
    assert ast.literal_eval(found[1]) == name


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        ((), ["train-1", "train-2"]),
        (("--job", "train-1"), ["train-1"]),
        (("--since", "1h"), ["train-2"]),
        (("--since", "1h", "--job", "train-1"), []),
    ],
)
def test_the_log_is_shown_by_job_and_time(
    home: Path, command: Command, words: tuple[str, ...], jobs: list[str]
) -> None:
    open_home(str(home))
    append(home, encode_entry(ASKED))
    append(home, b"no entry\n")
    append(home, encode_entry(AuditEntry(at=time.time(), what=AuditEvent.ATTACH, job="train-2", ranks="h:1")))
    lines = command("log", "--json", *words).out.splitlines()
    assert [json.loads(line)["job"] for line in lines] == jobs
    assert len(command("log", *words).out.splitlines()) == len(jobs)


def test_missing_log_is_empty_and_unreadable_log_is_named(home: Path, command: Command) -> None:
    done = command("log")
    assert (done.status, done.out, done.err) == (0, "", "")
    (home / "audit.jsonl").mkdir()
    done = command("log")
    assert (done.status, done.out) == (2, "")
    assert str(home / "audit.jsonl") in done.err


# --------------------------------------------------------------------------------------------------------- the status


async def both(broker: Broker, home: Path) -> tuple[str, dict[str, Any]]:
    """Return the status of a broker as text and as a document."""
    environ = {"DBG_BROKER": str(broker.endpoint).removeprefix("wss://"), "DBG_TOKEN": broker.tokens.watcher}
    lines: list[str] = []
    document: list[str] = []

    def ask() -> None:
        assert status(str(home), environ, lines.append, as_json=False) == 0
        assert status(str(home), environ, document.append, as_json=True) == 0

    await asyncio.to_thread(ask)
    return "\n".join(lines), json.loads(document[0])


async def test_status_counts_ranks_by_their_states(made_home: Path, approved: Approved) -> None:
    async with running_broker(made_home, tls=True) as broker:
        for number in (10, 9):
            await broker.rank(number)
        gone = await broker.rank(4)
        await gone.send(Goodbye(exit=-9))
        text, document = await both(broker, made_home)
    assert (document["schema"], document["up"], document["pid"]) == (1, True, 4711)
    assert document["states"]["stopped"] == 2
    assert document["states"]["exited"] == 1
    approved("\n".join(text.splitlines()[1:]))


def test_follow_shows_what_another_host_has_written(made_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pass_by(_seconds: float) -> None:
        append(made_home, b"two\n")

    append(made_home, b"one\n")
    lines = log._lines(made_home, follow=True)
    assert next(lines) == b"one\n"
    monkeypatch.setattr(time, "sleep", pass_by)
    assert next(lines) == b"two\n"
