from __future__ import annotations

from dbg_client.core.collective_matching import match_collectives
from dbg_client.core.process_groups import RankEvidence
from dbg_client.hang.collectives_table import collectives_document, show_collectives
from dbg_wire.records.evidence import Evidence, GroupSeen, SourceSeen
from tests.support.rank_evidence import call, elsewhere, group, silent, told, waiting


def table(*everybody: RankEvidence) -> list[str]:
    return show_collectives(match_collectives(everybody), color=False).splitlines()


def test_a_row_tells_how_many_ranks_have_called_started_and_finished_the_last_collective() -> None:
    assert table(waiting(0), waiting(1), waiting(3), elsewhere(2)) == [
        "GROUP  RANKS  LAST CALLED    BY      STARTED  FINISHED  NOT CALLED BY  DATA           AGE",
        "dp_0   0-3    all_reduce #5  3 of 4  3 of 4   0 of 4    2              float32 4 KiB  1 min",
    ]


def test_columns_that_hold_nothing_are_left_out() -> None:
    assert table(*(elsewhere(n) for n in range(4))) == [
        "GROUP  RANKS  LAST CALLED    BY      STARTED  FINISHED  DATA",
        "dp_0   0-3    all_reduce #4  4 of 4  4 of 4   4 of 4    float32 4 KiB",
    ]


def test_groups_without_a_collective_receives_and_silent_ranks_have_their_words() -> None:
    receiving = told(0, groups=[group()], calls=[call(1, "recv", peer=1, is_receive=True)])

    assert table(receiving, told(1, groups=[group()]), silent(2)) == [
        "GROUP  RANKS  LAST CALLED     BY      NOT CALLED BY  DATA           AGE",
        "dp_0   0-3    none yet        0 of 4",
        "dp_0   0-3    recv #1 from 1  0       1              float32 4 KiB  1 min",
        "1 of 3 ranks told of no group",
    ]


def test_what_libraries_can_not_tell_stands_below() -> None:
    off = Evidence(sources=(SourceSeen(library="torch", version="2.4.0", lack="it has no recorder for gloo"),))

    assert table(told(0, evidence=off, world_size=1)) == [
        "no rank tells of a process group",
        "torch 2.4.0: it has no recorder for gloo",
    ]


def test_the_document_names_all_ranks() -> None:
    world = GroupSeen(library="mpi4py", name="w", title="MPI_COMM_WORLD", size=4)
    ranks = [told(n, groups=[world], calls=[call(None, "Allreduce", group="w")]) for n in (0, 1, 2)]

    document = collectives_document(match_collectives([*ranks, told(3, groups=[world])]))

    assert document == {
        "schema": 1,
        "asked": 4,
        "answered": 4,
        "groups": [
            {
                "job": "4711.0",
                "group": "MPI_COMM_WORLD",
                "library": "mpi4py",
                "backend": None,
                "ranks": "0-3",
                "collective": "Allreduce",
                "sequence": None,
                "peer": None,
                "called": "0-2",
                "started": None,
                "finished": None,
                "missing": "3",
                "types": "float32",
                "shapes": "[1024]",
                "bytes": 4096,
                "age": 60.0,
            }
        ],
        "notes": [],
    }
