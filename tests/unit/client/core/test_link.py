"""A link whose broker falls silent or whose name server hangs."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from dataclasses import replace

import pytest

from dbg_client.core import link as connection
from dbg_client.core.link import BrokerLink, Connection, Down, Up, dial
from dbg_client.core.switchboard import MAX_PROGRAM, person_name
from dbg_client.core.wait_progress import in_thread, read_in_thread
from dbg_command.home import user_name
from dbg_dial.endpoint import Endpoint, Route
from dbg_dial.find import Opening
from dbg_dial.tcp import within
from dbg_wire.errors import (
    BrokerUnreachable,
    ConnectionClosedEarly,
    DbgError,
    FileTimeout,
    NoBroker,
    NotABroker,
    Refused,
    WrongCertificate,
    WrongToken,
    WrongVersion,
)
from dbg_wire.messages import BrokerAddress, Change, Detach, Greet, Snapshot, Subscribe, Take
from tests.conftest import Approved
from tests.support.certificates import certified, shared_certificate
from tests.support.proxy import Proxy
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import TOKEN, FakeBroker, make_rank

PATIENCE = seconds(10)


class Where:
    """The present address of the broker, as broker.json names it."""

    def __init__(self, reach: Route) -> None:
        self.reach: Route | DbgError = reach
        self.asked = 0

    def __call__(self, opening: Opening) -> Route:
        self.asked += 1
        if isinstance(self.reach, DbgError):
            raise self.reach
        return self.reach


async def until_up(link: BrokerLink) -> list[str]:
    """Wait until the link is up; return the reasons of the failures before."""
    reasons = []
    while not isinstance(event := await asyncio.wait_for(link.next(), PATIENCE), Up):
        if isinstance(event, Down):
            reasons.append(event.reason)
    return reasons


async def test_link_subscribes_on_each_connection() -> None:
    with FakeBroker(make_rank()) as broker:
        link = BrokerLink(Where(reach(broker.port)), "me@here", PATIENCE)
        await link.open()
        assert isinstance(await link.next(), Snapshot)

        broker.cut()
        assert isinstance(await link.next(), Down)
        await until_up(link)
        assert isinstance(await link.next(), Snapshot)
        await broker.heard(Subscribe, count=2)
        await link.close()


async def test_send_fails_while_the_link_is_down() -> None:
    with FakeBroker() as broker:
        link = BrokerLink(Where(reach(broker.port)), "me@here", PATIENCE)
        await link.open()
        assert link.send(Take())
        await broker.heard(Take)
        broker.stop()
        while not isinstance(await link.next(), Down):
            pass

        assert not link.send(Take())
        await link.close()


async def test_broken_connection_is_closed_with_a_cancelled_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    close, closed, begun = Connection.close, list[Connection](), asyncio.Event()

    async def close_slowly(connection: Connection) -> None:
        closed.append(connection)
        if len(closed) == 1:
            begun.set()
            await asyncio.Event().wait()
        await close(connection)

    monkeypatch.setattr(Connection, "close", close_slowly)
    with FakeBroker() as broker:
        link = BrokerLink(Where(reach(broker.port)), "me@here", PATIENCE)
        await link.open()
        assert isinstance(await link.next(), Snapshot)
        reading = asyncio.create_task(link.next())
        broker.cut()
        await asyncio.wait_for(begun.wait(), PATIENCE)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await link.close()
    assert closed == [closed[0]] * 2


async def test_impostor_receives_no_data_and_is_named() -> None:
    own = _, fingerprint = certified()
    other_context, _ = certified()
    with FakeBroker(tls=own) as broker:
        where = Where(reach(broker.port, fingerprint))
        link = BrokerLink(where, "me@here", PATIENCE)
        await link.open()
        broker.stop()
        impostor = Listener(tls=other_context)
        where.reach = reach(impostor.port, fingerprint)

        reasons: list[str] = []
        while not any("pinned" in reason for reason in reasons):
            event = await asyncio.wait_for(link.next(), PATIENCE)
            assert not isinstance(event, Up)
            if isinstance(event, Down):
                reasons.append(event.reason)

        assert await asyncio.to_thread(impostor.ended.wait, PATIENCE)
        assert impostor.received == b""
        with FakeBroker(tls=own) as again:
            where.reach = reach(again.port, fingerprint)
            await until_up(link)
            await link.close()


async def test_attempts_become_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        pauses.append((low, high))
        return 0.0

    monkeypatch.setattr("dbg_client.core.link.random.uniform", uniform)
    with FakeBroker() as broker:
        port = broker.port
    link = BrokerLink(Where(reach(port)), "me@here", PATIENCE)

    for _ in range(8):
        assert isinstance(await link.next(), Down)

    longest = [high for _, high in pauses]
    assert longest == sorted(longest)
    assert {low for low, _ in pauses} == {0}
    assert longest[-1] == longest[-2] == 1.5


def named(broker: FakeBroker) -> BrokerAddress:
    return BrokerAddress(url=f"wss://127.0.0.1:{broker.port}", fingerprint=broker.fingerprint)


async def test_next_broker_is_dialled_at_once_if_one_ends() -> None:
    with FakeBroker(make_rank()) as first, FakeBroker(make_rank()) as second:
        where = Where(replace(reach(first.port), others=(reach(second.port).endpoint,)))
        link = BrokerLink(where, "me@here", PATIENCE)
        await link.open()
        await first.heard(Subscribe)
        first.stop()
        # No attempt fails: a dial goes through all brokers before it gives up.
        assert await until_up(link) == ["the connection broke"]
        await second.heard(Subscribe)
        await link.close()


async def test_brokers_named_in_a_welcome_are_found_without_the_file() -> None:
    with FakeBroker(make_rank()) as first, FakeBroker(make_rank()) as second:
        first.brokers = named(first), named(second)
        where = Where(reach(first.port))
        link = BrokerLink(where, "me@here", PATIENCE)
        await link.open()
        first.stop()
        where.reach = NoBroker()
        await until_up(link)
        await second.heard(Subscribe)
        await link.close()


async def test_failure_of_all_brokers_names_the_first_and_counts_the_others() -> None:
    with FakeBroker() as first, FakeBroker() as second:
        where = replace(reach(first.port), others=(reach(second.port).endpoint,))
    with pytest.raises(BrokerUnreachable, match=f"{first.port} .*and 1 others fail as well"):
        await BrokerLink(Where(where), "me@here", PATIENCE).open()


async def test_refused_token_is_reported_before_an_absent_broker() -> None:
    with FakeBroker(token="another-token-of-nobody") as refuses, FakeBroker() as away:  # noqa: S106 - opens nothing
        away.stop()
        where = replace(reach(away.port), others=(reach(refuses.port).endpoint,))
        with pytest.raises(WrongToken):
            await BrokerLink(Where(where), "me@here", PATIENCE).open()


async def test_suspended_broker_leaves_time_for_the_others() -> None:
    suspended = Listener()
    with FakeBroker(make_rank()) as second:
        where = Where(replace(reach(suspended.port), others=(reach(second.port).endpoint,)))
        link = BrokerLink(where, "me@here", seconds(2))
        await link.open()
        await second.heard(Subscribe)
        await link.close()


async def test_broker_without_a_welcome_leaves_time_for_the_others() -> None:
    with FakeBroker() as mute, FakeBroker(make_rank()) as second:
        mute.silent.add(Greet)
        where = Where(replace(reach(mute.port), others=(reach(second.port).endpoint,)))
        link = BrokerLink(where, "me@here", seconds(2))
        await link.open()
        await second.heard(Subscribe)
        await link.close()


async def test_link_retries_after_a_hang_up_and_fails_at_its_timeout() -> None:
    with FakeBroker(make_rank()) as broker:
        broker.hangs_up = 3
        link = BrokerLink(Where(reach(broker.port)), "me@here", PATIENCE)
        await link.open()
        await broker.heard(Subscribe)
        await link.close()
        broker.hangs_up = 1000
        with pytest.raises(ConnectionClosedEarly):
            await BrokerLink(Where(reach(broker.port)), "me@here", seconds(1)).open()
    assert 900 < broker.hangs_up < 999


async def test_unresponsive_broker_is_silent_and_then_redialled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PING_SECONDS", 0.1)
    released = threading.Event()
    with FakeBroker(make_rank()) as first, FakeBroker(make_rank()) as second:
        where = Where(reach(first.port))
        to_broker = BrokerLink(where, "me@here", PATIENCE)
        await to_broker.open()
        assert isinstance(await to_broker.next(), Snapshot)
        where.reach = reach(second.port)
        # The broker answers nothing, like a suspended process: its kernel still acknowledges all data.
        first.do(released.wait)
        ending = asyncio.create_task(to_broker.next())
        while to_broker.silent_since is None:
            await asyncio.wait({ending}, timeout=0.05)
            assert not ending.done()
        assert isinstance(await within(PATIENCE, ending), Down)
        await until_up(to_broker)
        await second.heard(Subscribe)
        released.set()
        await to_broker.close()


async def test_received_messages_do_not_prove_that_keys_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PING_SECONDS", 0.1)
    with FakeBroker(make_rank()) as broker, Proxy(("127.0.0.1", broker.port)) as proxy:
        to_broker = BrokerLink(Where(reach(proxy.port)), "me@here", PATIENCE)
        await to_broker.open()
        assert isinstance(await to_broker.next(), Snapshot)
        proxy.swallow("up")
        broker.send_all(Change(rank=make_rank()))
        while isinstance(event := await within(PATIENCE, to_broker.next()), Change):
            await asyncio.sleep(0.03)
            broker.send_all(Change(rank=make_rank()))
        assert isinstance(event, Down)
        await to_broker.close()


async def test_broker_that_answers_pings_stays_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    # The line is given up after longer than a busy machine keeps the thread of the broker waiting.
    monkeypatch.setattr(connection, "PING_SECONDS", seconds(0.3))
    with FakeBroker(make_rank()) as broker:
        where = Where(reach(broker.port))
        to_broker = BrokerLink(where, "me@here", PATIENCE)
        await to_broker.open()
        assert isinstance(await to_broker.next(), Snapshot)
        with pytest.raises(TimeoutError):
            await within(seconds(3), to_broker.next())
        assert where.asked == 1
        await to_broker.close()


def reach(port: int, fingerprint: str = "", token: str = TOKEN) -> Route:
    endpoint = Endpoint(host="127.0.0.1", port=port, fingerprint=fingerprint or shared_certificate()[1])
    return Route(endpoint=endpoint, token=token, sources={})


async def dialled(where: Route) -> Connection:
    return await dial(where, "me@here", PATIENCE)


class Listener:
    """A server on loopback that keeps every byte it receives, and sends ``reply`` at once."""

    def __init__(self, reply: bytes = b"", *, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.received = b""
        self.ended = threading.Event()
        self._reply = reply
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            peer, _ = self._socket.accept()
            with self._socket, peer:
                self._talk(self._tls.wrap_socket(peer, server_side=True) if self._tls else peer)
        except OSError:
            pass
        finally:
            self.ended.set()

    def _talk(self, peer: socket.socket) -> None:
        with peer:
            if self._reply:
                peer.sendall(self._reply)
            while data := peer.recv(4096):
                self.received += data


async def test_impostor_with_another_certificate_receives_no_http() -> None:
    context, _ = certified()
    _, pinned = certified()
    impostor = Listener(tls=context)

    with pytest.raises(WrongCertificate) as caught:
        await dialled(reach(impostor.port, pinned))

    assert await asyncio.to_thread(impostor.ended.wait, PATIENCE)
    assert impostor.received == b""
    assert TOKEN not in str(caught.value)


async def test_impostor_without_tls_receives_a_hello_and_no_token() -> None:
    _, pinned = certified()
    impostor = Listener(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")

    with pytest.raises(NotABroker):
        await dialled(reach(impostor.port, pinned))

    assert await asyncio.to_thread(impostor.ended.wait, PATIENCE)
    assert impostor.received[:1] == b"\x16"  # a TLS handshake record, and nothing readable
    assert TOKEN.encode() not in impostor.received
    assert b"HTTP" not in impostor.received


@pytest.mark.parametrize(
    ("refuse", "error"),
    [
        ((401, "no token"), WrongToken),
        ((403, "a rank's token"), WrongToken),
        ((426, "dbg.v1 is not spoken here, dbg.v2 is"), WrongVersion),
        ((503, "full"), Refused),
        ((404, ""), Refused),
    ],
)
async def test_refused_upgrade_raises_the_matching_error(refuse: tuple[int, str], error: type[DbgError]) -> None:
    with FakeBroker(refuse=refuse) as broker, pytest.raises(error) as caught:
        await dialled(reach(broker.port))

    assert refuse[1] in str(caught.value)
    assert caught.value.exit_status == 5


async def test_wrong_token_is_not_shown() -> None:
    with FakeBroker(token=TOKEN[::-1]) as broker, pytest.raises(WrongToken) as caught:
        await dialled(reach(broker.port))

    assert TOKEN not in str(caught.value)


async def test_broker_without_a_welcome_is_unreachable() -> None:
    with FakeBroker() as broker:
        broker.silent.add(Greet)
        with pytest.raises(BrokerUnreachable, match="silent"):
            await dial(reach(broker.port), "me@here", 0.2)


@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ],
)
async def test_other_server_on_the_port_is_refused(reply: bytes) -> None:
    listener = Listener(reply, tls=shared_certificate()[0])

    with pytest.raises((Refused, BrokerUnreachable)):
        await dialled(reach(listener.port))


async def test_queued_messages_are_sent_before_the_close() -> None:
    with FakeBroker() as broker:
        connection = await dialled(reach(broker.port))
        for _ in range(100):
            connection.send(Detach())
        await connection.close()

        broker.wait_for(Detach, count=100)


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with FakeBroker() as broker:
        connection = await dialled(reach(broker.port))
        await connection.close()


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("Python", "Python"),
        ("  claude\tcode\n", r"claude\tcode"),
        ("\x1b]0;x\x07\u202e", r"\x1b]0;x\x07\u202e"),
        ("a" * 1000, "a" * MAX_PROGRAM + "…"),
    ],
)
def test_program_name_follows_the_user_name(program: str, shown: str) -> None:
    assert person_name(program) == f"{user_name()} ({shown})"


async def test_hanging_thread_is_abandoned_at_the_deadline() -> None:
    released = threading.Event()
    with pytest.raises(TimeoutError):
        await in_thread(released.wait, 0.05)
    released.set()
    with pytest.raises(socket.gaierror):
        await in_thread(lambda: socket.getaddrinfo("256.256.256.256", 1, flags=socket.AI_NUMERICHOST), PATIENCE)


async def test_hanging_file_is_named_and_a_late_thread_is_awaited(approved: Approved) -> None:
    released = threading.Event()

    def read(opening: Opening) -> bool:
        opening("/home/me/groups")
        return released.wait()

    with pytest.raises(FileTimeout) as caught:
        await read_in_thread(read, 0.01)
    approved(str(caught.value))
    released.set()

    def read_late(opening: Opening) -> str:
        threading.Event().wait(0.1)
        return "read"

    assert await read_in_thread(read_late, 0.01) == "read"
