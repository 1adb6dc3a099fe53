"""A broker for tests: it keeps what terminals send, and answers as the protocol asks unless a test says otherwise.

The broker runs in a thread of its own, so that a test can drive a real terminal meanwhile.
"""

from __future__ import annotations

import asyncio
import http
import logging
import ssl
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TypeVar

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from dbg_wire.codec import Input, Output, decode, decode_data, encode, encode_data
from dbg_wire.limits import MAX_DATA_BYTES
from dbg_wire.messages import (
    Action,
    Attach,
    BrokerAddress,
    Greet,
    Kind,
    Message,
    Mode,
    PromptInfo,
    PromptState,
    Question,
    RankAnswer,
    RankReport,
    Refusal,
    RefusalCode,
    Repaint,
    Replay,
    Replied,
    Report,
    Seat,
    Sender,
    SessionInfo,
    Snapshot,
    StopInfo,
    Subscribe,
    Take,
    Welcome,
)
from dbg_wire.records.ranks import Place, RankInfo, RankState
from tests.support.answers import answered
from tests.support.certificates import shared_certificate
from tests.support.processes import USUAL_WAIT
from tests.support.rank_infos import listed
from tests.support.time_unit import seconds

SNAPSHOT_PAGE = 500
"""Ranks in one snapshot message: at 2 KiB each below MAX_CONTROL_BYTES."""

TOKEN = "token-0123456789abcdef"  # noqa: S105 - opens nothing
HERE = Place(file="/home/me/train.py", line=41, function="step")

ANSWERS_PAGE = 50
"""Answers in one message: some have 10 KB."""

T = TypeVar("T")
Received = Message | Input


def make_rank(number: int = 5, **changes: object) -> RankInfo:
    """Return a stopped rank gpu013:<number> of job 4711.0, with ``changes``."""
    values: dict[str, object] = {
        "key": f"4711.0/0.0/gpu013:{number}/{8800 + number}",
        "address": f"gpu013:{number}",
        "job": "4711.0",
        "run": "0.0",
        "host": "gpu013",
        "rank": number,
        "local_rank": number,
        "world_size": None,
        "child": None,
        "pid": 8800 + number,
        "script": "/home/me/train.py",
        "directory": "/home/me",
        "state": RankState.STOPPED,
        "reason": "breakpoint",
        "where": HERE,
        "since": 1760000000.0,
    }
    return listed(**{"release": "0.1.0", "python": "3.11.7", **values, **changes})


def make_report(stop: int | None = 1, **changes: object) -> RankReport:
    """Return the report of a rank stopped for the ``stop``-th time with PuDB open, or running if None."""
    values: dict[str, object] = {"state": RankState.RUNNING}
    if stop is not None:
        info = StopInfo(number=stop, reason="breakpoint", where=HERE, age=0.0, thread="MainThread")
        session = SessionInfo(number=stop, engine="pudb", rows=23, columns=80)
        values = {"state": RankState.STOPPED, "stop": info, "session": session}
    return RankReport(**{**values, **changes})  # type: ignore[arg-type]


def make_prompt(number: int = 1, offset: int = 0, **changes: object) -> PromptInfo:
    """Return a prompt of pdb, with ``changes``."""
    values: dict[str, object] = {"text": "(Pdb) ", "state": PromptState.COMMAND}
    return PromptInfo(number=number, offset=offset, **{**values, **changes})  # type: ignore[arg-type]


def make_pdb_report(prompt: PromptInfo | None, stop: int = 1, **changes: object) -> RankReport:
    """Return the report of a rank stopped for the ``stop``-th time with pdb open at ``prompt``."""
    session = SessionInfo(number=stop, engine="pdb", rows=24, columns=80)
    return make_report(stop, session=session, prompt=prompt, **changes)


