"""The stops of a job as a table."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_client.views.groups import RankAndAnswer
from dbg_client.views.naming import Naming
from dbg_client.views.stacks import common_name, group_stacks, stacks_document
from dbg_client.views.tree import (
    fold,
    show_tree,
)
from dbg_client.why.collective_matching import match_collectives
from dbg_client.why.collectives import collective_notes
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import Place, RankState, ThreadStack
from tests.conftest import Approved
from tests.support.rank_evidence import elsewhere, waiting
from tests.unit.client.fake_broker import make_rank

unhurried = settings(deadline=None)

TORCH = "/venv/lib/python3.11/site-packages/torch/distributed/c10d.py"


def place(text: str) -> Place:
    """Return ``function file:line`` as a place."""
    function, _, where = text.partition(" ")
    file, _, line = where.rpartition(":")
    return Place(file=file, line=int(line), function=function)


def stack(*texts: str) -> tuple[Place, ...]:
    return tuple(map(place, texts))


MAIN = ("<module> <frozen runpy>:198", "main /home/me/train.py:300", "step /home/me/train.py:188")
REDUCING = stack(*MAIN, f"wrapper {TORCH}:81", f"all_reduce {TORCH}:2810")
LOADING = stack(*MAIN, "next_batch /home/me/data.py:61")


def seen(
    *stacks: tuple[Place, ...], kind: Kind = Kind.VALUE, text: str = "running", first: int = 0
) -> list[RankAndAnswer]:
    ranks = [make_rank(number) for number in range(first, first + len(stacks))]
    return [
        (rank, RankAnswer(key=rank.key, kind=kind, text=text, frames=frames))
        for rank, frames in zip(ranks, stacks, strict=True)
    ]


def tree(answers: list[RankAndAnswer], *, color: bool = False) -> list[str]:
    stacks, others = group_stacks(answers)
    naming = Naming([rank for rank, _ in answers])
    return show_tree(stacks, others, naming, color=color).splitlines()


DEEPER = (*LOADING, place("read /home/me/shard.py:20"))
OTHERS = [
    *seen(LOADING, kind=Kind.LOST, text="killed by SIGSEGV", first=2),
    *seen((), kind=Kind.SILENT, text="no answer in 10 s", first=3),
]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(seen(*[REDUCING] * 511, LOADING), id="one rank elsewhere is the news"),
        pytest.param(seen(*[REDUCING] * 3, LOADING, LOADING, DEEPER), id="branches on several levels"),
        pytest.param([*seen(REDUCING, REDUCING), *OTHERS], id="a last stack, and no stack"),
        pytest.param([*seen(REDUCING, REDUCING), *seen(REDUCING, text="in C", first=2)], id="states differ"),
        pytest.param([one for n in range(9) for one in seen(REDUCING, text=f"in C {n}", first=n)], id="many states"),
    ],
)
def test_ranks_are_shown_as_a_tree_of_their_stacks(approved: Approved, answers: list[RankAndAnswer]) -> None:
    approved("\n".join(tree(answers)))


@pytest.mark.parametrize(
    ("counts", "odd"),
    [((6, 5), []), ((10, 9, 1), [1]), ((6, 5, 4), []), ((8, 3, 1), [3, 1]), ((7, 3, 2), []), ((1, 1), []), ((1,), [])],
)
def test_a_small_minority_is_marked_odd(counts: tuple[int, ...], odd: list[int]) -> None:
    answers = seen(*(stack("main t.py:1", f"f t.py:{line}") for line, count in enumerate(counts) for _ in range(count)))

    marked = [line for line in tree(answers) if "<- odd" in line]

    assert [int(line.split()[1]) for line in marked] == odd


def test_library_frames_are_folded_and_launcher_frames_are_left_out() -> None:
    launch = stack("_run <frozen runpy>:88", "run /usr/lib/python3.11/threading.py:9")
    library = stack("call /v/site-packages/torch/nn.py:1", "inner /v/site-packages/torch/nn.py:2")
    frames = (*launch, *stack("main /me/t.py:1"), *library, *stack("get /usr/lib/python3.11/queue.py:171"))

    assert [step.text for step in fold(frames)] == ["main t.py:1", "call … get queue.py:171 [3 library frames]"]
    assert [step.text for step in fold(launch)] == ["_run … run threading.py:9 [2 library frames]"]


def test_ranks_in_a_collective_wait_for_all_stopped_ranks_of_the_job() -> None:
    reducing = (*LOADING, place("all_reduce /v/torch/distributed/distributed_c10d.py:9"))
    answers = [(rank.replace(state=RankState.RUNNING), answer) for rank, answer in seen(reducing, reducing)]
    naming = Naming([rank for rank, _ in answers])
    known = [*(rank for rank, _ in answers), make_rank(7)]

    stacks, others = group_stacks(answers, known)

    (line,) = show_tree(stacks, others, naming, color=False).splitlines()[1:]
    assert line.endswith("(@1 waits in all_reduce for 1 stopped rank)")
    assert "(@1 running)" in tree(answers)[1]
    # A rank that stopped inside of it waits for nobody.
    assert tree(seen(reducing, text="stopped"))[1].endswith("(@1 stopped)")


def test_json_has_the_documented_form() -> None:
    answers = [*seen(*[stack("main /t.py:1")] * 7), *seen((), kind=Kind.SILENT, text="no answer in 10 s", first=7)]
    stacks, others = group_stacks(answers)

    assert stacks_document(stacks, others, Naming([rank for rank, _ in answers])) == {
        "schema": 1,
        "asked": 8,
        "answered": 7,
        "groups": [
            {
                "id": "@1",
                "kind": "stack",
                "ranks": "0-6",
                "count": 7,
                "age": None,
                "collective": None,
                "frames": [{"file": "/t.py", "line": 1, "function": "main"}],
            },
            {
                "id": "@?",
                "kind": "silent",
                "ranks": "7",
                "count": 1,
                "text": "no answer in 10 s",
                "age": None,
                "collective": None,
            },
        ],
        "missing": [],
    }


def test_json_shows_how_reliable_a_stack_is() -> None:
    answers = [
        *seen(LOADING, LOADING, text="stopped"),
        *seen(LOADING, text="unresponsive, last seen 40 s ago", first=2),
        *seen(LOADING, kind=Kind.LOST, text="exited", first=3),
    ]
    stacks, others = group_stacks(answers)
    document = json.loads(json.dumps(stacks_document(stacks, others, Naming([rank for rank, _ in answers]))))

    assert [(group["kind"], group["text"]) for group in document["groups"]] == [
        ("stack", "stopped; 2: unresponsive, last seen 40 s ago"),
        ("lost", "exited"),
    ]
    assert all(group["frames"][-1]["function"] == "next_batch" for group in document["groups"])
    assert (document["asked"], document["answered"]) == (4, 3)


@pytest.mark.parametrize("color", [False, True])
def test_output_of_a_rank_cannot_control_the_terminal(color: bool) -> None:
    evil = "\x1b[2J\x9b31m\n\t"
    frames = (Place(file=f"/{evil}.py", line=1, function=evil),)
    lines = tree([*seen(REDUCING, frames, text=evil), *seen((), kind=Kind.LOST, text=evil, first=2)], color=color)
    text = "".join(lines).replace("\x1b[36m", "").replace("\x1b[1;33m", "").replace("\x1b[0m", "")

    assert text.isprintable()


frames = st.lists(
    st.sampled_from(["a t.py:1", "b t.py:2", "c /v/site-packages/x.py:3", "d <frozen x>:4"]), max_size=6
).map(lambda texts: stack(*texts))


@unhurried
@given(st.lists(st.tuples(frames, st.sampled_from(list(Kind))), min_size=1, max_size=30))
def test_every_rank_is_counted_once(items: list[tuple[tuple[Place, ...], Kind]]) -> None:
    answers = [one for number, (frames, kind) in enumerate(items) for one in seen(frames, kind=kind, first=number)]

    stacks, others = group_stacks(answers)
    document = stacks_document(stacks, others, Naming([rank for rank, _ in answers]))
    lines = tree(answers)

    assert sorted(rank.key for group in [*stacks, *others] for rank in group.ranks) == sorted(
        rank.key for rank, _ in answers
    )
    assert document["asked"] == len(answers)
    assert len({group.id for group in [*stacks, *others]}) == len(stacks) + len(others)
    if stacks:
        assert int(lines[1].split()[0]) == sum(group.count for group in stacks)
    ends = [line for line in lines[1:] if "(@" in line]
    assert sum(int(line.lstrip("│├└─ ").split()[0]) for line in ends) == sum(group.count for group in stacks)


MAIN_THREADS = ("main t.py:1", "step t.py:9")
FEEDING = ("feed data.py:3", "put data.py:8")


def stack_threads(texts: tuple[str, ...]) -> tuple[Place, ...]:
    parts = [(text.partition(" ")[0], *text.partition(" ")[2].split(":")) for text in texts]
    return tuple(Place(file=f"/me/{file}", line=int(line), function=function) for function, file, line in parts)


def threads_of(
    number: int, *threads: tuple[str, tuple[str, ...]], text: str = "running", age: float | None = None
) -> RankAndAnswer:
    rank = make_rank(number)
    stacks = tuple(
        ThreadStack(name=name, frames=stack_threads(frames), halted=text == "stopped" and index == 0)
        for index, (name, frames) in enumerate(threads)
    )
    answer = RankAnswer(
        key=rank.key, kind=Kind.VALUE, text=text, frames=stack_threads(threads[0][1]), threads=stacks, age=age
    )
    return rank, answer


def lines(*answers: RankAndAnswer) -> list[str]:
    naming = Naming([rank for rank, _ in answers])
    return show_tree(*group_stacks(answers, threads=True), naming, color=False).splitlines()


WORKERS = [(f"ThreadPoolExecutor-0_{number}", FEEDING) for number in range(3)]
ALONE = make_rank(0), RankAnswer(key="0", kind=Kind.VALUE, text="stopped", frames=stack_threads(MAIN_THREADS))
SILENT = make_rank(1), RankAnswer(key="1", kind=Kind.SILENT, text="no answer in 10 s")


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(
            [
                threads_of(0, ("MainThread", MAIN_THREADS), ("Thread-3 (feeder)", FEEDING)),
                threads_of(1, ("MainThread", MAIN_THREADS), ("Thread-12 (feeder)", FEEDING), ("pin", FEEDING[:1])),
            ],
            id="a tree for each name",
        ),
        pytest.param(
            [threads_of(0, ("MainThread", MAIN_THREADS), *WORKERS, ("ThreadPoolExecutor-0_9", ("get queue.py:1",)))],
            id="several threads of one rank",
        ),
        pytest.param([ALONE, SILENT], id="a rank that reports one thread"),
    ],
)
def test_each_thread_name_has_its_own_tree(approved: Approved, answers: list[RankAndAnswer]) -> None:
    approved("\n".join(lines(*answers)))


def test_only_the_main_thread_is_in_the_recorded_collective() -> None:
    rank, answer = threads_of(0, ("MainThread", MAIN_THREADS), ("feeder", FEEDING))
    recorded = waiting(0, key=rank.key)
    notes = collective_notes(match_collectives([recorded, elsewhere(1)]))

    stacks, others = group_stacks([(rank, answer)], None, notes, threads=True)
    shown = show_tree(stacks, others, Naming([rank]), color=False).splitlines()

    assert shown[2].endswith("(@1 waits in all_reduce #5 of dp_0, 1 of 4 there)")
    assert shown[4].endswith("(@2 running)")
    groups = json.loads(json.dumps(stacks_document(stacks, others, Naming([rank]))))["groups"]
    assert [group["collective"] is None for group in groups] == [False, True]


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
def test_numbers_in_python_thread_names_are_left_out(name: str, expected: str) -> None:
    assert common_name(name) == expected


def test_a_thread_name_cannot_control_the_terminal() -> None:
    evil = ("\x1b]2;owned\x07", FEEDING)
    assert all(line.isprintable() for line in lines(threads_of(0, ("MainThread", MAIN_THREADS), evil)))
