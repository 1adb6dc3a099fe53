from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_client.views.groups import (
    MAX_GROUPS,
    AnswerGroup,
    RankAndAnswer,
    count_answered,
    differ,
    group_answers,
    groups_document,
    remembered,
    show_groups,
    summarize,
)
from dbg_client.views.naming import Naming
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import Place, RankInfo
from tests.conftest import Approved
from tests.support.rank_infos import block
from tests.unit.client.fake_broker import make_rank

unhurried = settings(deadline=None)


def said(*texts: str | tuple[Kind, str], first: int = 0) -> list[RankAndAnswer]:
    """Return answers of ranks ``first`` and up: ``digest`` leaves out a text's address, ``exact`` is the whole text."""
    answers = []
    for number, item in enumerate(texts, first):
        rank = make_rank(number)
        kind, text = (Kind.VALUE, item) if isinstance(item, str) else item
        answers.append((rank, answer(rank, kind, text)))
    return answers


def answer(rank: RankInfo, kind: Kind, text: str) -> RankAnswer:
    digest = text.partition(" at 0x")[0]
    return RankAnswer(key=rank.key, kind=kind, text=text, digest=f"d-{digest}", exact=f"e-{text}")


def brief(groups: list[AnswerGroup]) -> list[tuple[str, int, str]]:
    return [(group.id, group.count, group.text) for group in groups]


def test_equal_values_are_one_group_and_the_biggest_comes_first() -> None:
    groups = group_answers(said("0.5", "0.25", "0.25", "0.1", "0.25", "0.5"))

    assert brief(groups) == [("@1", 3, "0.25"), ("@2", 2, "0.5"), ("@3", 1, "0.1")]


def test_the_whole_decides_and_not_the_text() -> None:
    first, second = make_rank(0), make_rank(1)
    text = "tensor float32[1000000]"
    answers = [
        (rank, RankAnswer(key=rank.key, kind=Kind.VALUE, text=text, digest=digest, exact=digest))
        for rank, digest in ((first, "aa"), (second, "bb"))
    ]

    assert len(group_answers(answers)) == 2
    assert len(group_answers(answers, tolerance=1.0)) == 2


def test_tabs_in_a_text_are_room_and_no_escapes() -> None:
    ranks = said("  1\tone\n-> 2\ttwo")
    naming = Naming([rank for rank, _ in ranks])

    table = show_groups("l", group_answers(ranks), naming, color=False)

    assert table.splitlines()[2:] == ["      1     one", "    -> 2    two"]


def test_addresses_count_only_with_exact() -> None:
    answers = said("<A at 0x7f01>", "<A at 0x7f02>", "<B at 0x7f01>")

    assert brief(group_answers(answers)) == [("@1", 2, "<A at 0x7f01>"), ("@2", 1, "<B at 0x7f01>")]
    assert len(group_answers(answers, exact=True)) == 3


def test_values_without_a_digest_say_that_they_were_not_compared() -> None:
    answers = [(rank, RankAnswer(key=rank.key, kind=Kind.VALUE, text="big")) for rank in map(make_rank, range(2))]

    assert brief(group_answers([*answers, *said("big", first=2)])) == [
        ("@1", 2, "big (values not compared)"),
        ("@2", 1, "big"),
    ]
    assert brief(group_answers(answers, compare=False)) == [("@1", 2, "big")]
    cut = [(rank, answer.replace(text="a\n[5 more are lost]")) for rank, answer in answers]
    assert brief(group_answers(cut, compare=False)) == [("@1", 2, "a\n[5 more are lost] (values not compared)")]


