"""A stop in a library is looked at in the user's frame by pdb, PuDB and questions; the user may name another one."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from dbg_agent.debuggers import position
from dbg_agent.debuggers.position import FREE_SECONDS, POLLING_SHARE, Unmoved
from dbg_agent.rank.rank import Rank
from dbg_agent.stop.stops import Crash
from dbg_wire.messages import Action, Ask, Viewers
from tests.conftest import Approved
from tests.support.calls import in_thread
from tests.support.time_unit import seconds
from tests.unit.agent.pdb_driver import SECONDS, Driver, drive, interrupt
from tests.unit.agent.pudb_viewer import Viewer
from tests.unit.agent.pudb_viewer import drive as drive_viewer


def beside(work: Callable[[], None], wait: Callable[[threading.Thread], None] = threading.Thread.join) -> None:
    """Do some work in another thread while this one, the main one, is in ``wait``; raise what the work raises."""
    for error in in_thread(work, wait):
        raise error


def until_known(unmoved: Unmoved) -> float:
    """Look again and again until the main thread has come to its wait; return the age then."""
    deadline = time.monotonic() + seconds(10)
    while time.monotonic() < deadline:
        age = unmoved.poll()
        if age is not None:
            return age
    raise AssertionError("the thread never stood still")


def test_a_waiting_thread_is_unmoved_since_the_first_look_that_found_it() -> None:
    def work() -> None:
        unmoved = Unmoved()
        first = until_known(unmoved)
        second = unmoved.poll()
        assert second is not None
        assert 0 <= first <= second

    beside(work)


def test_a_thread_that_returned_to_the_same_instruction_has_moved() -> None:
    rounds = 0

    def loop(thread: threading.Thread) -> None:
        nonlocal rounds
        while thread.is_alive():
            rounds += sum(range(100)) > 0

    def work() -> None:
        unmoved = Unmoved()
        for _ in range(20):
            assert unmoved.poll() is None
            begun = rounds
            while rounds < begun + 500:
                time.sleep(0)

    beside(work, loop)


def test_processor_time_distinguishes_a_wait_from_a_later_one_at_the_same_place() -> None:
    def work() -> None:
        used = 0.0
        unmoved = Unmoved(lambda _thread: used)
        until_known(unmoved)
        used += 100 * FREE_SECONDS
        assert unmoved.poll() is None
        until_known(unmoved)

    beside(work)


@pytest.mark.parametrize("polls", [True, False])
def test_only_a_call_that_wakes_to_check_for_signals_may_use_processor_time(
    polls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        now = used = 0.0
        monkeypatch.setattr(position, "is_in", lambda *_: polls)
        monkeypatch.setattr(position, "time", SimpleNamespace(monotonic=lambda: now))
        unmoved = Unmoved(lambda _thread: used)
        until_known(unmoved)
        now, used = now + 10.0, used + 10 * POLLING_SHARE
        assert (unmoved.poll() is not None) is polls

    beside(work)


ROWS, COLUMNS = 30, 100


def train(stop: Callable[[], object]) -> int:
    """Wait inside of a library, where ``stop`` stops the rank, as a break-in would."""
    total = 40

    def predicate() -> bool:
        total_of_predicate = 0
        stop()
        return total_of_predicate == 0

    threading.Condition().wait_for(predicate)
    total += 1
    total += 1
    return total


def stops_in_library(rank: Rank, reason: str) -> Callable[[], object]:
    """Return a call that stops in the frame of ``Condition.wait_for``, two frames outwards."""
    return lambda: rank.stopping.stop(sys._getframe(2), reason)


def stopped_in_library(
    driver: Driver, script: Callable[[], None], reason: str = "interrupt", *, look: bool = True
) -> None:
    """Have a thread drive the rank by ``script`` while this one is stopped in a library."""
    finish = drive(driver, script, look=look)
    assert train(stops_in_library(driver.rank, reason)) == 42
    finish()


def ask(request: int, action: Action, text: str = "", frame: str = "") -> Ask:
    return Ask(request=request, action=action, text=text, frame=frame)


def answer_of(driver: Driver, action: Action, text: str = "", frame: str = "") -> dict[str, object]:
    """Ask the rank, and return its answer."""
    request = 100 + len(driver.heard("answer"))
    driver.rank.from_broker.on_message(ask(request, action, text, frame))

    def answers() -> list[dict[str, object]]:
        return [answer for answer in driver.heard("answer") if answer["request"] == request]

    driver.wait_for(answers, f"an answer to {text!r}")
    return answers()[0]


def place(answer: dict[str, object]) -> str:
    """Return the function and the file of an answer's frame."""
    frame = answer["frame"]
    assert isinstance(frame, dict)
    return f"{frame['function']} {frame['file'].rpartition('/')[2]}"


