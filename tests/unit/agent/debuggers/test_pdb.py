"""The rank's own pdb on a real stop, over prompts and a log."""

from __future__ import annotations

import json
import pdb
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dbg_agent.frames.capture import Capture, redirected
from dbg_agent.rank.rank import Rank
from dbg_agent.settings import Settings
from dbg_agent.stop.inbox import RunJob
from dbg_wire.codec import Input, Output, decode_data
from dbg_wire.limits import MAX_LOG
from dbg_wire.messages import Action, Ask, Complete, PromptState, Replay, Reply, Sender, Viewers
from tests.unit.agent.pdb_driver import SECONDS, Driver, drive, interrupt, play, train

STATES = {
    "(Pdb) ": PromptState.COMMAND,
    "((Pdb)) ": PromptState.COMMAND,
    "...   ": PromptState.MORE,
    ">>> ": PromptState.INTERACT,
    "... ": PromptState.INTERACT,
    "(com) ": PromptState.COMMANDS,
    "name? ": PromptState.INPUT,
    "Clear all breaks? ": PromptState.INPUT,
    "[...] ": PromptState.CONFIRM,
}
"""What each prompt of the sessions asks for."""

SESSIONS = {
    section.partition("\n")[0]: section.rstrip("\n").split("\n")[1:]
    for section in Path(__file__).with_name("sessions.txt").read_text().split("\n== ")[1:]
}


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_typed_commands_work_as_in_pdb_and_never_end_the_rank(driver: Driver, session: list[str]) -> None:
    line = str(train.__code__.co_firstlineno + 4)

    def script() -> None:
        before = ""
        for row in session:
            prompt = next((one for one in STATES if row.startswith(one)), None)
            if prompt is None:
                # A new stop has a log of its own.
                assert row in driver.text.removeprefix(before)
                continue
            asked = driver.prompt()
            assert asked.state is STATES[prompt]
            assert prompt in ("[...] ", asked.text)
            before = driver.text.removesuffix(asked.text)
            typed = row.removeprefix(prompt).replace("LINE", line)
            if typed == "^C":
                driver.pass_over_prompt()
                interrupt(driver)
            else:
                driver.reply(typed)
            driver.prompt()
        driver.reply("c")

    assert play(driver, script) == 7
    assert sys.gettrace() is None
    assert driver.rank.stops.number == 1 + ("(Pdb) c" in session)


def test_assignments_persist_blocks_run_whole_and_continue_answers_the_quit_question(
    driver: Driver,
) -> None:
    def script() -> None:
        driver.reply("total = 100")
        assert driver.output_of("for i in range(3):\n    print(i)\n") == "0\n1\n2\n"
        assert driver.output_of("a = 1\na + 1") == "2\n"
        driver.reply("q")
        driver.reply("c")

    assert play(driver, script) == 106


@pytest.mark.parametrize("command", ["p input('? ')", "input('? ')", "whatis input('? ')"])
def test_continue_ends_an_expression_that_waits_for_input(driver: Driver, command: str) -> None:
    def script() -> None:
        driver.reply(command)
        assert driver.prompt().text == "? "
        driver.rank.from_broker.on_message(Ask(request=4, action=Action.CONTINUE))
        driver.wait_for(lambda: driver.heard("answer"), "the answer")

    assert play(driver, script) == 7


def torch_dynamo_resume_in_forward_at_2(rank: Rank) -> int:
    loss = rank.number + 7
    assert loss
    return loss


__resume_at_2 = torch_dynamo_resume_in_forward_at_2


def forward(rank: Rank) -> int:
    """Stand for a function that torch.compile has split at a stop: C code compiles the rest before it runs."""
    # fmt: off
    rank.stopping.stop(sys._getframe(), "breakpoint"); json.dumps([rank.number]); return __resume_at_2(rank)  # noqa: E702
    # fmt: on


@pytest.mark.parametrize("step", ["n", "s"])
def test_a_step_from_a_stop_in_a_compiled_function_stays_in_it(driver: Driver, step: str) -> None:
    def script() -> None:
        driver.prompt()
        assert "forward()" in driver.text
        driver.reply(step)
        driver.reply("n")
        assert driver.output_of("p loss") == "7\n"
        driver.reply("c")

    finish = drive(driver, script)
    assert forward(driver.rank) == 7
    finish()