def test_everybody_who_did_not_answer_is_in_a_group_too() -> None:
    groups = group_answers(
        said(
            "1",
            (Kind.ERROR, "NameError: a"),
            (Kind.ERROR, "NameError: b"),
            (Kind.ERROR, "NameError: a"),
            (Kind.RUNNING, "running, data.py:61"),
            (Kind.RUNNING, "running, data.py:62"),
            (Kind.SILENT, "no answer in 10 s"),
            (Kind.LOST, "exited with status 1"),
        )
    )

    assert brief(groups) == [
        ("@err", 2, "NameError: a"),
        ("@run", 2, "running, data.py:61 (1); running, data.py:62 (1)"),
        ("@1", 1, "1"),
        ("@err2", 1, "NameError: b"),
        ("@?", 1, "no answer in 10 s"),
        ("@lost", 1, "exited with status 1"),
    ]
    assert count_answered(groups) == 4
    assert differ(groups)


def test_ranks_that_run_do_not_disagree() -> None:
    assert not differ(group_answers(said("1", "1", (Kind.RUNNING, ""), (Kind.LOST, ""))))
    assert differ(group_answers(said("1", (Kind.ERROR, "x"))))


def test_near_floats_are_one_group_if_asked_for() -> None:
    answers = said("0.5", "0.25", "0.2500001", "0.25", "True")

    assert brief(group_answers(answers, tolerance=1e-3)) == [("@1", 3, "0.25"), ("@2", 1, "0.5"), ("@3", 1, "True")]


@unhurried
@given(
    st.lists(
        st.tuples(st.sampled_from(list(Kind)), st.sampled_from(["a", "0.5", "0.50001", "<A at 0x7f01>", ""])),
        min_size=1,
        max_size=40,
    ),
    st.booleans(),
    st.none() | st.just(1e-3),
)
def test_no_rank_is_dropped_or_named_twice(items: list[tuple[Kind, str]], exact: bool, tolerance: float | None) -> None:
    answers = said(*items)

    groups = group_answers(answers, exact=exact, tolerance=tolerance)

    assert sorted(rank.key for group in groups for rank in group.ranks) == sorted(rank.key for rank, _ in answers)
    assert len({group.id for group in groups}) == len(groups)
    assert [group.count for group in groups] == sorted((group.count for group in groups), reverse=True)
    assert set(remembered(groups)) == {group.id for group in groups}


def test_json_is_the_agreed_one() -> None:
    answers = said(*["0.25"] * 7, (Kind.SILENT, "running, data.py:61"))

    assert groups_document("loss", group_answers(answers), Naming([rank for rank, _ in answers])) == {
        "schema": 1,
        "command": "loss",
        "asked": 8,
        "answered": 7,
        "groups": [
            {"id": "@1", "kind": "value", "ranks": "0-6", "count": 7, "text": "0.25", "frame": None},
            {"id": "@?", "kind": "silent", "ranks": "7", "count": 1, "text": "running, data.py:61", "frame": None},
        ],
        "missing": [],
    }


def shown(answers: list[RankAndAnswer], command: str = "loss", *, color: bool = False) -> str:
    return show_groups(command, group_answers(answers), Naming([rank for rank, _ in answers]), color=color)


def at(function: str, line: int = 16) -> Place:
    return Place(file="/home/me/t.py", line=line, function=function)


def said_at(*places: Place | None, texts: str = "") -> list[RankAndAnswer]:
    """Return answers from these frames, in each of which the value is another letter of ``texts``, or 1."""
    values = said(*(texts or "1" * len(places)))
    return [(rank, answer.replace(frame=place)) for (rank, answer), place in zip(values, places, strict=True)]


