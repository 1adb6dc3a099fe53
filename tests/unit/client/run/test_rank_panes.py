"""Which ranks get a pane; tmux is a few functions."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from dbg_client.core.left_breakpoints import write_breakpoints
from dbg_client.run import panes as rank_panes
from dbg_client.run.panes import RankPanes
from dbg_client.run.tmux import MAX_PANES, NoTmux
from dbg_client.words.settings import AttachOptions, BrokerOptions, Tmux
from dbg_wire.records.ranks import Breakpoint, RankInfo
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank


class Panes:
    """A tmux: the panes that are open, and what was asked of it."""

    def __init__(self) -> None:
        self.open: list[str] = ["%0"]
        self.asked: list[tuple[str, str, bool]] = []
        self.said: list[str] = []
        self.files: list[str] = []
        self.is_there = True

    def open_beside(self, settings: Tmux, rank: RankInfo, _: object, behind: str, *, is_first: bool) -> str:
        if not self.is_there:
            raise NoTmux
        self.asked.append((rank.address, behind, is_first))
        self.files.append(str(settings.attach.breakpoints_to))
        self.open.append(f"%{len(self.asked)}")
        return self.open[-1]


@pytest.fixture
def tmux(monkeypatch: pytest.MonkeyPatch) -> Panes:
    panes = Panes()
    monkeypatch.setattr(rank_panes, "open_pane_beside", panes.open_beside)
    monkeypatch.setattr(rank_panes, "living_panes", lambda: frozenset(panes.open))
    monkeypatch.setattr(rank_panes, "kill_pane", panes.open.remove)
    return panes


@pytest.fixture
def shown(tmux: Panes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RankPanes:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return RankPanes(BrokerOptions(), AttachOptions(), "%0", tmux.said.append)


async def test_the_first_is_at_the_side_and_the_others_below_it(tmux: Panes, shown: RankPanes) -> None:
    for number in (5, 6, 7):
        await shown.show(make_rank(number), [])
    assert tmux.asked == [("gpu013:5", "%0", True), ("gpu013:6", "%1", False), ("gpu013:7", "%2", False)]


async def test_a_rank_that_stops_again_has_its_pane(tmux: Panes, shown: RankPanes) -> None:
    await shown.show(make_rank(5), [])
    await shown.show(make_rank(5, since=1760000001.0), [])
    assert len(tmux.asked) == 1


async def test_a_pane_that_was_closed_is_opened_at_the_next_stop(tmux: Panes, shown: RankPanes) -> None:
    await shown.show(make_rank(5), [])
    tmux.open.remove("%1")
    await shown.show(make_rank(5, since=1760000001.0), [])
    assert tmux.asked[1:] == [("gpu013:5", "%0", True)]


async def test_at_the_end_those_of_ended_ranks_are_closed(tmux: Panes, shown: RankPanes) -> None:
    await shown.show(make_rank(5), [])
    await shown.show(make_rank(6), [])
    await shown.close([make_rank(6)])
    assert tmux.open == ["%0", "%2"]


async def test_what_can_not_be_opened_is_told_with_another_way(
    approved: Approved, tmux: Panes, shown: RankPanes
) -> None:
    tmux.is_there = False
    await shown.show(make_rank(5), [])
    (sentence,) = tmux.said
    approved(sentence)


async def test_a_full_disk_is_told_as_well(
    approved: Approved, tmux: Panes, shown: RankPanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(rank_panes, "directory_in_memory", full)
    await shown.show(make_rank(5), [])
    approved(tmux.said[0])
    await shown.close([])


async def test_more_than_can_be_looked_at_are_told(approved: Approved, tmux: Panes, shown: RankPanes) -> None:
    for number in range(MAX_PANES + 1):
        await shown.show(make_rank(number), [])
    assert len(tmux.asked) == MAX_PANES
    approved(tmux.said[0])


async def test_what_is_set_in_the_panes_is_known_until_they_are_closed(tmux: Panes, shown: RankPanes) -> None:
    first, second = (Breakpoint(file="/home/me/train.py", line=line) for line in (7, 44))
    for number in (5, 6):
        await shown.show(make_rank(number), [])
    write_breakpoints(tmux.files[0], [second])
    write_breakpoints(tmux.files[1], [second, first])

    assert shown.breakpoints() == (first, second)
    await shown.close([])
    write_breakpoints(tmux.files[0], [first])
    assert shown.breakpoints() == ()
