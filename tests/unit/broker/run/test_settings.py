"""The settings of ``run``, and their checks."""

from __future__ import annotations

import os
import select
import signal
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.cli.main import parse, run_settings
from dbg_broker.home.private_files import open_home
from dbg_broker.home.rendezvous import write_rendezvous
from dbg_broker.home.tokens import job_token
from dbg_broker.run.environment import token_file_of
from dbg_broker.run.own_broker import (
    StartedBy,
    format_started,
    notes_on,
    options_of,
    words_of,
)
from dbg_broker.run.plan import find_again, notes_of_unfound, text_of
from dbg_broker.run.settings import Option, Options, RunOptions, RunSettings, check, command_of
from dbg_broker.run.terminal import Wakeup
from dbg_broker.settings import EventCommand, ServeSettings, serve_settings
from dbg_wire.errors import BadInput
from dbg_wire.finding.rendezvous import Rendezvous
from dbg_wire.records.stop_points import StopAt, StopIn
from tests.conftest import Approved
from tests.support.reach import PIN, TOKENS
from tests.support.time_unit import seconds

COMMAND = ("python", "train.py")


def told(options: RunOptions | None = None, *, command: tuple[str, ...] = COMMAND, again: bool = False) -> RunSettings:
    return RunSettings(home="/h", directory="/work/it", options=options or RunOptions(), command=command, again=again)


@pytest.mark.parametrize(
    "options",
    [
        RunOptions(),
        RunOptions(stop_at=("a.py:1", "a b.py:20, x > 1"), stop_in=("a.b:C.m",)),
        RunOptions(ranks="0-3,7", rank_filter="gpu1:*,!5", engine="pdb", post_mortem=True),
        RunOptions(collective_timeout="600", hang_after="0", listen="0.0.0.0:0"),
        RunOptions(hang_after="300", on_hang="end"),
    ],
)
def test_what_can_be_used_stays_as_typed(options: RunOptions) -> None:
    assert check(told(options)) == told(options)


@pytest.mark.parametrize(
    "options",
    [
        RunOptions(stop_at=("train.py",)),
        RunOptions(stop_at=("train.py:0",)),
        RunOptions(stop_at=("train.py:3, x =",)),
        RunOptions(stop_in=("module",)),
        RunOptions(stop_at=tuple(f"a.py:{line}" for line in range(1, 101)), stop_in=("a:f",)),
        RunOptions(ranks="3-x"),
        RunOptions(engine="gdb\x1b"),
        RunOptions(hang_after="soon"),
        RunOptions(hang_after="300", on_hang="kill"),
        RunOptions(on_hang="report"),
        RunOptions(collective_timeout="ten"),
        RunOptions(collective_timeout="nan"),
        RunOptions(collective_timeout="-1"),
        RunOptions(collective_timeout="1e8"),
        RunOptions(rank_filter="other/0-3"),
        RunOptions(rank_filter="[["),
        RunOptions(listen="h:x"),
    ],
)
def test_what_can_not_be_used_is_refused_with_its_value(approved: Approved, options: RunOptions) -> None:
    with pytest.raises(BadInput) as refused:
        check(told(options))
    approved(str(refused.value))
    assert str(refused.value).isprintable()


def test_one_of_a_command_and_again_is_given(approved: Approved) -> None:
    assert check(told(command=(), again=True)).again
    with pytest.raises(BadInput) as caught:
        check(told(again=True))
    approved(str(caught.value))
    with pytest.raises(BadInput, match="no command"):
        check(told(command=()))


def test_what_is_given_now_goes_before_what_was_typed_last_time() -> None:
    last = RunOptions(stop_at=("a.py:1",), stop_in=("a:f",), ranks="0", engine="pdb", post_mortem=True)
    assert last.with_changes(RunOptions()) == last
    assert last.with_changes(RunOptions(ranks="1", output="/o")) == replace(last, ranks="1", output="/o")


def test_an_option_of_the_broker_replaces_those_of_its_name() -> None:
    last = RunOptions(broker=(Option("--allow", "::1"), Option("--audit-input"), Option("--allow", "::2")), pty=True)
    changed = last.with_changes(RunOptions(broker=(Option("--allow", "::3"),), pty=False))
    assert changed == RunOptions(broker=(Option("--audit-input"), Option("--allow", "::3")), pty=False)
    assert last.with_changes(RunOptions()) == last


@pytest.mark.parametrize(
    ("words", "behind", "command"),
    [
        ([], ["srun", "--", "x"], ("srun", "--", "x")),
        (["srun", "-n2"], None, ("srun", "-n2")),
        (["srun"], ["python", "--", "x"], ("srun", "--", "python", "--", "x")),
        ([], [], ()),
        ([], None, ()),
    ],
)
def test_the_first_double_dash_is_ours_where_it_stands_before_the_command(
    words: list[str], behind: list[str] | None, command: tuple[str, ...]
) -> None:
    assert command_of(words, behind) == command


WORDS = ["--allow", "10.0.0.0/8", "--allow", "::1", "--audit-input"]
WORDS += ["--on-event", "sh -c 'cat > told'", "--max-lease", "8h"]


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
        (["--on-event", "no-such-program"], "no program here"),
        (["--max-lease", "soon"], "--max-lease 'soon'"),
    ],
)
def test_what_can_not_be_used_is_refused_before_anything_is_started(words: list[str], named: str) -> None:
    with pytest.raises(BadInput, match=named):
        broker_options(words, "/work")


ALLOW, LEASE = Option("--allow", "10.0.0.0/8"), Option("--max-lease", "8h")
HIDDEN = Option("--event-directory", "/work")