class FakeBroker:
    """A broker of ``ranks`` on loopback until the ``with`` block ends; public methods are for the test's thread."""

    def __init__(
        self,
        *ranks: RankInfo,
        reports: Mapping[str, RankReport] | None = None,
        tls: tuple[ssl.SSLContext, str] | None = None,
        port: int = 0,
        token: str = TOKEN,
        refuse: tuple[int, str] | None = None,
    ) -> None:
        self.ranks = {rank.key: rank for rank in ranks}
        self.reports = dict(reports or {})
        self.driver: str | None = None
        self.brokers: tuple[BrokerAddress, ...] = ()
        self.hangs_up = 0
        """How many newcomers are still turned back."""
        self.screen = b"PUDB SCREEN"
        self.answers: dict[Action, RankAnswer] = {}
        self.answers_by_key: dict[str, RankAnswer] = {}
        """What the rank of a key answers to any question; it goes before ``answers``."""
        self.log = b""
        """The log of pdb's session 1."""
        self.refusals: dict[type[Message], Refusal] = {}
        """What messages of a type are answered with; a refusal names the question that it refuses."""
        self.silent: set[type[Message]] = set()
        """Messages that are not answered."""
        self.received: list[Received] = []
        self.port = port
        self._tls, self.fingerprint = tls or shared_certificate()
        self._token = token
        self._refuse = refuse
        self._generation = 0
        self._attached = ""
        self._offset = 0
        self._connections: list[ServerConnection] = []
        self._arrived = threading.Condition()
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FakeBroker:
        self._thread.start()
        if not self._started.wait(seconds(USUAL_WAIT)):
            raise AssertionError("the fake broker did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which a terminal finds this broker."""
        return {"DBG_BROKER": f"127.0.0.1:{self.port}#{self.fingerprint}", "DBG_TOKEN": TOKEN}

    def stop(self) -> None:
        """Die at once: connections break without a closing handshake."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(seconds(USUAL_WAIT))

    def send_all(self, item: Message | Output) -> None:
        """Send to every terminal."""
        frame = encode_data(item) if isinstance(item, Output) else encode(item)
        self._on_loop(lambda: self._send_all(frame))

    def draw(self, data: bytes, *, session: int = 1) -> None:
        """Send terminal bytes that follow what was drawn before."""
        # The bytes are counted before they are sent: the broker's thread draws too when a terminal asks for a repaint.
        offset = self._offset
        self._offset += len(data)
        self.send_all(Output(session, offset, data))

    def report(self, prompt: PromptInfo | None, key: str = "", stop: int = 1, **changes: object) -> None:
        """Tell every terminal that pdb is at ``prompt``, also those that attach later."""
        key = key or next(iter(self.ranks))
        self.reports[key] = make_pdb_report(prompt, stop, generation=self._generation, **changes)
        self.send_all(Report(report=self.reports[key]))

    def write(self, text: str) -> None:
        """Add ``text`` to pdb's log, and send it."""
        offset, data = len(self.log), text.encode()
        self.log += data
        self.send_all(Output(1, offset, data))

    def take(self, prompt: PromptInfo, text: str, answer: str = "", *, number: int | None = None) -> PromptInfo:
        """Act as a rank that takes a reply: settle it, echo it, answer, and prompt again; return the new prompt."""
        self.send_all(Replied(prompt=prompt.number, taken=True))
        self.write(f"{prompt.text}{text}\n")
        self.report(None)
        if answer:
            self.write(answer)
        following = make_prompt(number or prompt.number + 1, len(self.log))
        self.report(following)
        return following

    def reply(self, question: Question, by_key: Mapping[str, RankAnswer], *, last: bool = True) -> None:
        """Answer a question that was left open, for the ranks of these keys alone."""
        answers = (answer.replace(key=key) for key, answer in by_key.items())
        self.send_all(answered(question.request, *answers, last=last))

    def do(self, call: Callable[[], object]) -> None:
        """Call something in the broker's thread, which does nothing else meanwhile."""
        self._loop.call_soon_threadsafe(call)

    def cut(self) -> None:
        """Break all connections without a closing handshake, and go on serving."""
        self._on_loop(self._abort_all)

    def wait_for(self, kind: type[T], fits: Callable[[T], bool] = lambda item: True, count: int = 1) -> T:
        """Return the ``count``-th item of ``kind`` that terminals sent and that ``fits``, as soon as it is there."""

        def found() -> list[T]:
            return [item for item in self.received if isinstance(item, kind) and fits(item)]

        with self._arrived:
            if not self._arrived.wait_for(lambda: len(found()) >= count, seconds(USUAL_WAIT)):
                raise AssertionError(f"no {kind.__name__} number {count} came; received: {self.received}")
            return found()[count - 1]

    async def heard(self, kind: type[T], count: int = 1) -> T:
        """Run :meth:`wait_for` in a thread, so that the loop of the test goes on meanwhile."""
        return await asyncio.to_thread(self.wait_for, kind, count=count)

    def typed(self) -> bytes:
        """Return the keys received so far, in the order of their offsets, each byte once."""
        keys: dict[int, int] = {}
        for item in self.received:
            if isinstance(item, Input):
                keys.update(enumerate(item.data, item.offset))
        return bytes(keys[offset] for offset in sorted(keys))

    def seat(self, key: str, *, generation: int | None, driver: str | None = "me@here", watchers: int = 0) -> Seat:
        """Return a seat at the rank as it is now."""
        rank = self.ranks[key]
        return Seat(
            rank=rank,
            report=self.reports.get(key, make_report()),
            generation=generation,
            driver=driver,
            watchers=watchers,
        )

    # --------------------------------------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        logger = logging.getLogger("tests.fake_broker")
        logger.setLevel(logging.CRITICAL)
        transports = weakref.WeakSet[asyncio.BaseTransport]()

        class Accepted(ServerConnection):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                transports.add(transport)
                super().connection_made(transport)

        server = await serve(
            self._handle,
            "127.0.0.1",
            self.port,
            ssl=self._tls,
            subprotocols=[Subprotocol("dbg.v1")],
            process_request=self._admit,
            compression=None,
            logger=logger,
            create_connection=Accepted,
        )
        self.port = next(iter(server.sockets)).getsockname()[1]
        self._started.set()
        await self._stopping.wait()
        self._abort_all()
        await self._close(server)
        # A terminal that was accepted in the last moment has a handler only now.
        while left := asyncio.all_tasks() - {asyncio.current_task()}:
            for transport in list(transports):
                transport.abort()  # type: ignore[attr-defined] # declared for subclasses only
            await asyncio.wait(left)

    async def _close(self, server: Server) -> None:
        server.close(close_connections=False)
        await server.wait_closed()

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if self.hangs_up:
            self.hangs_up -= 1
            connection.transport.abort()
            return None
        refuse = self._refuse
        if refuse is None and request.headers.get("Authorization") != f"Bearer {self._token}":
            refuse = (401, "none of this broker's tokens")
        if refuse is None:
            return None
        status, body = refuse
        return Response(status, http.HTTPStatus(status).phrase, Headers(), body.encode())

    async def _handle(self, connection: ServerConnection) -> None:
        self._connections.append(connection)
        try:
            async for frame in connection:
                item: Received
                if isinstance(frame, bytes):
                    data = decode_data(frame, Sender.CLIENT)
                    if not isinstance(data, Input):
                        raise AssertionError("a terminal sent output")
                    item = data
                else:
                    item = decode(frame, Sender.CLIENT)
                with self._arrived:
                    self.received.append(item)
                    self._arrived.notify_all()
                if type(item) not in self.silent and not isinstance(item, Input):
                    await self._answer(connection, item)
        except ConnectionClosed:
            pass
        finally:
            self._connections.remove(connection)

    async def _answer(self, connection: ServerConnection, message: Message) -> None:
        refusal = self.refusals.get(type(message))
        if refusal is not None:
            await connection.send(encode(refusal.replace(request=getattr(message, "request", None))))
        elif isinstance(message, Greet):
            welcome = Welcome(minor=0, release="0.1.0", host="login1", pid=1, uptime=1.0, brokers=self.brokers)
            await connection.send(encode(welcome))
        elif isinstance(message, Subscribe):
            for page in self._snapshot():
                await connection.send(encode(page))
        elif isinstance(message, (Attach, Take)):
            await self._give_seat(connection, message)
        elif isinstance(message, Repaint):
            self.draw(b"\x1b[H" + self.screen)
        elif isinstance(message, Replay):
            self._replay(message.offset)
        elif isinstance(message, Question):
            await self._answer_question(connection, message)

    def _snapshot(self) -> Iterator[Snapshot]:
        """Yield the list in pages, as a broker does: all of a large job is too much for one frame."""
        ranks = tuple(self.ranks.values())
        for start in range(0, max(1, len(ranks)), SNAPSHOT_PAGE):
            yield Snapshot(ranks=ranks[start : start + SNAPSHOT_PAGE], last=start + SNAPSHOT_PAGE >= len(ranks))

    async def _give_seat(self, connection: ServerConnection, message: Attach | Take) -> None:
        key = self._attached = message.key if isinstance(message, Attach) else self._attached
        if key not in self.ranks:
            refusal = Refusal(code=RefusalCode.NO_SUCH_RANK, text=f"no rank has the key {key!r}")
            await connection.send(encode(refusal))
            return
        mode = message.mode if isinstance(message, Attach) else Mode.TAKE
        drives = mode is Mode.TAKE or (mode is Mode.DRIVE and self.driver is None)
        if isinstance(message, Attach) and message.resume is not None:
            self._generation = message.resume
        elif drives:
            self._generation += 1
        seat = self.seat(
            key,
            generation=self._generation if drives else None,
            driver="me@here" if drives else self.driver,
        )
        await connection.send(encode(seat))
        session = seat.report.session
        if session is None or session.engine == "pudb":
            self.draw(b"\x1b[H" + self.screen)

    def _replay(self, offset: int) -> None:
        for start in range(offset, len(self.log), MAX_DATA_BYTES):
            self.send_all(Output(1, start, self.log[start : start + MAX_DATA_BYTES]))

    async def _answer_question(self, connection: ServerConnection, question: Question) -> None:
        default = RankAnswer(key="", kind=Kind.VALUE, text="continued")
        answer = self.answers.get(question.action, default)
        answers = tuple(self.answers_by_key.get(key, answer).replace(key=key) for key in question.keys)
        # As a broker does: the answers of all ranks of a large job are too much for one frame.
        for start in range(0, max(1, len(answers)), ANSWERS_PAGE):
            page = answers[start : start + ANSWERS_PAGE]
            is_last = start + ANSWERS_PAGE >= len(answers)
            await connection.send(encode(answered(question.request, *page, last=is_last)))

    def _send_all(self, frame: str | bytes) -> None:
        for connection in self._connections:
            task = self._loop.create_task(connection.send(frame))
            task.add_done_callback(lambda done: done.exception())

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            connection.transport.abort()

    def _on_loop(self, call: Callable[[], None]) -> None:
        if threading.current_thread() is self._thread:
            call()
            return
        done = threading.Event()

        def run() -> None:
            call()
            done.set()

        self._loop.call_soon_threadsafe(run)
        if not done.wait(seconds(USUAL_WAIT)):
            raise AssertionError("the fake broker is stuck")
