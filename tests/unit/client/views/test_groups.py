from __future__ import annotations

import secrets

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_client.after.case_file import OUT, without_secrets
from dbg_client.views.groups import (
    MAX_GROUPS,
    AnswerGroup,
    RankAndAnswer,
    count_answered,
    differ,
    group_answers,
    groups_document,
    remembered,
    screen_document,
    show_groups,
    show_screen,
)
from dbg_client.views.naming import Naming
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import Place, RankInfo
from tests.conftest import Approved
from tests.support.rank_infos import block
from tests.unit.client.fake_broker import make_rank

unhurried = settings(deadline=None)


def answers_of(*texts: str | tuple[Kind, str], first: int = 0) -> list[RankAndAnswer]:
    """Return answers of ranks ``first`` and up: ``digest`` leaves out a text's address."""
    answers = []
    for number, item in enumerate(texts, first):
        rank = make_rank(number)
        kind, text = (Kind.VALUE, item) if isinstance(item, str) else item
        answers.append((rank, answer(rank, kind, text)))
    return answers


def answer(rank: RankInfo, kind: Kind, text: str) -> RankAnswer:
    digest = text.partition(" at 0x")[0]
    return RankAnswer(key=rank.key, kind=kind, text=text, digest=f"d-{digest}")


def brief(groups: list[AnswerGroup]) -> list[tuple[str, int, str]]:
    return [(group.id, group.count, group.text) for group in groups]


def test_equal_values_form_one_group_and_the_biggest_is_first() -> None:
    groups = group_answers(answers_of("0.5", "0.25", "0.25", "0.1", "0.25", "0.5"))

    assert brief(groups) == [("@1", 3, "0.25"), ("@2", 2, "0.5"), ("@3", 1, "0.1")]


def test_values_are_compared_by_digest_and_not_by_text() -> None:
    first, second = make_rank(0), make_rank(1)
    text = "tensor float32[1000000]"
    answers = [
        (rank, RankAnswer(key=rank.key, kind=Kind.VALUE, text=text, digest=digest))
        for rank, digest in ((first, "aa"), (second, "bb"))
    ]

    assert len(group_answers(answers)) == 2


def test_addresses_in_values_are_ignored() -> None:
    answers = answers_of("<A at 0x7f01>", "<A at 0x7f02>", "<B at 0x7f01>")

    assert brief(group_answers(answers)) == [("@1", 2, "<A at 0x7f01>"), ("@2", 1, "<B at 0x7f01>")]


def test_cut_values_without_a_digest_are_marked_as_not_compared() -> None:
    answers = [(rank, RankAnswer(key=rank.key, kind=Kind.VALUE, text="big")) for rank in map(make_rank, range(2))]

    assert brief(group_answers(answers)) == [("@1", 2, "big")]
    cut = [(rank, answer.replace(text="a\n[5 more are lost]")) for rank, answer in answers]
    assert brief(group_answers(cut)) == [("@1", 2, "a\n[5 more are lost] (values not compared)")]


def test_ranks_without_a_value_are_grouped_too() -> None:
    groups = group_answers(
        answers_of(
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


@unhurried
@given(
    st.lists(
        st.tuples(st.sampled_from(list(Kind)), st.sampled_from(["a", "0.5", "0.50001", "<A at 0x7f01>", ""])),
        min_size=1,
        max_size=40,
    ),
)
def test_no_rank_is_dropped_or_named_twice(items: list[tuple[Kind, str]]) -> None:
    answers = answers_of(*items)

    groups = group_answers(answers)

    assert sorted(rank.key for group in groups for rank in group.ranks) == sorted(rank.key for rank, _ in answers)
    assert len({group.id for group in groups}) == len(groups)
    assert [group.count for group in groups] == sorted((group.count for group in groups), reverse=True)
    assert set(remembered(groups)) == {group.id for group in groups}


def test_json_has_the_documented_form() -> None:
    answers = answers_of(*["0.25"] * 7, (Kind.SILENT, "running, data.py:61"))

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


def answers_at(*places: Place | None, texts: str = "") -> list[RankAndAnswer]:
    """Return answers from these frames, in each of which the value is another letter of ``texts``, or 1."""
    values = answers_of(*(texts or "1" * len(places)))
    return [(rank, answer.replace(frame=place)) for (rank, answer), place in zip(values, places, strict=True)]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(answers_at(*[at("step")] * 3), id="one"),
        pytest.param(answers_at(*[at("step")] * 2, at("batch", 11)), id="two"),
        pytest.param(answers_at(at("step"), None), id="one unknown"),
        pytest.param(answers_at(at("a"), at("b"), at("c"), at("d")), id="four"),
        pytest.param(answers_at(*map(at, "aabcde"), texts="123456"), id="five of six values"),
        pytest.param([*answers_at(*[at("step")] * 2), *answers_of((Kind.RUNNING, "running"), first=2)], id="one runs"),
        pytest.param(answers_of("1", "1"), id="none"),
        pytest.param(answers_at(at("\x1b[2J")), id="hostile"),
    ],
)
def test_the_first_line_names_the_frames_of_the_evaluation(approved: Approved, answers: list[RankAndAnswer]) -> None:
    approved(shown(answers, "x").splitlines()[0])


