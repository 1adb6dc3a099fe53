"""The rank's own pdb on a real stop, over prompts and a log."""

from __future__ import annotations

import pdb
import sys
import threading
import time
from types import FrameType

import pytest

from dbg_agent.rank.rank import Rank
from dbg_agent.settings import Settings
from dbg_agent.stop.inbox import RunJob
from dbg_wire.codec import Input, Output, decode_data
from dbg_wire.limits import MAX_LOG
from dbg_wire.messages import Audience, Complete, PromptState, Replay, Reply, Sender
from tests.unit.agent.pdb_driver import SECONDS, Driver, drive, play, train


def test_commands_expressions_and_steps(driver: Driver) -> None:
    def script() -> None:
        assert driver.prompt().text == "(Pdb) "
        assert driver.output_of("p total") == "1\n"
        assert driver.output_of("total * 1000") == "1000\n"
        driver.say("n")
        assert "total += 2" in driver.output_of("list .")
        assert "train(driver.rank)" in driver.output_of("up")
        driver.say("c")

    assert play(driver, script) == 7
    assert sys.gettrace() is None
    assert "> " in driver.text
    assert driver.rank.stops.number == 1


def callback() -> int:
    """Stand for a call that may come between any two instructions, such as a garbage collector's callback."""
    return 1


