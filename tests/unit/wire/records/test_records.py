"""Records are valid after reading or cutting; rows of answers read back unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_command.audit import AuditEntry, decode_entry
from dbg_wire.codec import decode, encode
from dbg_wire.errors import BadInput, PeerError
from dbg_wire.limits import MAX_ANSWER_BYTES, MAX_BREAKPOINTS, MAX_TEXT
from dbg_wire.messages import Action, Answer, AnswerBody, Complete, Kind, Message, Notice, Question, Sender, answer_to
from dbg_wire.records.evidence import (
    MAX_EVIDENCE_BYTES,
    Activity,
    ActivityInfo,
    CollectiveSeen,
    CollectiveState,
    EvidenceRecord,
    GroupSeen,
    ProcessSeen,
    SourceSeen,
    ThreadWait,
    evidence_in,
    limit_rows,
)
from dbg_wire.records.inspection import (
    MAX_VARIABLE_TEXT,
    MAX_VARIABLES,
    BreakpointChanges,
    BreakpointSpec,
    CommandEnd,
    CommandLine,
    LineOfFile,
    Variable,
    command_line,
    cut_to_fit,
    inspected_in,
    output_in,
    output_rows,
)
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import InvalidMessage, Record, bound_of, checked, clamp, hints_of, size_of
from dbg_wire.records.samples import (
    MAX_ARRIVALS,
    GroupArrivals,
    RankSample,
    Sampled,
    SampledPlace,
    sample_rows,
    sampled_in,
)
from dbg_wire.records.stop_points import MAX_STOPS, StopAt, StopIn, parse_stop_at, parse_stop_in, parse_stops
from tests.conftest import Approved
from tests.support.answers import body_in
from tests.unit.wire.values import base_of, kinds, messages

PLACE = Place(file="/home/me/train.py", line=41, function="step")


def test_invalid_field_is_refused_by_name(approved: Approved) -> None:
    with pytest.raises(InvalidMessage, match=r"^place: .*\$\.line"):
        checked(PLACE.replace(line=-1))
    with pytest.raises(InvalidMessage) as caught:
        checked(PLACE.replace(file="\udcff"))
    approved(str(caught.value))
    assert checked(PLACE) == PLACE


def test_two_fields_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidMessage, match="complete has the range 2 to 5 in a line of 4 characters"):
        Complete(request=1, prompt=1, generation=1, line="p lo", start=2, end=5)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_field_has_a_bound(kind: type[Record]) -> None:
    for name, hint in hints_of(kind).items():
        base = base_of(hint)
        items = getattr(base, "__args__", (None,))[0]
        if base in (int, float, str) or items is not None:
            assert bound_of(hint) is not None, name
        if items in (int, float, str):
            raise AssertionError(f"the elements of {name} have no bound")


@given(messages)
def test_valid_values_are_unchanged(message: Message) -> None:
    values = {name: getattr(message, name) for name in message.__struct_fields__}
    assert clamp(type(message), **values) == message


def test_too_long_values_are_cut_and_marked() -> None:
    assert clamp(Notice, text="x" * 20_000).text == "x" * (16 * 1024 - 1) + "…"
    assert clamp(AnswerBody, text="", frames=(PLACE,) * 300).frames == (PLACE,) * 256
    assert clamp(Place, file="/tmp/\udcff", line=10**12, function="f") == Place(
        file="/tmp/\\udcff", line=10**9, function="f"
    )


@given(st.binary())
def test_any_line_decodes_to_an_entry_or_none(line: bytes) -> None:
    found = decode_entry(line)
    assert found is None or isinstance(found, AuditEntry)


# Bytes of an argument that are no UTF-8 come as surrogates of this range alone: a pair of others is one character.
WORD = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=["Cs"])
)


@given(st.lists(WORD, max_size=5), WORD.filter(bool))
def test_command_reads_back_unchanged(argv: list[str], program: str) -> None:
    command = checked(command_line([program, *argv]))
    assert command.arguments == command_line(command.argv).arguments
    assert checked(command) == command


@pytest.mark.parametrize("arguments", [(), (b"",), (b"ls", b"a\0b")])
def test_impossible_command_line_is_refused(arguments: tuple[bytes, ...]) -> None:
    with pytest.raises(InvalidMessage):
        CommandLine(arguments=arguments)


@given(st.text(max_size=3 * MAX_TEXT), st.integers(-64, 255) | st.none(), st.integers(0, 2**40))
def test_output_reads_back_from_an_answer(text: str, status: int | None, left_out: int) -> None:
    end = CommandEnd(status=status, left_out=left_out, ended="" if status is not None else "after 10 s")
    answer = decode(encode(answer_to(1, Kind.VALUE, "", rows=output_rows(end, text))), Sender.AGENT)
    assert isinstance(answer, Answer)
    assert output_in(body_in(answer).rows) == (text, end)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (BreakpointChanges(set=(BreakpointSpec(file="train.py", line=3),)), r"\^/.*\.file"),
        (BreakpointChanges(set=(BreakpointSpec(file="/train.py", line=0),)), r">= 1.*\.line"),
        (BreakpointChanges(clear=(LineOfFile(file="/a", line=1),) * (MAX_BREAKPOINTS + 1)), r"<= 100.*clear"),
    ],
)
def test_invalid_breakpoint_changes_are_refused_with_the_reason(changes: BreakpointChanges, why: str) -> None:
    with pytest.raises(InvalidMessage, match=why):
        checked(changes)


def test_too_long_inquiry_is_refused() -> None:
    changes = BreakpointChanges(clear=(LineOfFile(file="/" + "x" * 4000, line=1),) * 5)
    with pytest.raises(InvalidMessage, match=f"inquiry has 20005 characters, more than {MAX_TEXT}"):
        Question(request=1, keys=(), action=Action.BREAKPOINTS, seconds=1.0, inquiry=changes)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(['"', "[", "{", "\\", "\x00", "é", "日", "\U0001f600", "x"]), st.integers(1, MAX_VARIABLES))
def test_any_list_of_values_fits_into_one_message(character: str, count: int) -> None:
    long = character * MAX_VARIABLE_TEXT
    one = Variable(name=long[:200], text=long, type=long[:200], expression=long[:1000], handle=2**32 - 1)
    rows = cut_to_fit([one] * count)
    answer = decode(encode(answer_to(1, Kind.VALUE, "", rows=rows)), Sender.AGENT)
    assert isinstance(answer, Answer)
    assert size_of(answer) <= MAX_ANSWER_BYTES
    variables = inspected_in(body_in(answer).rows).variables
    assert len(variables) == count
    assert all(long.startswith(seen.text.removesuffix("…")) and len(seen.text) >= 100 for seen in variables)
    assert {(seen.name, seen.type, seen.handle) for seen in variables} == {(one.name, one.type, one.handle)}


ARRIVALS = GroupArrivals(
    group="0:gloo",
    start=5,
    calls=("all_reduce",),
    which=(0, 0),
    sequences=(1, 2),
    came=(0, 7),
)


def test_sample_reads_back_from_rows() -> None:
    place = SampledPlace(frames=(Place(file="/a.py", line=1, function="f"),), times=(1, 2))
    sampled = Sampled(sample=RankSample(clock=9), arrivals=(ARRIVALS,), places=(place,))
    answer = answer_to(1, Kind.VALUE, "", rows=sample_rows(sampled))
    read = decode(encode(answer), Sender.AGENT)
    assert isinstance(read, Answer)
    assert sampled_in(body_in(read).rows) == sampled


@pytest.mark.parametrize("changes", [{"which": (0,)}, {"sequences": (1, 2, 3)}, {"took": (1,)}, {"which": (0, 1)}])
def test_inconsistent_columns_are_left_out(changes: dict[str, tuple[int, ...]]) -> None:
    sampled = sampled_in((RankSample(clock=1), ARRIVALS.replace(**changes)))
    assert sampled is not None
    assert sampled.arrivals == ()


def test_rows_beyond_the_answer_limit_are_reported_as_omitted() -> None:
    place = SampledPlace(frames=tuple(Place(file="/" + "x" * 4000, line=n, function="f") for n in range(8)), times=(1,))
    rows = sample_rows(Sampled(sample=RankSample(clock=1), places=(place,) * 32))
    assert size_of(answer_to(1, Kind.VALUE, "", rows=rows)) <= MAX_ANSWER_BYTES
    assert isinstance(rows[0], RankSample)
    assert isinstance(rows[-1], SourceSeen)
    assert "are omitted" in rows[-1].limitation


@pytest.mark.parametrize("asked", ['{"asks":"sample","seconds":301}', '{"asks":"sample","seconds":1,"arrivals":-1}'])
def test_out_of_range_sample_request_is_refused(asked: str) -> None:
    text = f'{{"type":"question","request":1,"keys":[],"action":"sample","seconds":1,"inquiry":{asked}}}'
    with pytest.raises(PeerError):
        decode(text, Sender.CLIENT)


def test_a_group_has_a_bounded_number_of_arrivals() -> None:
    many = tuple(range(MAX_ARRIVALS + 1))
    row = ARRIVALS.replace(which=(0,) * len(many), sequences=many, came=many)
    with pytest.raises(InvalidMessage):
        checked(AnswerBody(text="", rows=(row,)))


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ("train.py:40", StopAt(file="train.py", line=40)),
        (" a b/c,d.py:7 ", StopAt(file="a b/c,d.py", line=7)),
        ("/x/train.py:40, step == 3", StopAt(file="/x/train.py", line=40, condition="step == 3")),
        ("t.py:4,x[1:2] and y", StopAt(file="t.py", line=4, condition="x[1:2] and y")),
        ("train:40, d == {3:4, 5:6}", StopAt(file="train", line=40, condition="d == {3:4, 5:6}")),
    ],
)
def test_stop_place_is_read(text: str, stop: StopAt) -> None:
    assert parse_stop_at(text) == stop
    assert parse_stop_at(str(stop).removeprefix("--stop-at ")) == stop


@pytest.mark.parametrize("text", ["", "train.py", "train.py:", "train.py:0", ":3", "train.py:3,", "t.py:x", "t.py:3 x"])
def test_invalid_stop_place_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_stop_at(text)


def test_invalid_condition_is_refused(approved: Approved) -> None:
    with pytest.raises(BadInput) as caught:
        parse_stop_at("train.py:3, x ==")
    approved(str(caught.value))


def test_stop_function_is_read() -> None:
    assert parse_stop_in("fairseq2.train:Trainer.step") == StopIn(module="fairseq2.train", function="Trainer.step")
    for text in ("train", "train:", ":f", "train:f()", "train.py:3", "a..b:f"):
        with pytest.raises(BadInput):
            parse_stop_in(text)


@given(st.text(), st.text())
def test_any_environment_text_is_read_without_error(stop_at: str, stop_in: str) -> None:
    parse_stops(stop_at, stop_in)


def test_valid_stops_of_the_environment_are_used_up_to_a_limit() -> None:
    stops, problems = parse_stops("a.py:1\n\nnonsense\nb.py:2\n", "m:f")
    assert [str(stop) for stop in stops] == ["--stop-at a.py:1", "--stop-at b.py:2", "--stop-in m:f"]
    assert len(problems) == 1
    stops, problems = parse_stops("a.py:1\n" * (MAX_STOPS + 1), "")
    assert (len(stops), len(problems)) == (MAX_STOPS, 1)


GROUP = GroupSeen(library="torch", name="1", title="dp_0", members="0-15", size=16, enqueued=3172, completed=3171)
PENDING = CollectiveSeen(
    group="1", name="all_reduce", state=CollectiveState.ENQUEUED, sequence=3172, types="float32", size=2**30, age=252.0
)
RECORDS: list[EvidenceRecord] = [
    SourceSeen(library="torch", version="2.13.0"),
    GROUP,
    PENDING,
    ThreadWait(thread="MainThread", does=ActivityInfo(what=Activity.COLLECTIVE, name="all_reduce"), is_main=True),
    ProcessSeen(state="S", main_cpu=1.5),
]


def test_each_evidence_record_reads_back() -> None:
    answer = decode(encode(answer_to(1, Kind.VALUE, "", rows=limit_rows(RECORDS))), Sender.AGENT)
    assert isinstance(answer, Answer)
    found = evidence_in(body_in(answer).rows)

    assert found is not None
    assert found.groups == (GROUP,)
    assert found.collectives == (PENDING,)
    assert [
        *found.sources,
        *found.groups,
        *found.collectives,
        *found.waits,
        found.process,
    ] == (RECORDS)


def test_answer_without_evidence_differs_from_one_with_little_evidence() -> None:
    assert evidence_in(()) is None
    assert evidence_in(("a row of a screen",)) is None
    assert evidence_in((ProcessSeen(),)) is not None


def test_records_that_do_not_fit_into_an_answer_are_counted() -> None:
    waits = [ThreadWait(thread=f"{n}{'x' * 500}", does=ActivityInfo(what=Activity.LOCK)) for n in range(2000)]

    rows = limit_rows([GROUP, *waits])

    assert sum(map(size_of, rows)) <= MAX_EVIDENCE_BYTES + 200
    found = evidence_in(rows)
    assert found is not None
    assert found.groups == (GROUP,)
    left_out = len(waits) - len(found.waits)
    (source,) = found.sources
    assert source.limitation.startswith(f"{left_out} of its 2001 records ")


def test_thread_with_long_paths_loses_only_its_frames() -> None:
    frames = tuple(Place(file=f"/{n}{'x' * 4000}", line=n, function="f") for n in range(10))
    wait = ThreadWait(thread="pump", does=ActivityInfo(what=Activity.LOCK), frames=frames)

    found = evidence_in(limit_rows([wait]))

    assert found is not None
    assert [(one.thread, one.does, one.frames) for one in found.waits] == [("pump", wait.does, ())]
