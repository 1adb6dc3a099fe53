from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from dbg_client.questions.verbs import refuse_for_sets
from dbg_client.views.waits import show_duration
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Attach, Change, Kind, Look, Question, RankAnswer
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, EvidenceRecord, GroupSeen
from dbg_wire.records.ranks import Place, RankInfo, RankState
from tests.e2e.client.test_terminal_raw import Window
from tests.full.terminals.test_actions_from_shell import Desk, command
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_rank

RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)


HELD = make_rank(7, state=RankState.HELD, reason=None)


GONE = make_rank(8, state=RankState.EXITED, exit=1)


AGE = show_duration(time.time() - GONE.since)


def value(text: str, kind: Kind = Kind.VALUE) -> RankAnswer:
    return RankAnswer(key="", kind=kind, text=text, digest=f"d{text}", exact=f"e{text}")


def stack(file: str, line: int) -> RankAnswer:
    frames = (Place(file="/t.py", line=1, function="main"), Place(file=file, line=line, function="f"))
    return RankAnswer(key="", kind=Kind.VALUE, text="running", frames=frames)


def answering(broker: FakeBroker, **texts: RankAnswer) -> None:
    """Have rank 5 give the answer that is passed as ``_5``."""
    broker.said = {make_rank(int(name[1:])).key: answer for name, answer in texts.items()}


def test_a_value_is_asked_of_all_ranks_of_the_set_in_one_question(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), RUNNING, HELD, GONE) as broker:
        answering(broker, _5=value("0.25"), _6=value("running, data.py:61", Kind.RUNNING), _7=value("0.25"))
        done = Desk(broker, environ).run("eval", "all", "loss", "--timeout", "7")
        question = broker.wait_for(Question)

    assert done.stdout == (
        f"loss: 2 of 4 ranks answered: rank 8 exited with status 1, {AGE} ago; 1 value\n"
        "@1    2 ranks  5,7  0.25\n@run  1 rank   6    running, data.py:61\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (question.action, question.text, question.seconds) == (Action.EVAL, "loss", 7.0)
    assert question.keys == (make_rank(5).key, RUNNING.key, HELD.key)
    assert (question.live, question.stats) == (False, False)


def test_options_of_a_question_are_passed_on(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        Desk(broker, environ).run("eval", "5", "x", "--live", "--stats", "--frame", "-2")
        question = broker.wait_for(Question)

    assert question.live
    assert question.stats
    assert question.frame == "-2"


@pytest.mark.parametrize("words", [["command", "5", "p x"], ["interrupt", "5", "--json"]])
def test_a_command_and_a_break_in_take_a_frame(words: list[str], environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        Desk(broker, environ).run(*words, "--frame", "train_step")
        assert broker.wait_for(Question).frame == "train_step"


@pytest.mark.parametrize(
    ("kind", "status"),
    [(Kind.VALUE, 0), (Kind.ERROR, 0), (Kind.RUNNING, 0), (Kind.SILENT, 6), (Kind.LOST, 6)],
)
def test_silence_shows_in_the_status_and_an_exception_is_an_answer(
    kind: Kind, status: int, environ: dict[str, str]
) -> None:
    with FakeBroker(make_rank(4), make_rank(5)) as broker:
        answering(broker, _4=value("1"), _5=value("1", kind))
        done = Desk(broker, environ).run("eval", "all", "x", "--json")

    assert done.returncode == status
    assert {group["kind"] for group in json.loads(done.stdout)["groups"]} == {"value", kind.value}


def test_ranks_that_all_run_are_status_1_and_it_says_what_to_do(environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING) as broker:
        broker.answers[Action.EVAL] = value("running", Kind.RUNNING)
        done = Desk(broker, environ).run("eval", "6", "x")

    assert done.returncode == 1
    assert "@run" in done.stdout
    for word in ("gpu013:6 is not stopped", "interrupt", "--wait", "--live"):
        assert word in done.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [(["eval", "8", "x"], 8), (["interrupt", "8"], 8), (["eval", "9", "x"], 3), (["interrupt"], 2), (["release"], 2)],
)
def test_questions_to_nobody(words: list[str], status: int, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), GONE) as broker:
        done = Desk(broker, environ).run(*words)
        assert not any(isinstance(item, Question) for item in broker.received)

    assert (done.returncode, done.stdout) == (status, "")


def test_ranks_that_the_broker_forgets_are_silent(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(4), make_rank(5)) as broker:
        broker.silent.add(Question)
        asking = subprocess.Popen(
            command("eval", "all", "x", "--json"), stdout=subprocess.PIPE, text=True, env=Desk(broker, environ).environ
        )
        with asking:
            question = broker.wait_for(Question)
            broker.reply(question, {make_rank(5).key: value("1")})
            assert asking.stdout is not None
            document = json.loads(asking.stdout.read())
            assert asking.wait(60) == 6

    assert [(group["kind"], group["ranks"]) for group in document["groups"]] == [("value", "5"), ("silent", "4")]


def test_where_asks_everybody_and_draws_a_tree(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(4), make_rank(5), RUNNING, GONE) as broker:
        answering(broker, _4=stack("/a.py", 7), _5=stack("/a.py", 7), _6=stack("/data.py", 61), _8=stack("/a.py", 7))
        desk = Desk(broker, environ)
        tree, document = desk.run("where"), desk.run("where", "--json")
        everything = [desk.run("where", *words, "--all", "--json") for words in ([], ["all"])]

    assert tree.stdout.splitlines() == [
        f"where: 3 of 4 ranks answered: rank 8 exited with status 1, {AGE} ago; 2 different stacks",
        "3 [4-6] main t.py:1",
        "├─ 2 [4-5] f a.py:7 (@1 running)",
        "└─ 1 [6] f data.py:61 (@2 running)  <- odd one out",
    ]
    assert [group["ranks"] for group in json.loads(document.stdout)["groups"]] == ["4-5", "6"]
    assert [json.loads(done.stdout)["asked"] for done in everything] == [4, 4]
    assert (tree.returncode, tree.stderr) == (0, "")


def test_where_of_all_jobs_tells_them_apart(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), make_rank(5, job="4712.0", key="other")) as broker:
        broker.answers[Action.WHERE] = stack("/a.py", 7)
        done = Desk(broker, environ).run("where", "--json")

    assert [group["ranks"] for group in json.loads(done.stdout)["groups"]] == ["4711.0/5,4712.0/5"]


