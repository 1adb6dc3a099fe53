"""What each role reads of another: messages, evidence, targets, addresses, and the files of the home."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dbg_wire import beside, evidence, parts, ras, run_terminal
from dbg_wire.codec import Output, decode, decode_data, encode, encode_data, join_outputs
from dbg_wire.endpoint import parse_endpoint, parse_fingerprint, parse_token
from dbg_wire.errors import BadInput, BadSecretFile, BadTarget, DbgError, PeerError
from dbg_wire.host_pattern import parse_host
from dbg_wire.log_form import log_form
from dbg_wire.messages import Greet, Report, Sender
from dbg_wire.rank_set import parse_ranks
from dbg_wire.rendezvous import parse_driver_tokens, parse_rendezvous
from dbg_wire.stop_points import parse_stop_at, parse_stop_in
from dbg_wire.target_grammar import parse_target
from dbg_wire.targets import select
from tests.broker.peers import STOPPED, registration
from tests.fuzz.target import Target, text_of
from tests.support.rank_infos import rank
from tests.support.ras_replies import TEXT, missing, reply
from tests.support.ras_replies import rank as ras_rank

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
        assert parse_ranks(str(numbers)) == numbers


def addresses(data: bytes) -> None:
    """Read an address, a fingerprint and a token."""
    text = text_of(data)
    for parse in (parse_endpoint, parse_fingerprint, parse_token):
        with suppress(BadInput):
            parse(text, source="DBG_BROKER")


def home_files(data: bytes) -> None:
    """Read the two files by which a broker is found."""
    text = data.decode("utf-8", "replace")
    with suppress(BadSecretFile):
        parse_rendezvous(text, "broker.json")
    with suppress(BadSecretFile):
        parse_driver_tokens(text, "driver.json")


def answers(data: bytes) -> None:
    """Read the rows that a rank answers with: evidence, parts of values, a command's output, what NCCL tells."""
    text = data.decode("utf-8", "replace")
    rows = text.split("\n")
    readers: tuple[Callable[[Any], object], ...] = (
        lambda rows: evidence.decode_evidence([evidence.MARKER, *rows]),
        lambda rows: ras.decode_status([ras.MARKER, *rows]),
        lambda rows: beside.decode_output([beside.MARKER, *rows]),
        parts.decode_parts,
    )
    for read in readers:
        with suppress(PeerError):
            read(rows)
    for read_text in (parts.decode_question, beside.decode_command):
        with suppress(PeerError):
            read_text(text)
    for read_line in (run_terminal.decode_task, run_terminal.decode_told):
        with suppress(PeerError):
            read_line(data)


def nccl(data: bytes) -> None:
    """Read what NCCL's RAS replies, and write it as an answer."""
    with suppress(PeerError):
        ras.encode_status(ras.parse_reply(text_of(data)))


EVIDENCE = evidence.encode_evidence(
    [
        evidence.SourceSeen(library="torch", version="2.13"),
        evidence.ThreadWait(thread="MainThread", kind=evidence.WaitKind.UNKNOWN, text="waits for a lock"),
    ]
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
    Target("addresses", addresses, (b"wss://[::1]:6900#" + PIN.encode(), b"login1:6900", b"ws://h", b"r" * 43)),
    Target("home_files", home_files, (RENDEZVOUS,)),
    Target("answers", answers, ("\n".join(EVIDENCE[1:]).encode(), b'["a", "b", "c", "d"]', b'{"status": 0}\nx')),
    Target(
        "nccl",
        nccl,
        (
            reply(([ras_rank(0, count=7)], [missing(1)])).encode(),
            TEXT.encode(),
        ),
    ),
)
