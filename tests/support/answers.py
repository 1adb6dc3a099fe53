"""Answers of ranks in the messages that carry them."""

from __future__ import annotations

from dbg_wire.messages import Answer, AnswerBody, Answers, RankAnswer, SameAnswer, body_of
from dbg_wire.records.record import decode_record


def answered(request: int, *answers: RankAnswer, last: bool = True) -> Answers:
    """Return the message that carries these answers to a terminal."""
    return Answers(request=request, answers=tuple(map(_of_one, answers)), last=last)


def answers_of(answers: Answers) -> tuple[RankAnswer, ...]:
    """Return the answers that such a message carries, one for each rank."""
    return tuple(one for same in answers.answers for one in same.each())


def body_in(answer: Answer) -> AnswerBody:
    """Return what a rank has answered."""
    body: AnswerBody = decode_record(AnswerBody, bytes(answer.body))
    return body


def _of_one(answer: RankAnswer) -> SameAnswer:
    body = AnswerBody(**{name: getattr(answer, name) for name in AnswerBody.__struct_fields__})
    return SameAnswer(keys=(answer.key,), kind=answer.kind, body=body_of(body), ages=(answer.age,))
