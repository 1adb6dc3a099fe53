"""The document of an event is one line of JSON, whatever a rank calls itself, and far smaller than a pipe takes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.events.event import Event, EventKind, document
from dbg_wire.records.ranks import Place

TEXTS = st.text(st.characters(codec=None), max_size=5000)


def test_it_tells_what_happened_where_and_what_to_type() -> None:
    event = Event(
        kind=EventKind.STOP,
        at=1760000000.12345,
        sentence="gpu013:5 of job 4711.0 stopped",
        job="4711.0",
        ranks="5",
        address="gpu013:5",
        where=Place(file="/home/me/train.py", line=41, function="step"),
        next="dbg-attach 4711.0/gpu013:5",
    )
    assert json.loads(document(event, 3)) == {
        "schema": 1,
        "event": "stop",
        "at": 1760000000.123,
        "job": "4711.0",
        "ranks": "5",
        "address": "gpu013:5",
        "where": {"file": "/home/me/train.py", "line": 41, "function": "step"},
        "sentence": "gpu013:5 of job 4711.0 stopped",
        "next": "dbg-attach 4711.0/gpu013:5",
        "left_out": 3,
    }


def test_what_does_not_apply_is_null() -> None:
    told = json.loads(document(Event(kind=EventKind.REFUSED, at=1.0, sentence="no", address="10.0.0.7")))
    assert [name for name, value in told.items() if value is None] == ["job", "ranks", "where", "next"]


@given(TEXTS, TEXTS, TEXTS)
def test_hostile_texts_stay_on_one_line_and_can_not_act_on_a_terminal(sentence: str, job: str, name: str) -> None:
    where = Place(file=name, line=1, function=name)
    event = Event(kind=EventKind.CRASH, at=1.0, sentence=sentence, job=job, ranks=job, address=job, where=where)
    line = document(event)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert len(line) < 60_000
    told = json.loads(line)
    assert told["sentence"].isprintable()
    assert (told["job"] or "").isprintable()
    assert all(told["where"][part].isprintable() for part in ("file", "function")) if told["where"] else not name


def test_a_broker_of_a_cluster_says_which_one_it_is() -> None:
    told = json.loads(document(Event(kind=EventKind.REFUSED, at=1.0, sentence="no", broker="host-7-ab")))
    assert told["broker"] == "host-7-ab"
