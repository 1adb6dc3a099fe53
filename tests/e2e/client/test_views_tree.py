from __future__ import annotations

from tests.unit.client.views.test_tree import said, stack, tree


def test_ranks_that_recurse_to_different_depths_make_a_deep_tree() -> None:
    (here,) = stack("f t.py:1")
    answers = said(*((here,) * depth for depth in range(1, 1100)))

    assert len(tree(answers)) > 1099
