"""One look at a broker: what comes is read, and nothing is sent to an impostor."""

from __future__ import annotations

import json
import struct

import pytest

from dbg_dial.blocking import NotABroker, glance
from dbg_wire.errors import (
    BadEndpoint,
    BrokerUnreachable,
    DbgError,
    PeerError,
    WrongCertificate,
    WrongToken,
    WrongVersion,
)
from dbg_wire.finding.endpoint import Endpoint, Reach
from tests.support import fake_brokers as fake
from tests.support.fake_brokers import Answer, FakeBroker
from tests.support.impostor import Impostor
from tests.support.reach import PIN, TOKENS
from tests.support.time_unit import seconds

RANKS = [{"address": f"gpu013:{number}"} for number in range(3)]
WELCOME = fake.message(type="welcome")


def reach(port: int, fingerprint: str | None) -> Reach:
    endpoint = Endpoint(host="127.0.0.1", port=port, secure=fingerprint is not None, fingerprint=fingerprint)
    return Reach(endpoint=endpoint, token=TOKENS["driver"], sources={})


def look(answer: Answer, wait: float = 10) -> list[dict[str, object]]:
    with FakeBroker(answer) as broker:
        return glance(reach(broker.port, broker.fingerprint), "me", connect_seconds=seconds(10), seconds=seconds(wait))


def page(ranks: list[dict[str, str]], *, last: bool) -> bytes:
    return fake.message(type="snapshot", ranks=ranks, last=last)


def test_all_pages_of_the_list_are_read() -> None:
    ping = fake.frame(0x9, b"dbg")

    assert look(fake.accept_and_send(WELCOME, page(RANKS[:2], last=False), ping, page(RANKS[2:], last=True))) == RANKS


def test_a_message_in_parts_and_one_of_many_bytes_are_read() -> None:
    text = json.dumps({"type": "snapshot", "ranks": RANKS, "last": True}).encode()
    parts = bytes([0x1, 5]) + text[:5] + bytes([0x80, len(text) - 5]) + text[5:]
    long = json.dumps({"type": "snapshot", "ranks": RANKS, "last": True, "more": "x" * 70_000}).encode()
    long_frame = bytes([0x81, 127]) + struct.pack("!Q", len(long)) + long

    assert look(fake.accept_and_send(parts)) == look(fake.accept_and_send(long_frame)) == RANKS


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fake.answer_status("401 Unauthorized", "no"), WrongToken),
        (fake.answer_status("426 Upgrade Required", "version 7"), WrongVersion),
        (fake.hang_up, (BrokerUnreachable, NotABroker)),
        (fake.flood_headers, NotABroker),
        (fake.accept_and_send(fake.message(type="refusal")), PeerError),
        (fake.accept_and_send(fake.frame(0x8, b"")), BrokerUnreachable),
        (fake.accept_and_send(bytes([0x81, 127]) + struct.pack("!Q", 1 << 40)), NotABroker),
        (fake.accept_and_send(fake.frame(fake.TEXT, b"{")), ValueError),
    ],
)
def test_what_is_no_list_is_an_error(answer: Answer, error: type[Exception]) -> None:
    with pytest.raises(error):
        look(answer)


@pytest.mark.parametrize("answer", [fake.say_nothing, fake.accept_and_send(WELCOME)])
def test_a_broker_that_says_nothing_is_not_waited_for(answer: Answer) -> None:
    with pytest.raises((DbgError, OSError)):
        look(answer, 0.2)


def test_an_impostor_is_told_nothing() -> None:
    with Impostor(0, "tls") as impostor:
        with pytest.raises(WrongCertificate):
            glance(reach(impostor.port, PIN), "me", connect_seconds=seconds(10), seconds=seconds(10))
        impostor.wait_for_all()
    assert impostor.heard() == [b""]


def test_a_lasting_token_does_not_leave_without_tls() -> None:
    with pytest.raises(BadEndpoint):
        glance(reach(1, None), "me", connect_seconds=seconds(10), seconds=seconds(10))
