"""The rank's own pdb on a real stop, over prompts and a log."""

from __future__ import annotations

import bdb
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from dbg_agent.interruptible import Interruptible
from dbg_agent.rank import Rank
from dbg_agent.settings import Settings
from dbg_wire.codec import Input, Output, decode_data
from dbg_wire.limits import MAX_LOG
from dbg_wire.messages import Action, Ask, Audience, Complete, Interrupt, PromptInfo, PromptState, Replay, Reply, Sender
from dbg_wire.states import StopPhase

SECONDS = 20.0


class Driver:
    """Be broker and terminal of a rank at once, without a network: answer its prompts and read its log."""

    def __init__(self) -> None:
        self.rank = Rank(Settings(engine="pdb"))
        self.log = bytearray()
        self.session = 0
        self.messages: list[dict[str, object]] = []
        self._changed = threading.Condition()
        self._answered = 0
        self.rank.terminal._send = self._read
        self.rank.stops._changed = self._tell
        self.rank.publish = self._tell  # type: ignore[method-assign]
        self.rank.link.outgoing.put_message = self._hear  # type: ignore[method-assign]
        self.rank.link.call_later = self._later  # type: ignore[method-assign]
        self.rank.interruptible = Interruptible(self._later)

    def _read(self, frame: bytes) -> None:
        output = decode_data(frame, Sender.AGENT)
        assert isinstance(output, Output)
        with self._changed:
            if output.session != self.session:
                self.session, self.log = output.session, bytearray()
            fresh = output.data[max(0, len(self.log) - output.offset) :]
            if output.offset <= len(self.log):
                self.log += fresh
            self._changed.notify_all()

    def _hear(self, text: str) -> bool:
        with self._changed:
            self.messages.append(json.loads(text))
            self._changed.notify_all()
        return True

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, call)
        timer.daemon = True
        timer.start()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, SECONDS):
                pytest.fail(f"never saw {what}; the log:\n{self.text}\n{self.rank._rank_report()}")

    @property
    def text(self) -> str:
        return self.log.decode()

    def look(self) -> None:
        self.rank.on_message(Audience(viewers=1, generation=1, rows=30, columns=100, colors=256))

    def prompt(self) -> PromptInfo:
        """Wait for a prompt that has not been answered yet."""
        prompts: list[PromptInfo] = []

        def fresh() -> bool:
            prompt = self.rank.console.prompt
            if prompt is None or prompt.number <= self._answered:
                return False
            prompts.append(prompt)
            return True

        self.wait_for(fresh, "a prompt")
        return prompts[-1]

    def say(self, text: str) -> PromptInfo:
        """Answer the next prompt; return it."""
        prompt = self.prompt()
        self._answered = prompt.number
        self.rank.on_message(Reply(prompt=prompt.number, generation=1, text=text))
        return prompt

    def output_of(self, command: str) -> str:
        """Run a command; return what it printed up to the next prompt."""
        self.say(command)
        prompt = self.prompt()
        log = bytes(self.log[: prompt.offset]).decode()
        return log.rpartition(f"{command}\n")[2]

    def heard(self, kind: str) -> list[dict[str, object]]:
        return [message for message in self.messages if message["type"] == kind]


def drive(driver: Driver, script: Callable[[], None]) -> Callable[[], None]:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            driver.wait_for(lambda: driver.rank.stops.phase is not StopPhase.NONE, "a stop")
            driver.look()
            script()
        except BaseException as error:  # a failing script must not leave the stop waiting for ever
            failures.append(error)
            driver.rank.on_message(Ask(request=9, action=Action.CONTINUE, rows=24, columns=80))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def finish() -> None:
        thread.join(SECONDS)
        if failures:
            raise failures[0]

    return finish


def train(rank: Rank) -> int:
    total = 1
    rank.stop(sys._getframe(), "breakpoint")
    total += 1
    total += 2
    total += 3
    return total


@pytest.fixture
def driver() -> Iterator[Driver]:
    yield Driver()
    # Breakpoints that a test leaves would have this thread, and all later tests in it, traced.
    sys.settrace(None)
    bdb.Breakpoint.clearBreakpoints()  # type: ignore[attr-defined] # there since 3.10


