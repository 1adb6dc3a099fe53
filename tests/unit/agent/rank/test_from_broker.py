"""What a rank does about messages of the broker that need no stop."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dbg_agent.link.fork_safety import ForkSafety
from dbg_agent.questions.questions import NEEDED, Questions
from dbg_agent.rank.from_broker import FromBroker
from dbg_agent.settings import Settings
from dbg_wire.errors import BrokerUnreachable
from dbg_wire.messages import Action, Answer, Ask, Kind, Message
from tests.conftest import Approved
from tests.support.answers import body_in
from tests.unit.agent.rank.test_stop_limits import Rig

NOTHING: Any = SimpleNamespace(on_chosen=None, on_kept=None)


def serving(**parts: Any) -> FromBroker:
    """Return what takes the broker's messages, with these parts of a rank."""
    owner = FromBroker(Settings(), NOTHING)
    names = (
        *("link", "broker", "stops", "inbox", "halt", "view", "position", "debuggers"),
        *("break_in", "stopping", "holding", "limits", "questions", "report", "watch"),
    )
    owner.start(**{name: parts.get(name, NOTHING) for name in names})
    return owner


def asking(send: Any = None, **parts: Any) -> Questions:
    """Return what answers questions, with these parts of a rank."""
    names = "stops", "inbox", "interruptible", "halt", "view", "position", "debuggers", "break_in", "kill", "watch"
    broker: Any = SimpleNamespace(call_later=lambda *_: None, send=send)
    return Questions(may_exec=False, broker=broker, **{name: parts.get(name, NOTHING) for name in names})


@pytest.mark.parametrize(
    ("action", "uses"),
    [
        (Action.EVAL, 1),
        (Action.COMMAND, 1),
        (Action.INSPECT, 1),
        (Action.WHERE, 0),
        (Action.SCREEN, 0),
        (Action.BREAKPOINTS, 0),
    ],
)
def test_a_question_about_the_stop_extends_its_lease_but_a_look_does_not(action: Action, uses: int) -> None:
    seen: list[str] = []
    parts: dict[str, Any] = {
        "limits": SimpleNamespace(lease=SimpleNamespace(use=lambda: seen.append("used"))),
        "questions": SimpleNamespace(on_ask=lambda ask: seen.append(ask.action)),
    }
    serving(**parts).on_message(Ask(request=1, action=action, seconds=1.0, text="x"))
    assert seen == ["used"] * uses + [action]


def test_a_permanently_lost_link_ends_the_stop_with_a_line(
    approved: Approved, capfd: pytest.CaptureFixture[str]
) -> None:
    rank: Any = Rig()
    owner = serving(limits=rank)
    rank.stop()
    owner.on_give_up(BrokerUnreachable("wss://h:6900", "no descriptor is left"))
    assert rank.ended == [1]
    approved(capfd.readouterr().err)


def test_a_failed_question_is_answered_and_keeps_the_link(approved: Approved) -> None:
    def fails() -> None:
        raise ModuleNotFoundError("No module named 'gone'")

    sent: list[Message] = []
    stops = SimpleNamespace(is_halted=False, state_word="running")
    questions = asking(send=sent.append, stops=stops, position=SimpleNamespace(stack=fails))
    questions.on_ask(Ask(request=1, action=Action.WHERE, seconds=1.0))
    (answer,) = sent
    assert isinstance(answer, Answer)
    assert answer.kind is Kind.ERROR
    approved(body_in(answer).text)


def test_modules_for_answers_are_loaded_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NEEDED:
        if name in sys.modules:
            # Its package has it as an attribute, which an import of it replaces.
            package, _, own = name.rpartition(".")
            monkeypatch.setattr(sys.modules[package], own, sys.modules[name])
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = set(sys.modules)
    forks = Forks()
    asking().prepare(forks)
    there = set(sys.modules)
    for name in there - before:
        # Modules that are loaded here have classes of their own, which no other test may meet.
        del sys.modules[name]
    assert set(NEEDED) <= there
    # No module is imported while a fork may begin.
    assert forks.loaded_between == []


class Forks(ForkSafety):
    """What keeps forks away, and the modules that were loaded while it did not."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded_between: list[str] = []
        self._before = set(sys.modules)

    def before_fork(self) -> None:
        super().before_fork()
        self.loaded_between += sorted(set(sys.modules) - self._before)

    def after_fork(self) -> None:
        self._before = set(sys.modules)
        super().after_fork()
