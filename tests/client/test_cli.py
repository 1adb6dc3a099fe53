from __future__ import annotations

import subprocess
import sys

import pytest

from dbg_client.cli import main
from dbg_wire.version import RELEASE
from tests.client.fake_broker import FakeBroker, make_rank
from tests.support.terminal import Terminal

HEAVY = ("asyncio", "websockets", "prompt_toolkit", "ssl")


def run(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dbg_client", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environ,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["--watch", "--take", "5"]])
def test_help_version_and_usage_errors_load_nothing_heavy(words: list[str]) -> None:
    script = (
        "import sys\n"
        "from dbg_client.cli import main\n"
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
    ("words", "named"),
    [
        (["--watch", "--take", "5"], "--take"),
        (["--no-such-option"], "--no-such-option"),
        (["-l", "--timeout", "soon"], "'soon'"),
        (["--escape", "x", "5"], "'x'"),
        (["5", "6"], "6"),
        (["--screen"], "--screen needs a target"),
        (["-e", "x"], "-e needs a target"),
        (["--release"], "`held`"),
        (["-e", "x", "-w"], "-e and --where"),
        (["-l", "gpu[1"], "gpu[1"),
        (["-l", "--broker", "http://x"], "http"),
        (["5"], "--screen"),
        ([], "not a terminal"),
    ],
)
def test_bad_usage_is_one_sentence_and_status_2(words: list[str], named: str, environ: dict[str, str]) -> None:
    done = run(environ, *words)

    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("dbg-attach: ")
    assert named in line


def test_no_broker_is_status_4(environ: dict[str, str]) -> None:
    with FakeBroker() as broker:
        environ |= broker.environment
    done = run(environ, "-l")

    assert done.returncode == 4
    assert environ["DBG_BROKER"] in done.stderr
    assert "dbg-broker serve" in done.stderr


def test_a_wrong_token_is_status_5_and_not_shown(environ: dict[str, str]) -> None:
    with FakeBroker() as broker:
        done = run({**environ, **broker.environment, "DBG_TOKEN": "insecure-wrong-token-0123456789"}, "-l")

    assert done.returncode == 5
    assert "wrong-token" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_bug_is_one_line_and_a_traceback_only_with_v(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(settings: object) -> int:
        raise ValueError("\x1b[31m")

    monkeypatch.setattr("dbg_client.cli.carry_out", broken)

    assert main(["-l"]) == 1
    assert capsys.readouterr().err == "dbg-attach: a bug of dbg-attach: ValueError: \\x1b[31m\n"
    assert main(["-l", "-v"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(settings: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("dbg_client.cli.carry_out", interrupted)

    assert main(["-l"]) == 130


def test_a_reader_that_has_enough_is_no_error_message(environ: dict[str, str]) -> None:
    ranks = [make_rank(number) for number in range(2000)]
    with FakeBroker(*ranks) as broker:
        listing = subprocess.Popen(
            [sys.executable, "-m", "dbg_client", "-l"],
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


TWO_JOBS = (make_rank(5, job="train-1", key="one"), make_rank(5, job="train-2", key="two"))


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["5"], ["`dbg-attach train-1/5`", "`dbg-attach train-2/5`"]),
        (["5", "--screen"], ["`dbg-attach train-1/5 --screen`", "`dbg-attach train-2/5 --screen`"]),
        (["5", "-e", "5", "--wait"], ["`dbg-attach train-1/5 -e 5 --wait`", "`dbg-attach train-2/5 -e 5 --wait`"]),
        (["-e", "5", "5"], ["`dbg-attach -e 5 train-1/5`", "`dbg-attach -e 5 train-2/5`"]),
        (["-e", "x", "--wait", "5"], ["`dbg-attach -e x --wait train-1/5`"]),
        (["all", "-e", "a b"], ["`dbg-attach train-1/all -e 'a b'`", "`dbg-attach '*/all' -e 'a b'` for all"]),
        (
            ["train*/5", "--screen"],
            ["`dbg-attach train-1/gpu013:5 --screen`", "`dbg-attach train-2/gpu013:5 --screen`"],
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
    assert ("for all" in said) is ("-e" in words)