def test_the_last_stacks_of_a_job_that_has_ended_are_no_failure(environ: dict[str, str]) -> None:
    with FakeBroker(GONE) as broker:
        frames = stack("/a.py", 7).frames
        broker.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.LOST, text="exited with status 1", frames=frames)
        done = Desk(broker, environ).run("where")

    assert done.returncode == 0
    assert "f a.py:7 (@1 exited with status 1)" in done.stdout


def test_where_of_nobody_is_status_3(environ: dict[str, str]) -> None:
    with FakeBroker() as broker:
        assert Desk(broker, environ).run("where").returncode == 3


@pytest.mark.parametrize(
    "text",
    [
        "q",
        " quit ",
        "exit",
        "exit()",
        "EOF",
        "interact",
        "debug f()",
        "commands 1",
        "run",
        "restart a",
        "n ;; q",
        "n;;q",
    ],
)
def test_what_is_for_one_terminal_is_refused_for_a_set(text: str) -> None:
    refuse_for_sets(text, 1)
    with pytest.raises(BadInput, match="not for 8 ranks"):
        refuse_for_sets(text, 8)


@pytest.mark.parametrize("text", ["n", "c", "p q", "!q = 1", "quiet()", "b t.py:5, rank == 3", "pp run"])
def test_other_commands_are_for_sets_too(text: str) -> None:
    refuse_for_sets(text, 8)


def test_a_step_on_all_ranks_tells_where_each_is(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(4), make_rank(5)) as broker:
        broker.answers[Action.COMMAND] = RankAnswer(key="", kind=Kind.VALUE, text="train.py:42 step")
        desk = Desk(broker, environ)
        moved, refused = desk.run("command", "all", "n"), desk.run("command", "all", "q")
        question = broker.wait_for(Question)
        assert len([item for item in broker.received if isinstance(item, Question)]) == 1

    assert moved.stdout == "n: 2 of 2 ranks answered, 1 value\n@1  2 ranks  4-5  train.py:42 step\n"
    assert (question.action, question.text) == (Action.COMMAND, "n")
    assert refused.returncode == 2
    assert "`kill` ends ranks" in refused.stderr


