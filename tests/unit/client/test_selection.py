"""A target selects ranks among those that are there, and says why where it can't."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_command.targets import Group, Selection, Target, parse_target, select, unique_target, unique_targets
from dbg_wire.errors import AmbiguousTarget, NoSuchRank
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState
from tests.conftest import Approved
from tests.support.rank_infos import block, rank


def chosen(text: str, ranks: Sequence[RankInfo], *, any_job: bool = False) -> str:
    selection = select(parse_target(text), ranks, any_job=any_job)
    return " ".join(found.full_address for found in selection.ranks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("g1:1", "A/g1:1"),
        (":4", "A/g3:4"),
        ("g1:*", "A/g1:0 A/g1:1"),
        ("all", "A/g1:0 A/g1:1 A/g2:2 A/g2:3 A/g3:4 A/g3:5"),
        ("4,0-1", "A/g1:0 A/g1:1 A/g3:4"),
        ("0-5/2", "A/g1:0 A/g2:2 A/g3:4"),
        ("g[1,3]:*", "A/g1:0 A/g1:1 A/g3:4 A/g3:5"),
        ("g[1-9]:2-4", "A/g2:2 A/g2:3 A/g3:4"),
        ("g1:*,:4", "A/g1:0 A/g1:1 A/g3:4"),
        ("!5", "A/g1:0 A/g1:1 A/g2:2 A/g2:3 A/g3:4"),
        ("!0-2,4", "A/g2:3 A/g3:5"),
        ("!g2:*,!g3:5", "A/g1:0 A/g1:1 A/g3:4"),
        ("A/!1-4", "A/g1:0 A/g3:5"),
        ("A/g1:0", "A/g1:0"),
        ("g3:5@1", "A/g3:5"),
    ],
)
def test_selects_in_one_job(text: str, expected: str) -> None:
    assert chosen(text, block("A", ["g1", "g2", "g3"], 2)[::-1]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stopped", "A/h:1 A/h:3"),
        ("held", "A/h:2"),
        ("crashed", "A/h:3"),
        ("running", "A/h:0"),
        ("unresponsive", "A/h:4"),
        ("stopped,held", "A/h:1 A/h:2 A/h:3"),
        ("stopped,!crashed", "A/h:1"),
        ("all", "A/h:0 A/h:1 A/h:2 A/h:3 A/h:4 A/h:5"),
        ("0-6", "A/h:0 A/h:1 A/h:2 A/h:3 A/h:4 A/h:5"),
        ("6", "A/h:6"),
    ],
)
def test_selects_by_state_and_leaves_out_the_exited(text: str, expected: str) -> None:
    states = [
        rank("h:0", state=RankState.RUNNING),
        rank("h:1", reason="breakpoint"),
        rank("h:2", state=RankState.HELD),
        rank("h:3", reason="crash"),
        rank("h:4", state=RankState.UNRESPONSIVE),
        rank("h:5", state=RankState.LOST, reason="crash"),
        rank("h:6", state=RankState.EXITED, reason="crash"),
    ]
    assert chosen(text, states) == expected


@pytest.mark.parametrize("text", ["7", "g9:0", "g1:7", "G1:0", "g:0", "A/held", "B/all", "0@2", "0,!0", "?1", "0.1"])
def test_unmatched_target_is_refused(text: str) -> None:
    with pytest.raises(NoSuchRank) as caught:
        select(parse_target(text), block("A", ["g1", "g2"], 2))
    assert caught.value.target == text
    assert caught.value.known == 4


@pytest.mark.parametrize(
    ("text", "expected", "note"),
    [
        ("g13:5", "A/g13:13", "g13:13, local 5"),
        ("g13:13", "A/g13:13", None),
        ("g13:0-2", "A/g13:8 A/g13:9 A/g13:10", "g13:8-10, local 0-2"),
        ("g[13-14]:1", "A/g13:9 A/g14:17", "g13:9, local 1; g14:17, local 1"),
        ("g12:3,g13:3", "A/g12:3 A/g13:11", "g13:11, local 3"),
        ("g13:*,!g13:0-6", "A/g13:15", "without g13:8-14, local 0-6"),
        ("5", "A/g12:5", None),
    ],
)
def test_number_is_a_local_rank_where_no_global_rank_matches(text: str, expected: str, note: str | None) -> None:
    selection = select(parse_target(text), block("A", ["g12", "g13", "g14"], 8))
    assert " ".join(found.full_address for found in selection.ranks) == expected
    assert selection.note == note


def test_a_note_about_many_hosts_stays_short() -> None:
    selection = select(parse_target("g*:0"), block("A", [f"g{node:03}" for node in range(128)], 8))
    assert len(selection.ranks) == 128
    assert selection.note is not None
    assert selection.note.endswith("; local ranks of 123 more hosts")
    assert len(selection.note) < 200


def test_note_cannot_control_the_terminal() -> None:
    note = select(parse_target("g*:0"), [rank("g\x1b[2J:8", local=0)]).note
    assert note == r"g\x1b[2J:8, local 0"


def test_global_rank_of_one_job_precedes_local_rank_of_another() -> None:
    both = [rank("g13:5", job="A", local=1), rank("g13:13", job="B", local=5)]
    assert chosen("g13:5", both) == "A/g13:5"
    assert chosen("B/g13:5", both) == "B/g13:13"
    assert chosen("*/g13:5", both) == "A/g13:5 B/g13:13"
    assert chosen("B/all,!g13:5", [*both, rank("g13:14", job="B", local=6)]) == "B/g13:14"


def test_live_local_rank_precedes_an_exited_global_one() -> None:
    relaunched = [rank("g13:5", local=5, state=RankState.EXITED), rank("g13:13", local=5)]
    assert chosen("g13:5", relaunched) == "A/g13:13"
    assert chosen("g13:5@1", relaunched) == "A/g13:5"


def test_children_have_numbers_of_their_own() -> None:
    family = [rank("h:5"), rank("h:5.1"), rank("h:5.2"), rank("h:6", local=3), rank("h:6.1", local=3)]
    assert chosen("h:5", family) == "A/h:5"
    assert chosen("h:5.1", family) == "A/h:5.1"
    assert chosen("h:5.1,5.2,6", family) == "A/h:5.1 A/h:5.2 A/h:6"
    assert chosen("h:3.1", family) == "A/h:6.1"
    assert chosen("!5.1", family) == "A/h:5 A/h:5.2 A/h:6 A/h:6.1"
    assert chosen("h:*", family[::-1]) == "A/h:5 A/h:5.1 A/h:5.2 A/h:6 A/h:6.1"


def test_classic_sessions_have_marks_and_no_numbers() -> None:
    sessions = [rank("login1:?1", job="classic"), rank("login1:?2", job="classic"), rank("login1:0", job="classic")]
    assert chosen("login1:?1", sessions) == "classic/login1:?1"
    assert chosen("?2", sessions) == "classic/login1:?2"
    assert chosen("login1:0", sessions) == "classic/login1:0"
    assert chosen("!?2", sessions) == "classic/login1:0 classic/login1:?1"
    assert unique_targets(sessions) == {session.key: session.address for session in sessions}


@pytest.mark.parametrize("ended", [RankState.EXITED, RankState.LOST])
def test_live_rank_hides_ended_ones_at_its_address(ended: RankState) -> None:
    ranks = [rank("h:5", pid=1, state=ended, since=9.0), rank("h:5", pid=2)]
    for text in ("h:5", "all", "h:*", "5", "0-9"):
        assert [found.pid for found in select(parse_target(text), ranks).ranks] == [2]
    assert [found.pid for found in select(parse_target("h:5@1"), ranks).ranks] == [1]


def test_newest_ended_rank_at_an_address_is_selected() -> None:
    states = [RankState.LOST, RankState.EXITED, RankState.EXITED]
    ranks = [rank("h:5", pid=pid, state=state, since=pid) for pid, state in enumerate(states)]
    for listed in (ranks, ranks[::-1]):
        assert [found.pid for found in select(parse_target("h:5"), listed).ranks] == [2]
        assert [found.pid for found in select(parse_target("all"), listed).ranks] == [2]


def test_live_and_exited_ranks_are_counted_separately(approved: Approved) -> None:
    ended = [rank("h:5", state=RankState.EXITED)]
    for text in ("h:6", "*/running"):
        with pytest.raises(NoSuchRank) as caught:
            select(parse_target(text), ended)
        approved(str(caught.value))
    with pytest.raises(NoSuchRank) as caught:
        select(parse_target("*/held"), [*ended, rank("h:6")])
    approved(str(caught.value), "2")
    with pytest.raises(NoSuchRank) as caught:
        select(parse_target("5"), [])
    approved(str(caught.value), "3")


@pytest.mark.parametrize("text", ["0", "g1:0", "all", "stopped", "0-3", "!1", "0,1"])
def test_target_in_two_live_jobs_is_ambiguous(text: str) -> None:
    both = block("A", ["g1"], 2) + block("B", ["g1"], 2)
    with pytest.raises(AmbiguousTarget) as caught:
        select(parse_target(text), both)
    assert caught.value.target == text
    offered = [chosen(candidate, both) for candidate in caught.value.candidates]
    assert " ".join(offered) == chosen(text, both, any_job=True)


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("5", ("hang-1/5", "hang-2/5")),
        ("all", ("hang-1/all", "hang-2/all")),
        ("h:4-5,!5", ("hang-1/h:4-5,!hang-1/5", "hang-2/h:4-5,!hang-2/5")),
        ("!4", ("!hang-1/4", "!hang-2/4")),
    ],
)
def test_ambiguous_target_is_offered_for_each_job(text: str, candidates: tuple[str, ...]) -> None:
    ranks = [rank(f"h:{number}", job=job) for job in ("hang-2", "hang-1") for number in (4, 5)]
    with pytest.raises(AmbiguousTarget) as caught:
        select(parse_target(text), ranks)
    assert caught.value.candidates == candidates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hang*/5", "hang-1/h:5 hang-2/h:5"),
        ("h*g*2/4", "hang-2/h:4"),
        ("*/all,!hang*/5", "hang-1/h:4 hang-2/h:4 other/h:4 other/h:5"),
        ("hang*/!5", "hang-1/h:4 hang-2/h:4"),
        ("hang-1*/4", "hang-1/h:4"),
    ],
)
def test_star_in_a_job_matches_any_text(text: str, expected: str) -> None:
    ranks = [rank(f"h:{number}", job=job) for job in ("hang-1", "hang-2", "other") for number in (4, 5)]
    assert chosen(text, ranks) == expected
    assert not parse_target(text).single


@pytest.mark.parametrize("text", ["hanging*/5", "*x/5", "h*g*g-1/5", "hang-1*1/5"])
def test_job_pattern_must_match_the_whole_name(text: str) -> None:
    with pytest.raises(NoSuchRank):
        select(parse_target(text), [rank("h:5", job="hang-1")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A/0", "A/g1:0"),
        ("B/all", "B/g1:0 B/g1:1"),
        ("B/!0", "B/g1:1"),
        ("*/0", "A/g1:0 B/g1:0"),
        ("A/0,B/1", "A/g1:0 B/g1:1"),
        ("!A/0", "A/g1:1"),
        ("all,!B/0-1", "A/g1:0 A/g1:1"),
        ("*/all,!A/0", "A/g1:1 B/g1:0 B/g1:1"),
    ],
)
def test_job_or_star_resolves_the_ambiguity(text: str, expected: str) -> None:
    assert chosen(text, block("A", ["g1"], 2) + block("B", ["g1"], 2)) == expected


def test_terms_without_a_job_select_in_one_job() -> None:
    apart = [rank("g1:0", job="A"), rank("g2:0", job="B")]
    assert chosen("g1:0", apart) == "A/g1:0"
    with pytest.raises(AmbiguousTarget):
        select(parse_target("g1:0,g2:0"), apart)
    assert chosen("A/g1:0,g2:0", apart) == "A/g1:0 B/g2:0"


def test_term_without_a_job_is_resolved_separately() -> None:
    with pytest.raises(AmbiguousTarget):
        select(parse_target("A/0,:0"), [rank("g1:0", job="A"), rank("g1:0", job="B")])
    lost = rank("g1:0", job="A", state=RankState.LOST)
    assert chosen("A/0,:0", [lost, rank("g1:0", job="B")]) == "A/g1:0 B/g1:0"
    assert chosen("A/0,:0", [lost]) == "A/g1:0"


def test_live_processes_at_one_address_are_distinguished_by_pid() -> None:
    twins = [rank("h:5", pid=11), rank("h:5", pid=22), rank("h:6", pid=33)]
    with pytest.raises(AmbiguousTarget) as caught:
        select(parse_target("h:5"), twins)
    assert caught.value.candidates == ("A/h:5@11", "A/h:5@22")
    with pytest.raises(AmbiguousTarget):
        select(parse_target("A/h:5"), twins)
    assert chosen("A/h:5@22", twins) == "A/h:5"
    assert chosen("all", twins) == "A/h:5 A/h:5 A/h:6"
    assert list(unique_targets(twins).values()) == ["A/h:5@11", "A/h:5@22", "h:6"]


def test_one_number_on_two_hosts_of_a_job_is_ambiguous() -> None:
    runs = [rank("g1:5"), rank("g2:5")]
    with pytest.raises(AmbiguousTarget) as caught:
        select(parse_target("5"), runs)
    assert caught.value.candidates == ("A/g1:5", "A/g2:5")


def test_a_unique_target_is_no_longer_than_needed() -> None:
    ranks = [
        rank("g1:0", job="A"),
        rank("g1:0", job="B"),
        rank("g1:1", job="A"),
        rank("g2:2", job="A", pid=7),
        rank("g2:2", job="A", pid=8, state=RankState.EXITED),
    ]
    assert list(unique_targets(ranks).values()) == ["A/g1:0", "B/g1:0", "g1:1", "g2:2", "A/g2:2@8"]


def test_a_host_may_be_a_number() -> None:
    ranks = [rank("3:5"), rank("x:3"), rank("x:4")]
    assert unique_target(ranks[0], ranks) == "3:5"
    assert chosen("3:5", ranks) == "A/3:5"


def remembered(text: str, **keys: RankInfo) -> Target:
    target = parse_target(text)
    bound = tuple(
        replace(term, what=replace(term.what, keys=frozenset({keys[term.what.name[1:]].key})))
        if isinstance(term.what, Group)
        else term
        for term in target.include
    )
    return replace(target, include=bound)


def test_a_remembered_group_selects_its_processes_of_any_job_and_state() -> None:
    live, again = rank("g:5", job="A"), rank("g:5", job="A", pid=2, state=RankState.EXITED)
    other = rank("g:1", job="B")

    assert select(remembered("@err", err=again), [live, again, other]).ranks == (again,)
    assert select(remembered("@err,@x", err=live, x=other), [live, again, other]).ranks == (live, other)
    assert select(remembered("A/@err,@x", err=other, x=live), [live, other]).ranks == (live,)
    with pytest.raises(NoSuchRank):
        select(parse_target("@err"), [live])


def crowd(text: str) -> list[RankInfo]:
    """Return the ranks that a text names, each with its state and since when it has it, such as ``A/h:5 lost 9``."""
    found = []
    for one in text.split(", "):
        address, state, since = one.split() if " " in one else (one, RankState.STOPPED, 0)
        job, _, place = address.partition("/")
        found.append(rank(place, job=job, state=RankState(state), since=float(since)))
    return found


@pytest.mark.parametrize(
    ("ranks", "texts", "expected"),
    [
        ("A/h:5 exited 9, A/h:6, B/h:5", "5 h:5", "B/h:5"),
        ("A/h:5 lost 9, A/h:6, B/h:5", "5 h:5 5@1", "B/h:5"),
        ("B/h:0, A/h:0 exited 9, A/h:1 exited 9", "h:0 all", "B/h:0"),
        ("B/h:0, A/h:0 lost 9, A/h:1 lost 9", "h:0 all", "B/h:0"),
        ("A/h:0 exited 1, B/h:0 exited 3, C/h:0 exited 2", "h:0 all", "B/h:0"),
        ("A/h:0 exited 1, B/h:0 exited 3, C/h:0 exited 2", "*/all", "A/h:0 B/h:0 C/h:0"),
        ("A/g1:5 lost 9, A/g2:5", "5", "A/g2:5"),
        ("B/h:0, B/h:1 exited 5, A/h:1 exited 9", "1 h:1", "B/h:1"),
        ("B/h:0, A/h:1 lost 0", "1", "A/h:1"),
    ],
)
def test_live_job_is_preferred_then_the_newest_ended_one(ranks: str, texts: str, expected: str) -> None:
    assert {chosen(text, crowd(ranks)) for text in texts.split()} == {expected}


def test_ended_job_is_not_selected_for_a_number_missing_in_a_live_one() -> None:
    ranks = crowd("B/h:0, A/h:1 exited 0")
    for text in ("1", "h:1", "0-3,!0"):
        with pytest.raises(NoSuchRank) as caught:
            select(parse_target(text), ranks)
        assert caught.value.past == "A/h:1"
    assert chosen("A/1", ranks) == chosen("1@1", ranks) == chosen("1", ranks, any_job=True) == "A/h:1"
    assert unique_target(ranks[1], ranks) == "A/h:1"


unhurried = settings(deadline=None)

crowds = st.lists(
    st.builds(
        lambda host, number, child, **rest: rank(f"{host}:{number}{child}", **rest),
        st.sampled_from(["g1", "g2", "7", "123456789012"]),
        st.integers(0, 9),
        st.sampled_from(["", "", ".1"]),
        job=st.sampled_from(["A", "B", "0-3", "4711.0"]),
        local=st.none() | st.integers(0, 3),
        pid=st.integers(1, 3),
        state=st.sampled_from([RankState.STOPPED, RankState.STOPPED, *RankState]),
        since=st.integers(0, 3).map(float),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda info: (info.full_address, info.pid),
)
typed = st.lists(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["", "", "!"]),
        st.sampled_from(["", "", "", "A/", "B/", "*/"]),
        st.sampled_from(
            ["all", "stopped", "g1:*", "g*:0-3", "0-9/3", "5", "g1:0", "g2:1", "g[1-2]:2", "g1:1.1", "4@1"]
        ),
    ),
    min_size=1,
    max_size=3,
).map(",".join)


@unhurried
@given(crowds)
def test_a_unique_target_selects_its_rank(ranks: list[RankInfo]) -> None:
    at_once = unique_targets(ranks)
    for info in ranks:
        text = unique_target(info, ranks)
        assert at_once[info.key] == text
        assert select(parse_target(text), ranks).ranks == (info,)
        assert parse_target(text).single


def outcome(text: str, ranks: list[RankInfo], *, any_job: bool = False) -> Selection | AmbiguousTarget | NoSuchRank:
    try:
        return select(parse_target(text), ranks, any_job=any_job)
    except (AmbiguousTarget, NoSuchRank) as error:
        return error


@unhurried
@given(crowds, typed)
def test_selection_is_sorted_unique_and_of_one_job(ranks: list[RankInfo], text: str) -> None:
    selection = outcome(text, ranks)
    if not isinstance(selection, Selection):
        return
    found = selection.ranks
    assert list(found) == sorted(
        found, key=lambda info: (info.job, info.rank, info.child or -1, info.address, info.pid)
    )
    assert len({info.key for info in found}) == len(found) > 0
    assert len(found) == 1 or not selection.single
    assert len({info.job for info in found}) == 1 or "/" in text
    live = {info.full_address for info in found if info.state in LIVE_STATES}
    if "@" not in text:
        assert not [info for info in found if info.state not in LIVE_STATES and info.full_address in live]


@unhurried
@given(crowds, typed)
def test_each_candidate_selects_live_ranks(ranks: list[RankInfo], text: str) -> None:
    refusal = outcome(text, ranks)
    if not isinstance(refusal, AmbiguousTarget):
        return
    assert len(set(refusal.candidates)) == len(refusal.candidates) > 1
    for candidate in refusal.candidates:
        found = select(parse_target(candidate), ranks, any_job=True).ranks
        assert any(info.state in LIVE_STATES for info in found)
