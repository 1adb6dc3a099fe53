"""What a message costs in memory is at least what it takes, and is known without a look at each of its fields."""

from __future__ import annotations

import tracemalloc

import pytest

from dbg_broker.ranks.memory import weight
from dbg_wire.codec import decode, encode
from dbg_wire.messages import Answer, Kind, Sender
from dbg_wire.messages.declared import AnyRow
from dbg_wire.records.beside import OperationCount, RasRank
from dbg_wire.records.inspection import Part

COUNTED = RasRank(communicator="", rank=0, state="", counts=(OperationCount(name="ab", count=1000),) * 64)


@pytest.mark.parametrize(
    "rows",
    [
        (COUNTED,) * 300,
        (Part(step="", label="", digest=""),) * 4096,
        (Part(step="12", label="ab", digest="cd"),) * 4096,
    ],
)
def test_rows_take_no_more_memory_than_they_weigh(rows: tuple[AnyRow, ...]) -> None:
    text = encode(Answer(request=1, kind=Kind.VALUE, text="", rows=rows))
    decode(text, Sender.AGENT)
    tracemalloc.start()
    try:
        answer = decode(text, Sender.AGENT)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(answer, Answer)
    assert taken <= weight(answer) < 20 * len(text)
