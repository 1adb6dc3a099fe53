"""Dialling step by step: a step that is left out opens nothing."""

from __future__ import annotations

import socket

import pytest

from dbg_dial.blocking import BlockingDial, NotABroker
from dbg_wire.errors import BadEndpoint, BrokerUnreachable, WrongCertificate, WrongVersion
from dbg_wire.finding.endpoint import Endpoint
from tests.support import fake_brokers as fake
from tests.support.fake_brokers import FakeBroker
from tests.support.impostor import Impostor
from tests.support.reach import PIN, THROW_AWAY, TOKENS
from tests.support.time_unit import seconds

TOKEN = TOKENS["driver"]


def at(port: int, fingerprint: str | None) -> Endpoint:
    return Endpoint(host="127.0.0.1", port=port, secure=fingerprint is not None, fingerprint=fingerprint)


def dial(endpoint: Endpoint) -> BlockingDial:
    return BlockingDial(endpoint, seconds(10))


def test_all_steps_lead_to_frames_both_ways() -> None:
    answer = fake.accept_and_send(fake.frame(fake.TEXT, b"one"), fake.frame(fake.TEXT, b"two"))
    with FakeBroker(answer) as broker, dial(at(broker.port, broker.fingerprint)) as line:
        assert line.look_up() == "127.0.0.1"
        line.connect()
        assert line.secure().startswith("TLS")
        assert line.compare() == broker.fingerprint
        line.present(TOKEN)
        line.agree()
        assert [line.next_frame().data, line.next_frame().data] == [b"one", b"two"]
        assert line.connected().getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_impostor_is_told_nothing_although_a_step_is_repeated() -> None:
    with Impostor(0, "tls") as impostor:
        with dial(at(impostor.port, PIN)) as line:
            line.look_up()
            line.connect()
            line.secure()
            with pytest.raises(WrongCertificate, match=f"not {PIN}"):
                line.compare()
            with pytest.raises(WrongCertificate):
                line.present(TOKEN)
        impostor.wait_for_all()
    assert impostor.heard() == [b""]


def test_an_impostor_without_tls_is_told_nothing_although_that_step_is_left_out() -> None:
    with Impostor(0, "http") as impostor:
        with dial(at(impostor.port, PIN)) as line:
            line.look_up()
            line.connect()
            with pytest.raises(WrongCertificate, match="no certificate"):
                line.compare()
            with pytest.raises(WrongCertificate):
                line.present(TOKEN)
        impostor.wait_for_all()
    assert impostor.heard() == [b""]


def test_without_tls_only_what_opens_nothing_later_is_sent() -> None:
    with Impostor(0, "closes") as impostor:
        with dial(at(impostor.port, None)) as line:
            line.look_up()
            line.connect()
            with pytest.raises(BadEndpoint):
                line.present(TOKEN)
        with dial(at(impostor.port, None)) as line:
            line.look_up()
            line.connect()
            with pytest.raises((BrokerUnreachable, NotABroker)):
                line.present(THROW_AWAY["driver"])
        impostor.wait_for_all()
    lasting, throw_away = sorted(impostor.heard())
    assert lasting == b""
    assert f"Authorization: Bearer {THROW_AWAY['driver']}\r\n".encode() in throw_away


def test_another_version_is_told_by_the_step_that_agrees() -> None:
    with (
        FakeBroker(fake.answer_status("426 Upgrade Required", "version 7")) as broker,
        dial(at(broker.port, broker.fingerprint)) as line,
    ):
        line.look_up()
        line.connect()
        line.secure()
        line.compare()
        line.present(TOKEN)
        with pytest.raises(WrongVersion, match="version 7"):
            line.agree()


def test_steps_before_a_connection_say_so() -> None:
    line = dial(at(1, PIN))
    with pytest.raises(BrokerUnreachable, match="not connected"):
        line.compare()
    with pytest.raises(BrokerUnreachable, match="ended"):
        line.next_frame()
