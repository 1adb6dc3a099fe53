"""``dbg-broker log``: who did what, as people and programs read it, and what comes meanwhile."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from dbg_broker.audit.entries import encode_entry
from dbg_broker.audit.writer import append
from dbg_broker.home.private_files import open_home
from dbg_broker.verbs.log import shown
from dbg_wire.records.audit import Entry, What
from tests.support.serving import Serve, environment, run

ASKED = Entry(
    at=1_700_000_000.25,
    what=What.QUESTION,
    action="eval",
    role="driver",
    token="alice",  # noqa: S106 - a name
    terminal="me@login1\x1b[2J",
    address="10.0.0.7:4711",
    job="train-1",
    ranks="0-7",
    text="os.remove('x')",
)


def test_an_entry_is_one_line_that_no_terminal_obeys() -> None:
    line = shown(ASKED)
    assert line.isprintable()
    assert line.endswith(
        "question eval at train-1/0-7 by a driver (alice) \"me@login1\\x1b[2J\" from 10.0.0.7:4711: os.remove('x')"
    )
    assert shown(Entry(at=0.0, what=What.CUT, count=7)).endswith("cut (7 entries were lost)")
    assert shown(Entry(at=0.0, what=What.REFUSE, address="h:1", text="no", count=3)).endswith(
        "refuse from h:1 (3 times): no"
    )


@pytest.mark.parametrize("name", ['me" from 10.0.0.1:1', 'me\\" from 10.0.0.1:1', 'a: b "c\\', "é\x1b", "\\x1b"])
def test_a_name_ends_where_the_log_says_so(name: str) -> None:
    line = shown(Entry(at=0.0, what=What.ATTACH, role="watcher", terminal=name, address="h:1", text="x : y (9 times)"))
    found = re.fullmatch(r'.* by a watcher ("(?:[^"\\]|\\.)*") from h:1: x : y \(9 times\)', line)
    assert found is not None
    # The form is that of a string in Python, so that each name has a line of its own.
    assert ast.literal_eval(found[1]) == name


@pytest.fixture
def written(home: Path) -> Path:
    open_home(str(home))
    append(home, encode_entry(ASKED))
    append(home, b"no entry\n")
    append(home, encode_entry(Entry(at=time.time(), what=What.ATTACH, job="train-2", ranks="h:1")))
    return home


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        ((), ["train-1", "train-2"]),
        (("--job", "train-1"), ["train-1"]),
        (("--since", "1h"), ["train-2"]),
        (("--since", "1h", "--job", "train-1"), []),
    ],
)
def test_the_log_is_shown_by_job_and_time(written: Path, words: tuple[str, ...], jobs: list[str]) -> None:
    lines = run(written, "log", "--json", *words).stdout.splitlines()
    assert [json.loads(line)["job"] for line in lines] == jobs
    assert len(run(written, "log", *words).stdout.splitlines()) == len(jobs)


def test_without_a_log_nothing_is_shown(home: Path) -> None:
    done = run(home, "log")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_log_that_can_not_be_written_or_read_is_told(home: Path, serve: Serve) -> None:
    (open_home(str(home)) / "audit.jsonl").mkdir()
    done = run(home, "log")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"dbg-broker: \S+audit\.jsonl can't be read \(Is a directory\); move it away.*\n", done.stderr)

    serving = serve("--listen", "127.0.0.1:0", "--insecure")
    told = next(line for line in serving.errors if "audit" in line)
    assert "the audit log can't be written (Is a directory); entries are lost until it can" in told
    with urlopen(f"http://127.0.0.1:{serving.port}/metrics") as page:
        assert b"\ndbg_broker_audit_lost_total 1\n" in page.read()


def test_a_broker_writes_and_follow_shows_what_comes_also_in_the_next_file(home: Path, serve: Serve) -> None:
    open_home(str(home))
    command = [sys.executable, "-m", "dbg_broker", "log", "--follow"]
    with subprocess.Popen(command, env=environment(home), stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        serving = serve()
        assert f"start: {serving.url}, pid {serving.pid}" in following.stdout.readline()
        token = run(home, "token", "--role", "driver", "--name", "bob").stdout.strip()
        assert "token-made" in following.stdout.readline()
        append(home, encode_entry(ASKED), max_bytes=1)
        assert "eval" in following.stdout.readline()
        serving.end()
        assert "end: pid" in following.stdout.readline()
        following.terminate()
    assert token not in "".join(path.read_text() for path in home.glob("audit.jsonl*"))
