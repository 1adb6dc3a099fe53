"""Answers that wait for a terminal: none is lost, equal ones are kept and sent once, and they have a bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.ranks.questions import broker_answer
from dbg_broker.terminals import answers as module
from dbg_broker.terminals.answers import PAGE_BYTES, AnswerQueue
from dbg_wire.codec import encode
from dbg_wire.messages import Answers, Kind, RankAnswer
from tests.support.answers import answers_of


def pages_of(queue: AnswerQueue) -> list[Answers]:
    pages = []
    while (page := queue.page()) is not None:
        pages.append(page)
    return pages


ANSWERS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 16_000]), st.none() | st.floats(0, 9)))


@given(ANSWERS)
def test_every_answer_is_sent_once_and_no_message_is_too_large(answers: list[tuple[int, int, float | None]]) -> None:
    queue = AnswerQueue()
    for number, (request, size, age) in enumerate(answers):
        queue.add(request, str(number), broker_answer(Kind.VALUE, "x" * size, age=age))
    for request in range(3):
        queue.end(request)
    pages = pages_of(queue)
    found = {(page.request, one.key): (len(one.text), one.age) for page in pages for one in answers_of(page)}
    assert found == {(request, str(number)): (size, age) for number, (request, size, age) in enumerate(answers)}
    assert sum(len(answers_of(page)) for page in pages) == len(answers)
    assert sorted(page.request for page in pages if page.last) == [0, 1, 2]
    assert all(len(encode(page)) <= PAGE_BYTES + 1024 for page in pages)
    assert (queue.size, queue.ended, queue.may_send) == (0, 0, False)


def test_common_answer_of_many_ranks_is_kept_and_sent_once() -> None:
    queue = AnswerQueue()
    for number in range(1000):
        queue.add(7, f"job/{number}", broker_answer(Kind.VALUE, "odd" if number == 500 else "0.25", age=float(number)))
    assert queue.may_send
    queue.end(7)
    pages = pages_of(queue)
    assert sum(len(page.answers) for page in pages) <= 6
    each: list[RankAnswer] = [one for page in pages for one in answers_of(page)]
    assert {one.key: (one.text, one.age) for one in each} == {
        f"job/{number}": ("odd" if number == 500 else "0.25", float(number)) for number in range(1000)
    }


def test_a_question_that_ends_twice_has_ended_once() -> None:
    queue = AnswerQueue()
    for _ in range(2):
        queue.end(1)
    assert [page.request for page in pages_of(queue)] == [1]
    assert (queue.ended, queue.may_send) == (0, False)


def test_long_answer_does_not_delay_a_short_one_of_another_question() -> None:
    queue = AnswerQueue()
    for number in range(9):
        queue.add(1, str(number), broker_answer(Kind.VALUE, f"{number}" * 16_000))
    queue.add(2, "a", broker_answer(Kind.VALUE, "short"))
    queue.end(2)
    assert [page.request for page in pages_of(queue)][:2] == [1, 2]


def test_answers_of_an_open_question_wait_until_they_are_gathered() -> None:
    queue = AnswerQueue()
    queue.add(1, "a", broker_answer(Kind.VALUE, "1"))
    assert not queue.may_send
    queue.gathered()
    assert queue.may_send
    page = queue.page()
    assert page is not None
    assert not page.last
    assert not queue.may_send


def test_answers_beyond_the_memory_limit_are_replaced_by_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 18_000)
    queue = AnswerQueue()
    for key, text in (("a", "x" * 12_000), ("b", "y" * 12_000), ("c", "small"), ("d", "x" * 12_000)):
        queue.add(7, key, broker_answer(Kind.VALUE, text))
    found = {one.key: one.kind for page in pages_of(queue) for one in answers_of(page)}
    assert found == {"a": Kind.VALUE, "b": Kind.ERROR, "c": Kind.VALUE, "d": Kind.VALUE}
