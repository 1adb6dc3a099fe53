from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_client.actions.output import fits, is_usable
from dbg_wire.messages import Action, Kind, RankAnswer
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_rank

RANKS = 50


MARKS = "sed 's/^/paged /'"


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(*map(make_rank, range(RANKS))) as serving:
        yield serving


def shown(broker: FakeBroker, environ: dict[str, str], *words: str, **more: str) -> tuple[int, str]:
    """Return exit status and screen of a terminal with fewer rows than ranks."""
    command = [sys.executable, "-m", "dbg_client", *words]
    with Terminal(command, 24, 120, {**environ, **broker.environment, **more}) as window:
        status = window.exit_status()
        return status, "\n".join(window.screen)


def test_a_long_answer_goes_through_the_users_pager(broker: FakeBroker, environ: dict[str, str]) -> None:
    status, screen = shown(broker, environ, "list", "--all-rows", PAGER="cat", DBG_PAGER=MARKS)

    assert status == 0
    assert f"paged gpu013:{RANKS - 1} " in screen


@pytest.mark.parametrize(
    ("words", "pager"),
    [
        (["list", "--all-rows"], "cat"),
        (["list", "--all-rows"], ""),
        (["list", "--all-rows", "--no-pager"], MARKS),
        (["list", "--all-rows", "--plain"], MARKS),
        (["list", "5", "--all-rows"], MARKS),
        (["list", "--all-rows"], "/no/such/pager"),
    ],
)
def test_what_is_short_or_not_wanted_so_is_printed(
    words: list[str], pager: str, broker: FakeBroker, environ: dict[str, str]
) -> None:
    status, screen = shown(broker, environ, *words, DBG_PAGER=pager)

    assert status == 0
    assert "paged" not in screen
    assert "gpu013:5" in screen if "5" in words else f"gpu013:{RANKS - 1}" in screen


def test_a_pager_that_is_left_at_once_is_no_error_and_the_status_is_the_commands(
    broker: FakeBroker, environ: dict[str, str]
) -> None:
    text = "\n".join(f"row {number}" for number in range(RANKS))
    broker.answers[Action.EVAL] = RankAnswer(key="", kind=Kind.SILENT, text="")
    broker.answers[Action.COMMAND] = RankAnswer(key="", kind=Kind.VALUE, text=text, digest="d")

    assert shown(broker, environ, "list", "--all-rows", DBG_PAGER="true")[0] == 0
    status, screen = shown(broker, environ, "command", "all", "p x", "--fail-if-differ", DBG_PAGER="true")
    assert (status, screen.strip()) == (0, "")
    assert shown(broker, environ, "eval", "all", "x", DBG_PAGER="true")[0] == 6


def test_ctrl_c_is_the_pagers(broker: FakeBroker, environ: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "pager"
    script.write_text("#!/bin/sh\ntrap 'echo mine; exit 0' INT\necho ready\ncat > /dev/null\nread line < /dev/tty\n")
    script.chmod(0o700)
    command = [sys.executable, "-m", "dbg_client", "list", "--all-rows"]
    with Terminal(command, 24, 80, {**environ, **broker.environment, "DBG_PAGER": str(script)}) as window:
        window.wait_for("ready")
        window.send("\x03")
        window.wait_for("mine")

        assert window.exit_status() == 0


def test_a_pager_needs_a_cursor_and_less_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "less").write_text("#!/bin/sh\n")
    (tmp_path / "less").chmod(0o700)
    there = {"TERM": "xterm", "PATH": str(tmp_path)}

    assert is_usable("less", there)
    assert not is_usable("less", {**there, "PATH": "/nowhere"})
    assert is_usable("more", there)
    assert not is_usable("cat", there)
    assert not is_usable("", there)
    assert not is_usable("more", {**there, "TERM": "dumb"})


def test_what_fits_leaves_a_row_for_the_prompt() -> None:
    assert fits("line\n" * 23, 24, 80)
    assert not fits("line\n" * 24, 24, 80)
    assert not fits("x" * 81 + "\n" + "line\n" * 22, 24, 80)
    assert fits("\x1b[31m" * 100 + "x\n" + "line\n" * 22, 24, 80)
