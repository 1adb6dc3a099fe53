from __future__ import annotations

import pytest

from dbg_client.core.roll_call import Missing, MissingRanks, RollCall
from dbg_client.views.groups import group_answers, summary
from dbg_client.views.missing import absent_only, absent_rows, missing_documents, missing_in_answer
from dbg_wire.messages import Kind, RankAnswer
from tests.unit.client.fake_broker import make_rank

NOW = 1000.0


def died(*numbers: int, text: str = "killed by SIGSEGV", job: str = "A") -> MissingRanks:
    return MissingRanks(job=job, numbers=numbers, state=Missing.EXITED, text=text, since=NOW - 3)


def never(*numbers: int, job: str = "A") -> MissingRanks:
    return MissingRanks(job=job, numbers=numbers, state=Missing.ABSENT, text="never came")


def call(*missing: MissingRanks, connected: int = 3, world: int | None = 4) -> RollCall:
    return RollCall(job=missing[0].job, world=world, connected=connected, missing=missing)


def head(*calls: RollCall, answers: int = 3, running: int = 0, several_jobs: bool = False) -> str:
    said = [
        (make_rank(number), RankAnswer(key="", kind=kind, text="1", digest="1"))
        for number, kind in enumerate([Kind.VALUE] * answers + [Kind.RUNNING] * running)
    ]
    return summary("loss", group_answers(said), missing_in_answer(calls, NOW, several_jobs=several_jobs))


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([], "loss: 3 of 3 ranks answered, 1 value"),
        ([call(died(2))], "loss: 3 of 4 ranks answered: rank 2 was killed by SIGSEGV 3 s ago; 1 value"),
        (
            [call(died(1, 3))],
            "loss: 3 of 5 ranks answered: ranks 1,3 were killed by SIGSEGV, the first 3 s ago; 1 value",
        ),
        (
            [call(died(0, text="exited with status 1"), died(2, text="died"))],
            "loss: 3 of 5 ranks answered: rank 0 exited with status 1, 3 s ago, rank 2 died 3 s ago; 1 value",
        ),
        ([call(never(2, 3), connected=2)], "loss: 2 of 4 ranks have connected: 2-3 never came; 3 answered, 1 value"),
        (
            [call(died(1), never(3))],
            (
                "loss: 3 of 4 ranks answered: rank 1 was killed by SIGSEGV 3 s ago; "
                "3 of 4 ranks have connected: 3 never came; 1 value"
            ),
        ),
        ([call(never(3), connected=1)], "loss: rank 3 never came; 3 answered, 1 value"),
    ],
)
def test_the_head_of_an_answer_says_who_is_missing(calls: list[RollCall], said: str) -> None:
    assert head(*calls) == said


def test_the_head_counts_those_that_are_there_and_did_not_answer() -> None:
    absent = call(never(3))
    assert head(absent, answers=2, running=1) == (
        "loss: 3 of 4 ranks have connected: 3 never came; 2 of 3 ranks answered, 1 value"
    )


def test_of_several_jobs_each_is_named() -> None:
    said = head(call(died(2)), call(never(3, job="B\x1b"), connected=3), several_jobs=True)
    assert "rank A/2 was killed" in said
    assert "3 of 4 ranks of B\\x1b have connected: 3 never came" in said


def test_thousands_that_never_came_are_cut() -> None:
    numbers = tuple(number for number in range(3000) if number % 3)
    assert len(head(call(never(*numbers), connected=1000, world=3000))) < 160


def test_json_and_the_rows_below_a_list() -> None:
    calls = [call(died(2), never(0, 1)), call(died(5, job="B"))]

    assert missing_documents(calls) == [
        {"job": "A", "ranks": "2", "state": "exited", "text": "killed by SIGSEGV", "since": NOW - 3},
        {"job": "A", "ranks": "0-1", "state": "absent", "text": "never came", "since": None},
        {"job": "B", "ranks": "5", "state": "exited", "text": "killed by SIGSEGV", "since": NOW - 3},
    ]
    assert [one.missing for one in absent_only(calls)] == [(never(0, 1),)]
    assert absent_rows(calls, several_jobs=False) == "0-1 never connected\n"
    assert absent_rows(calls, several_jobs=True) == "A/0-1 never connected\n"
