"""The process groups that torch keeps, and what a program may have put in their place."""

from __future__ import annotations

import pytest

from dbg_agent.evidence.torch_calls import MAX_GROUPS, process_groups
from tests.unit.agent.evidence.fake_torch import FakeTorch, ProcessGroup


def test_groups_have_the_names_of_people_and_global_ranks(torch: FakeTorch) -> None:
    torch.add("default_pg", 0, 1, 2, 3, sequence=7, config="cpu:gloo,cuda:nccl")
    torch.add("undefined", 3, 1)
    torch.add("mesh_dp", 1)

    groups = process_groups(torch.module)

    assert [(group.name, group.title, group.ranks, group.sequence) for group in groups] == [
        ("0", "default", (0, 1, 2, 3), 7),
        ("1", "1", (3, 1), 0),
        ("2", "mesh_dp", (1,), 0),
    ]
    assert [group.backends for group in groups] == [("gloo", "nccl"), ("gloo",), ("gloo",)]


def test_a_backend_that_does_not_count_has_no_number(torch: FakeTorch) -> None:
    torch.add("ours", 0, sequence=None, config="")
    (group,) = process_groups(torch.module)
    assert (group.sequence, group.backends) == (None, ())


def test_what_the_program_has_put_there_is_left_out_and_not_called(torch: FakeTorch) -> None:
    class Ours(ProcessGroup):
        @property
        def group_desc(self) -> str:
            raise SystemExit

        @group_desc.setter
        def group_desc(self, value: str) -> None: ...

    ours = Ours("", 0)
    torch.names[ours], torch.ranks[ours] = "5", {0: 0}
    torch.names[torch.add("broken", 0)] = object()
    torch.ranks[torch.add("members", 0)] = [0]
    torch.config[torch.add("kept", 0)] = object()

    assert [group.title for group in process_groups(torch.module)] == ["kept"]


@pytest.mark.parametrize("table", [None, 5, "text", object()])
def test_tables_of_another_kind_are_empty(torch: FakeTorch, table: object) -> None:
    torch.add("kept", 0)
    vars(torch.module)["_pg_group_ranks"] = table
    assert process_groups(torch.module) == []
    vars(torch.module).clear()
    assert process_groups(torch.module) == []


def test_the_number_of_groups_is_bounded(torch: FakeTorch) -> None:
    for _ in range(MAX_GROUPS + 5):
        torch.add("many", 0)
    assert len(process_groups(torch.module)) == MAX_GROUPS
