"""The console holds back the begin of a line, which may be a prompt, and shows it after a while."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from dbg_agent.debuggers.console import MAX_TAIL, Console, Terminal
from dbg_agent.stop.inbox import TypedLine
from dbg_wire.codec import Output, decode_data
from dbg_wire.limits import MAX_COLUMNS, MAX_DATA_BYTES, MAX_ROWS, MIN_COLUMNS, MIN_ROWS
from dbg_wire.messages import PromptState, Sender, Viewers
from tests.unit.agent.pdb_driver import SECONDS, Driver


class Shown:
    """A console whose timers run out when a test says so."""

    def __init__(self, driver: Driver) -> None:
        self._timers: list[Callable[[], None]] = []
        driver.network.later = lambda seconds, call: self._timers.append(call)
        self.driver = driver
        self.console: Console = driver.rank.debuggers.console
        self.terminal = driver.rank.debuggers.terminal

    def write(self, *texts: str) -> None:
        for text in texts:
            self.console.write(text)

    def run_out(self, timer: int) -> None:
        self._timers[timer]()

    def lines(self) -> tuple[str, ...]:
        return self.console.last_lines(5)

    @property
    def timers(self) -> int:
        return len(self._timers)


@pytest.fixture
def shown(driver: Driver) -> Shown:
    return Shown(driver)


def test_the_beginning_of_a_line_is_shown_after_a_while(shown: Shown) -> None:
    shown.write("half")
    assert shown.lines() == ()
    shown.run_out(0)
    assert shown.lines() == ("half",)
    shown.write(" and half")
    shown.run_out(1)
    assert shown.lines() == ("half and half",)


def test_a_prompt_is_not_shown_when_the_line_before_it_is_due(shown: Shown) -> None:
    shown.write("42", "\n", "(Pdb) ")
    shown.run_out(0)
    assert shown.lines() == ("42",)
    shown.run_out(1)
    assert shown.lines() == ("42", "(Pdb) ")


def test_lines_that_are_written_in_pieces_have_one_timer(shown: Shown) -> None:
    shown.write("\r10%", "\r20%", "\r30%")
    assert shown.timers == 1
    shown.run_out(0)
    assert "".join(shown.lines()) == "10%20%30%"
    for number in range(1000):
        shown.write(f"{number}", "\n")
    shown.write("(Pdb) ")
    assert shown.timers == 2
    shown.run_out(1)
    assert (shown.lines()[-1], shown.timers) == ("999", 3)
    shown.run_out(2)
    assert shown.lines()[-1] == "(Pdb) "


def test_a_text_too_long_for_a_prompt_is_shown_at_once(shown: Shown) -> None:
    shown.write("x" * MAX_TAIL)
    assert shown.lines() == ()
    shown.write("x")
    assert shown.lines() == ("x" * (MAX_TAIL + 1),)


def test_output_of_a_finalizer_within_a_line_follows_the_line(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    write = shown.terminal.write

    def collecting_garbage(data: bytes) -> None:
        monkeypatch.setattr(shown.terminal, "write", write)
        shown.write("dropped\n", "and ")
        shown.terminal.write(data)

    monkeypatch.setattr(shown.terminal, "write", collecting_garbage)
    # A console that waits for a lock of its own never ends, so another thread writes.
    writing = threading.Thread(target=shown.write, args=("loss 3\n", "next\n"), daemon=True)
    writing.start()
    writing.join(SECONDS)
    assert not writing.is_alive()
    assert shown.lines() == ("loss 3", "dropped", "and next")


def test_no_timer_runs_for_a_line_begun_while_a_prompt_is_open(shown: Shown) -> None:
    shown.write("half")
    asking = threading.Thread(target=shown.console.ask, args=(PromptState.COMMAND,), daemon=True)
    asking.start()
    assert shown.driver.prompt().text == "half"
    shown.run_out(0)
    shown.write("more")
    assert shown.timers == 1
    shown.driver.rank.inbox.put(shown.driver.rank.stops.number, TypedLine("", 1))
    asking.join(SECONDS)
    assert shown.timers == 2


def test_a_prompt_accepts_one_reply_and_is_closed_by_it_at_once(shown: Shown) -> None:
    """Whoever gets the keyboard before the stopped thread has woken up must not answer the prompt, too."""
    rank = shown.driver.rank
    replies: list[str] = []
    rank.inbox.put(rank.stops.number, TypedLine("rm -r", 0))
    asking = threading.Thread(target=lambda: replies.append(shown.console.ask(PromptState.COMMAND)))
    asking.start()
    shown.driver.wait_for(lambda: shown.driver.heard("replied"), "that the reply is refused")
    prompt = shown.driver.prompt()
    assert not shown.console.reply(prompt.number - 1, "early")
    assert shown.console.reply(prompt.number, "p x")
    assert shown.console.prompt is None
    assert not shown.console.reply(prompt.number, "second")
    asking.join(SECONDS)
    assert replies == ["p x"]
    (refusal,) = shown.driver.heard("replied")
    assert (refusal["prompt"], refusal["taken"]) == (0, False)


def viewers(viewers: int, rows: int = 30, columns: int = 100) -> Viewers:
    return Viewers(viewers=viewers, generation=1, rows=rows, columns=columns, colors=256)


def outputs(frames: list[bytes]) -> list[Output]:
    decoded = [decode_data(frame, Sender.AGENT) for frame in frames]
    return [frame for frame in decoded if isinstance(frame, Output)]


def test_output_is_tagged_and_counted_without_viewers_and_split_without_a_gap() -> None:
    frames: list[bytes] = []
    terminal = Terminal(frames.append)
    terminal.start(3)
    terminal.write(b"unseen")
    assert frames == []
    terminal.seat(viewers(1))
    terminal.write(b"seen")
    assert outputs(frames) == [Output(3, 6, b"seen")]
    terminal.start(4)
    data = bytes(range(256)) * (MAX_DATA_BYTES // 128)
    terminal.write(data)
    assert outputs(frames)[1:] == [Output(4, at, data[at:][:MAX_DATA_BYTES]) for at in (0, MAX_DATA_BYTES)]


def test_sizes_are_bounded_and_only_changes_are_reported() -> None:
    terminal = Terminal(lambda _frame: None)
    assert terminal.seat(viewers(1, rows=30, columns=100))
    assert not terminal.seat(viewers(2, rows=30, columns=100))
    assert terminal.seat(viewers(1, rows=0, columns=0))
    assert (terminal.rows, terminal.columns) == (MIN_ROWS, MIN_COLUMNS)
    assert terminal.seat(viewers(1, rows=10**6, columns=10**6))
    assert (terminal.rows, terminal.columns) == (MAX_ROWS, MAX_COLUMNS)
    assert not terminal.seat(viewers(0, rows=30, columns=100)), "nobody's size does not count"