def test_a_broker_that_serves_already_is_told_of_in_one_sentence(approved: Approved) -> None:
    url = "wss://login1:6900"
    assert list(notes_on((), (), url)) == []
    assert list(notes_on((ALLOW, HIDDEN), (ALLOW, HIDDEN), url)) == []
    (both,) = notes_on((ALLOW, LEASE), (), url)
    approved(both)
    (near,) = notes_on((LEASE,), (), url, 4711)
    approved(near, "2")
    (other,) = notes_on((LEASE,), (ALLOW, Option("--max-lease", "1h")), url)
    assert "--max-lease changes nothing there" in other
    (left,) = notes_on((), (ALLOW, Option("--audit-input"), HIDDEN), url)
    approved(left, "3")


OPTIONS = st.lists(st.builds(Option, st.text(), st.none() | st.text())).map(tuple)


@given(options=OPTIONS)
def test_later_runs_read_what_was_told_of_this_broker_and_no_other(options: tuple[Option, ...]) -> None:
    text = format_started(StartedBy("login1", 4711, options))
    assert options_of(text, "login1", 4711) == options
    assert options_of(text, "login2", 4711) == options_of(text, "login1", 4712) == ()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return open_home(str(tmp_path / "home"))


def serving(home: Path) -> None:
    told = Rendezvous(url="wss://h:1", host="h", pid=7, fingerprint=PIN, tokens={"rank": TOKENS["rank"]})
    write_rendezvous(home, told)


def test_the_file_holds_a_token_of_the_job(home: Path) -> None:
    serving(home)
    path = token_file_of("train-1", str(home), {})
    assert path is not None
    assert Path(path).read_text().strip() == job_token(TOKENS["rank"], "train-1")


@pytest.mark.parametrize("chosen", ["DBG_BROKER", "DBG_TOKEN", "DBG_TOKEN_FILE"])
def test_what_the_user_has_chosen_is_left_alone(home: Path, chosen: str) -> None:
    serving(home)
    assert token_file_of("train-1", str(home), {chosen: "x"}) is None


def test_a_run_inside_of_another_ones_job_has_a_token_of_its_own(home: Path) -> None:
    serving(home)
    outer = token_file_of("train-1", str(home), {})
    assert outer is not None
    inner = token_file_of("train-1-2", str(home), {"DBG_TOKEN_FILE": outer})
    assert inner is not None
    assert Path(inner).read_text().strip() == job_token(TOKENS["rank"], "train-1-2")


LINES = st.lists(st.sampled_from(["", "x = 1", "  x = 1", "y = 2", "z()", "\tz()"]), max_size=8)


@given(LINES, st.integers(0, 9), LINES)
def test_a_line_whose_text_is_there_once_is_found_after_any_edit(before: list[str], at: int, after: list[str]) -> None:
    lines = [*before, "the_stop()", *after]
    assert find_again(lines, at, text_of(["  the_stop()"], 1)) == len(before) + 1


@given(LINES, st.integers(-2, 10), st.none() | st.sampled_from(["x = 1", "y = 2", "z()", "w"]))
def test_the_answer_has_the_text_or_is_the_number_asked_with(lines: list[str], number: int, text: str | None) -> None:
    found = find_again(lines, number, text)
    assert found == number or (text is not None and text_of(lines, found) == text)


COMMAND_UNFOUND = ("python", "src/train.py")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("train.py", "src/train.py", "src/pkg/__init__.py", "src/pkg/model.py", ".git/hidden.py"):
        path = tmp_path / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise SystemExit('was run')\n")
    (tmp_path / "library" / "deep").mkdir(parents=True)
    (tmp_path / "library" / "deep" / "kernels.py").write_text("")
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"))
    return tmp_path / "here"


def notes(folder: Path, *stops: StopAt | StopIn) -> list[str]:
    return notes_of_unfound(stops, str(folder), COMMAND_UNFOUND)


@pytest.mark.parametrize(
    "file", ["train.py", "train", "src/pkg/model.py", "model.py", "pkg/model", "deep/kernels.py", "kernels"]
)
def test_a_file_below_the_directory_or_on_the_path_is_found(folder: Path, file: str) -> None:
    assert notes(folder, StopAt(file=file, line=1)) == []
    assert notes(folder, StopAt(file=str(folder / "train.py"), line=1)) == []


@pytest.mark.parametrize("stop", ["trian.py", "trian", "pkg/modle", "hidden.py", "/no/such.py", "a\x1bb"])
def test_a_file_that_is_nowhere_is_told(approved: Approved, folder: Path, stop: str) -> None:
    approved("\n".join(notes(folder, StopAt(file=stop, line=307))))


def wakes(wakeup: Wakeup) -> bool:
    """Return whether the wakeup becomes readable in time, and drain it."""
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    woken = bool(poll.poll(seconds(20) * 1000))
    wakeup.drain()
    return woken


def is_quiet(wakeup: Wakeup) -> bool:
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    return not poll.poll(0)


def test_a_signal_wakes_and_is_handled() -> None:
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    with Wakeup({signal.SIGUSR1: note, signal.SIGHUP: note}) as wakeup:
        wakes(wakeup)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert wakes(wakeup)
        os.kill(os.getpid(), signal.SIGHUP)
        assert wakes(wakeup)
        assert is_quiet(wakeup)
    assert came == [signal.SIGUSR1, signal.SIGHUP]


def test_afterwards_all_is_as_before() -> None:
    numbers = (signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with Wakeup({signal.SIGINT: lambda *_: None, signal.SIGHUP: lambda *_: None}) as wakeup:
        read_end = wakeup.fileno()
        assert [signal.getsignal(number) for number in numbers] != before

    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.set_wakeup_fd(-1) == -1
    assert not Path(f"/proc/self/fd/{read_end}").exists()