def test_pdb_opens_in_the_users_frame_after_a_break_in_and_continues_from_there(
    approved: Approved, driver: Driver
) -> None:
    def script() -> None:
        driver.prompt()
        first, second, third = driver.text.splitlines()[:3]
        approved(re.sub(r":\d+", ":<line>", first))
        assert "test_position.py(" in second
        assert "train()" in second
        assert third == "-> threading.Condition().wait_for(predicate)"
        assert driver.output_of("p total") == "40\n"
        assert "wait_for()" in driver.output_of("d")
        assert driver.output_of("d") == "*** Newest frame\n"
        assert "train()" in driver.output_of("u")
        driver.reply("n")
        assert "total += 1" in driver.output_of("list .")
        assert "*** in train" not in driver.text.partition("n\n")[2]
        driver.reply("c")

    stopped_in_library(driver, script)


def test_questions_are_answered_in_the_users_frame_which_the_answer_names(driver: Driver) -> None:
    def script() -> None:
        for action, text in ((Action.EVAL, "total"), (Action.COMMAND, "p total")):
            answer = answer_of(driver, action, text)
            assert (answer["kind"], answer["text"], place(answer)) == ("value", "40", "train test_position.py")
            assert answer["frames"] == []
        assert "wait_for" in str(answer_of(driver, Action.COMMAND, "w")["text"])
        driver.end_stop()

    stopped_in_library(driver, script, look=False)


def test_a_stop_made_by_the_user_stays_at_its_frame(driver: Driver) -> None:
    def script() -> None:
        answer = answer_of(driver, Action.EVAL, "self.__class__.__name__")
        assert (answer["text"], place(answer)) == ("'Condition'", "wait_for threading.py")
        driver.look()
        driver.prompt()
        assert not driver.text.startswith("***")
        driver.reply("c")

    stopped_in_library(driver, script, "breakpoint", look=False)


def test_questions_use_the_frame_chosen_in_the_open_debugger(driver: Driver) -> None:
    def script() -> None:
        driver.prompt()
        driver.output_of("d")
        answer = answer_of(driver, Action.EVAL, "self.__class__.__name__")
        assert (answer["text"], place(answer)) == ("'Condition'", "wait_for threading.py")
        assert answer["frames"] == [answer["frame"]], "the answer shows that somebody has moved in the stack"
        driver.reply("c")

    stopped_in_library(driver, script)


def test_a_question_can_name_another_frame(driver: Driver) -> None:
    def script() -> None:
        for frame in ("wait_for", "-1"):
            answer = answer_of(driver, Action.EVAL, "self.__class__.__name__", frame)
            assert (answer["text"], place(answer)) == ("'Condition'", "wait_for threading.py")
            assert answer["frames"] == []
        answer = answer_of(driver, Action.COMMAND, "whatis self", "wait_for")
        assert (answer["text"], place(answer)) == ("<class 'threading.Condition'>", "wait_for threading.py")
        answer = answer_of(driver, Action.EVAL, "total", "tarin")
        assert answer["kind"] == "error"
        assert answer["frame"] is None
        assert answer_of(driver, Action.EVAL, "total")["text"] == "40", "it holds for one question"
        answer = answer_of(driver, Action.COMMAND, "r", "wait_for")
        assert "threading.py:" in str(answer["text"])
        driver.end_stop()

    stopped_in_library(driver, script, look=False)


