"""Frames become messages and back, or are refused by name; a log line of a message hides what people typed."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dbg_wire import limits
from dbg_wire.codec import (
    MAX_LINE,
    Input,
    LogForm,
    Output,
    UnknownType,
    decode,
    decode_data,
    encode,
    encode_data,
    log_form,
)
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    Action,
    Complete,
    Completions,
    Kind,
    Message,
    Notice,
    Probe,
    Question,
    RankReport,
    Refusal,
    Reply,
    Report,
    Sender,
    StopInfo,
    answer_to,
)
from dbg_wire.records.inspection import Inspection, InspectionKind
from dbg_wire.records.ranks import Place, RankState
from dbg_wire.records.record import MAX_NUMBER, bound_of, hints_of, name_of
from tests.conftest import Approved
from tests.unit.wire.values import messages

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def refusal_of(text: str, sender: Sender) -> str:
    """Return the sentence in which a frame is refused, or nothing if it is taken; any other error comes out."""
    try:
        decode(text, sender)
    except PeerError as error:
        return str(error)
    return ""


def reporting(arrivals: object) -> str:
    """Return a report with these arrivals as a frame."""
    return json.dumps({"type": "report", "report": {"state": "running", "arrivals": arrivals}})


@given(messages)
def test_every_message_reads_back_unchanged(message: Message) -> None:
    for sender in message.sender:
        assert decode(encode(message), sender) == message


@given(messages, st.dictionaries(texts.map(lambda name: f"later-{name}"), junk, max_size=3))
def test_fields_of_a_later_minor_are_ignored(message: Message, more: dict[str, object]) -> None:
    # The rest stays as it was encoded, as the body of an answer is equal by its text.
    text = f"{encode(message)[:-1]},{json.dumps(more)[1:]}" if more else encode(message)
    assert decode(text, next(iter(message.sender))) == message


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")) | junk.map(json.dumps), st.sampled_from(Sender))
def test_any_text_is_decoded_or_refused(text: str, sender: Sender) -> None:
    assert refusal_of(text, sender).isprintable()


@given(messages, st.data())
def test_any_value_of_a_field_is_accepted_or_refused(message: Message, data: st.DataObject) -> None:
    document = json.loads(encode(message))
    name = data.draw(st.sampled_from(sorted(document)))
    document[name] = data.draw(junk)
    assert refusal_of(json.dumps(document), next(iter(message.sender))).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        '{"type":"probe_reply","where":' * 40_000,
        '{"type":7}',
        '{"type":"applied","generation":1}',
        '{"type":"applied","generation":true,"offset":1}',
        '{"type":"applied","generation":1e999,"offset":1}',
        f'{{"type":"applied","generation":{MAX_NUMBER + 1},"offset":1}}',
        '{"type":"probe_reply","where":{"file":"f","line":"7","function":"g"}}',
        '{"type":"answer","request":1,"kind":"odd","text":""}',
        '{"type":"answer","request":1,"kind":"lost","body":{}}',
        '{"type":"answer","request":1,"kind":"value","text":"\\ud800"}',
        reporting([{"site": "f", "arrived": "7", "completed": 0}]),
        reporting([{"site": "f", "arrived": 7}]),
        reporting(7),
        '{"type":"greet","minor":0,"release":"1","name":"x"}',
    ],
)
def test_error_in_a_message_is_named(approved: Approved, text: str) -> None:
    with pytest.raises(PeerError) as caught:
        decode(text, Sender.AGENT)
    approved(str(caught.value))
    assert not isinstance(caught.value, UnknownType)


def test_unknown_type_has_its_own_error() -> None:
    with pytest.raises(UnknownType, match="'made-up\\\\x1b'"):
        decode('{"type":"made-up\\u001b"}', Sender.AGENT)


def test_sizes_are_bounded() -> None:
    with pytest.raises(PeerError, match="more than"):
        decode(" " * (limits.MAX_CONTROL_BYTES + 1), Sender.AGENT)
    long = json.dumps({"type": "notice", "text": "x" * (limits.MAX_TEXT + 1)})
    with pytest.raises(PeerError, match=r"notice: .*<= 16384 - at `\$\.text`"):
        decode(long, Sender.AGENT)
    many = json.dumps({"type": "question", "request": 1, "action": "kill", "seconds": 1.0, "keys": [""] * 5000})
    with pytest.raises(PeerError, match=r"question: .*<= 4096 - at `\$\.keys`"):
        decode(many, Sender.CLIENT)


@pytest.mark.parametrize("text", ["{" * 9_000, json.dumps({str(n): [n] for n in range(9_000)})])
def test_text_with_many_brackets_is_accepted(text: str) -> None:
    message = answer_to(1, Kind.VALUE, "", rows=tuple(text[at : at + 9_000] for at in range(0, len(text), 9_000)))
    assert decode(encode(message), Sender.AGENT) == message


words32, words64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


@given(words32, words64, st.binary(max_size=100))
def test_output_frames_read_back_unchanged(session: int, offset: int, data: bytes) -> None:
    frame = Output(session, offset, data)
    assert decode_data(encode_data(frame), Sender.AGENT) == frame


@given(words32, words32, words32, words64, st.binary(max_size=100))
def test_input_frames_read_back_unchanged(session: int, stop: int, generation: int, offset: int, data: bytes) -> None:
    frame = Input(session, stop, generation, offset, data)
    assert decode_data(encode_data(frame), Sender.CLIENT) == frame


@given(st.binary(max_size=60), st.sampled_from(Sender))
def test_any_bytes_are_decoded_or_refused(data: bytes, sender: Sender) -> None:
    try:
        decode_data(data, sender)
    except PeerError:
        return


def test_a_frame_of_the_other_direction_is_refused() -> None:
    with pytest.raises(PeerError, match="clients may not send"):
        decode_data(encode_data(Output(1, 0, b"x" * 40)), Sender.CLIENT)
    with pytest.raises(PeerError, match="more than"):
        decode_data(encode_data(Output(1, 0, b"x" * (limits.MAX_DATA_BYTES + 1))), Sender.AGENT)


WHERE = Place(file="/home/me/train.py", line=41, function="step")
HIDDEN = "hunter2"
STOPPED = (
    "report report=(state=stopped stop=(number=1 reason=crash where=/home/me/train.py:41 age=0.25 "
    "thread=<1 characters> error=<11 characters>))"
)


@settings(max_examples=50)
@given(messages)
def test_every_message_is_one_printable_line(message: Message) -> None:
    line = log_form(message)
    assert line.split(" ")[0] == name_of(type(message))
    assert line.isprintable()
    assert len(line) <= MAX_LINE + 1


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (Probe(), "probe"),
        (Reply(prompt=31, generation=4, text="p loss"), "reply prompt=31 generation=4 text=<6 characters>"),
        (Refusal(code="gone", text="it\x1b[2J"), "refusal code=gone text=it\\x1b[2J"),
        (
            Report(
                report=RankReport(
                    state=RankState.STOPPED,
                    stop=StopInfo(number=1, reason="crash", where=WHERE, age=0.25, thread="a", error="KeyError: 7"),
                )
            ),
            STOPPED,
        ),
        (
            Question(request=1, keys=("a", "b"), action=Action.EVAL, seconds=10.0, text="loss"),
            "question request=1 action=eval text=<4 characters> keys=<2 elements>",
        ),
    ],
)
def test_log_line_shows_the_fields_of_a_message(message: Message, line: str) -> None:
    assert log_form(message) == line
    assert str(LogForm(message)) == line


@pytest.mark.parametrize(
    "message",
    [
        Reply(prompt=1, generation=1, text=HIDDEN),
        Question(
            request=1,
            keys=(),
            action=Action.INSPECT,
            seconds=1.0,
            text=HIDDEN,
            inquiry=Inspection(sight=InspectionKind.VALUE, text=HIDDEN),
        ),
        answer_to(1, Kind.VALUE, HIDDEN, rows=(HIDDEN,), digest=HIDDEN),
        Completions(request=1, matches=(HIDDEN,)),
        Notice(text=HIDDEN),
    ],
    ids=lambda message: type(message).__name__,
)
def test_log_line_hides_typed_text_and_program_values(message: Message) -> None:
    assert HIDDEN in encode(message)
    assert HIDDEN not in log_form(message)


@settings(max_examples=50)
@given(messages, st.text(st.characters(categories=["Lo"]), min_size=12, max_size=12))
def test_log_line_hides_free_text_of_every_message(message: Message, hidden: str) -> None:
    kind = type(message)
    values = {name: getattr(message, name) for name in kind.__struct_fields__}
    assume(hidden not in log_form(message))
    for name, hint in hints_of(kind).items():
        bound = bound_of(hint)
        if isinstance(values[name], str) and bound is not None and not (bound.extra or {})["is_shown"]:
            values[name] = hidden
    if isinstance(message, Complete):
        values |= {"start": 0, "end": 0}
    assert hidden not in log_form(kind(**values))
