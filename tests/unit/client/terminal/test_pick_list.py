from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_client.terminal import escape
from dbg_client.terminal import screen as drawing
from dbg_client.terminal.escape import COMMANDS
from dbg_client.terminal.picker import PickList, empty_text, footer_text
from dbg_client.views.naming import Naming, name_few
from dbg_command.targets import parse_target, select
from dbg_wire.records.ranks import Coordinate, Place, RankInfo, RankState
from tests.conftest import Approved
from tests.support.rank_infos import block, changed, rank
from tests.support.screen import VirtualScreen
from tests.unit.client.fake_broker import make_rank


def test_a_page_clears_the_screen() -> None:
    screen = VirtualScreen(24, 80)
    screen.feed(b"\x1b[?25h\x1b[?1000h\x1b[?2004h\x1b[5;10r\x1b[4h\x1b[7m" + b"junk " * 500)

    screen.feed(drawing.blank("one\n\nthree", 23, 80))

    assert screen.rows == ["", " one", "", " three", *[""] * 20]
    assert screen.cursor_hidden
    assert not screen.private_modes & {1000, 2004}


def test_pages_escape_foreign_text() -> None:
    assert b"\x1b[31m" not in drawing.blank("a\x1b[31mb", 23, 80)


@pytest.mark.parametrize("lines", [False, True])
def test_the_help_names_every_key_after_the_prefix(approved: Approved, *, lines: bool) -> None:
    page = escape.help_text("Ctrl-]", lines=lines)
    named = {key for line in page.splitlines() if line.startswith("  ") for key in line[2:12].split()}
    assert named >= COMMANDS
    approved(page)


RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)
NOW = 1760000000.0


def picking(*ranks: RankInfo) -> PickList:
    picks = PickList()
    picks.update(ranks)
    return picks


def chosen(picks: PickList) -> int | None:
    return picks.chosen.rank if picks.chosen else None


def test_stopped_ranks_are_listed_first_and_exited_ones_are_hidden() -> None:
    gone = make_rank(1, state=RankState.EXITED)
    picks = picking(make_rank(2, state=RankState.RUNNING, where=None), make_rank(9), gone)

    _, lines, _ = picks.show(10, NOW)

    assert [line.split()[0] for line in lines] == ["gpu013:9", "gpu013:2"]


def test_the_choice_stays_with_its_rank() -> None:
    picks = picking(make_rank(1), make_rank(2), make_rank(3))
    picks.move(1)

    picks.update([make_rank(0), make_rank(1), make_rank(2)])
    assert chosen(picks) == 2
    picks.update([make_rank(0), make_rank(1)])

    assert chosen(picks) == 0


def test_the_choice_stops_at_the_ends_and_stays_in_sight() -> None:
    picks = picking(*(make_rank(number, host=f"h{number}") for number in range(100)))
    for lines, expected in ((-5, 0), (30, 30), (1000, 99), (-98, 1)):
        picks.move(lines)
        _, shown, number = picks.show(10, NOW)
        assert chosen(picks) == expected
        assert f"gpu013:{expected} " in shown[number]
        assert len(shown) == 10


def test_typed_words_filter_the_list() -> None:
    picks = picking(make_rank(1), make_rank(2, where=Place(file="data.py", line=6, function="load")))
    picks.filter = "DATA 47"

    picks.update([make_rank(1), make_rank(2, where=Place(file="data.py", line=6, function="load"))])

    assert chosen(picks) == 2
    assert len(picks.show(10, NOW)[1]) == 1


@pytest.mark.parametrize(
    ("has_ranks", "filtered", "away"),
    [(False, "", None), (True, "xyz", None), (False, "", "it shut down"), (True, "", None)],
)
def test_an_empty_list_shows_the_reason_and_the_next_step(
    approved: Approved, has_ranks: bool, filtered: str, away: str | None
) -> None:
    picks = picking()
    picks.filter = filtered
    assert picks.chosen is None
    assert picks.show(10, NOW)[1] == []
    approved(empty_text(picks, away, "wss://login1:6900", has_ranks=has_ranks))


@pytest.mark.parametrize(
    ("chosen", "away"),
    [
        pytest.param(RUNNING, None, id="running"),
        pytest.param(make_rank(6, state=RankState.LOST), None, id="lost"),
        pytest.param(make_rank(state=RankState.HELD), None, id="held"),
        pytest.param(make_rank(), None, id="stopped"),
        pytest.param(make_rank(), "it shut down", id="broker gone"),
    ],
)
def test_the_footer_shows_why_a_rank_cannot_be_attached(
    approved: Approved, chosen: RankInfo | None, away: str | None
) -> None:
    approved(footer_text(away, chosen))


