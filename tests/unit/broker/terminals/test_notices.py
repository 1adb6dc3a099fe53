"""Questions as deeds in words, and how many of them a terminal that looks on is told."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker import terminals
from dbg_broker.home.bearer import Role
from dbg_broker.hub.links import PendingChanges
from dbg_broker.ranks.questions import passed_on
from dbg_broker.terminals.glances import FRESH_SECONDS, GLANCE_SECONDS, Glances
from dbg_broker.terminals.notices import (
    MAX_A_SECOND,
    MAX_DOERS,
    MAX_JOBS,
    MAX_SHOWN,
    SECONDS_FOR_ONE,
    TOLD_AT_ONCE,
    LogListeners,
    LogPace,
    NoticePace,
    NoticePaces,
    VisibleAction,
    visible_action,
)
from dbg_wire.messages import Action, Answer, Answers, Ask, Change, Kind, Question, Report, Snapshot, Subscribe
from dbg_wire.messages.declared import AnyInquiry
from dbg_wire.records.beside import command_line
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish, LineOfFile
from dbg_wire.records.inspection import Inspection, PartsQuestion, ScreenSize, Sight
from dbg_wire.records.ranks import Place
from tests.unit.broker.peers import RUNNING, STOPPED, Broker, Peer, registration


def deed(action: Action, asked: str | AnyInquiry = "", **changes: object) -> VisibleAction | None:
    fields: dict[str, object] = {"request": 1, "keys": ("key",), "action": action, "seconds": 1.0}
    fields["text" if isinstance(asked, str) else "inquiry"] = asked
    return visible_action(Question(**{**fields, **changes}))  # type: ignore[arg-type]


def inspection(sight: Sight, text: str = "", **changes: object) -> Inspection:
    return Inspection(sight=sight, text=text, **changes)  # type: ignore[arg-type]


def lines(*numbers: int) -> tuple[LineOfFile, ...]:
    return tuple(LineOfFile(file="/home/me/train.py", line=number) for number in numbers)


SETS = BreakpointsWish(set=(BreakpointWish(file="/home/me/train.py", line=41),), clear=lines(7))


@pytest.mark.parametrize(
    ("action", "asked", "told"),
    [
        (Action.CONTINUE, "", VisibleAction("let it go on", ends_stop=True)),
        (Action.RELEASE, "", VisibleAction("let it go on", ends_stop=True)),
        (Action.KILL, "", VisibleAction("killed it", ends_stop=True)),
        (Action.INTERRUPT, "", VisibleAction("broke in")),
        (Action.EVAL, " loss ", VisibleAction("asked `loss`")),
        (Action.COMMAND, "n", VisibleAction("ran `n`")),
        (Action.COMMAND, " c ", VisibleAction("ran `c`", ends_stop=True)),
        (Action.COMMAND, "for x in y:\n  print(x)", VisibleAction("ran `for x in y: …`")),
        (Action.COMMAND, "!print('\x1b[2J')", VisibleAction(r"ran `!print('\x1b[2J')`")),
        (Action.EXEC, command_line(["ls", "a b"]), VisibleAction("ran `ls 'a b'` beside it")),
        (Action.INSPECT, inspection(Sight.ASSIGN, "0.5", name="loss"), VisibleAction("set `loss` to `0.5`")),
        (Action.INSPECT, inspection(Sight.VALUE, "x = 1", runs=True), VisibleAction("ran `x = 1`")),
        (Action.BREAKPOINTS, SETS, VisibleAction("set a breakpoint at train.py:41")),
        (Action.BREAKPOINTS, BreakpointsWish(clear=lines(7)), VisibleAction("cleared a breakpoint at train.py:7")),
        (
            Action.BREAKPOINTS,
            BreakpointsWish(clear=lines(1, 2, 3, 4, 5)),
            VisibleAction("cleared breakpoints at train.py:1, train.py:2, train.py:3 and 2 more"),
        ),
    ],
)
def test_what_is_done_has_words(action: Action, asked: str | AnyInquiry, told: VisibleAction) -> None:
    assert deed(action, asked) == told


@pytest.mark.parametrize(
    ("action", "asked", "changes"),
    [
        (Action.WHERE, "", {}),
        (Action.SCREEN, "", {}),
        (Action.NATIVE, "", {}),
        (Action.RAS, "", {}),
        (Action.EVAL, PartsQuestion(of=("d",)), {}),
        (Action.INTERRUPT, "", {"withdrawn": True}),
        (Action.EXEC, "ls", {}),
        (Action.EXEC, SETS, {}),
        (Action.INSPECT, inspection(Sight.VALUE, "loss"), {}),
        (Action.INSPECT, inspection(Sight.PARTS), {}),
        (Action.INSPECT, "loss", {}),
        (Action.BREAKPOINTS, BreakpointsWish(), {}),
    ],
)
def test_what_only_looks_is_told_to_nobody(action: Action, asked: str | AnyInquiry, changes: dict[str, object]) -> None:
    assert deed(action, asked, **changes) is None


def test_every_action_is_told_or_only_looks() -> None:
    looking = {Action.WHERE, Action.SCREEN, Action.NATIVE, Action.RAS, Action.SAMPLE}
    asked: dict[Action, AnyInquiry] = {Action.EXEC: command_line(["ls"]), Action.BREAKPOINTS: SETS}
    asked[Action.INSPECT] = inspection(Sight.ASSIGN, "0.5", name="loss")
    assert {action for action in Action if deed(action, asked.get(action, "loss")) is None} == looking


@given(st.sampled_from(list(Action)), st.text())
def test_words_are_short_and_can_do_nothing_to_a_terminal(action: Action, text: str) -> None:
    done = deed(action, text)
    assert done is None or (done.text.isprintable() and len(done.text) < MAX_SHOWN + 30)


def test_a_flood_is_told_at_once_and_then_summed_up() -> None:
    pace = NoticePace(0.0)
    assert [pace.may_tell(0.0) for _ in range(TOLD_AT_ONCE + 1)] == [True] * TOLD_AT_ONCE + [False]
    assert pace.count("ran `n`", 0.0) == SECONDS_FOR_ONE
    assert not pace.may_tell(0.5 * SECONDS_FOR_ONE)
    assert pace.count("ran `s`", 0.5 * SECONDS_FOR_ONE) is None
    assert pace.more(SECONDS_FOR_ONE) == "ran `s`, and 1 more before that"
    assert pace.more(SECONDS_FOR_ONE) is None
    assert not pace.may_tell(1.5 * SECONDS_FOR_ONE)
    pace.count("ran `w`", 1.5 * SECONDS_FOR_ONE)
    assert pace.more(2 * SECONDS_FOR_ONE) == "ran `w`"
    assert pace.may_tell(3 * SECONDS_FOR_ONE)


def test_a_terminal_and_the_end_of_a_stop_have_paces_of_their_own() -> None:
    paces = NoticePaces("key")
    step, end = VisibleAction("ran `n`"), VisibleAction("let it go on", ends_stop=True)
    for number in (1, 2):
        for deed in (step, end):
            told = [paces.of(number, deed, 0.0).may_tell(0.0) for _ in range(TOLD_AT_ONCE + 1)]
            assert told == [True] * TOLD_AT_ONCE + [False]
    assert len(paces) == 4
    for number in range(10, 30):
        paces.of(number, step, 0.0).may_tell(0.0)
    assert len(paces) == MAX_DOERS + 1
    # Those that have done nothing for long make room.
    paces.of(40, step, 1000.0)
    assert len(paces) == 1


@given(st.lists(st.tuples(st.integers(1, 100), st.floats(0, 0.2)), max_size=300))
def test_of_any_flood_few_are_told_and_all_are_counted(deeds: list[tuple[int, float]]) -> None:
    paces, now, told, due = NoticePaces("key"), 0.0, 0, set()
    for doer, later in deeds:
        now += later
        pace = paces.of(doer, VisibleAction("ran `n`"), now)
        if pace.may_tell(now):
            told += 1
        elif pace.count("ran `n`", now) is not None:
            due.add(pace)
    # A pace that has something counted stays, and one sentence tells of all of it.
    assert all(pace.more(now) for pace in due)
    assert len(due) <= len(paces) <= MAX_DOERS + 1
    assert told <= len(deeds)


def listed(changes: PendingChanges) -> list[str]:
    keys = []
    while (key := changes.next_listed()) is not None:
        keys.append(key)
    return keys


def test_snapshot_comes_in_order_and_before_changes() -> None:
    changes = PendingChanges()
    changes.subscribe(["a", "b", "c"], once=False)
    changes.add("b")
    assert changes.change() is None
    assert changes.next_listed() == "a"
    assert not changes.end_page()
    assert listed(changes) == ["b", "c"]
    assert changes.end_page()
    assert not changes.has_snapshot
    assert changes.change() == "b"
    assert changes.change() is None


def test_empty_snapshot_has_one_page() -> None:
    changes = PendingChanges()
    changes.subscribe([], once=True)
    assert changes.has_snapshot
    assert changes.next_listed() is None
    assert changes.end_page()
    assert not changes.has_snapshot
    assert not changes.subscribed


def test_subscribing_again_begins_anew() -> None:
    changes = PendingChanges()
    changes.subscribe(["a", "b"], once=False)
    changes.next_listed()
    changes.add("z")
    changes.subscribe(["a", "b"], once=False)
    assert listed(changes) == ["a", "b"]
    changes.end_page()
    assert changes.change() is None


def test_terminal_without_subscription_hears_of_its_rank_alone() -> None:
    changes = PendingChanges()
    changes.add("mine")
    assert changes.change() == "mine"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_last_state_of_each_rank_is_heard_however_slow_the_subscriber(events: list[tuple[str, bool]]) -> None:
    changes, truth, heard = PendingChanges(), dict.fromkeys("abc", 0), {}
    changes.subscribe("abc", once=False)
    for key, reads in events:
        truth[key] += 1
        changes.add(key)
        if reads and changes.has_snapshot:
            if (next_key := changes.next_listed()) is not None:
                heard[next_key] = truth[next_key]
            changes.end_page()
        elif reads and (changed := changes.change()) is not None:
            heard[changed] = truth[changed]
    for key in listed(changes):
        heard[key] = truth[key]
    changes.end_page()
    while (changed := changes.change()) is not None:
        heard[changed] = truth[changed]
    assert heard == truth


KEY = registration().identity.key
STACK = Answer(request=1, kind=Kind.VALUE, text="running", frames=(Place(file="t.py", line=1, function="f"),))
TEXT = passed_on(STACK)


def question(number: int = 1, action: Action = Action.WHERE, rows: int = 24, seconds: float = 60.0) -> Question:
    return Question(request=number, keys=(KEY,), action=action, seconds=seconds, inquiry=ScreenSize(rows=rows))


def ask(number: int = 1, action: Action = Action.WHERE, rows: int = 24, seconds: float = 5.0) -> Ask:
    return Ask(request=number, action=action, seconds=seconds, inquiry=ScreenSize(rows=rows))


def said(glances: Glances, question: Ask, now: float, key: str = KEY) -> None:
    glances.seconds_until_ask(key, question, now)
    assert glances.answered(key, question.request, TEXT, now) == [question.request]


def test_what_was_said_is_known_for_a_moment_and_to_the_same_question() -> None:
    glances = Glances()
    said(glances, ask(), 10.0)
    assert glances.known(KEY, ask(2), 10.0 + FRESH_SECONDS) == TEXT
    assert glances.known(KEY, ask(2), 10.1 + FRESH_SECONDS) is None
    said(glances, ask(action=Action.SCREEN), 20.0)
    assert glances.known(KEY, ask(action=Action.SCREEN, rows=99), 20.0) is None
    assert glances.known("another", ask(action=Action.SCREEN), 20.0) is None
    assert glances.known(KEY, ask(action=Action.SCREEN).replace(frame="step"), 20.0) is None
    glances.changed(KEY)
    assert glances.known(KEY, ask(action=Action.SCREEN), 20.0) is None
    assert (glances.size, len(glances)) == (0, 0)


def test_what_others_asked_is_passed_by() -> None:
    glances = Glances()
    assert glances.answered(KEY, 1, TEXT, 1.0) == [1]
    assert glances.known(KEY, ask(), 1.0) is None


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminals.glances, "MAX_BYTES", 3 * len(TEXT))
    glances = Glances()
    for number in range(9):
        said(glances, ask(number), 1.0, f"{number}")
    assert len(glances) == 3
    assert glances.size <= terminals.glances.MAX_BYTES
    assert glances.known("8", ask(9), 1.0) is not None


def test_one_answer_is_for_all_that_asked_the_same() -> None:
    glances = Glances()
    assert [glances.seconds_until_ask(KEY, ask(number), 5.0) for number in (1, 2, 3)] == [0.0, None, None]
    assert glances.seconds_until_ask(KEY, ask(4, Action.SCREEN), 5.0) == GLANCE_SECONDS
    assert glances.answered(KEY, 1, TEXT, 5.1) == [1, 2, 3]
    assert glances.seconds_until_ask(KEY, ask(5), 5.2) == pytest.approx(2 * GLANCE_SECONDS - 0.2)


def test_a_stack_does_not_answer_the_question_for_stops() -> None:
    glances = Glances()
    said(glances, ask(), 10.0)
    assert glances.known(KEY, ask(2).replace(stops=True), 10.0) is None


def test_one_that_was_not_answered_in_time_keeps_nobody_waiting() -> None:
    glances = Glances()
    assert glances.seconds_until_ask(KEY, ask(1, seconds=0.1), 5.0) == 0.0
    assert glances.seconds_until_ask(KEY, ask(2), 9.0) == 0.0
    glances.forget(KEY)
    assert glances.seconds_until_ask(KEY, ask(3), 9.1) == 0.0


class Asked:
    """A task that answers and counts the questions that reach a rank."""

    def __init__(self, rank: Peer) -> None:
        self.count = 0
        self._answering = asyncio.create_task(self._answer(rank))

    async def _answer(self, rank: Peer) -> None:
        while True:
            asked = await rank.expect(Ask)
            self.count += 1
            await rank.say(Answer(request=asked.request, kind=STACK.kind, text=STACK.text, frames=STACK.frames))

    async def end(self) -> None:
        self._answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._answering


async def ask_often(terminal: Peer, times: int) -> None:
    """Ask a number of questions, each one as soon as the one before is answered."""
    for number in range(times):
        await terminal.say(question(number))
        answers = await terminal.expect(Answers, lambda answers, wanted=number: answers.request == wanted)  # type: ignore[misc]
        assert [(answer.kind, answer.frames) for answer in answers.answers] == [(Kind.VALUE, STACK.frames)]


async def test_a_loop_of_watchers_questions_costs_a_rank_two_a_second(broker: Broker) -> None:
    asked = Asked(await broker.rank(report=RUNNING))
    watchers = [await broker.terminal(f"{number}@h", Role.WATCHER) for number in range(4)]
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(ask_often(watcher, 100) for watcher in watchers))
    lasted = asyncio.get_running_loop().time() - began
    assert asked.count <= 2 + lasted / GLANCE_SECONDS
    await asked.end()


async def test_who_may_type_is_answered_by_the_rank_itself(broker: Broker) -> None:
    asked = Asked(await broker.rank(report=RUNNING))
    await ask_often(await broker.terminal(), 20)
    assert asked.count == 20
    await asked.end()


async def test_a_watcher_hears_at_once_that_a_rank_has_stopped(broker: Broker) -> None:
    rank = await broker.rank(report=RUNNING)
    said(broker.hub.ranks.glances, ask(), asyncio.get_running_loop().time())
    watcher = await broker.terminal("w@h", Role.WATCHER)
    await watcher.say(Subscribe())
    await watcher.expect(Snapshot)
    await rank.say(Report(report=STOPPED))
    await watcher.expect(Change)
    await watcher.say(question())
    asked = await rank.expect(Ask)
    await rank.say(Answer(request=asked.request, kind=Kind.VALUE, text="stopped"))
    assert (await watcher.expect(Answers)).answers[0].text == "stopped"


async def test_one_that_asked_and_left_keeps_nobody_waiting(broker: Broker) -> None:
    rank = await broker.rank(report=RUNNING)
    first, second = [await broker.terminal(f"{number}@h", Role.WATCHER) for number in range(2)]
    await first.say(question())
    asked = await rank.expect(Ask)
    await second.say(question())
    await first.cut()
    await broker.left(lambda hub: len(hub.terminals.links) == 1)
    await rank.say(STACK.replace(request=asked.request))
    assert (await second.expect(Answers)).answers[0].frames == STACK.frames


async def test_a_question_that_ends_before_its_occasion_ends_as_silence(broker: Broker) -> None:
    await broker.rank(report=RUNNING)
    watcher = await broker.terminal("w@h", Role.WATCHER)
    for number in range(2):
        await watcher.say(question(number, seconds=0.1))
    for _ in range(2):
        assert (await watcher.expect(Answers)).answers[0].kind is Kind.SILENT
    assert len(broker.hub.ranks.questions) == 0


def sent(listeners: LogListeners, job: str, now: float, count: int) -> int:
    """Offer so many texts of a job, and return how many of them are sent."""
    return sum(listeners.may_send(listeners.pace(job, now), now) for _ in range(count))


def test_clients_and_jobs_share_the_rate() -> None:
    listeners = LogListeners()
    for number in (1, 2):
        listeners.set(number, wants=True)
    assert sent(listeners, "a", 0.0, 9999) == MAX_A_SECOND / 2
    # Another job has a part of its own, and the first one has less from then on.
    assert sent(listeners, "b", 0.0, 9999) == MAX_A_SECOND / 4
    assert abs(sent(listeners, "a", 0.5, 9999) - MAX_A_SECOND / 8) <= 1
    # The part of a job that logs nothing any more is free again, and so is that of a client that has gone.
    listeners.set(2, wants=False)
    assert abs(sent(listeners, "a", 2.0, 9999) - MAX_A_SECOND) <= 1


def test_a_client_that_asks_again_is_as_far_behind_as_before() -> None:
    listeners = LogListeners()
    listeners.set(1, wants=True)
    listeners.behind[1] = 7
    listeners.set(1, wants=True)
    assert listeners.behind == {1: 7}
    listeners.set(1, wants=False)
    assert listeners.behind == {}


def test_jobs_beyond_the_most_share_a_pace_until_others_rest() -> None:
    listeners = LogListeners()

    def pace_in_use(job: str, now: float) -> LogPace:
        pace = listeners.pace(job, now)
        assert listeners.may_send(pace, now)
        return pace

    paces = {pace_in_use(f"{number}", 0.0) for number in range(MAX_JOBS)}
    assert len(paces) == MAX_JOBS
    assert pace_in_use("x", 0.0) is pace_in_use("y", 0.0)
    assert pace_in_use("x", 10.0) is not pace_in_use("y", 10.0)


def test_the_last_text_of_a_flood_comes_with_the_count_of_the_others_unless_another_one_has_told_it() -> None:
    listeners = LogListeners()
    pace = listeners.pace("a", 0.0)
    assert [pace.leave_out("key", text) for text in ("1", "2", "3")] == [True, False, False]
    assert pace.last() == ("key", "3", 2)
    assert pace.last() is None
    assert pace.leave_out("key", "4")
    assert pace.left_out() == 1
    # The call for the first one is still due, and serves the second.
    assert not pace.leave_out("key", "5")
    assert pace.last() == ("key", "5", 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 0.01)), max_size=300))
def test_of_any_flood_the_rate_is_kept_and_all_are_counted(texts: list[tuple[str, float]]) -> None:
    listeners, now, shown, counted = LogListeners(), 0.0, 0, 0
    for number in range(100):
        listeners.set(number, wants=True)
    due = set()
    for job, later in texts:
        now += later
        pace = listeners.pace(job, now)
        if listeners.may_send(pace, now):
            shown, counted = shown + 1, counted + pace.left_out()
        elif pace.leave_out("key", "text"):
            due.add(pace)
    lasts = [last for pace in due if (last := pace.last()) is not None]
    assert shown + counted + sum(last.before + 1 for last in lasts) == len(texts)
    assert shown <= (1 + now) * MAX_A_SECOND / 100 + 3