@pytest.mark.parametrize(
    ("answers", "head"),
    [
        (said_at(*[at("step")] * 3), "x: 3 of 3 ranks answered, 1 value, in step t.py:16"),
        (
            said_at(*[at("step")] * 2, at("batch", 11)),
            "x: 3 of 3 ranks answered, 1 value, in step t.py:16 (2), batch t.py:11 (1)",
        ),
        (said_at(at("step"), None), "x: 2 of 2 ranks answered, 1 value, in step t.py:16 (1)"),
        (
            said_at(at("a"), at("b"), at("c"), at("d")),
            "x: 4 of 4 ranks answered, 1 value, in a t.py:16 (1), b t.py:16 (1), c t.py:16 (1) and 1 other",
        ),
        (
            said_at(*map(at, "aabcde"), texts="123456"),
            "x: 6 of 6 ranks answered, 6 different values, in a t.py:16 (2), b t.py:16 (1), c t.py:16 (1) and 2 others",
        ),
        (
            [*said_at(*[at("step")] * 2), *said((Kind.RUNNING, "running"), first=2)],
            "x: 2 of 3 ranks answered, 1 value, in step t.py:16",
        ),
        (said("1", "1"), "x: 2 of 2 ranks answered, 1 value"),
        (said_at(at("\x1b[2J")), "x: 1 of 1 rank answered, 1 value, in \\x1b[2J t.py:16"),
    ],
)
def test_the_first_line_says_in_which_frames_the_ranks_have_evaluated(answers: list[RankAndAnswer], head: str) -> None:
    assert shown(answers, "x").splitlines()[0] == head


def test_json_has_the_frame_of_a_group_whose_ranks_agree() -> None:
    answers = said_at(at("step"), at("step"), at("step"), at("batch"), at("step"), None, texts="aabbcc")

    document = groups_document("loss", group_answers(answers), Naming([rank for rank, _ in answers]))

    groups = document["groups"]
    assert isinstance(groups, list)
    step = {"file": "/home/me/t.py", "line": 16, "function": "step"}
    assert [group["frame"] for group in groups] == [step, None, None]


def test_near_values_keep_the_frames_of_all_their_ranks() -> None:
    answers = said("0.25", "0.2500001")
    answers = [(rank, answer.replace(frame=at(name))) for (rank, answer), name in zip(answers, "ab", strict=True)]

    (group,) = group_answers(answers, tolerance=0.1)

    assert group.places == (at("a"), at("b"))


def test_the_table_begins_with_who_answered_and_is_aligned() -> None:
    assert shown(said(*["0.25"] * 6, "0.5", (Kind.SILENT, "no answer in 10 s"))) == (
        "loss: 7 of 8 ranks answered, 2 different values\n"
        "@1  6 ranks  0-5  0.25\n"
        "@2  1 rank   6    0.5\n"
        "@?  1 rank   7    no answer in 10 s\n"
    )


def test_the_table_says_what_a_group_is() -> None:
    ranks = block("A", ["g1", "g2"], 2)
    answers = [(rank, answer(rank, Kind.VALUE, str(rank.host))) for rank in ranks]

    assert "@2  2 ranks  2-3 = host g2  g2\n" in shown(answers)


def test_texts_of_several_lines_stand_below_their_ranks() -> None:
    assert shown(said("a\nb\n", "c"), "bt") == (
        "bt: 2 of 2 ranks answered, 2 different values\n@1  1 rank  0\n    a\n    b\n@2  1 rank  1\n    c\n"
    )


def test_what_differs_everywhere_is_cut_but_for_what_went_wrong(approved: Approved) -> None:
    many = [str(number) for number in range(MAX_GROUPS + 10)]
    text = shown([*said(*many), *said((Kind.ERROR, "oh"), first=500)])

    assert len(text.splitlines()) == MAX_GROUPS + 3
    assert "oh" in text
    approved(text)


@pytest.mark.parametrize("color", [False, True])
def test_what_a_rank_says_can_not_act_on_the_terminal(color: bool) -> None:
    evil = "\x1b]2;owned\x07\x9b31m\n\r\t"
    text = shown([*said(evil, (Kind.ERROR, evil)), *said((Kind.LOST, evil), first=5)], evil, color=color)
    plain = text.replace("\x1b[31m", "").replace("\x1b[35m", "").replace("\x1b[0m", "")

    assert all(char.isprintable() or char == "\n" for char in plain)


def test_many_reasons_are_counted() -> None:
    assert summarize(["a", "a"]) == "a"
    assert summarize(["b", "a", "a"]) == "a (2); b (1)"
    assert summarize([str(number) for number in range(9)]).endswith("3 (1); and 5 more")
