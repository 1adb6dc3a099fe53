"""The options that a run hands to a broker of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.cli.main import parse, run_settings
from dbg_broker.run.own_broker import (
    StartedBy,
    format_started,
    notes_on,
    options_of,
    words_of,
)
from dbg_broker.run.settings import Option, Options, check
from dbg_broker.settings import EventCommand, ServeSettings, serve_settings
from dbg_wire.errors import BadInput
from tests.conftest import Approved

WORDS = ["--allow", "10.0.0.0/8", "--allow", "::1", "--audit-input", "--record", "casts", "--record-input"]
WORDS += ["--record-max", "1G", "--on-event", "sh -c 'cat > told'", "--max-lease", "8h"]


def broker_options(words: list[str], directory: str) -> Options:
    """Return what a run in this directory hands to a broker of its own. Raise BadInput."""
    settings = run_settings(parse(["run", *words, "--", "true"]))
    return check(replace(settings, directory=directory)).options.broker


def served(words: list[str], directory: str) -> ServeSettings:
    """Return what the run's broker makes of the options; it runs at the root."""
    told = ["serve", *words_of(broker_options(words, directory))]
    return serve_settings(parse(told), {"DBG_HOME": "/h"}, "/")


def test_the_broker_has_what_serve_makes_of_the_same_words_in_the_directory_of_the_run() -> None:
    typed = serve_settings(parse(["serve", *WORDS]), {"DBG_HOME": "/h"}, "/work")
    assert served(WORDS, "/work") == replace(typed, on_event=EventCommand(("sh", "-c", "cat > told"), "/work"))
    assert broker_options([], "/work") == ()


def test_a_program_of_the_directory_is_found_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "-tell me.sh"
    program.touch(0o700)
    settings = served(["--on-event", "'./-tell me.sh' --now"], str(tmp_path))
    assert settings.on_event == EventCommand((f"{tmp_path}/./-tell me.sh", "--now"), str(tmp_path))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--allow", "10.0.0.0/40"], "--allow '10.0.0.0/40' is no network"),
        (["--record", ""], "--record is empty"),
        (["--record-input"], "nothing is recorded"),
        (["--record", "d", "--record-max", "1K"], "--record-max '1K'"),
        (["--on-event", "no-such-program"], "no program here"),
        (["--max-lease", "soon"], "--max-lease 'soon'"),
    ],
)
def test_what_can_not_be_used_is_refused_before_anything_is_started(words: list[str], named: str) -> None:
    with pytest.raises(BadInput, match=named):
        broker_options(words, "/work")


RECORD, LEASE = Option("--record", "/it's"), Option("--max-lease", "8h")
HIDDEN = Option("--event-directory", "/work")


def test_a_broker_that_serves_already_is_told_of_in_one_sentence(approved: Approved) -> None:
    url = "wss://login1:6900"
    assert list(notes_on((), (), url)) == []
    assert list(notes_on((RECORD, HIDDEN), (RECORD, HIDDEN), url)) == []
    (both,) = notes_on((RECORD, LEASE), (), url)
    approved(both)
    (near,) = notes_on((LEASE,), (), url, 4711)
    approved(near, "2")
    (other,) = notes_on((LEASE,), (RECORD, Option("--max-lease", "1h")), url)
    assert "--max-lease changes nothing there" in other
    (left,) = notes_on((), (RECORD, Option("--audit-input"), HIDDEN), url)
    approved(left, "3")


OPTIONS = st.lists(st.builds(Option, st.text(), st.none() | st.text())).map(tuple)


@given(options=OPTIONS)
def test_later_runs_read_what_was_told_of_this_broker_and_no_other(options: tuple[Option, ...]) -> None:
    text = format_started(StartedBy("login1", 4711, options))
    assert options_of(text, "login1", 4711) == options
    assert options_of(text, "login2", 4711) == options_of(text, "login1", 4712) == ()


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"host":"h","pid":1}', '{"host":"h","pid":1,"options":[[1]]}'])
def test_what_no_run_has_written_tells_of_no_options(text: str | None) -> None:
    assert options_of(text, "h", 1) == ()
