from __future__ import annotations

from dbg_client.views.pick_list import PickList, empty_text, footer_text, title_text
from dbg_wire.records.ranks import Place, RankInfo, RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank

RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)
NOW = 1760000000.0


def picking(*ranks: RankInfo) -> PickList:
    picks = PickList()
    picks.update(ranks)
    return picks


def chosen(picks: PickList) -> int | None:
    return picks.chosen.rank if picks.chosen else None


def test_stopped_ranks_come_first_and_exited_ones_not_at_all() -> None:
    gone = make_rank(1, state=RankState.EXITED)
    picks = picking(make_rank(2, state=RankState.RUNNING, where=None), make_rank(9), gone)

    lines = picks.show(10, NOW).lines

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
        shown = picks.show(10, NOW)
        assert chosen(picks) == expected
        assert shown.chosen is not None
        assert f"gpu013:{expected} " in shown.lines[shown.chosen]
        assert len(shown.lines) == 10


def test_typing_narrows_by_any_words() -> None:
    picks = picking(make_rank(1), make_rank(2, where=Place(file="data.py", line=6, function="load")))
    picks.filter = "DATA 47"

    picks.update([make_rank(1), make_rank(2, where=Place(file="data.py", line=6, function="load"))])

    assert chosen(picks) == 2
    assert len(picks.show(10, NOW).lines) == 1


def test_an_empty_list_says_why_and_what_next() -> None:
    assert picking().chosen is None
    assert picking().show(10, NOW).lines == ()

    def text(*, known: int = 0, filtered: str = "", away: str | None = None) -> str:
        return empty_text(known=known, filtered=filtered, away=away, url="wss://login1:6900")

    assert "wss://login1:6900" in text()
    assert "dbg-broker run -- COMMAND" in text()
    assert "dbg-attach adopt --mine" in text()
    assert "'xyz'" in text(filtered="xyz", known=3)
    assert "is gone (it shut down)" in text(away="it shut down")
    assert "list --all" in text(known=3)


def test_the_footer_says_why_a_rank_can_not_be_attached_to(approved: Approved) -> None:
    def footer(rank: RankInfo | None, *, away: str | None = None, filtering: bool = False) -> str:
        return footer_text(200, away=away, filtering=filtering, chosen=rank)

    approved(footer(RUNNING))
    approved(footer(make_rank(6, state=RankState.LOST)), "2")
    assert "Enter attaches" in footer(make_rank(state=RankState.HELD))
    assert "Enter attaches" in footer(make_rank())
    assert footer_text(200, away=None, filtering=False, chosen=None, folded=True).startswith("Enter unfolds")
    assert footer_text(200, away=None, filtering=False, chosen=None, folded=False).startswith("Enter folds")
    assert "Esc shows all" in footer(None, filtering=True)
    assert "broker gone" in footer(make_rank(), away="it shut down")


def test_the_footer_names_whole_keys_alone(approved: Approved) -> None:
    shown = footer_text(79, away=None, filtering=False, chosen=RUNNING)
    approved(shown)


def test_what_is_selected_is_marked_counted_and_asked() -> None:
    picks = picking(*map(make_rank, range(4)))
    picks.select()
    picks.select()
    picks.move(1)

    assert picks.show(10, NOW).selected == {0, 1}
    assert [rank.rank for rank in picks.meant] == [0, 1]
    picks.update([make_rank(1), make_rank(2)])
    assert picks.selected_count == 1
    picks.move(-9)
    picks.select()
    assert picks.selected_count == 0
    assert [rank.rank for rank in picks.meant] == [2]


def test_selecting_a_group_selects_its_ranks() -> None:
    picks = picking(*map(make_rank, range(20)))
    picks.show(5, NOW)
    picks.select()

    assert picks.selected_count == 20
    assert picks.show(5, NOW).selected == {0}
    picks.select_none()
    assert picks.selected_count == 0


def test_the_time_limit_of_the_chosen_rank_stands_above_the_list() -> None:
    limit = "gloo collectives that wait for it time out in 28 min"
    chosen = make_rank(5, detail=limit, limit=limit, limit_seconds=1680.0)

    assert title_text(count=2, total=2, selected=0, chosen=chosen).endswith(f"   2 of 2   gpu013:5: {limit}")
    assert title_text(count=2, total=2, selected=0, chosen=make_rank(6)).endswith("   2 of 2")


def test_the_count_is_of_all_that_have_not_exited(approved: Approved) -> None:
    picks = picking(make_rank(1), make_rank(2), make_rank(3, state=RankState.EXITED))
    picks.filter = ":2"
    picks.update([make_rank(1), make_rank(2), make_rank(3, state=RankState.EXITED)])

    assert (picks.count, picks.total) == (1, 2)
    approved(title_text(count=27, total=128, selected=3))
    approved(title_text(count=1, total=1, selected=0), "2")


def test_a_state_has_a_colour_beside_its_word() -> None:
    picks = picking(make_rank(1), RUNNING)

    lines = picks.show(10, NOW, color=True).lines

    assert "\x1b[1;33mstopped\x1b[0m" in lines[0]
    assert "\x1b[32mrunning\x1b[0m" in lines[1]