def test_a_group_of_an_answer_is_a_target_of_the_next(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(3), make_rank(4), make_rank(5)) as broker:
        answering(broker, _3=value("1"), _4=value("1"), _5=value("NameError: x", Kind.ERROR))
        desk = Desk(broker, environ)
        early = desk.run("where", "@err")
        desk.run("eval", "all", "x")
        desk.run("eval", "@err", "y")
        assert broker.wait_for(Question, count=2).keys == (make_rank(5).key,)
        unknown = desk.run("where", "@7")
        listed = desk.run("list", "@err", "--plain")

    assert early.returncode == 3
    assert "no group @err is remembered" in early.stderr
    assert unknown.returncode == 3
    assert "@7" in unknown.stderr
    assert listed.stdout.split("\t")[0] == "gpu013:5"


def test_where_names_the_collective_and_who_is_missing_from_it_is_a_target(environ: dict[str, str]) -> None:
    waits = [stack("/c.py", 9).replace(rows=collective(7), age=252.0) for _ in range(2)]
    with FakeBroker(*(make_rank(number, state=RankState.RUNNING, reason=None) for number in (3, 4, 5))) as broker:
        answering(broker, _3=waits[0], _4=waits[1], _5=stack("/data.py", 17).replace(rows=collective(6, waits=False)))
        desk = Desk(broker, environ)
        shown, document = desk.run("where"), json.loads(desk.run("where", "--json").stdout)
        assert broker.wait_for(Question).look is Look.COLLECTIVES
        desk.run("where", "@missing")
        assert broker.wait_for(Question, count=3).keys == (make_rank(5).key,)
        # That answer knows of no collective, and the next command is still about the same ranks.
        desk.run("eval", "@missing", "step", "--live")
        assert broker.wait_for(Question, count=4).keys == (make_rank(5).key,)
        desk.run("eval", "all", "step", "--live")
        assert desk.run("where", "@missing").returncode == 3

    assert shown.stdout.splitlines() == [
        "where: 3 of 3 ranks answered, 2 different stacks",
        "3 [3-5] main t.py:1",
        "├─ 2 [3-4] f c.py:9 (@1 waits in all_reduce #7 of dp_0, 2 of 3 there, in it for 4 min 12 s)",
        "└─ 1 [5] f data.py:17 (@2 running)  <- odd one out",
        "@missing  1 rank  5  not come to all_reduce #7 of dp_0",
    ]
    assert [group["collective"] for group in document["groups"]] == [
        {"name": "all_reduce", "sequence": 7, "group": "dp_0", "there": 2, "of": 3},
        None,
    ]
    assert [group["age"] for group in document["groups"]] == [252.0, None]


def collective(sequence: int, *, waits: bool = True) -> tuple[EvidenceRecord, ...]:
    """Return what a rank of the group 3-5 tells that has called so many collectives, and waits in the last one."""
    finished = sequence - 1 if waits else sequence
    group = GroupSeen(
        library="torch", name="0", title="dp_0", members="3-5", enqueued=sequence, started=sequence, completed=finished
    )
    state = CollectiveState.STARTED if waits else CollectiveState.COMPLETED
    call = CollectiveSeen(group="0", name="all_reduce", state=state, sequence=sequence, age=250.0)
    return group, call


def test_a_group_of_one_can_be_attached_to(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(4), make_rank(5)) as broker:
        answering(broker, _4=value("1"), _5=value("2"))
        # One shell runs both commands, since groups are remembered for one terminal.
        words = " ".join(command())
        script = f"{words} eval all x && exec {words} @2"
        with Terminal(["sh", "-c", script], env=Desk(broker, environ).environ) as terminal:
            terminal.wait_for("PUDB SCREEN")
            assert broker.wait_for(Attach).key == make_rank(5).key


def test_disagreement_is_a_status_for_scripts(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(4), make_rank(5)) as broker:
        answering(broker, _4=value("0.5"), _5=value("0.5000001"))
        desk = Desk(broker, environ)
        strict = desk.run("eval", "all", "x", "--fail-if-differ")
        lenient = desk.run("eval", "all", "x", "--fail-if-differ", "--tol", "1e-3")
        without = desk.run("eval", "all", "x")

    assert (strict.returncode, lenient.returncode, without.returncode) == (1, 0, 0)


