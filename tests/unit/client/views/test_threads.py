from __future__ import annotations

import json

import pytest

from dbg_client.core.collective_matching import match_collectives
from dbg_client.views.groups import RankAndAnswer
from dbg_client.views.naming import Naming
from dbg_client.views.tree import common_name, group_threads, show_threads, threads_document
from dbg_client.views.waits import recorded_collectives
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import Place, ThreadStack
from tests.support.rank_evidence import elsewhere, waiting
from tests.unit.client.fake_broker import make_rank

MAIN = ("main t.py:1", "step t.py:9")
FEEDING = ("feed data.py:3", "put data.py:8")
EVIL = "\x1b]2;owned\x07"


def stack(texts: tuple[str, ...]) -> tuple[Place, ...]:
    parts = [(text.partition(" ")[0], *text.partition(" ")[2].split(":")) for text in texts]
    return tuple(Place(file=f"/me/{file}", line=int(line), function=function) for function, file, line in parts)


def said(
    number: int, *threads: tuple[str, tuple[str, ...]], text: str = "running", age: float | None = None
) -> RankAndAnswer:
    rank = make_rank(number)
    stacks = tuple(
        ThreadStack(name=name, frames=stack(frames), halted=text == "stopped" and index == 0)
        for index, (name, frames) in enumerate(threads)
    )
    answer = RankAnswer(key=rank.key, kind=Kind.VALUE, text=text, frames=stack(threads[0][1]), threads=stacks, age=age)
    return rank, answer


def lines(*answers: RankAndAnswer) -> list[str]:
    naming = Naming([rank for rank, _ in answers])
    return show_threads(group_threads(answers), naming, color=False).splitlines()


def test_each_name_of_threads_has_a_tree_of_its_own() -> None:
    assert lines(
        said(0, ("MainThread", MAIN), ("Thread-3 (feeder)", FEEDING)),
        said(1, ("MainThread", MAIN), ("Thread-12 (feeder)", FEEDING), ("pin", ("pin data.py:1",))),
    ) == [
        "where: 2 of 2 ranks answered, 3 different threads",
        "thread MainThread",
        "2 [0-1] main t.py:1 > step t.py:9 (@1 running)",
        "thread feeder",
        "2 [0-1] feed data.py:3 > put data.py:8 (@2 running)",
        "thread pin, on 1 alone",
        "1 [1] pin data.py:1 (@3 running)",
    ]


def test_beside_a_thread_that_stands_the_others_run_and_have_no_age() -> None:
    told = lines(said(0, ("MainThread", MAIN), ("feeder", FEEDING), text="stopped", age=252.0))

    assert told[2].endswith("(@1 stopped for 4 min 12 s)")
    assert told[4].endswith("(@2 running)")


def test_the_main_thread_alone_is_in_the_collective_that_its_rank_has_recorded() -> None:
    rank, answer = said(0, ("MainThread", MAIN), ("feeder", FEEDING))
    recorded = waiting(0, key=rank.key)
    standings = recorded_collectives(match_collectives([recorded, elsewhere(1)]))

    answers = group_threads([(rank, answer)], None, standings)
    told = show_threads(answers, Naming([rank]), color=False).splitlines()

    assert told[2].endswith("(@1 waits in all_reduce #5 of dp_0, 1 of 4 there)")
    assert told[4].endswith("(@2 running)")
    groups = json.loads(json.dumps(threads_document(answers, Naming([rank]))))["groups"]
    assert [group["collective"] is None for group in groups] == [False, True]


def test_several_threads_of_one_rank_count_as_one_rank() -> None:
    workers = [(f"ThreadPoolExecutor-0_{number}", FEEDING) for number in range(3)]
    idle = ("ThreadPoolExecutor-0_9", ("get queue.py:1",))

    told = lines(said(0, ("MainThread", MAIN), *workers, idle))

    assert told[0] == "where: 1 of 1 rank answered, 2 different threads"
    assert told[3:] == [
        "thread ThreadPoolExecutor",
        "1 [0]",
        "├─ 1 [0] feed data.py:3 > put data.py:8 (@2 running, 3 threads)",
        "└─ 1 [0] get queue.py:1 (@3 running)",
    ]


def test_a_rank_that_tells_no_threads_has_the_one_that_it_tells() -> None:
    rank = make_rank(0)
    older = rank, RankAnswer(key=rank.key, kind=Kind.VALUE, text="stopped", frames=stack(MAIN))
    silent = make_rank(1), RankAnswer(key=make_rank(1).key, kind=Kind.SILENT, text="no answer in 10 s")

    assert lines(older, silent) == [
        "where: 1 of 2 ranks answered, 1 thread",
        "thread main or stopped thread",
        "1 [0] main t.py:1 > step t.py:9 (@1 stopped)",
        "@?  1 rank  1  no answer in 10 s",
    ]


def test_json_names_the_thread_of_each_group_and_counts_ranks_once() -> None:
    answers = [said(0, ("MainThread", MAIN), ("Thread-3 (feeder)", FEEDING), age=3.0)]
    document = json.loads(json.dumps(threads_document(group_threads(answers), Naming([answers[0][0]]))))

    assert (document["asked"], document["answered"]) == (1, 1)
    assert [(group["thread"], group["ranks"], group["age"]) for group in document["groups"]] == [
        ("MainThread", "0", 3.0),
        ("feeder", "0", None),
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Thread-12 (fill_queue)", "fill_queue"),
        ("Thread-12", "Thread"),
        ("ThreadPoolExecutor-3_11", "ThreadPoolExecutor"),
        ("asyncio_4", "asyncio"),
        ("worker-3", "worker-3"),
        ("MainThread", "MainThread"),
    ],
)
def test_numbers_that_python_gives_to_threads_are_left_out(name: str, expected: str) -> None:
    assert common_name(name) == expected


def test_the_name_of_a_thread_can_not_act_on_the_terminal() -> None:
    assert all(line.isprintable() for line in lines(said(0, ("MainThread", MAIN), (EVIL, FEEDING))))
