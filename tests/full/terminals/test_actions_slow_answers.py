"""What the user of a terminal sees while ranks are slow, and what a file or pipe gets of that: nothing."""

from __future__ import annotations

import re
import subprocess

from dbg_wire.messages import Change, Kind, Progress, Question, RankAnswer
from dbg_wire.records.ranks import RankState
from tests.full.terminals.test_actions_from_shell import Desk, command
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_rank

RANKS = (make_rank(5), make_rank(6))


def answered(broker: FakeBroker, question: Question) -> None:
    broker.reply(question, {key: RankAnswer(key="", kind=Kind.VALUE, text="0.25", digest="d") for key in question.keys})


def test_a_line_says_who_has_not_answered_and_goes_away(environ: dict[str, str]) -> None:
    with FakeBroker(*RANKS) as broker:
        broker.silent.add(Question)
        with Terminal(command("eval", "all", "loss"), env=Desk(broker, environ).environ, cols=40) as terminal:
            question = broker.wait_for(Question)
            broker.tell(Progress(request=question.request, asked=2, answered=1, waiting=question.keys[1:]))
            terminal.wait_for(re.compile(r"^1 of 2 answered, waiting for 6 \(\d s\)$", re.MULTILINE))
            answered(broker, question)
            assert terminal.exit_status() == 0
            assert [row for row in terminal.screen if row.strip()] == [
                "loss: 2 of 2 ranks answered, 1 value",
                "@1  2 ranks  5-6  0.25",
            ]


def test_a_line_is_cut_at_the_edge_of_the_terminal(environ: dict[str, str]) -> None:
    with FakeBroker(*RANKS) as broker:
        broker.silent.add(Question)
        with Terminal(command("eval", "all", "x"), env=Desk(broker, environ).environ, cols=20) as terminal:
            broker.wait_for(Question)
            terminal.wait_for("2 ranks asked, wait")
            terminal.signal(2)
            assert terminal.exit_status() == 130
            assert not "".join(terminal.screen).replace("^C", "").strip()


def test_what_is_no_terminal_gets_no_line(environ: dict[str, str]) -> None:
    with FakeBroker(*RANKS) as broker:
        broker.silent.add(Question)
        asking = subprocess.Popen(
            command("eval", "all", "x"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**Desk(broker, environ).environ, "TERM": "xterm"},
        )
        with (
            Terminal(command("eval", "all", "x"), env={**Desk(broker, environ).environ, "TERM": "dumb"}) as dumb,
            asking,
        ):
            # Both wait for as long as a third one that has a line.
            with Terminal(command("eval", "all", "x"), env=Desk(broker, environ).environ) as terminal:
                questions = [broker.wait_for(Question, count=count) for count in (1, 2, 3)]
                terminal.wait_for(re.compile(r"waiting for .* \([2-9] s\)"))
                for question in questions:
                    answered(broker, question)
                assert terminal.exit_status() == 0
            assert asking.wait(60) == 0
            assert asking.stderr is not None
            assert asking.stderr.read() == ""
            assert dumb.exit_status() == 0
            assert b"waiting" not in dumb.output


def test_a_wait_for_a_stop_says_what_the_rank_does(environ: dict[str, str]) -> None:
    running = make_rank(5, state=RankState.RUNNING, where=None, reason=None)
    words = command("eval", "5", "x", "--wait")
    with FakeBroker(running) as broker, Terminal(words, env=Desk(broker, environ).environ) as terminal:
        terminal.wait_for("Waiting for 5 to stop; Ctrl-C gives up.")
        terminal.wait_for(re.compile(r"waiting for 5: running \(\d s\)"))
        broker.tell(Change(rank=make_rank(5)))
        assert terminal.exit_status() == 0
        assert "waiting for 5" not in "\n".join(terminal.screen)
