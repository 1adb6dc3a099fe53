from __future__ import annotations

from dbg_client.core.link import Down
from dbg_client.core.shared_link import MAX_EVENTS, SharedLink
from dbg_wire.messages import Answers, Pulse, Refusal, RefusalCode


async def test_only_an_open_question_takes_what_answers_one() -> None:
    link = SharedLink(lambda item: True)
    answers, refusal, down = Answers(request=0), Refusal(code=RefusalCode.ROLE, text="no"), Down("gone")

    assert [link.offer(event) for event in (answers, refusal, down)] == [False, False, False]
    link.begin()
    assert [link.offer(event) for event in (answers, refusal, Pulse(where=None))] == [True, True, False]
    assert not link.offer(down), "the session is to be told, too"
    assert [await link.next() for _ in range(3)] == [answers, refusal, down]
    for number in range(MAX_EVENTS + 1):
        link.offer(Answers(request=number))
    assert await link.next() == Answers(request=1)
    link.end()
    assert not link.offer(answers)
