"""Where the report of a hang is, and the last lines of a job and of its ranks in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.run.panes import Pane, TmuxFailed, literal, open_window, plain_name

FakeTmux = Callable[[str], Path]


@pytest.fixture
def fake_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTmux:
    """Return a function that puts a fake tmux of shell code on PATH and returns the file that notes its calls."""

    def install(body: str) -> Path:
        notes = tmp_path / "notes"
        script = tmp_path / "tmux"
        script.write_text(f'#!/bin/sh\necho "$*" >>{notes}\n{body}\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return notes

    return install


def panes(count: int) -> list[Pane]:
    return [Pane(f"h:{number}", (str(number),)) for number in range(count)]


def taken_by_tmux(argument: str) -> tuple[str, bool]:
    """Return the argument as tmux's own parser takes it, and whether it ends the command."""
    if not argument.endswith(";"):
        return argument, False
    if argument.endswith("\\;"):
        return f"{argument[:-2]};", False
    return argument[:-1], True


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_any_argument_reaches_the_command_as_it_is(word: str) -> None:
    assert taken_by_tmux(literal(word)) == (word, False)


@given(st.text())
def test_a_name_is_no_format_that_runs_commands(text: str) -> None:
    for hostile in (text, f"#({text})", f"{text};"):
        assert "#" not in plain_name(hostile)
        assert plain_name(hostile).isprintable()


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ("split-window", "no space for new pane"),
        ("split-window", "can't find pane \x1b[31m"),
        ("select-layout", "no such window"),
    ],
)
def test_a_window_that_can_not_be_made_whole_is_killed(failing: str, said: str, fake_tmux: FakeTmux) -> None:
    notes = fake_tmux(
        f"case $1 in {failing}) printf '%s\\n' \"{said}\" >&2; exit 1;; new-window) echo '$1 @2 %3';;"
        " split-window) echo '$1 @2 %4';; esac"
    )

    with pytest.raises(TmuxFailed) as caught:
        open_window("0-3", panes(4), None, ())

    assert caught.value.exit_status == 1
    assert str(caught.value).isprintable()
    assert notes.read_text().splitlines()[-1] == "kill-window -t @2"