BLOCK = [(rank, answer(rank, Kind.VALUE, str(rank.host))) for rank in block("A", ["g1", "g2"], 2)]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(answers_of(*["0.25"] * 6, "0.5", (Kind.SILENT, "no answer in 10 s")), id="aligned"),
        pytest.param(BLOCK, id="a host each"),
        pytest.param(answers_of("a\nb\n", "c"), id="texts of several lines"),
        pytest.param(answers_of("  1\tone\n-> 2\ttwo"), id="tabs are room"),
    ],
)
def test_the_table_begins_with_a_summary_and_is_aligned(approved: Approved, answers: list[RankAndAnswer]) -> None:
    approved(shown(answers))


def test_many_different_values_are_cut_but_errors_are_kept(approved: Approved) -> None:
    many = [str(number) for number in range(MAX_GROUPS + 10)]
    text = shown([*answers_of(*many), *answers_of((Kind.ERROR, "oh"), first=500)])

    assert len(text.splitlines()) == MAX_GROUPS + 3
    assert "oh" in text
    approved(text)


@pytest.mark.parametrize("color", [False, True])
def test_output_of_a_rank_cannot_control_the_terminal(color: bool) -> None:
    evil = "\x1b]2;owned\x07\x9b31m\n\r\t"
    text = shown([*answers_of(evil, (Kind.ERROR, evil)), *answers_of((Kind.LOST, evil), first=5)], evil, color=color)
    plain = text.replace("\x1b[31m", "").replace("\x1b[35m", "").replace("\x1b[0m", "")

    assert all(char.isprintable() or char == "\n" for char in plain)


def naming(answers: list[RankAndAnswer]) -> Naming:
    return Naming([rank for rank, _ in answers])


def test_a_screen_keeps_its_rows_and_is_escaped() -> None:
    assert show_screen(["PuDB  ", "", "\x1b[31mred"]) == "PuDB\n\n\\x1b[31mred\n"
    assert screen_document(make_rank(), ["a", ""])["screen"] == ["a", ""]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("WANDB_API_KEY=abcdef0123", f"WANDB_API_KEY={OUT}"),
        ("password: hunter22, user: me", f"password: {OUT}, user: me"),
        ("{'hf_token': 'xyz123', 'n': 1}", f"{{'hf_token': '{OUT}', 'n': 1}}"),
        ("Authorization: Bearer abc.def", f"Authorization: {OUT}"),
        ("sent 'Bearer abcdef'", f"sent 'Bearer {OUT}'"),
        ("s3://me:pw@host/x", f"s3://{OUT}@host/x"),
        ("key sk-0123456789abcdefXYZ used", f"key {OUT} used"),
        ("ghp_0123456789abcdefABCD", OUT),
        ("AKIAIOSFODNN7EXAMPLE", OUT),
        ("HoQvRPnCEcEpRGxWRvSnLxutySzBrXgHGfRvCKgSD-w", OUT),
    ],
)
def test_likely_secrets_are_removed(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_broker_token_is_removed() -> None:
    for _ in range(50):
        token = secrets.token_urlsafe(32)
        assert token not in without_secrets(f"ValueError: {token}!")


@pytest.mark.parametrize(
    "text",
    [
        "gpu013:5  stopped  train.py:41 in step  12 s",
        "ValueError: bad tokenizer for 50257 tokens",
        "/nix/store/0c6kzph7l0dcbfmjap64f0czdafn3b7x-python3-3.11.7/bin/Python3AndMore",
        "wss://127.0.0.1:43883",
        "the clock rings in 9 min: 8 collectives wait for it",
        "3 [0-2] <module> train.py:9",
    ],
)
def test_ordinary_text_is_not_removed(text: str) -> None:
    assert without_secrets(text) == text