unhurried = settings(deadline=None)

crowds = st.lists(
    st.builds(
        lambda host, number, child, **rest: rank(f"{host}:{number}{child}", **rest),
        st.sampled_from(["g1", "g2", "7"]),
        st.integers(0, 9).map(str) | st.sampled_from(["?1", "?2"]),
        st.sampled_from(["", "", ".1"]),
        job=st.sampled_from(["A", "B", "4711.0"]),
        pid=st.integers(1, 3),
    ).filter(lambda info: not (info.is_classic and info.child is not None)),
    min_size=1,
    max_size=12,
    unique_by=lambda info: (info.full_address, info.pid),
)


@unhurried
@given(crowds, st.data())
def test_the_names_of_a_set_are_a_target_that_selects_it(asked: list[RankInfo], data: st.DataObject) -> None:
    some = data.draw(st.lists(st.sampled_from(asked), min_size=1, unique_by=lambda info: info.key))
    naming = Naming(asked)

    found = select(parse_target(naming.names(some)), asked).ranks

    assert {info.key for info in found} == {info.key for info in some}


@pytest.mark.parametrize(
    ("addresses", "names"),
    [
        (["a:0", "a:1", "a:2", "a:8"], "0-2,8"),
        (["a:0", "b:8", "c:16"], "0-16/8"),
        (["a:0", "a:0.1", "a:3"], "0,3,0.1"),
        (["a:0", "b:0", "b:1"], "1,a:0,b:0"),
        (["a:?1", "a:5"], "5,a:?1"),
    ],
)
def test_a_set_is_named_by_numbers_unless_they_are_ambiguous(addresses: list[str], names: str) -> None:
    ranks = [rank(address) for address in addresses]

    assert Naming(ranks).names(ranks) == names


def test_names_are_unique_among_all_asked_ranks() -> None:
    asked = [*block("A", ["g1"], 4), *block("B", ["g2"], 4)]
    alike = [rank("a:0"), rank("b:0"), rank("b:1")]

    assert Naming(asked).names(asked[1:6]) == "A/1-3,B/0-1"
    assert Naming(asked[:4]).names(asked[1:3]) == "1-2"
    assert Naming(alike).names(alike[:1]) == "a:0"
    assert Naming(alike).name(alike[2]) == "1"
    assert (name_few(asked[:1], asked[:4]), name_few(asked[:1], asked)) == ("g1:0", "A/g1:0")


def mesh(hosts: int = 4) -> list[RankInfo]:
    """Return ranks, four on each host: axis ``tp`` within a host, axis ``dp`` across hosts."""
    return [
        changed(
            info,
            coordinates=(Coordinate(axis="dp", index=info.rank // 4), Coordinate(axis="tp", index=info.rank % 4)),
        )
        for info in block("A", [f"g{number}" for number in range(hosts)], 4)
    ]


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ([4, 5, 6, 7], "host g1, dp 1"),
        ([2, 6, 10, 14], "local rank 2, tp 2"),
        ([1, 2, 5, 6, 9, 10, 13, 14], "tp 1-2"),
        ([0, 1, 2, 3, 8, 9, 10, 11], "dp 0,2"),
        ([4, 8], "dp 1-2, tp 0"),
        ([9], "dp 2, tp 1"),
        ([4, 5, 6], "dp 1, tp 0-2"),
        ([4, 5, 6, 8], ""),
        (list(range(16)), ""),
    ],
)
def test_a_set_that_is_a_part_of_the_job_is_described(numbers: list[int], reason: str) -> None:
    asked = mesh()

    assert Naming(asked).explain([asked[number] for number in numbers]) == reason


@pytest.mark.parametrize(
    ("asked", "count", "reason"),
    [
        (block("A", ["g1", "g2"], 1), 2, ""),
        (block("A", ["g1"], 4), 1, ""),
        ([*block("A", ["g1"], 2), *block("B", ["g2"], 2)], 2, ""),
        ([*mesh(2), rank("g9:99")], 4, "host g0"),
    ],
    ids=["everybody", "a single host", "several jobs", "no coordinates"],
)
def test_uninformative_descriptions_are_left_out(asked: list[RankInfo], count: int, reason: str) -> None:
    assert Naming(asked).explain(asked[:count]) == reason