def test_answers_are_kept_and_compared(environ: dict[str, str], tmp_path: Path) -> None:
    kept = str(tmp_path / "before.json")
    with FakeBroker(make_rank(4), make_rank(5)) as broker:
        answering(broker, _4=value("1"), _5=value("1"))
        desk = Desk(broker, environ)
        desk.run("eval", "all", "x", "--save", kept)
        same = desk.run("eval", "all", "x", "--against", kept, "--fail-if-differ")
        answering(broker, _4=value("1"), _5=value("2"))
        other = desk.run("eval", "all", "x", "--against", kept, "--json")
        failing = desk.run("eval", "4", "x", "--against", kept, "--fail-if-differ")

    assert (same.returncode, other.returncode, failing.returncode) == (0, 0, 1)
    assert "0 changed, 2 equal" in same.stdout
    assert json.loads(other.stdout)["against"]["changed"] == [{"ranks": "5", "count": 1, "before": "1", "now": "2"}]
    assert "5  missing" in failing.stdout


@pytest.mark.parametrize(
    ("option", "status", "said"), [("--against", 2, "can't be read"), ("--save", 1, "can't be written")]
)
def test_files_that_can_not_be_used_are_named(option: str, status: int, said: str, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        done = Desk(broker, environ).run("eval", "5", option, "/nowhere/file.json", "x")

    assert done.returncode == status
    assert f"/nowhere/file.json {said}" in done.stderr


def test_release_asks_the_held_ranks_alone(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), HELD, RUNNING) as broker:
        broker.answers[Action.RELEASE] = RankAnswer(key="", kind=Kind.VALUE, text="released")
        desk = Desk(broker, environ)
        done, nothing = desk.run("release", "all"), desk.run("release", "5-6")
        question = broker.wait_for(Question)

    assert (done.returncode, done.stdout) == (0, "gpu013:7 released\n")
    assert (question.action, question.keys) == (Action.RELEASE, (HELD.key,))
    assert nothing.returncode == 1
    assert "none of the 2 ranks is held" in nothing.stderr


def test_breaking_into_a_set_prints_a_table(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), RUNNING) as broker:
        in_c = "in C code: data.py:61 next_batch, for 3 s; stops on return"
        answering(broker, _5=value("stopped already"), _6=value(in_c, Kind.RUNNING))
        done = Desk(broker, environ).run("interrupt", "all")

    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == ["@1    1 rank  5  stopped already", f"@run  1 rank  6  {in_c}"]


@pytest.mark.parametrize(("answer", "status", "asked"), [("y\n", 0, True), ("\n", 1, False)])
def test_breaking_into_several_ranks_asks_first(answer: str, status: int, asked: bool, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), RUNNING, make_rank(7, state=RankState.UNRESPONSIVE)) as broker:
        with Terminal(command("interrupt", "all"), env=Desk(broker, environ).environ) as terminal:
            terminal.wait_for("Break into 2 ranks (gpu013:6, gpu013:7)? [y/N]")
            terminal.send(answer)
            assert terminal.exit_status() == status
        assert asked == any(isinstance(item, Question) for item in broker.received)


def test_breaking_into_several_ranks_without_a_terminal_needs_y(environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING, make_rank(7, state=RankState.RUNNING)) as broker:
        refused = Desk(broker, environ).run("interrupt", "all")
        assert not any(isinstance(item, Question) for item in broker.received)
        done = Desk(broker, environ).run("interrupt", "all", "-y")

    assert (refused.returncode, done.returncode) == (2, 0)
    assert "add -y" in refused.stderr


def test_an_expression_without_ranks_is_for_those_that_can_answer(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), HELD, RUNNING) as broker:
        done = Desk(broker, environ).run("eval", "loss")
        asked = [item for item in broker.received if isinstance(item, Question)]

    assert done.returncode == 0
    assert [len(question.keys) for question in asked] == [2]


@pytest.mark.parametrize(("kind", "status"), [(Kind.ERROR, 1), (Kind.SILENT, 6), (Kind.LOST, 6)])
def test_a_break_in_that_fails_has_a_status(kind: Kind, status: int, environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING) as broker:
        answering(broker, _6=value("no", kind))
        assert Desk(broker, environ).run("interrupt", "6").returncode == status


