"""Each kind of wait has a text, whatever else a rank reports, and names the ranks that it is for."""

from __future__ import annotations

import pytest

from dbg_client.why.wait_text import wait_text
from dbg_wire.records.evidence import Activity, ActivityInfo, NamedProcess, Relation, Target
from dbg_wire.records.ranks import Place

PLACE = Place(file="/home/me/train.py", line=7, function="step")
PROCESSES = (NamedProcess(pid=11, command="sort big"), NamedProcess(pid=12, relation=Relation.CHILD, name="W-1"))
FULL = {
    **dict.fromkeys(("name", "owner", "module", "function", "state", "address", "thread", "at_exit"), "n\x1b"),
    "names": ("first", "second"),
    "processes": PROCESSES,
    "more": 3,
    "place": PLACE,
    "seconds": 3.0,
    "count": 1,
    "total": 2,
    "descriptor": 1,
}


@pytest.mark.parametrize("target", [None, *Target])
@pytest.mark.parametrize("what", Activity)
def test_each_kind_of_wait_has_a_text(what: Activity, target: Target | None) -> None:
    for does in (ActivityInfo(what=what, target=target), ActivityInfo(what=what, target=target, **FULL)):  # type: ignore[arg-type]
        text = wait_text(does)
        assert text
        assert text.isprintable()
        assert "  " not in text


def test_a_process_that_is_a_rank_is_named_as_one() -> None:
    lock = ActivityInfo(what=Activity.FILE_LOCK, name="/data/lock", processes=PROCESSES[:1])
    assert wait_text(lock).endswith("process 11 (`sort big`) holds")
    assert wait_text(lock, {11: 3}).endswith("which rank 3 holds")