def test_commands_expressions_and_steps(driver: Driver) -> None:
    def script() -> None:
        assert driver.prompt().text == "(Pdb) "
        assert driver.output_of("p total") == "1\n"
        assert driver.output_of("total * 1000") == "1000\n"
        driver.say("n")
        assert "total += 2" in driver.output_of("list .")
        assert "train(driver.rank)" in driver.output_of("up")
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()
    assert sys.gettrace() is None
    assert "> " in driver.text
    assert driver.rank.stops.number == 1


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

    finish = drive(driver, script)
    assert train(driver.rank) == 106
    finish()


def test_print_and_input_of_a_command_meet_the_terminal(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    def script() -> None:
        driver.say("name = input('name? ')")
        asked = driver.prompt()
        assert (asked.text, asked.state) == ("name? ", PromptState.INPUT)
        driver.say("nan")
        assert driver.output_of("print('loss of', name)") == "loss of nan\n"
        assert driver.output_of("p print('inside p') or 5") == "inside p\n5\n"
        other = threading.Thread(target=lambda: print("elsewhere"))  # noqa: T201
        driver.rank.console.write("")
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

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()
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

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


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

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


def test_a_reply_counts_once_and_only_for_its_prompt(driver: Driver) -> None:
    def script() -> None:
        first = driver.say("total += 10")
        driver.prompt()
        driver.rank.on_message(Reply(prompt=first.number, generation=1, text="total += 10"))
        driver.rank.on_message(Reply(prompt=first.number + 99, generation=1, text="total += 100"))
        driver.rank.on_message(Reply(prompt=driver.prompt().number, generation=7, text="total += 1000"))
        assert driver.output_of("p total") == "11\n"
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 17
    finish()
    refused = [message["reason"] for message in driver.heard("replied") if not message["taken"]]
    assert refused == ["the prompt it was typed for is gone"] * 2 + ["the keyboard was taken"]


def test_completion_of_names_attributes_and_commands(driver: Driver) -> None:
    def script() -> None:
        prompt = driver.prompt()
        for request, (line, begin) in enumerate([("p tot", 2), ("unti", 0), ("p rank.sto", 2)]):
            driver.rank.on_message(
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


@pytest.mark.parametrize("endless", ["while True: pass", "import time; time.sleep(3600)"])
def test_an_expression_that_never_ends_is_interrupted(driver: Driver, endless: str) -> None:
    def script() -> None:
        driver.say("print('begun')\n" + endless)
        driver.wait_for(
            lambda: "begun\n" in driver.text.rpartition("(Pdb)")[2].replace("print('begun')\n", ""), "begun"
        )
        driver.rank.on_message(Interrupt(generation=1))
        driver.prompt()
        assert "KeyboardInterrupt" in driver.text
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


def test_the_log_is_replayed_from_any_offset_and_has_what_was_typed(driver: Driver) -> None:
    def script() -> None:
        driver.say("p 'first'")
        driver.prompt()
        kept, driver.log = bytes(driver.log), bytearray()
        driver.rank.on_message(Replay(session=driver.session, offset=0))
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


def test_pudb_and_pdb_follow_each_other_on_one_stop(driver: Driver) -> None:
    def audience(engine: str | None) -> None:
        driver.rank.on_message(Audience(viewers=1, generation=1, rows=30, columns=100, colors=256, engine=engine))

    def opened(engine: str) -> Callable[[], object]:
        return lambda: driver.rank.stops.engine == engine

    def script() -> None:
        driver.say(f"b {train.__code__.co_firstlineno + 5}")
        if sys.version_info >= (3, 13):
            # There pdb begins on the line of the stop itself, and not on the next.
            driver.say("n")
        driver.say("n")
        driver.prompt()
        audience("pudb")
        driver.wait_for(opened("pudb"), "PuDB")
        stop, session = driver.rank.stops.current
        driver.rank.on_input(Input(session or 0, stop or 0, 1, 0, b"n"))
        driver.wait_for(lambda: driver.rank.inbox.settled()[1] == 1, "a step in PuDB")
        audience("pdb")
        driver.wait_for(opened("pdb"), "pdb")
        assert driver.output_of("p total") == "4\n"
        assert "breakpoint" in driver.output_of("b")
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()
    assert driver.rank.stops.number == 1


def interrupt(driver: Driver) -> None:
    driver.rank.on_message(Interrupt(generation=1))


def test_ctrl_c_at_an_input_ends_the_command_that_asks(driver: Driver) -> None:
    def script() -> None:
        driver.say("name = input('name? ')")
        assert driver.prompt().state is PromptState.INPUT
        driver._answered = driver.prompt().number
        interrupt(driver)
        assert driver.prompt().text == "(Pdb) "
        assert "name? ^C\n*** KeyboardInterrupt\n" in driver.text
        assert "NameError" in driver.output_of("name")
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


def test_ctrl_c_in_interact_drops_what_was_begun_and_goes_on(driver: Driver) -> None:
    def script() -> None:
        driver.say("interact")
        driver.say("for i in range(3):")
        driver._answered = driver.prompt().number
        interrupt(driver)
        again = driver.prompt()
        assert (again.text, again.state) == (">>> ", PromptState.INTERACT)
        assert "\nKeyboardInterrupt\n" in driver.text
        assert driver.output_of("6 * 7") == "42\n"
        driver.say("EOF")
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


def test_ctrl_c_abandons_a_statement_that_is_not_complete(driver: Driver) -> None:
    def script() -> None:
        driver.say("for i in range(3):")
        driver.say("    total += 100")
        driver._answered = driver.prompt().number
        interrupt(driver)
        assert driver.prompt().text == "(Pdb) "
        assert "--KeyboardInterrupt--\n" in driver.text
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


def test_ctrl_c_keeps_the_commands_that_a_breakpoint_had(driver: Driver) -> None:
    def script() -> None:
        driver.say(f"b {train.__code__.co_firstlineno + 4}")
        for line in ("commands", "p 'old'", "end", "commands", "p 'new'"):
            driver.say(line)
        driver._answered = driver.prompt().number
        interrupt(driver)
        assert driver.prompt().text == "(Pdb) "
        assert "command definition aborted, old commands restored" in driver.text
        driver.say("c")
        driver.prompt()
        assert driver.text.startswith("'old'\n")
        driver.say("clear")
        driver.say("y")
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


def test_ctrl_c_at_the_question_how_to_leave_stays(driver: Driver) -> None:
    def script() -> None:
        driver.say("q")
        assert driver.prompt().state is PromptState.CONFIRM
        driver._answered = driver.prompt().number
        interrupt(driver)
        assert driver.prompt().text == "(Pdb) "
        assert "\nstaying; " in driver.text
        assert driver.output_of("p total") == "1\n"
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


def test_ctrl_c_at_pdbs_own_prompt_does_nothing_then_or_later(driver: Driver) -> None:
    def script() -> None:
        prompt = driver.prompt()
        interrupt(driver)
        driver.rank.on_message(Interrupt(generation=1))
        assert driver.prompt().number == prompt.number
        assert driver.output_of("p sum(range(100000))") == "4999950000\n"
        assert "KeyboardInterrupt" not in driver.text
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


class Slow:
    """Have attributes whose look-up takes a minute, or fails."""

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
    driver.rank.on_message(asked)

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
        driver.rank.stop(sys._getframe(), "breakpoint")
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
        driver.rank.stop(sys._getframe(), "breakpoint")
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
        assert where["function"] == "test_the_source_is_told_again_when_somebody_comes"
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


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
    this._stop_engine = stop
    this.terminal.seat(
        Audience(viewers=1, generation=1, rows=30, columns=99, colors=8, engine=terminal, fallback_engine=fallback)
    )
    assert this.engine_wanted() == opened


def test_a_full_log_is_sent_again_in_parts_that_the_queue_on_its_way_takes() -> None:
    rank = Rank(Settings(engine="pdb"))
    outgoing = rank.link.outgoing
    rank.terminal.seat(Audience(viewers=1, generation=1, rows=30, columns=100, colors=8))
    rank.terminal.begin(1)
    rank.console.begin()
    rank.console.write("x" * 99 + "\n")
    for _ in range(20):
        rank.console.write(("y" * 99 + "\n") * 1000)
    outgoing.open()
    got, offset = bytearray(), 2_000_100 - MAX_LOG
    while offset < 2_000_100:
        rank.console.replay(1, offset)
        assert not outgoing.starved
        while isinstance(frame := outgoing.pop(), bytes):
            output = decode_data(frame, Sender.AGENT)
            assert isinstance(output, Output)
            assert output.offset == offset
            got += output.data
            offset += len(output.data)
    assert got == ((b"y" * 99 + b"\n") * 20_000)[-MAX_LOG:]