def test_breaking_into_one_rank_attaches_once_it_has_stopped(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), RUNNING) as broker:
        broker.answers[Action.INTERRUPT] = value("in C code: data.py:61 f, for 3 s; stops on return", Kind.RUNNING)
        with Window(broker, environ, "interrupt", "6") as window:
            window.wait_for("gpu013:6 is in C code: data.py:61 f, for 3 s; stops on return")
            window.wait_for(re.compile(r"waiting for gpu013:6 to stop \(\d+ s\)"))
            stopped = make_rank(6, reason="interrupt")
            broker.ranks[stopped.key] = stopped
            broker.tell(Change(rank=stopped))
            window.wait_for("PUDB SCREEN")
            assert broker.wait_for(Attach).key == stopped.key


def test_a_rank_that_is_stopped_already_is_attached_to_at_once(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker, Window(broker, environ, "interrupt", "5") as window:
        window.wait_for("PUDB SCREEN")
        assert not any(isinstance(item, Question) for item in broker.received)


@pytest.mark.parametrize(
    ("rank", "status"),
    [(GONE, 8), (make_rank(8, state=RankState.LOST), 1), (make_rank(8, state=RankState.HELD, reason=None), 1)],
)
def test_what_can_not_be_broken_into_says_why(rank: RankInfo, status: int, environ: dict[str, str]) -> None:
    with FakeBroker(rank) as broker, Window(broker, environ, "interrupt", "8") as window:
        assert window.exit_status() == status


def test_a_rank_that_dies_before_it_stops_is_status_8(environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING) as broker:
        broker.answers[Action.INTERRUPT] = value("in C code", Kind.RUNNING)
        with Window(broker, environ, "interrupt", "6") as window:
            window.wait_for("in C code")
            broker.tell(Change(rank=make_rank(6, state=RankState.EXITED, exit=-9)))
            assert window.exit_status() == 8


def test_every_repeats_until_ctrl_c(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        answering(broker, _5=value("1"))
        asking = subprocess.Popen(
            command("eval", "5", "x", "--every", "0.1"),
            stdout=subprocess.PIPE,
            text=True,
            env=Desk(broker, environ).environ,
        )
        with asking:
            broker.wait_for(Question, count=2)
            answering(broker, _5=value("2"))
            broker.wait_for(Question, count=5)
            asking.send_signal(signal.SIGINT)
            assert asking.stdout is not None
            text = asking.stdout.read()
            assert asking.wait(60) == 130

    documents = text.rstrip("\n").split("\n\n")
    assert documents[0] == "x: 1 of 1 rank answered, 1 value\n@1  1 rank  5  1"
    assert any(document.endswith("5  2") for document in documents)


def test_every_with_json_is_a_line_each(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        answering(broker, _5=stack("/a.py", 7))
        asking = subprocess.Popen(
            command("where", "--every", "0.1", "--json"),
            stdout=subprocess.PIPE,
            text=True,
            env=Desk(broker, environ).environ,
        )
        with asking:
            broker.wait_for(Question, count=3)
            asking.send_signal(signal.SIGINT)
            assert asking.stdout is not None
            lines = asking.stdout.read().splitlines()

    assert len(lines) >= 2
    assert all(json.loads(line)["asked"] == 1 for line in lines)


def test_every_repaints_a_terminal_and_outlives_the_broker(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        port = broker.port
        with Terminal(
            command("list", "--every", "0.1", "--timeout", "2"), env=Desk(broker, environ).environ
        ) as terminal:
            terminal.wait_for("gpu013:5  stopped")
            broker.tell(Change(rank=make_rank(5, state=RankState.RUNNING, where=None, reason=None)))
            terminal.wait_for(
                lambda term: sum("gpu013:5" in row for row in term.screen) == 1 and "running" in str(term.screen)
            )
            broker.stop()
            terminal.wait_for("dbg-attach: no broker answers")
            with FakeBroker(make_rank(4), port=port):
                terminal.wait_for(lambda term: "gpu013:4" in str(term.screen) and "gpu013:5" not in str(term.screen))
                terminal.send("\x03")
                assert terminal.exit_status() == 130
