"""A page that is refreshed has what is printed now, and keeps what it leaves open."""

from __future__ import annotations

import pytest

from tests.docs.refresh import renewed


@pytest.mark.parametrize(
    ("told", "printed", "kept"),
    [
        (["for 3 s"], ["for 5 s"], ["for 3 s"]),
        (["4 ranks"], ["5 ranks"], ["5 ranks"]),
        (["pid …", "4 ranks"], ["pid 17", "5 ranks"], ["pid …", "5 ranks"]),
        (["head", "…", "4 ranks"], ["head", "one", "two", "5 ranks"], ["head", "one", "two", "5 ranks"]),
        (["old", "…", "tail"], ["new", "one", "two", "tail"], ["new", "one", "two", "tail"]),
        (["old", "head", "…", "tail"], ["new", "head", "one", "two", "tail"], ["new", "head", "…", "tail"]),
        ([], ["first"], ["first"]),
    ],
)
def test_what_still_agrees_stays(told: list[str], printed: list[str], kept: list[str]) -> None:
    assert renewed(told, printed) == kept
