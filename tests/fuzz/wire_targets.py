"""What each role reads of another: messages, evidence, targets, addresses, and the files of the home."""

from __future__ import annotations

from contextlib import suppress

from dbg_broker.journal.audit import text_of as text_of_question
from dbg_broker.terminals.notices import visible_action
from dbg_command.targets import parse_host, parse_target, select
from dbg_dial.endpoint import canonical_pin, parse_driver_tokens, parse_endpoint, parse_rendezvous, parse_token
from dbg_wire.codec import Output, decode, decode_data, encode, encode_data, join_outputs, log_form
from dbg_wire.errors import BadInput, BadSecretFile, BadTarget, DbgError, PeerError
from dbg_wire.limits import MAX_TEXT
from dbg_wire.messages import Action, Answer, Greet, Question, Report, Sender
from dbg_wire.rank_set import format_ranks, parse_ranks
from dbg_wire.records import evidence, inspection
from dbg_wire.records.inspection import BreakpointChanges, BreakpointSpec
from dbg_wire.records.record import Inquiry, InvalidMessage, Row, encode_record, length_of
from dbg_wire.records.stop_points import parse_stop_at, parse_stop_in
from tests.fuzz.target import Target, text_of
from tests.support.answers import body_in
from tests.support.rank_infos import rank
from tests.unit.broker.peers import STOPPED, registration

RANKS = [
    *(rank(f"g{number // 2}:{number}", local=number % 2) for number in range(4)),
    rank("g1:0", job="B"),
    rank("h1:?1", job="-"),
    rank("g0:0.1"),
]
PIN = "sha256:" + "0" * 64
RENDEZVOUS = (
    b'{"schema":1,"url":"wss://login1:6900","host":"login1","pid":4711,"fingerprint":"%b","tokens":{"rank":"%b"}}'
    % (PIN.encode(), b"r" * 43)
)


def control(data: bytes) -> None:
    """Read a control message as each role's, and write again what was read."""
    for sender in Sender:
        with suppress(PeerError):
            message = decode(data.decode("utf-8", "replace"), sender)
            assert decode(encode(message), sender) == message
            assert str(log_form(message)).isprintable()


def frames(data: bytes) -> None:
    """Read a binary frame as each role's, and write again what was read."""
    for sender in Sender:
        with suppress(PeerError):
            assert encode_data(decode_data(data, sender)) == data
    half = len(data) // 2
    joined = join_outputs(data[:half], data[half:])
    assert joined is None or len(joined) < len(data)


def targets(data: bytes) -> None:
    """Read a target, and choose among ranks with it."""
    text = text_of(data)
    with suppress(BadTarget):
        chosen = parse_target(text)
        with suppress(DbgError):
            assert select(chosen, RANKS).ranks
    for parse in (parse_host, parse_stop_at, parse_stop_in):
        with suppress(BadInput):
            parse(text)
    with suppress(BadTarget):
        numbers = parse_ranks(text)
        assert parse_ranks(format_ranks(numbers)) == numbers


def addresses(data: bytes) -> None:
    """Read an address, a fingerprint and a token."""
    text = text_of(data)
    for parse in (parse_endpoint, parse_token):
        with suppress(BadInput):
            parse(text, source="DBG_BROKER")
    canonical_pin(text)


def home_files(data: bytes) -> None:
    """Read the two files by which a broker is found."""
    text = data.decode("utf-8", "replace")
    with suppress(BadSecretFile):
        parse_rendezvous(text, "broker.json")
    with suppress(BadSecretFile):
        parse_driver_tokens(text, "driver.json")


def answers(data: bytes) -> None:
    """Read the rows that a rank answers with as a terminal does."""
    text = data.decode("utf-8", "replace")
    with suppress(PeerError, InvalidMessage):
        body = f'{{"text":"","rows":[{text}]}}'
        message = decode(f'{{"type":"answer","request":1,"kind":"value","body":{body}}}', Sender.AGENT)
        assert isinstance(message, Answer)
        rows = body_in(message).rows
        for read in (evidence.evidence_in, inspection.output_in, inspection.inspected_in):
            read(rows)


def inquiries(data: bytes) -> None:
    """Read what a question asks, as the broker does, which notes it and tells others of it."""
    asked = data.decode("utf-8", "replace")
    for action in Action:
        text = f'{{"type":"question","request":1,"keys":[],"action":"{action.value}","seconds":1,"inquiry":{asked}}}'
        with suppress(PeerError):
            question = decode(text, Sender.CLIENT)
            assert isinstance(question, Question)
            assert length_of(question.inquiry) <= MAX_TEXT
            text_of_question(question)
            deed = visible_action(question)
            assert deed is None or deed.text.isprintable()


EVIDENCE: tuple[Row, ...] = (
    evidence.SourceSeen(library="torch", version="2.13"),
    evidence.ThreadWait(thread="MainThread", does=evidence.ActivityInfo(what=evidence.Activity.LOCK, name="lock")),
    evidence.OtherProcess(pid=4711, does=evidence.ActivityInfo(what=evidence.Activity.SLEEP), holder=4712),
    inspection.CommandEnd(status=0),
    inspection.Variable(name="x", text="1"),
)
INQUIRIES: tuple[Inquiry, ...] = (
    inspection.command_line(["ls", "-l"]),
    inspection.Inspection(sight=inspection.InspectionKind.VALUE, text="x = 1", runs=True),
    BreakpointChanges(set=(BreakpointSpec(file="/a.py", line=1, condition="x"),)),
)
TARGETS = (
    Target(
        "control",
        control,
        tuple(
            encode(message).encode()
            for message in (registration(), Report(report=STOPPED), Greet(minor=0, release="0.1.0", name="me@login1"))
        ),
    ),
    Target("frames", frames, (encode_data(Output(1, 0, b"abc")), b"\x02" + bytes(20) + b"n")),
    Target(
        "targets",
        targets,
        (b"g[0-3]:*,!A/5", b"0-1023/8,3.1", b"job/stopped", b"@missing", b"train.py:41", b"?1", b"1:2"),
    ),
    Target("addresses", addresses, (b"wss://[::1]:6900#" + PIN.encode(), b"login1:6900", b"wss://h", b"r" * 43)),
    Target("home_files", home_files, (RENDEZVOUS,)),
    Target("answers", answers, (",".join(map(encode_record, EVIDENCE)).encode(), b'"a","b"')),
    Target("inquiries", inquiries, tuple(encode_record(one).encode() for one in INQUIRIES)),
)
