from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from dbg_client.cli.main import main
from dbg_wire.messages import Action, Kind, Question, RankAnswer
from dbg_wire.records.ranks import Place
from dbg_wire.version import RELEASE
from tests.conftest import Approved
from tests.support.processes import run_command
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import HERE, FakeBroker, make_rank

HEAVY = ("asyncio", "websockets", "prompt_toolkit", "ssl")


def run(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-m", "dbg_client", *words], environ, 60)


def ended(
    environ: dict[str, str], *words: str, stdout: int | IO[str] = subprocess.PIPE, encoding: str = "utf-8"
) -> subprocess.CompletedProcess[str]:
    """Run the command with this stdout, and return how it ended."""
    return subprocess.run(
        [sys.executable, "-m", "dbg_client", *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding=encoding,
        env=environ,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["--watch", "--take", "5"]])
def test_help_version_and_usage_errors_load_nothing_heavy(words: list[str]) -> None:
    script = (
        "import sys\n"
        "from dbg_client.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    pass\n"
        f"print('heavy:', *sorted(set({HEAVY!r}) & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.splitlines()[-1].strip() == "heavy:"


def test_version_names_release_and_protocol(environ: dict[str, str]) -> None:
    assert run(environ, "--version").stdout.startswith(f"dbg-attach {RELEASE} (protocol 1.")


@pytest.mark.parametrize(
    "words",
    [
        ["--watch", "--take", "5"],
        ["--no-such-option"],
        ["list", "--timeout", "soon"],
        ["--escape", "x", "5"],
        ["5", "6"],
        ["screen"],
        ["kill"],
        ["i"],
        ["interrupt"],
        ["eval", "all", " "],
        ["where", "--plain"],
        ["where", "-e", "x"],
        ["release"],
        ["all", "-w"],
        ["wher", "all"],
        ["all", "-e", "loss, lr"],
        ["eval", "all", "loss", "--exat"],
        ["list", "gpu[1"],
        ["list", "--broker", "http://x"],
        ["5"],
        [],
    ],
)
def test_bad_usage_is_one_sentence_and_status_2(approved: Approved, words: list[str], environ: dict[str, str]) -> None:
    done = run(environ, *words)

    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("dbg-attach: ")
    approved(line)


def test_no_broker_is_status_4(environ: dict[str, str]) -> None:
    with FakeBroker() as broker:
        environ |= broker.environment
    done = run(environ, "list")

    assert done.returncode == 4
    assert environ["DBG_BROKER"] in done.stderr
    assert "dbg-broker serve" in done.stderr


def test_a_wrong_token_is_status_5_and_not_shown(environ: dict[str, str]) -> None:
    with FakeBroker() as broker:
        done = run({**environ, **broker.environment, "DBG_TOKEN": "insecure-wrong-token-0123456789"}, "list")

    assert done.returncode == 5
    assert "wrong-token" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_bug_is_one_line_and_a_traceback_only_with_v(
    approved: Approved, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(settings: object) -> int:
        raise ValueError("\x1b[31m")

    monkeypatch.setattr("dbg_client.cli.main.carry_out", broken)

    assert main(["list"]) == 1
    approved(capsys.readouterr().err)
    assert main(["list", "-v"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(settings: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("dbg_client.cli.main.carry_out", interrupted)

    assert main(["list"]) == 130


def test_a_reader_that_has_enough_is_no_error_message(environ: dict[str, str]) -> None:
    ranks = [make_rank(number) for number in range(2000)]
    with FakeBroker(*ranks) as broker:
        listing = subprocess.Popen(
            [sys.executable, "-m", "dbg_client", "list", "--all-rows"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environ, **broker.environment},
        )
        with listing:
            assert listing.stdout is not None
            assert listing.stderr is not None
            listing.stdout.read(1)
            listing.stdout.close()
            assert listing.stderr.read() == b""
        assert listing.returncode == 141


TWO_JOBS = (make_rank(5, job="train-1", key="one"), make_rank(5, job="train-2", key="two"))


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["5"], ["`dbg-attach train-1/5`", "`dbg-attach train-2/5`"]),
        (["screen", "5"], ["`dbg-attach screen train-1/5`", "`dbg-attach screen train-2/5`"]),
        (
            ["eval", "5", "5", "--wait"],
            ["`dbg-attach eval train-1/5 5 --wait`", "`dbg-attach eval train-2/5 5 --wait`"],
        ),
        (["eval", "5", "5"], ["`dbg-attach eval train-1/5 5`", "`dbg-attach eval train-2/5 5`"]),
        (["eval", "5", "x", "--wait"], ["`dbg-attach eval train-1/5 x --wait`"]),
        (["eval", "all", "a b"], ["`dbg-attach eval train-1/all 'a b'`", "`dbg-attach eval '*/all' 'a b'` for all"]),
        (
            ["screen", "train*/5"],
            ["`dbg-attach screen train-1/gpu013:5`", "`dbg-attach screen train-2/gpu013:5`"],
        ),
    ],
)
def test_a_target_of_two_jobs_offers_the_whole_commands(
    words: list[str], offered: list[str], environ: dict[str, str]
) -> None:
    with FakeBroker(*TWO_JOBS) as broker:
        if words == ["5"]:
            with Terminal([sys.executable, "-m", "dbg_client", "5"], env={**environ, **broker.environment}) as terminal:
                assert terminal.exit_status() == 2
                said, status = " ".join("".join(terminal.screen).split()), 2
        else:
            done = run({**environ, **broker.environment}, *words)
            said, status = done.stderr, done.returncode

    assert status == 2
    for command in offered:
        assert command in said
    assert ("for all" in said) is (words[0] == "eval")


@pytest.mark.parametrize("words", [["list"], ["where"], ["--help"], ["--version"]])
def test_a_full_disk_is_one_sentence_and_status_1(words: list[str], environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker, Path("/dev/full").open("w") as full:
        broker.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.VALUE, text="", frames=(HERE,))
        done = ended({**environ, **broker.environment}, *words, stdout=full)

    reason = "the answer can't be written to stdout (No space left on device); redirect stdout to another file"
    assert (done.returncode, done.stderr) == (1, f"dbg-attach: {reason}\n")


@pytest.mark.parametrize("words", [["--help"], ["list"]])
def test_a_reader_that_is_gone_ends_it_silently(words: list[str], environ: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with FakeBroker(make_rank(5)) as broker, os.fdopen(writing, "w") as pipe:
        done = ended({**environ, **broker.environment}, *words, stdout=pipe)

    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("closed", [0, 1])
def test_a_closed_stream_is_no_bug(approved: Approved, closed: int, environ: dict[str, str]) -> None:
    script = f'exec "$0" -m dbg_client list {closed}>&-'
    with FakeBroker(make_rank(5)) as broker:
        done = subprocess.run(
            ["sh", "-c", script, sys.executable],
            env={**environ, **broker.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds(30),
        )

    if closed:
        assert (done.returncode, done.stdout) == (1, "")
        approved(done.stderr)
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert "gpu013:5" in done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_a_locale_lacks_is_written_as_it_looks(encoding: str, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), make_rank(6, directory="/é")) as broker:
        broker.answers[Action.WHERE] = RankAnswer(
            key="", kind=Kind.VALUE, text="", frames=(HERE, Place(file="/é.py", line=1, function="\u4e2d"))
        )
        done = ended({**environ, **broker.environment, "PYTHONIOENCODING": encoding}, "where", encoding=encoding)

    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u4e2d \\xe9.py:1" in done.stdout if encoding == "ascii" else "\\u4e2d é.py:1" in done.stdout


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_without_a_cursor_is_told_what_works_there(
    approved: Approved, term: str, environ: dict[str, str]
) -> None:
    with FakeBroker(make_rank(5)) as broker:
        for words in ([], ["5"]):
            command = [sys.executable, "-m", "dbg_client", *words]
            with Terminal(command, 24, 200, {**environ, **broker.environment, "TERM": term}) as window:
                assert window.exit_status() == 2
                shown = "\n".join(window.screen).strip()
                approved(shown)
                assert "set it, e.g. TERM=xterm-256color" in shown


LINUX_ONLY = """
import os, select, signal, socket, sys
for module, names in (
    (socket, [name for name in vars(socket) if name.startswith("TCP_") and name not in ("TCP_NODELAY", "TCP_KEEPCNT")]),
    (socket, ["SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_PEERCRED", "AF_NETLINK", "AF_VSOCK"]),
    (select, ["epoll"]),
    (os, ["eventfd", "pidfd_open", "memfd_create", "posix_fadvise", "pipe2", "O_PATH"]),
    (signal, ["SIGRTMIN", "SIGRTMAX", "SIGPOLL", "SIGPWR", "sigtimedwait", "sigwaitinfo"]),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


def refuse(event, arguments):
    if event == "open" and str(arguments[0]).startswith("/proc") or event == "ctypes.dlopen":
        raise FileNotFoundError(2, "Linux only", arguments[0])


sys.addaudithook(refuse)
from dbg_client.cli.main import main
sys.exit(main())
"""
"""A program that has none of the names and files which macOS lacks."""


def test_the_terminal_needs_nothing_that_macos_lacks(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), make_rank(6)) as broker:
        broker.answers[Action.EVAL] = RankAnswer(key="", kind=Kind.VALUE, text="0.25", digest="d")
        mac = {**environ, **broker.environment}
        for words in (["eval", "all", "loss"], ["eval", "@1", "loss"], ["report"]):
            done = subprocess.run(
                [sys.executable, "-c", LINUX_ONLY, *words], capture_output=True, text=True, env=mac, check=False
            )
            assert (done.returncode, done.stderr) == (0, "")
        with Terminal([sys.executable, "-c", LINUX_ONLY], 24, 80, mac) as window:
            window.wait_for("Pick a rank")
            window.send("\r")
            window.wait_for("PUDB SCREEN")
            window.send("\x1d:where\r")
            window.wait_for("q goes back")
            window.send("q\x1dd")
            assert window.exit_status() == 0


@pytest.mark.parametrize(("key", "status"), [("\x03", 130), ("\x04", 1), ("\r", 1)])
def test_a_question_that_is_not_answered_with_yes_does_nothing(key: str, status: int, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        command = [sys.executable, "-m", "dbg_client", "kill", "5"]
        with Terminal(command, 24, 80, {**environ, **broker.environment}) as window:
            window.wait_for("End gpu013:5? [y/N]")
            window.send(key)

            assert window.exit_status() == status
            question, said, *rest = window.screen
            assert re.fullmatch(r"End gpu013:5\? \[y/N\]( \^C)?", question)
            assert (said, "".join(rest)) == ("Nothing was done.", "")
        assert not [item for item in broker.received if isinstance(item, Question)]
