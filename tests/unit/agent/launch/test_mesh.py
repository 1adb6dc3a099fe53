"""Coordinates of ranks in a mesh."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.settings import as_mesh, coordinates


def test_ranks_run_along_the_last_axis_first() -> None:
    mesh = as_mesh({"pp": 2, "dp": 2, "tp": 4})
    assert [(place.axis, place.index) for place in coordinates(mesh, 13)] == [("pp", 1), ("dp", 1), ("tp", 1)]


def test_the_variables_text_is_the_same_mesh() -> None:
    assert as_mesh("pp=2, dp=4") == as_mesh({"pp": 2, "dp": 4})


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_every_rank_has_its_own_place(sizes: list[int]) -> None:
    mesh = as_mesh({f"axis{number}": size for number, size in enumerate(sizes)})
    places = list(itertools.product(*map(range, sizes)))
    assert [tuple(place.index for place in coordinates(mesh, rank)) for rank in range(len(places))] == places


@pytest.mark.parametrize(
    "mesh", [{}, {"pp": 0}, {"a b": 2}, "pp", "pp=x", "dp=2,dp=4", {"x" * 99: 2}, {f"a{n}": 2 for n in range(9)}, 3]
)
def test_what_is_no_mesh_is_refused(mesh: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        as_mesh(mesh)


def test_a_rank_beyond_the_mesh_has_no_place() -> None:
    assert coordinates(as_mesh({"pp": 2}), 2) == ()