def test_what_runs_while_tracing_is_set_up_ends_no_stop(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    set_trace = pdb.Pdb.set_trace

    def with_callback(self: pdb.Pdb, frame: FrameType | None = None) -> None:
        set_trace(self, frame)
        callback()

    monkeypatch.setattr(pdb.Pdb, "set_trace", with_callback)

    def script() -> None:
        assert driver.output_of("p total") == "1\n"
        driver.say("n")
        assert "total += 2" in driver.output_of("list .")
        driver.say("c")

    assert play(driver, script) == 7


def test_what_is_called_on_the_line_of_the_stop_is_the_first_step(driver: Driver) -> None:
    def script() -> None:
        driver.prompt()
        # From 3.13 on the first stop is still on the line of its call.
        while "--Call--" not in driver.text:
            driver.say("s")
            driver.prompt()
        assert "stop(sys._getframe()) + callback()" in driver.output_of("up")
        driver.say("c")

    def stop(frame: FrameType) -> int:
        driver.rank.stopping.stop(frame, "breakpoint")
        return 1

    def work() -> int:
        return stop(sys._getframe()) + callback()

    finish = drive(driver, script)
    assert work() == 2
    finish()


def test_assignments_stay_and_blocks_of_lines_run_whole(driver: Driver) -> None:
    def script() -> None:
        driver.say("total = 100")
        assert driver.output_of("for i in range(3):\n    print(i)\n") == "0\n1\n2\n"
        driver.say("for i in range(2):")
        more = driver.prompt()
        assert (more.text, more.state) == ("...   ", PromptState.MORE)
        driver.say("    print('x', i)")
        driver.say("")
        driver.prompt()
        assert "x 0\nx 1\n" in driver.text
        assert driver.output_of("a = 1\na + 1") == "2\n"
        driver.say("c")

    assert play(driver, script) == 106


def test_print_and_input_of_a_command_meet_the_terminal(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    def script() -> None:
        driver.say("name = input('name? ')")
        asked = driver.prompt()
        assert (asked.text, asked.state) == ("name? ", PromptState.INPUT)
        driver.say("nan")
        assert driver.output_of("print('loss of', name)") == "loss of nan\n"
        assert driver.output_of("p print('inside p') or 5") == "inside p\n5\n"
        other = threading.Thread(target=lambda: print("elsewhere"))  # noqa: T201
        driver.rank.debuggers.console.write("")
        other.start()
        other.join()
        driver.say("c")

    before = sys.stdin, sys.stdout
    finish = drive(driver, script)
    train(driver.rank)
    finish()
    assert (sys.stdin, sys.stdout) == before
    assert capsys.readouterr().out == "elsewhere\n"


def test_breakpoints_commands_and_conditions(driver: Driver) -> None:
    line = train.__code__.co_firstlineno + 4

    def script() -> None:
        assert "Breakpoint 1 at" in driver.output_of(f"b {line}, total == 2") or "Breakpoint" in driver.text
        driver.say("commands")
        assert driver.prompt().state is PromptState.COMMANDS
        driver.say("p 'hit', total")
        driver.say("end")
        driver.say("c")
        driver.prompt()
        assert "('hit', 2)" in driver.text
        driver.say("clear")
        asked = driver.prompt()
        assert asked.text.startswith("Clear all breaks?")
        driver.say("y")
        driver.say("c")

    assert play(driver, script) == 7
    assert sys.gettrace() is None
    assert driver.rank.stops.number == 2


def test_interact_and_the_recursive_debugger(driver: Driver) -> None:
    def script() -> None:
        driver.say("interact")
        inner = driver.prompt()
        assert (inner.text, inner.state) == (">>> ", PromptState.INTERACT)
        driver.say("total + 41")
        driver.prompt()
        assert "\n42\n" in driver.text
        driver.say("EOF")
        assert driver.prompt().text == "(Pdb) "
        driver.say("debug train.__name__.upper()")
        assert driver.prompt().text == "((Pdb)) "
        driver.say("c")
        assert driver.prompt().text == "(Pdb) "
        assert "LEAVING RECURSIVE DEBUGGER" in driver.text
        driver.say("n")
        assert driver.prompt().text == "(Pdb) "
        driver.say("c")

    assert play(driver, script) == 7


@pytest.mark.parametrize("word", ["q", "EOF", "exit"])
def test_leaving_asks(driver: Driver, word: str) -> None:
    def script() -> None:
        driver.say(word)
        asked = driver.prompt()
        assert asked.state is PromptState.CONFIRM
        assert "continue, kill this rank" in asked.text
        driver.say("s")
        assert driver.prompt().text == "(Pdb) "
        driver.say(word)
        driver.say("c")

    assert play(driver, script) == 7


def test_a_reply_counts_once_and_only_for_its_prompt(driver: Driver) -> None:
    def script() -> None:
        first = driver.say("total += 10")
        driver.prompt()
        driver.rank.from_broker.on_message(Reply(prompt=first.number, generation=1, text="total += 10"))
        driver.rank.from_broker.on_message(Reply(prompt=first.number + 99, generation=1, text="total += 100"))
        driver.rank.from_broker.on_message(Reply(prompt=driver.prompt().number, generation=7, text="total += 1000"))
        assert driver.output_of("p total") == "11\n"
        driver.say("c")

    assert play(driver, script) == 17
    refused = [message["reason"] for message in driver.heard("replied") if not message["taken"]]
    # The one that was sent again was taken, and is told so.
    assert refused == ["the prompt it was typed for is gone", "the keyboard was taken"]


def test_completion_of_names_attributes_and_commands(driver: Driver) -> None:
    def script() -> None:
        prompt = driver.prompt()
        for request, (line, begin) in enumerate([("p tot", 2), ("unti", 0), ("p rank.sto", 2)]):
            driver.rank.from_broker.on_message(
                Complete(request=request, prompt=prompt.number, generation=1, line=line, begin=begin, end=len(line))
            )
        driver.wait_for(lambda: len(driver.heard("completions")) == 3, "completions")
        driver.say("c")

    finish = drive(driver, script)
    train(driver.rank)
    finish()
    found = {message["request"]: message["matches"] for message in driver.heard("completions")}
    assert found[0] == ["total"]
    assert found[1] == ["until"]
    assert "rank.stop" in str(found[2])


def test_the_log_is_replayed_from_any_offset_and_has_what_was_typed(driver: Driver) -> None:
    def script() -> None:
        driver.say("p 'first'")
        driver.prompt()
        kept, driver.log = bytes(driver.log), bytearray()
        driver.rank.from_broker.on_message(Replay(session=driver.session, offset=0))
        assert bytes(driver.log) == kept
        assert b"(Pdb) p 'first'\n'first'\n" in kept
        driver.say("c")

    finish = drive(driver, script)
    train(driver.rank)
    finish()


def test_source_is_told_at_every_stop(driver: Driver) -> None:
    def script() -> None:
        driver.say("n")
        driver.prompt()
        driver.say("c")

    finish = drive(driver, script)
    train(driver.rank)
    finish()
    shown = driver.heard("source")
    assert len(shown) == 2
    lines = shown[-1]["lines"]
    assert isinstance(lines, list)
    assert any("total += 2" in line for line in lines)


class Switching:
    """A terminal that changes between PuDB and pdb at a stop, and types into PuDB."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._rank = driver.rank

    def begin(self) -> None:
        """Step in pdb to where ``total`` is 2, with a breakpoint set two lines on, and open PuDB."""
        self._driver.say(f"b {train.__code__.co_firstlineno + 5}")
        if sys.version_info >= (3, 13):
            # This pdb begins on the line of the stop itself, and not on the next.
            self._driver.say("n")
        self._driver.say("n")
        self._driver.prompt()
        self.ask_for("pudb")
        self.waits_for("pudb")

    def ask_for(self, engine: str) -> None:
        audience = Audience(viewers=1, generation=1, rows=30, columns=100, colors=256, engine=engine)
        self._rank.from_broker.on_message(audience)

    def waits_for(self, engine: str) -> None:
        self._driver.wait_for(lambda: self._rank.stops.engine == engine, engine)

    def type(self, keys: bytes, offset: int = 0) -> None:
        stop, session = self._rank.stops.current
        self._rank.from_broker.on_input(Input(session or 0, stop or 0, 1, offset, keys))


def test_pudb_and_pdb_follow_each_other_on_one_stop(driver: Driver) -> None:
    def script() -> None:
        switching = Switching(driver)
        switching.begin()
        switching.type(b"n")
        driver.wait_for(lambda: driver.rank.inbox.settled()[1] == 1, "a step in PuDB")
        switching.ask_for("pdb")
        switching.waits_for("pdb")
        assert driver.output_of("p total") == "4\n"
        assert "breakpoint" in driver.output_of("b")
        driver.say("c")

    assert play(driver, script) == 7
    assert driver.rank.stops.number == 1


def test_a_key_that_was_told_as_applied_is_done_before_another_debugger_opens(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    switching = Switching(driver)
    acknowledge_keys = driver.rank.stopping.acknowledge_keys

    def take_and_switch(count: int) -> None:
        acknowledge_keys(count)
        switching.ask_for("pdb")

    monkeypatch.setattr(driver.rank.stopping, "acknowledge_keys", take_and_switch)

    def script() -> None:
        switching.begin()
        switching.type(b"n")
        switching.waits_for("pdb")
        assert driver.output_of("p total") == "4\n"
        driver.say("c")

    assert play(driver, script) == 7
    assert driver.heard("discarded") == []


def test_keys_that_another_debugger_was_opened_before_are_told_as_lost_and_not_kept(driver: Driver) -> None:
    def script() -> None:
        switching = Switching(driver)
        switching.begin()
        released = threading.Event()

        def wait() -> None:
            assert released.wait(SECONDS)

        driver.rank.inbox.put(driver.rank.stops.number, RunJob(wait))
        switching.type(b"nn")
        switching.ask_for("pdb")
        released.set()
        switching.waits_for("pdb")
        driver.wait_for(lambda: driver.heard("discarded"), "what is lost")
        lost = driver.heard("discarded")
        assert [(one["offset"], one["count"], one["reason"]) for one in lost] == [(2, 2, "another debugger was opened")]
        assert driver.output_of("p total") == "2\n"
        switching.ask_for("pudb")
        switching.waits_for("pudb")
        switching.type(b"n", offset=2)
        driver.wait_for(lambda: driver.rank.inbox.settled()[1] == 3, "a step in PuDB")
        switching.ask_for("pdb")
        switching.waits_for("pdb")
        assert driver.output_of("p total") == "4\n"
        driver.say("c")

    assert play(driver, script) == 7


class Slow:
    """An object with attributes whose look-up takes a minute, never ends, or fails."""

    @property
    def minute(self) -> Slow:
        time.sleep(60)
        return self

    @property
    def endless(self) -> Slow:
        while True:
            pass

    @property
    def broken(self) -> Slow:
        raise SystemExit("not me")

    plain = "text"


def completions(driver: Driver, request: int, line: str) -> object:
    """Ask for completions of the last word of a line; return them."""
    number = driver.prompt().number
    begin = line.rfind(" ") + 1
    asked = Complete(request=request, prompt=number, generation=1, line=line, begin=begin, end=len(line))
    driver.rank.from_broker.on_message(asked)

    def answered() -> list[dict[str, object]]:
        return [message for message in driver.heard("completions") if message["request"] == request]

    driver.wait_for(answered, f"completions of {line}")
    return answered()[0]["matches"]


@pytest.mark.parametrize("attribute", ["minute", "endless", "broken"])
def test_completion_that_fails_or_does_not_end_gives_nothing_and_the_prompt_goes_on(
    driver: Driver, attribute: str
) -> None:
    def script() -> None:
        assert completions(driver, 1, f"p slow.{attribute}.pl") == []
        assert completions(driver, 2, "p slow.pl") == ["slow.plain"]
        assert driver.output_of("p 6 * 7") == "42\n"
        driver.say("c")

    def work() -> None:
        slow = Slow()
        driver.rank.stopping.stop(sys._getframe(), "breakpoint")
        del slow

    finish = drive(driver, script)
    work()
    finish()


def test_completion_outside_the_main_thread_runs_nothing_that_could_not_be_interrupted(driver: Driver) -> None:
    def script() -> None:
        assert completions(driver, 1, "p slow.minute.pl") == []
        assert completions(driver, 2, "p slow.pl") == ["slow.plain"]
        driver.say("c")

    def work() -> None:
        slow = Slow()
        driver.rank.stopping.stop(sys._getframe(), "breakpoint")
        del slow

    finish = drive(driver, script)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(SECONDS)
    finish()


def test_the_source_is_told_again_when_somebody_comes(driver: Driver) -> None:
    def script() -> None:
        driver.say("up")
        driver.prompt()
        told = len(driver.heard("source"))
        driver.look()
        driver.wait_for(lambda: len(driver.heard("source")) > told, "the source")
        where = driver.heard("source")[-1]["where"]
        assert isinstance(where, dict)
        assert where["function"] == "play"
        driver.say("c")

    assert play(driver, script) == 7


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
def test_which_engine_is_wanted_most(
    terminal: str | None, stop: str | None, rank: str | None, fallback: str | None, opened: str
) -> None:
    this = Rank(Settings(engine=rank))
    this.debuggers.stop_begins(stop)
    this.debuggers.terminal.seat(
        Audience(viewers=1, generation=1, rows=30, columns=99, colors=8, engine=terminal, fallback_engine=fallback)
    )
    assert this.debuggers.wanted() == opened


def test_a_full_log_is_sent_again_in_parts_that_the_queue_on_its_way_takes() -> None:
    rank = Rank(Settings(engine="pdb"))
    outgoing = rank.link.outgoing
    rank.debuggers.terminal.seat(Audience(viewers=1, generation=1, rows=30, columns=100, colors=8))
    rank.debuggers.terminal.begin(1)
    rank.debuggers.console.begin()
    rank.debuggers.console.write("x" * 99 + "\n")
    for _ in range(20):
        rank.debuggers.console.write(("y" * 99 + "\n") * 1000)
    outgoing.open()
    got, offset = bytearray(), 2_000_100 - MAX_LOG
    while offset < 2_000_100:
        rank.debuggers.console.replay(1, offset)
        assert not outgoing.starved
        while isinstance(frame := outgoing.pop(), bytes):
            output = decode_data(frame, Sender.AGENT)
            assert isinstance(output, Output)
            assert output.offset == offset
            got += output.data
            offset += len(output.data)
    assert got == ((b"y" * 99 + b"\n") * 20_000)[-MAX_LOG:]