def _dbg_agent_redirected() -> int:
    """Stand for a function of a stock debugger, which has our code."""
    return 1


def with_stock_call(rank: Rank) -> int:
    rank.stopping.stop(sys._getframe(), "breakpoint")
    total = 6
    total += _dbg_agent_redirected()
    return total


def test_a_step_does_not_enter_a_redirected_function(driver: Driver) -> None:
    def script() -> None:
        for _ in range(4):
            driver.reply("s")
        driver.prompt()
        assert ")_dbg_agent_redirected()" not in driver.text
        driver.reply("c")

    finish = drive(driver, script)
    assert with_stock_call(driver.rank) == 7
    finish()


def callback() -> int:
    """Stand for a call that may come between any two instructions, such as a garbage collector's callback."""
    return 1


def test_code_that_runs_while_tracing_is_set_up_ends_no_stop(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    set_trace = pdb.Pdb.set_trace

    def with_callback(self: pdb.Pdb, frame: FrameType | None = None) -> None:
        set_trace(self, frame)
        callback()

    monkeypatch.setattr(pdb.Pdb, "set_trace", with_callback)

    def script() -> None:
        assert driver.output_of("p total") == "1\n"
        driver.reply("n")
        assert "total += 2" in driver.output_of("list .")
        driver.reply("c")

    assert play(driver, script) == 7


def test_a_call_on_the_line_of_the_stop_is_the_first_step(driver: Driver) -> None:
    def script() -> None:
        driver.prompt()
        # From 3.13 on the first stop is still on the line of its call.
        while "--Call--" not in driver.text:
            driver.reply("s")
            driver.prompt()
        assert "stop(sys._getframe()) + callback()" in driver.output_of("up")
        driver.reply("c")

    def stop(frame: FrameType) -> int:
        driver.rank.stopping.stop(frame, "breakpoint")
        return 1

    def work() -> int:
        return stop(sys._getframe()) + callback()

    finish = drive(driver, script)
    assert work() == 2
    finish()


def test_other_threads_print_as_usual_during_a_stop(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    def script() -> None:
        driver.reply("name = input('name? ')")
        driver.prompt()
        other = threading.Thread(target=lambda: print("elsewhere"))  # noqa: T201
        other.start()
        other.join()
        driver.reply("nan")
        driver.reply("c")

    before = sys.stdin, sys.stdout
    assert play(driver, script) == 7
    assert (sys.stdin, sys.stdout) == before
    assert capsys.readouterr().out == "elsewhere\n"


def test_a_reply_counts_once_and_only_for_its_prompt(driver: Driver) -> None:
    def script() -> None:
        first = driver.reply("total += 10")
        driver.prompt()
        replies = [(first.number, 1, 10), (first.number + 99, 1, 100), (driver.prompt().number, 7, 1000)]
        for prompt, generation, number in replies:
            driver.rank.from_broker.on_message(Reply(prompt=prompt, generation=generation, text=f"total += {number}"))
        assert driver.output_of("p total") == "11\n"
        driver.reply("c")

    assert play(driver, script) == 17
    # The one that was sent again was taken, and is answered so.
    assert [one["taken"] for one in driver.heard("replied")][1:4] == [True, False, False]


def test_the_log_is_replayed_from_any_offset_and_includes_typed_text(driver: Driver) -> None:
    def script() -> None:
        driver.reply("p 'first'")
        driver.prompt()
        kept, driver.log = bytes(driver.log), bytearray()
        driver.rank.from_broker.on_message(Replay(session=driver.session, offset=0))
        assert bytes(driver.log) == kept
        assert b"(Pdb) p 'first'\n'first'\n" in kept
        driver.reply("c")

    assert play(driver, script) == 7


def test_a_full_log_is_replayed_in_parts_that_fit_the_outgoing_queue() -> None:
    rank = Rank(Settings(engine="pdb"))
    outgoing = rank.link.outgoing
    rank.debuggers.terminal.seat(Viewers(viewers=1, generation=1, rows=30, columns=100, colors=8))
    rank.debuggers.terminal.start(1)
    rank.debuggers.console.start()
    rank.debuggers.console.write("x" * 99 + "\n")
    for _ in range(20):
        rank.debuggers.console.write(("y" * 99 + "\n") * 1000)
    outgoing.open()
    got, offset = bytearray(), 2_000_100 - MAX_LOG
    while offset < 2_000_100:
        rank.debuggers.console.replay(1, offset)
        assert not outgoing.needs_redraw
        while isinstance(frame := outgoing.pop(), bytes):
            output = decode_data(frame, Sender.AGENT)
            assert isinstance(output, Output)
            assert output.offset == offset
            got += output.data
            offset += len(output.data)
    assert got == ((b"y" * 99 + b"\n") * 20_000)[-MAX_LOG:]


# ------------------------------------------------------------------------------------------------------- completion


class Optimizer:
    """An object with attributes, and with some whose look-up takes a minute, never ends, or fails."""

    momentum = 0.9
    moments = 2

    @property
    def minute(self) -> Optimizer:
        time.sleep(60)
        return self

    @property
    def endless(self) -> Optimizer:
        while True:
            pass

    @property
    def broken(self) -> Optimizer:
        raise SystemExit("not me")


def learn(rank: Rank) -> int:
    optimizer = Optimizer()
    next_batch = 1
    rank.stopping.stop(sys._getframe(), "breakpoint")
    del optimizer
    return next_batch


def completions(driver: Driver, line: str, start: int) -> list[str]:
    """Return the completions of the end of a line."""
    driver.messages[:] = [one for one in driver.messages if one["type"] != "completions"]
    number = driver.prompt().number
    asked = Complete(request=1, prompt=number, generation=1, line=line, start=start, end=len(line))
    driver.rank.from_broker.on_message(asked)
    driver.wait_for(lambda: driver.heard("completions"), f"completions of {line}")
    found: Any = driver.heard("completions")[0]["matches"]
    return list(found)


MOMENTS = ["optimizer.moments", "optimizer.momentum"]


def test_expressions_and_commands_are_completed_wherever_they_begin(driver: Driver) -> None:
    def script() -> None:
        for line, start, matches in [
            ("optimizer.mom", 0, MOMENTS),
            ("opti", 0, ["optimizer"]),
            ("nex", 0, ["next", "next_batch"]),
            ("!optimizer.mome", 0, ["!optimizer.moments", "!optimizer.momentum"]),
            ("x = optimizer.mom", 4, MOMENTS),
            ("len(optimizer.mom", 4, MOMENTS),
            ("for i in next", 9, ["next_batch"]),
            ("p optimizer.mom", 2, MOMENTS),
            ("unti", 0, ["until"]),
            ("nobody.no", 0, []),
        ]:
            assert completions(driver, line, start) == matches
        of_nothing = completions(driver, "", 0)
        assert "next" in of_nothing
        assert "next_batch" not in of_nothing
        driver.reply("c")

    finish = drive(driver, script)
    learn(driver.rank)
    finish()


@pytest.mark.parametrize(
    ("attributes", "is_main"), [(["minute", "endless", "broken"], True), (["minute"], False)], ids=["main", "thread"]
)
def test_a_completion_that_fails_or_never_ends_is_empty_and_keeps_the_prompt(
    driver: Driver, attributes: list[str], is_main: bool
) -> None:
    """Outside of the main thread nothing runs, since it could not be interrupted."""

    def script() -> None:
        for attribute in attributes:
            assert completions(driver, f"p optimizer.{attribute}.mom", 2) == []
            assert completions(driver, "p optimizer.mom", 2) == (MOMENTS if is_main else [])
        assert completions(driver, "p optimize", 2) == ["optimizer"]
        assert driver.output_of("p 6 * 7") == "42\n"
        driver.reply("c")

    finish = drive(driver, script)
    if is_main:
        learn(driver.rank)
    else:
        thread = threading.Thread(target=learn, args=(driver.rank,))
        thread.start()
        thread.join(SECONDS)
    finish()


# ---------------------------------------------------------------------------------------------------- PuDB and pdb


class Switching:
    """A terminal that changes between PuDB and pdb at a stop, and types into PuDB."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._rank = driver.rank

    def start(self) -> None:
        """Step in pdb to where ``total`` is 2, with a breakpoint set two lines on, and open PuDB."""
        self._driver.reply(f"b {train.__code__.co_firstlineno + 5}")
        if sys.version_info >= (3, 13):
            # This pdb begins on the line of the stop itself, and not on the next.
            self._driver.reply("n")
        self._driver.reply("n")
        self._driver.prompt()
        self.opens("pudb")

    def ask_for(self, engine: str) -> None:
        viewers = Viewers(viewers=1, generation=1, rows=30, columns=100, colors=256, engine=engine)
        self._rank.from_broker.on_message(viewers)

    def waits_for(self, engine: str) -> None:
        self._driver.wait_for(lambda: self._rank.stops.engine == engine, engine)

    def opens(self, engine: str) -> None:
        self.ask_for(engine)
        self.waits_for(engine)

    def type(self, keys: bytes, offset: int = 0) -> None:
        stop, session = self._rank.stops.current
        self._rank.from_broker.on_input(Input(session or 0, stop or 0, 1, offset, keys))

    def waits_for_keys(self, count: int) -> None:
        self._driver.wait_for(lambda: self._rank.inbox.settled()[1] == count, f"key {count}")


def play_switching(driver: Driver, script: Callable[[Switching], None]) -> None:
    """Play a script that ends in pdb, a step of PuDB behind its begin."""

    def whole() -> None:
        switching = Switching(driver)
        switching.start()
        script(switching)
        switching.waits_for("pdb")
        assert driver.output_of("p total") == "4\n"
        assert "breakpoint" in driver.output_of("b")
        driver.reply("c")

    assert play(driver, whole) == 7
    assert driver.rank.stops.number == 1


def test_pudb_and_pdb_alternate_at_one_stop(driver: Driver) -> None:
    def script(switching: Switching) -> None:
        switching.type(b"n")
        switching.waits_for_keys(1)
        switching.opens("pdb")

    play_switching(driver, script)


def test_keys_typed_before_a_change_of_debugger_are_reported_lost(driver: Driver) -> None:
    def script(switching: Switching) -> None:
        released = threading.Event()

        def wait() -> None:
            assert released.wait(SECONDS)

        driver.rank.inbox.put(driver.rank.stops.number, RunJob(wait))
        switching.type(b"nn")
        switching.ask_for("pdb")
        released.set()
        switching.waits_for("pdb")
        driver.wait_for(lambda: driver.heard("discarded"), "what is lost")
        assert [(one["offset"], one["count"]) for one in driver.heard("discarded")] == [(2, 2)]
        assert driver.output_of("p total") == "2\n"
        switching.opens("pudb")
        switching.type(b"n", offset=2)
        switching.waits_for_keys(3)
        switching.opens("pdb")

    play_switching(driver, script)


@pytest.mark.parametrize(
    ("terminal", "stop", "rank", "fallback", "opened"),
    [
        ("pdb", "pudb", "pudb", "pudb", "pdb"),
        (None, "pdb", "pudb", "pudb", "pdb"),
        (None, None, "pdb", "pudb", "pdb"),
        (None, None, None, "pdb", "pdb"),
        (None, None, None, None, "pudb"),
    ],
)
def test_the_preferred_engine_is_chosen(
    terminal: str | None, stop: str | None, rank: str | None, fallback: str | None, opened: str
) -> None:
    this = Rank(Settings(engine=rank))
    this.debuggers.stop_begins(stop)
    this.debuggers.terminal.seat(
        Viewers(viewers=1, generation=1, rows=30, columns=99, colors=8, engine=terminal, fallback_engine=fallback)
    )
    assert this.debuggers.preferred() == opened


def test_captures_that_end_in_the_order_they_began_restore_the_streams() -> None:
    before = sys.stdin, sys.stdout
    first, second = redirected(Capture()), redirected(Capture())
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert (sys.stdin, sys.stdout) == before
