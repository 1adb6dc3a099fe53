"""A question waits for each of its ranks once, and ends once."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.ranks.questions import Answered, EncodedAnswer, OpenQuestions
from dbg_wire.messages import Action, Question


class Client(NamedTuple):
    """One who asks, and reads no answer."""

    number: int

    def answer(self, request: int, key: str, reply: EncodedAnswer, *, is_last: bool) -> None:
        raise NotImplementedError

    def end(self, request: int) -> None:
        raise NotImplementedError


CLIENT, OTHER = Client(5), Client(6)


def question(*keys: str, request: int = 7) -> Question:
    return Question(request=request, keys=keys, action=Action.CONTINUE, seconds=5.0)


def test_an_answer_belongs_to_the_terminal_that_asked_until_the_last_one() -> None:
    questions = OpenQuestions()
    number, keys = questions.ask(CLIENT, question("a", "b", "a"), 0.0)
    assert keys == ("a", "b")
    assert questions.answered("c", number) is None
    assert questions.answered("a", number + 1) is None
    assert questions.answered("a", number) == Answered(CLIENT, 7, is_last=False, action=Action.CONTINUE)
    assert questions.answered("a", number) is None
    assert questions.answered("b", number) == Answered(CLIENT, 7, is_last=True, action=Action.CONTINUE)
    assert questions.number_of(CLIENT.number, 7) is None
    assert not len(questions)


def test_a_question_that_ends_names_the_ranks_that_are_missing() -> None:
    questions = OpenQuestions()
    number, _ = questions.ask(CLIENT, question("a", "b"), 100.0)
    questions.ask(OTHER, question("a"), 100.0)
    questions.answered("a", number)
    assert questions.number_of(CLIENT.number, 7) == number
    ended = questions.end(number)
    assert ended is not None
    assert (list(ended.missing), ended.ends) == (["b"], 105.0)
    assert questions.end(number) is None
    assert (questions.is_asked("a"), questions.is_asked("b")) == (True, False)


EVENTS = st.lists(
    st.tuples(st.sampled_from(["answer", "end", "ask"]), st.integers(0, 3), st.integers(1, 4)), max_size=40
)


@given(EVENTS)
def test_every_question_ends_once_and_is_forgotten(events: list[tuple[str, int, int]]) -> None:
    questions = OpenQuestions()
    keys = ("r0", "r1", "r2", "r3")
    asked: list[int] = []
    ended: list[int] = []
    for event, rank, number in events:
        if event == "ask":
            asked.append(questions.ask(CLIENT, question(*keys, request=len(asked)), 0.0)[0])
        elif event == "answer":
            answered = questions.answered(keys[rank], number)
            if answered is not None and answered.is_last:
                ended.append(number)
        elif questions.end(number) is not None:
            ended.append(number)
    ended += [number for number in questions.of(CLIENT.number) if questions.end(number) is not None]
    assert sorted(ended) == asked
    assert not any(questions.is_asked(key) for key in keys)
