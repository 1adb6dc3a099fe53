from __future__ import annotations

import pytest

from dbg_wire.codec import decode, encode
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_ANSWER_BYTES
from dbg_wire.messages import Action, Answer, Kind, Question, Sender
from dbg_wire.records.evidence import SourceSeen
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import size_of
from dbg_wire.records.samples import (
    MAX_ARRIVALS,
    GroupArrivals,
    RankSample,
    Sampled,
    SampledPlace,
    SampleQuestion,
    sample_rows,
    sampled_in,
)

ARRIVALS = GroupArrivals(
    group="0:gloo", begin=5, calls=("all_reduce",), which=(0, 0), sequences=(1, 2), came=(0, 7), ended=(3, -1)
)


def test_rows_come_back_as_what_was_told() -> None:
    place = SampledPlace(frames=(Place(file="/a.py", line=1, function="f"),), times=(1, 2))
    told = Sampled(sample=RankSample(clock=9), arrivals=(ARRIVALS,), places=(place,))
    answer = Answer(request=1, kind=Kind.VALUE, text="", rows=sample_rows(told))
    read = decode(encode(answer), Sender.AGENT)
    assert isinstance(read, Answer)
    assert sampled_in(read.rows) == told


def test_an_answer_of_another_kind_is_no_sampling() -> None:
    assert sampled_in(("text", SourceSeen(library="torch"))) is None


@pytest.mark.parametrize(
    "changes", [{"which": (0,)}, {"sequences": (1, 2, 3)}, {"ended": (1,)}, {"took": (1,)}, {"which": (0, 1)}]
)
def test_columns_that_do_not_belong_together_are_left_out(changes: dict[str, tuple[int, ...]]) -> None:
    told = sampled_in((RankSample(clock=1), ARRIVALS.replace(**changes)))
    assert told is not None
    assert told.arrivals == ()


def test_a_rank_that_tells_more_than_an_answer_may_have_says_so() -> None:
    place = SampledPlace(frames=tuple(Place(file="/" + "x" * 4000, line=n, function="f") for n in range(8)), times=(1,))
    rows = sample_rows(Sampled(sample=RankSample(clock=1), places=(place,) * 32))
    assert size_of(Answer(request=1, kind=Kind.VALUE, text="", rows=rows)) <= MAX_ANSWER_BYTES
    assert isinstance(rows[0], RankSample)
    assert isinstance(rows[-1], SourceSeen)
    assert "are left out" in rows[-1].lack


@pytest.mark.parametrize("asked", ['{"asks":"sample","seconds":301}', '{"asks":"sample","seconds":1,"arrivals":-1}'])
def test_nobody_is_asked_to_look_for_ever(asked: str) -> None:
    text = f'{{"type":"question","request":1,"keys":[],"action":"sample","seconds":1,"inquiry":{asked}}}'
    with pytest.raises(PeerError):
        decode(text, Sender.CLIENT)


def test_a_question_comes_as_it_was_asked() -> None:
    question = Question(
        request=1, keys=("a",), action=Action.SAMPLE, seconds=20.0, inquiry=SampleQuestion(seconds=10.0, ends=True)
    )
    assert decode(encode(question), Sender.CLIENT) == question


def test_a_group_has_a_bounded_number_of_arrivals() -> None:
    many = tuple(range(MAX_ARRIVALS + 1))
    row = ARRIVALS.replace(which=(0,) * len(many), sequences=many, came=many, ended=())
    with pytest.raises(PeerError):
        decode(encode(Answer(request=1, kind=Kind.VALUE, text="", rows=(row,))), Sender.AGENT)
