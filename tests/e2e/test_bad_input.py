"""Every mistyped input is answered with one sentence that names it and says what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes, run_command
from tests.support.ranks import attach_command, attach_list, start_ranks, wait_until_stopped
from tests.support.reach import PIN
from tests.support.sentence import HOSTILE, SECRET, check_sentence
from tests.support.time_unit import seconds

STOPS = """\
from dbg_agent import set_trace
set_trace()
"""

Commands = dict[str, "Case"]


@dataclass(frozen=True)
class Case:
    """A command, its exit status, and what its sentence says; the test fills in each ``{…}``."""

    command: Sequence[str]
    status: int
    says: str
    env: Mapping[str, str] = field(default_factory=dict)


def attaches(*arguments: str, status: int = 2, says: str, **env: str) -> Case:
    """Return a case of ``dbg-attach``."""
    return Case(attach_command(*arguments), status, f"^dbg-attach: .*{says}", env)


def serves(*arguments: str, status: int = 2, says: str, **env: str) -> Case:
    """Return a case of ``dbg-broker``."""
    return Case([sys.executable, "-m", "dbg_broker", *arguments], status, f"^dbg-broker: .*{says}", env)


def runs(*arguments: str, says: str) -> Case:
    """Return a case of ``python -m dbg_agent``."""
    return Case([sys.executable, "-m", "dbg_agent", *arguments], 2, f"^dbg_agent: .*{says}")


def check(case: Case, env: Mapping[str, str], secrets: Sequence[str] = (SECRET,), **values: object) -> None:
    """Run the command of a case without a terminal; fail unless it prints only its one sentence."""
    filled = {name: text.format(**values) for name, text in case.env.items()}
    done = run_command([word.format(**values) for word in case.command], {**os.environ, **env, **filled}, seconds(30))
    assert (done.returncode, done.stdout) == (case.status, ""), done.stderr
    check_sentence(done.stderr, case.says.format(**values), secrets)


# ------------------------------------------------------------------------------------------- without any broker

USAGE: Commands = {
    "unknown option": attaches("--nonsense", says="there is no option --nonsense; see `dbg-attach --help`"),
    "abbreviated option": attaches("--lis", says="there is no option --lis; did you mean the verb `list`"),
    "two targets": attaches("0", "1", says="'0' and '1' are two targets; write one: 0,1"),
    "hostile option": attaches(f"--{HOSTILE}", says=r"there is no option --\\x1b\]0;pwned.*\\x9b31m\\n\\u202e"),
    "timeout without value": attaches("list", "--timeout", says="--timeout: expected one argument; see"),
    "timeout of a word": attaches("list", "--timeout", "x", says="--timeout 'x' is not a number .* 0.1 to 600"),
    "timeout of zero": attaches("list", "--timeout", "0", says="--timeout '0' is not a number .* 0.1 to 600"),
    "negative timeout": attaches("list", "--timeout=-1", says="--timeout '-1' is not a number .* 0.1 to 600"),
    "endless timeout": attaches("list", "--timeout", "inf", says="--timeout 'inf' is not a number .* 0.1 to 600"),
    "no number at all": attaches("list", "--timeout", "nan", says="--timeout 'nan' is not a number .* 0.1 to 600"),
    "hostile timeout": attaches("list", "--timeout", HOSTILE, says=r"--timeout .*\\x1b\]0;pwned.* 0.1 to 600"),
    "timeout's variable": attaches("list", says="DBG_TIMEOUT 'soon' is not a number .* 0.1 to 600", DBG_TIMEOUT="soon"),
    "wait": attaches("wait", "0", "--for", "-3", says="--for '-3' .*; "),
    "escape of two letters": attaches("0", "--escape", "ab", says=r"escape key 'ab' is not a control key; write"),
    "escape that interrupts": attaches("0", "--escape", "^C", says=r"escape key '\^C' can't be used, .*; take another"),
    "escape that is Esc": attaches("0", "--escape", "\x1b", says=r"escape key '\\x1b' can't be used, .*; take another"),
    "escape's variable": attaches("0", says="escape key 'xyz' is not a control key; write", DBG_ESCAPE="xyz"),
    "verb behind its target": attaches("0", "screen", says="'screen' stands first.*; write `dbg-attach screen 0`"),
    "flag of a verb": attaches("0", "--kill", says="kill is a verb and stands first; write `dbg-attach kill 0`"),
    "watch and take": attaches("0", "--watch", "--take", says="--watch .* and --take .*; give one of them"),
    "json and plain": attaches("list", "--json", "--plain", says="--json and --plain are two formats; give one"),
    "json of a session": attaches("0", "--json", says="attach has no option --json; list, where and why have it"),
    "plain of a screen": attaches("screen", "0", "--plain", says="screen has no option --plain; list has it"),
    "all of a session": attaches("0", "--all", says="attach has no option --all; list and where have it"),
    "follow of a list": attaches(
        "list", "--follow", says="list has no option --follow; attach, wait and interrupt have it"
    ),
    "watch of a kill": attaches("kill", "0", "--watch", says="kill has no option --watch; attach, .* have it"),
    "screen of nobody": attaches("screen", says="screen needs a target; name one rank, such as 5"),
    "continue of nobody": attaches("continue", says="continue needs a target; name ranks"),
    "kill of nobody": attaches("kill", "-y", says="kill needs a target; name the ranks to end"),
    "empty range": attaches("list", "3-1", says="range '3-1' is empty; write 0-3"),
    "hostile target": attaches("list", HOSTILE, says=r"\\x1b\]0;pwned\\x07\\x9b31m\\n\\u202e.*; write"),
    "target of colons": attaches("list", "0:x:y", says="'x:y' is no rank or range of ranks; write"),
    "no terminal": attaches("0", says="stdin is not a terminal, .*; use `screen` .* or `list`"),
    "picker without terminal": attaches(says="stdin is not a terminal, .*; use `screen` .* or `list`"),
    "broker without verb": serves(says="no verb is given; type one of serve, run"),
    "unknown verb": serves("dance", says="unknown verb `dance`; type one of serve, run"),
    "option of serve": serves("serve", "--nonsense", says="--nonsense; see `dbg-broker --help`"),
    "role": serves("token", "--role", "king", says="--role 'king' .*; take rank, driver or watcher"),
    "listen": serves("serve", "--listen", "x:y", says="--listen 'x:y' is not an address; write HOST:PORT"),
    "listen at a number": serves("serve", "--listen", "6900", says="--listen '6900' has no host; write 127.0.0.1:6900"),
    "listen above": serves("serve", "--listen", "h:70000", says="--listen 'h:70000' has a port above 65535; write"),
    "hostile listen": serves(
        "serve", "--listen", HOSTILE, says=r"--listen '\\+x1b\]0;pwned.* is not an address; write"
    ),
    "listen elsewhere": serves(
        "serve", "--listen", "192.0.2.1:1", status=1, says=r"can't listen on 192.0.2.1, port 1 \(.*\); give --listen an"
    ),
    "empty home": serves("serve", "--home", "", says="--home is empty; name a directory"),
    "relative home": serves("status", says="DBG_HOME 'here' is a relative path; set it", DBG_HOME="here"),
    "home is a file": serves("serve", "--home", "{file}", says="{file} is not a directory; set DBG_HOME"),
    "home for all": serves("serve", "--home", "{open}", says="{open} is open to others .*; type `chmod 700 {open}`"),
    "status of nobody": serves("status", status=4, says="broker.json is not there.*; start `dbg-broker serve`"),
    "check of an address": serves("check", "x:y", says="'x:y' has a port that is not a number .*; write host:port"),
    "agent's option": runs("--nonsense", "x.py", says="no option '--nonsense'; see `python -m dbg_agent --help`"),
    "agent's option without value": runs("--broker", says="--broker lacks its value; see"),
    "agent without script": runs(says="the name of a script is missing; see"),
    "agent's script": runs("nowhere.py", says="there is no script 'nowhere.py'; name one"),
    "agent's hostile script": runs(HOSTILE, says=r"there is no script '\\x1b\]0;pwned"),
}


@pytest.mark.parametrize("name", USAGE)
def test_what_is_mistyped_is_named(name: str, home: Path, tmp_path: Path) -> None:
    file, open_folder = tmp_path / "file", tmp_path / "open"
    file.touch(0o600)
    open_folder.mkdir(0o755)
    check(USAGE[name], {}, file=file, open=open_folder)


ADDRESSES = {
    "http://login1:6900": "is not a wss:// or ws:// address; write host:port",
    "login1:port": "has a port that is not a number from 1 to 65535; write host:port",
    "login1:0": "has a port that is not a number from 1 to 65535; write host:port",
    "login1:65536": "has a port that is not a number from 1 to 65535; write host:port",
    "": "has no host; write host:port",
    ":6900": "has no host; write host:port",
    "login1:6900/agent": "contains a path, .*; write host:port",
    f"login1:6900?token={SECRET}": "contains a query, .*; put the token into DBG_TOKEN_FILE",
    f"me:{SECRET}@login1:6900": "contains user info, .*; put the token into DBG_TOKEN_FILE",
    f"{SECRET}@login1": "contains user info, .*; put the token into DBG_TOKEN_FILE",
    "login1:6900#sha256:12": "has a fingerprint that is not sha256: and 64 hex.*; write host:port",
    f"ws://login1:6900#{PIN}": "has a fingerprint, but ws:// shows no certificate; write wss://",
    "login1:6900": "without a fingerprint, .*; add #sha256:… as `dbg-broker serve` prints it",
    HOSTILE: "contains a space or a control character; write host:port",
    "[::1": "; write host:port",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_is_none_is_named(address: str, home: Path) -> None:
    says = ADDRESSES[address]
    token = {"DBG_TOKEN": SECRET}
    check(attaches("list", f"--broker={address}", says=f"--broker .*{says}"), token)
    if address:
        check(attaches("list", says=f"DBG_BROKER .*{says}"), {**token, "DBG_BROKER": address})


TOKEN_FILES = {
    "missing": (None, "{path} can't be read .No such file or directory.; set it to a file with the token"),
    "empty": (("", 0o600), "{path} does not hold a token .*; put there the one line that `dbg-broker token` prints"),
    "of two lines": ((f"{SECRET}\n{SECRET}\n", 0o600), "{path} does not hold a token .*; put there the one line"),
    "too short": (("abc\n", 0o600), "{path} does not hold a token .*; put there the one line"),
    "binary": (("\x00\x1b]0;x\x07" * 20, 0o600), "{path} does not hold a token .*; put there the one line"),
    "readable by others": ((SECRET, 0o644), "{path} is open to others .mode 644.; type `chmod 600 {path}`"),
    "readable by its group": ((SECRET, 0o640), "{path} is open to others .mode 640.; type `chmod 600 {path}`"),
    "writable by others": ((SECRET, 0o602), "{path} is open to others .mode 602.; type `chmod 600 {path}`"),
}


@pytest.mark.parametrize("name", TOKEN_FILES)
def test_a_token_file_that_can_not_be_used_is_named(name: str, home: Path, tmp_path: Path) -> None:
    content, says = TOKEN_FILES[name]
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content[0])
        path.chmod(content[1])
    env = {"DBG_BROKER": f"127.0.0.1:1#{PIN}", "DBG_TOKEN_FILE": str(path)}
    check(attaches("list", says=says), env, path=path)


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("", 0o600, "is not a JSON object; remove it and start `dbg-broker serve` again"),
        ("{{", 0o600, "is not a JSON object; remove it"),
        ('{"schema":2}', 0o600, "has schema 2, and this release reads schema 1; install the same dbg-broker release"),
        ('{"schema":1}', 0o600, "can't be used: .*; remove it"),
        ("{}", 0o644, "is open to others .mode 644.; type `chmod 600 "),
    ],
)
def test_a_broker_json_that_can_not_be_used_is_named(text: str, mode: int, says: str, home: Path) -> None:
    path = home / "broker.json"
    path.write_text(text)
    path.chmod(mode)
    for command in (attaches("list", says=f"broker.json {says}"), serves("status", says=f"broker.json {says}")):
        check(command, {})


def test_a_terminal_whose_output_goes_elsewhere_is_named(home: Path, open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(["sh", "-c", '"$0" 0 | cat', *attach_command()], cols=200)
    assert terminal.exit_status() == 0
    check_sentence(terminal.row(0) + "\n", "dbg-attach: stdout is not a terminal, .*; use `screen`")


# --------------------------------------------------------------------------------------------------- with a broker


@dataclass(frozen=True)
class Served:
    """A broker with two jobs of two ranks each, all stopped."""

    broker: RunningBroker
    host: str
    jobs: tuple[str, str]
    secrets: tuple[str, ...]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    home = folder / "dbg"
    home.mkdir(0o700)
    started = Processes(folder / "logs")
    try:
        broker = running_broker(started, home)
        for _ in range(2):
            start_ranks(started, home, STOPS, 2)
        ranks = wait_until_stopped(home, 4)
        first, second = sorted({rank["job"] for rank in ranks})
        yield Served(broker, ranks[0]["host"], (first, second), tuple(broker.tokens.values()))
    finally:
        started.end_all()


MEETING: Commands = {
    "no such rank": attaches("screen", "7", status=3, says="no rank fits '7'; 4 .* listed by `dbg-attach list`"),
    "no such host": attaches("screen", "nowhere:0", status=3, says="no rank fits 'nowhere:0'; .*`dbg-attach list`"),
    "no such job": attaches("screen", "9.9/0", status=3, says="no rank fits '9.9/0'; .*`dbg-attach list`"),
    "no crashed rank": attaches("continue", "crashed", status=3, says="no rank fits 'crashed'; .*`dbg-attach list"),
    "list of no rank": attaches("list", "7", status=3, says="no rank fits '7'; .*`dbg-attach list"),
    "ambiguous rank": attaches(
        "screen",
        "0",
        says="'0' fits several ranks: `dbg-attach screen {a}/0`, `dbg-attach screen {b}/0`; name one of them",
    ),
    "ambiguous address": attaches(
        "screen", "{host}:1", says="ranks: `dbg-attach screen {a}/{host}:1`.*{b}/{host}:1`; name one"
    ),
    "ambiguous set": attaches(
        "continue", "all", says="'all' fits several ranks: .*{a}/all`.*{b}/all`.*'\\*/all'` for all"
    ),
    "ambiguous in a job": attaches("screen", "{a}/all", says="ranks: .*{a}/{host}:0`.*{a}/{host}:1`; name one"),
    "kill unasked": attaches("kill", "{a}/0", says="would end {host}:0, and there is no terminal .*; add -y"),
    "kill of many unasked": attaches("kill", "{a}/all", says="would end 2 ranks .{host}:0, {host}:1.*; add -y"),
    "another's token": attaches(
        "list", status=5, says="does not take this token .*; give the one that", DBG_TOKEN=SECRET
    ),
    "rank's token": attaches(
        "list",
        status=5,
        says="the token is a rank's, .*; give the one that",
        DBG_TOKEN="{rank_token}",  # noqa: S106
    ),
    "watcher's continue": attaches(
        "continue",
        "{a}/0",
        status=5,
        says="the broker refused: .*watch",
        DBG_TOKEN="{watcher_token}",  # noqa: S106
    ),
    "another's certificate": attaches(
        "list", f"--broker=127.0.0.1:{{port}}#{PIN}", status=5, says="is not the broker that was pinned"
    ),
    "plain to TLS": attaches(
        "list", "--broker=ws://127.0.0.1:{port}", says="must not travel in the clear; write wss://"
    ),
    "closed port": attaches(
        "list", f"--broker=127.0.0.1:1#{PIN}", status=4, says=":1 .Connection refused.; is `dbg-bro"
    ),
    "unknown host": attaches(
        "list", f"--broker=no.such.invalid:1#{PIN}", status=4, says="no.such.invalid.*; is `dbg-broker serve` running"
    ),
    "port in use": serves(
        *("serve", "--listen", "127.0.0.1:{port}", "--home", "{empty}"),
        status=1,
        says="port {port} on 127.0.0.1 is taken; .* give --listen another port",
    ),
    "home in use": serves(
        "serve", "--listen", "127.0.0.1:0", status=1, says="is served already, by .*:{port} .*pid.*; use that one, stop"
    ),
}


@pytest.mark.xdist_group("bad input to one broker")  # each worker would start its own
@pytest.mark.parametrize("name", MEETING)
def test_what_does_not_fit_what_is_there_is_named(name: str, served: Served, tmp_path: Path) -> None:
    tokens = served.broker.tokens
    check(
        MEETING[name],
        {"DBG_HOME": str(served.broker.home)},
        secrets=(SECRET, *served.secrets),
        a=served.jobs[0],
        b=served.jobs[1],
        host=served.host,
        port=served.broker.port,
        rank_token=tokens["rank"],
        watcher_token=tokens["watcher"],
        empty=tmp_path / "home",
    )
    assert [rank["state"] for rank in attach_list(served.broker.home)] == ["stopped"] * 4
