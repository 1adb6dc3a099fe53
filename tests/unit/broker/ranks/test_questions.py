"""A question to many ranks always ends, and its answers name every rank."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.ranks import questions as questions_module
from dbg_broker.ranks.questions import (
    ASKS_PER_SECOND,
    MAX_ANSWER_BYTES,
    PAGE_BYTES,
    AskRates,
    Finished,
    OpenQuestions,
    body_of,
    passed_on,
)
from dbg_wire.codec import decode, encode
from dbg_wire.messages import Action, Answer, Answers, Kind, Progress, Question, RankAnswer, Sender
from dbg_wire.records.ranks import Place
from tests.conftest import Approved

CLIENT = 5


def question(*keys: str, seconds: float = 5.0) -> Question:
    return Question(request=7, keys=keys, action=Action.CONTINUE, seconds=seconds)


def said(number: int, text: str = "ok", **changes: Any) -> Answer:
    return Answer(**{"request": number, "kind": Kind.VALUE, "text": text, **changes})


def give(questions: OpenQuestions, key: str, answer: Answer) -> Finished | None:
    return questions.answer(key, answer.request, passed_on(answer))


def pages_of(finished: Finished) -> list[Answers]:
    pages = [decode(page, Sender.BROKER) for page in finished.pages()]
    assert all(isinstance(page, Answers) for page in pages)
    return typing.cast(list[Answers], pages)


def answers_of(finished: Finished) -> tuple[RankAnswer, ...]:
    return tuple(answer for page in pages_of(finished) for answer in page.answers)


def test_an_open_question_tells_how_far_it_is() -> None:
    questions = OpenQuestions()
    number, _ = questions.ask(CLIENT, question("a", "b", "c", "d"), 0.0)
    give(questions, "b", said(number))
    questions.answer_for_rank(number, RankAnswer(key="c", kind=Kind.RUNNING, text="running"))
    assert questions.progress(number) == (
        CLIENT,
        Progress(request=7, asked=4, answered=2, waiting=("a", "d")),
    )
    questions.finish(number)
    assert questions.progress(number) is None


def test_deadline_names_who_was_silent() -> None:
    questions = OpenQuestions()
    number, _ = questions.ask(CLIENT, question("a", "b"), 100.0)
    assert questions.deadline(number) == 105.0
    give(questions, "a", said(number))
    finished = questions.finish(number)
    assert finished is not None
    assert answers_of(finished)[1] == RankAnswer(key="b", kind=Kind.SILENT, text="no answer in 5 s")
    assert give(questions, "b", said(number)) is None


def test_answers_of_others_are_not_taken() -> None:
    questions = OpenQuestions()
    number, _ = questions.ask(CLIENT, question("a"), 0.0)
    assert give(questions, "b", said(number)) is None
    assert give(questions, "a", said(number + 1)) is None
    assert give(questions, "a", said(number)) is not None


def test_answer_that_is_too_large_is_an_error_that_says_so() -> None:
    questions = OpenQuestions()
    number, _ = questions.ask(CLIENT, question("a"), 0.0)
    finished = give(questions, "a", said(number, rows=("x" * 16_000,) * 60))
    assert finished is not None
    answer = answers_of(finished)[0]
    assert (answer.kind, answer.rows) == (Kind.ERROR, ())
    assert f"above {MAX_ANSWER_BYTES}" in answer.text


def test_answers_that_are_too_large_together_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions_module, "MAX_TERMINAL_BYTES", 18_000)
    questions = OpenQuestions()
    number, _ = questions.ask(CLIENT, question("a", "b", "c"), 0.0)
    give(questions, "a", said(number, "x" * 12_000))
    give(questions, "b", said(number, "y" * 12_000))
    finished = give(questions, "c", said(number, "small"))
    assert finished is not None
    assert [answer.kind for answer in answers_of(finished)] == [Kind.VALUE, Kind.ERROR, Kind.VALUE]
    assert "ask fewer ranks" in answers_of(finished)[1].text
    assert questions.budget.of(CLIENT) == finished.size
    questions.was_read(finished)
    assert questions.budget.size == 0


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(
    st.lists(
        st.tuples(TEXT.map(lambda text: text * 300), st.lists(TEXT.map(lambda text: text * 100), max_size=20)),
        max_size=25,
    )
)
def test_pages_hold_all_answers_and_none_is_too_large(contents: list[tuple[str, list[str]]]) -> None:
    answers = tuple(
        RankAnswer(key=str(number), kind=Kind.VALUE, text=text, rows=tuple(rows))
        for number, (text, rows) in enumerate(contents)
    )
    finished = Finished(CLIENT, question(), {answer.key: body_of(answer) for answer in answers})
    pages = pages_of(finished)
    assert tuple(answer for page in pages for answer in page.answers) == answers
    assert [page.last for page in pages] == [False] * (len(pages) - 1) + [True]
    # One answer of control characters may be longer than a page by itself.
    assert all(
        len(text) <= PAGE_BYTES or len(page.answers) == 1 for text, page in zip(finished.pages(), pages, strict=True)
    )


def test_an_answer_is_passed_on_with_the_key_of_its_rank_alone() -> None:
    text = encode(said(3, "7", age=1.5))[:-1] + ',"key":"another","new":[[1]]}'
    answer = decode(text, Sender.AGENT)
    assert isinstance(answer, Answer)
    questions = OpenQuestions()
    for _ in range(3):
        questions.ask(CLIENT, question("a"), 0.0)
    finished = give(questions, "a", answer)
    assert finished is not None
    assert answers_of(finished) == (RankAnswer(key="a", kind=Kind.VALUE, text="7", age=1.5),)
    assert b"new" not in b"".join(finished.pages())


EVENTS = st.lists(
    st.tuples(st.sampled_from(["answer", "end", "deadline", "ask"]), st.integers(0, 3), st.integers(1, 4)), max_size=40
)


@given(EVENTS)
def test_every_question_ends_once_and_names_every_rank(events: list[tuple[str, int, int]]) -> None:
    questions = OpenQuestions()
    keys = ("r0", "r1", "r2", "r3")
    ended: dict[int, Finished] = {}
    asked: list[int] = []

    def end(number: int, finished: Finished | None) -> None:
        if finished is not None:
            assert number not in ended
            ended[number] = finished

    for event, rank, number in events:
        if event == "ask":
            asks = Question(request=len(asked), keys=keys, action=Action.KILL, seconds=1)
            opened, _ = questions.ask(CLIENT, asks, 0)
            asked.append(opened)
        elif event == "answer":
            end(number, give(questions, keys[rank], said(number)))
        elif event == "deadline":
            end(number, questions.finish(number))
        else:
            for finished in questions.rank_ended(keys[rank], "gone"):
                end(asked[finished.question.request], finished)
    for number in asked:
        end(number, questions.finish(number))
    assert sorted(ended) == asked
    assert all(tuple(answer.key for answer in answers_of(finished)) == keys for finished in ended.values())
    assert not any(questions.is_asked(key) for key in keys)


def test_a_rank_is_asked_as_often_as_it_goes_and_again_a_moment_later(approved: Approved) -> None:
    rates = AskRates()
    assert [rates.refusal("a", 1, 0.0) for _ in range(ASKS_PER_SECOND)] == [None] * ASKS_PER_SECOND
    approved(rates.refusal("a", 1, 0.0) or "")
    assert rates.refusal("b", 1, 0.0) is None
    assert rates.refusal("a", 1, 2 / ASKS_PER_SECOND) is None


# folded answers


def asked(questions: OpenQuestions, *keys: str) -> int:
    number, _ = questions.ask(CLIENT, question(*keys).replace(fold=True), 0.0)
    return number


def test_an_answer_that_many_ranks_have_in_common_comes_once_with_all_their_keys() -> None:
    questions = OpenQuestions()
    keys = [f"job/{number}" for number in range(1000)]
    number = asked(questions, *keys)
    for place, key in enumerate(keys[:-1]):
        give(questions, key, said(number, "odd" if place == 500 else "0.25"))
    finished = questions.finish(number)
    assert finished is not None
    folded = answers_of(finished)
    assert len(folded) < 10
    each = [one for answer in folded for one in answer.each()]
    assert {one.key: one.text for one in each} == {
        key: "odd" if place == 500 else "no answer in 5 s" if place == 999 else "0.25" for place, key in enumerate(keys)
    }
    assert len(each) == len(keys)
    assert not any(one.also for one in each)


AGES = st.lists(st.none() | st.floats(0.0, 1e8), min_size=1, max_size=50)


@given(AGES)
def test_the_same_stack_with_different_ages_comes_and_is_kept_once(ages: list[float | None]) -> None:
    """Fold a tree: ranks that wait together have not come at the same time."""
    questions = OpenQuestions()
    keys = [f"job/{number}" for number in range(len(ages))]
    number = asked(questions, *keys)
    before = questions.budget.of(CLIENT)
    frames = tuple(Place(file="/train.py", line=line, function='"age":1,') for line in range(1, 9))
    finished = None
    for key, age in zip(keys, ages, strict=True):
        finished = give(questions, key, said(number, ',"age":5', frames=frames, age=age))
    assert finished is not None
    assert len(set(finished.said.values())) == 1
    assert questions.budget.of(CLIENT) - before < 2000
    folded = answers_of(finished)
    assert len(folded) == 1
    each = {one.key: one for answer in folded for one in answer.each()}
    assert [each[key].age for key in keys] == ages
    assert {(one.text, one.frames, one.also, one.ages) for one in each.values()} == {(',"age":5', frames, (), ())}
