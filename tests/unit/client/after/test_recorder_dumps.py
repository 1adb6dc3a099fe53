"""Verdicts from dumps of flight recorders, as torch writes them with NCCL and with gloo."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from dbg_client.after.recorder_dumps import LATE_SECONDS, RankDump, explain_dumps
from dbg_client.why.sentences import sentence_of
from dbg_client.why.show import evidence_of
from dbg_client.why.verdict import Verdict, VerdictKind, exit_status
from dbg_wire.recorder.entries import read_dump
from tests.conftest import Approved
from tests.support.recorded import raw

WRITTEN = 1_790_000_600.0
"""When the dumps were written."""

CREATED = int((WRITTEN - 600) * 1e9)
"""When the last collective was called: its time limit is ten minutes."""

FRAMES = [
    {
        "name": "all_reduce",
        "filename": "/venv/site-packages/torch/distributed_c10d.py",
        "line": 9,
    },
    {"name": "train_step", "filename": "/home/me/train.py", "line": 41},
    {"name": "<module>", "filename": "/home/me/train.py", "line": 60},
]
EVERYBODY = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}


def entry(number: int, name: str = "nccl:all_reduce", **more: Any) -> dict[str, Any]:
    """Return an entry of NCCL's recorder, in which a collective has begun."""
    return raw(number, name, state="started", time_created_ns=CREATED, frames=FRAMES, **more)


def ended(number: int, name: str = "nccl:all_reduce", **more: Any) -> dict[str, Any]:
    """Return an entry of a collective that has ended."""
    return {**entry(number, name, **more), "state": "completed", "retired": True}


def dump_of(rank: int, *entries: dict[str, Any], config: object = EVERYBODY, written: float = WRITTEN) -> RankDump:
    """Return what a rank has left."""
    document = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": list(entries)}
    return RankDump(rank=rank, dump=read_dump(pickle.dumps(document, 2)), written=written)


def verdict_of(*dumps: RankDump) -> Verdict:
    """Return the worst verdict."""
    return explain_dumps(dumps).verdicts[0]


def test_rank_without_a_dump_is_not_blamed(approved: Approved) -> None:
    found = explain_dumps([dump_of(rank, ended(4), entry(5)) for rank in (0, 1, 3)])

    assert found.verdicts[0].kind is VerdictKind.UNKNOWN
    approved(sentence_of(found.verdicts[0]))
    approved(evidence_of(found.verdicts[0]), "2")
    assert (found.asked, found.answered) == (4, 3)

    alone = explain_dumps([dump_of(0, ended(4), entry(5))])
    approved(sentence_of(alone.verdicts[0]), "3")
    assert exit_status(alone.verdicts) == 6


def test_ranks_without_a_dump_are_reported_if_no_rank_waits_for_them(approved: Approved) -> None:
    config = {**EVERYBODY, "7": {"name": "7", "desc": "tp_0", "ranks": "[0, 1]"}}
    found = explain_dumps(
        [dump_of(0, entry(9, group="7"), config=config), dump_of(1, ended(8, group="7"), config=config)]
    )
    assert [verdict.kind for verdict in found.verdicts] == [VerdictKind.MISSING, VerdictKind.UNKNOWN]
    approved(sentence_of(found.verdicts[1]))


COPIED = WRITTEN + 2 * LATE_SECONDS
TWO_GROUPS = {**EVERYBODY, "7": {"name": "7", "desc": "tp_1", "ranks": "[2, 3]"}}
GLOO = {"": {"name": "", "desc": "", "ranks": "[0, 1, 2]"}}
GLOO_CALL = raw(5, "gloo:all_reduce", time_created_ns=CREATED)
GLOO_LAST = raw(4, "gloo:all_reduce", retired=True, time_created_ns=CREATED)


@pytest.mark.parametrize(
    ("kind", "ranks", "dumps"),
    [
        pytest.param(
            "missing",
            (2,),
            [*(dump_of(rank, ended(4), entry(5)) for rank in (0, 1, 3)), dump_of(2, ended(4))],
            id="one has not come",
        ),
        pytest.param("unknown", (0, 1, 2, 3), [dump_of(rank, ended(5)) for rank in range(4)], id="all has ended"),
        pytest.param("unknown", (0, 1, 2, 3), [dump_of(rank, entry(5)) for rank in range(4)], id="all have come"),
        pytest.param(
            "order",
            (3,),
            [*(dump_of(rank, entry(5)) for rank in (0, 1, 2)), dump_of(3, entry(5, "nccl:_all_gather_base"))],
            id="different collectives",
        ),
        pytest.param(
            "missing",
            (2,),
            [
                *(dump_of(rank, entry(5), written=COPIED) for rank in (0, 1, 3)),
                dump_of(2, ended(4), written=COPIED),
            ],
            id="a copy tells no age",
        ),
        pytest.param(
            "missing",
            (2,),
            [*(dump_of(rank, entry(5)) for rank in (0, 1, 3)), dump_of(2, ended(4), written=WRITTEN - 7200)],
            id="different times",
        ),
        pytest.param(
            "missing",
            (3,),
            [
                dump_of(0),
                dump_of(1),
                dump_of(2, entry(9, group="7"), config=TWO_GROUPS),
                dump_of(3, ended(8, group="7"), config=TWO_GROUPS),
            ],
            id="a group of some ranks",
        ),
        pytest.param(
            "missing",
            (1,),
            [
                *(dump_of(rank, GLOO_CALL, config=GLOO) for rank in (0, 2)),
                dump_of(1, GLOO_LAST, config={"": {"ranks": "[]"}}),
            ],
            id="gloo keeps no groups",
        ),
    ],
)
def test_dumps_give_a_verdict(approved: Approved, kind: str, ranks: tuple[int, ...], dumps: list[RankDump]) -> None:
    verdict = verdict_of(*dumps)

    assert (verdict.kind.value, verdict.ranks, verdict.next) == (kind, ranks, None)
    approved("\n".join([sentence_of(verdict), *evidence_of(verdict)]))


def test_hostile_names_stay_in_their_line() -> None:
    name = "x\x1b[2J\n" * 50
    config = {"0": {"name": "0", "desc": name, "ranks": "[0, 1]"}}
    verdict = verdict_of(dump_of(0, entry(5, f"nccl:{name}"), config=config), dump_of(1, ended(4), config=config))
    assert sentence_of(verdict).isprintable()
    assert all(line.isprintable() for line in evidence_of(verdict))