def wants_to_see(frame: str) -> Viewers:
    return Viewers(viewers=1, generation=1, rows=ROWS, columns=COLUMNS, colors=256, frame=frame)


def test_a_terminal_can_choose_the_first_frame(driver: Driver) -> None:
    def script() -> None:
        driver.rank.from_broker.on_message(wants_to_see("wait_for"))
        driver.prompt()
        assert "wait_for()" in driver.text
        assert "*** in" not in driver.text
        driver.output_of("u")
        driver.rank.from_broker.on_message(wants_to_see("wait_for"))
        assert driver.output_of("p total") == "40\n", "the request counts once"
        assert answer_of(driver, Action.INTERRUPT, frame="wait_for")["text"] == "stopped already"
        assert driver.output_of("whatis self") == "<class 'threading.Condition'>\n"
        assert answer_of(driver, Action.INTERRUPT, frame="nowhere")["kind"] == "error"
        driver.reply("c")

    stopped_in_library(driver, script, look=False)


def test_a_request_for_a_missing_frame_is_reported_and_shows_the_usual_frame(driver: Driver) -> None:
    def script() -> None:
        driver.rank.from_broker.on_message(wants_to_see("nowhere"))
        driver.prompt()
        assert driver.output_of("p total") == "40\n"
        assert len(driver.heard("notice")) == 1
        driver.reply("c")

    stopped_in_library(driver, script, look=False)


def crash(rank: Rank) -> None:
    wrong = "{"
    try:
        json.loads(wrong)
    except ValueError as error:
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        assert traceback is not None
        rank.stopping.stop(traceback.tb_frame, "crash", crash=Crash(error, str(error)))


def test_pdb_and_questions_use_the_users_frame_after_a_crash_in_a_library(driver: Driver) -> None:
    def script() -> None:
        answer = answer_of(driver, Action.EVAL, "wrong")
        assert (answer["text"], place(answer)) == ("'{'", "crash test_position.py")
        driver.look()
        driver.prompt()
        assert driver.text.startswith("*** in crash test_position.py:")
        assert ", inside raw_decode decoder.py:" in driver.text
        assert "-> json.loads(wrong)" in driver.text
        assert "raw_decode" in driver.output_of("w")
        driver.end_stop()

    finish = drive(driver, script, look=False)
    crash(driver.rank)
    finish()


def test_ctrl_c_during_a_step_over_a_wait_hides_our_frames(driver: Driver) -> None:
    waits, condition = threading.Event(), threading.Condition()
    done = False

    def is_done() -> bool:
        waits.set()
        return done

    def work() -> int:
        total = 40
        driver.rank.stopping.stop(sys._getframe(), "breakpoint", before_line=True)
        with condition:
            while not done:
                condition.wait_for(is_done, 0.5)
        return total + 2

    def script() -> None:
        nonlocal done
        for _ in range(4):
            driver.reply("n")
        try:
            assert waits.wait(SECONDS)
            interrupt(driver)
            where = driver.output_of("w")
            assert "wait_for" in where
            assert "dbg_agent" not in where
            assert driver.output_of("p total") == "40\n"
        finally:
            done = True
        driver.reply("c")

    driver.rank.break_in.install()
    try:
        finish = drive(driver, script)
        assert work() == 42
        finish()
    finally:
        driver.rank.break_in.uninstall()


def test_pudb_opens_in_the_users_frame_after_a_break_in_and_continues_from_there(viewer: Viewer) -> None:
    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look()
        viewer.sees_current_line("threading.Condition().wait_for(predicate)")
        viewer.sees(">> train")
        viewer.sees("in train test_position.py:")
        viewer.rank.from_broker.on_message(ask(7, Action.INTERRUPT, frame="wait_for"))
        viewer.sees(">> wait_for")
        viewer.sees_current_line("result = predicate()")
        viewer.type(b"u")
        viewer.sees(">> train")
        viewer.type(b"n")
        viewer.sees_current_line("total += 1")
        viewer.type(b"c")

    finish = drive_viewer(viewer, script)
    assert train(stops_in_library(viewer.rank, "interrupt")) == 42
    finish()
