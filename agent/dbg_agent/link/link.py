"""The rank's only connection to the broker: a daemon thread with an event loop of its own.

The thread dials, registers, and dials again with full-jitter back-off if the connection ends. It looks for the broker
anew each time. It never blocks the program; the program may wait for it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dbg_agent.link.fork_safety import ForkSafety
from dbg_agent.link.lookup import MOMENT_SECONDS, SLOW_SECONDS, Lookup, Lookups, find
from dbg_agent.link.outgoing import Outgoing, ReportNow
from dbg_agent.link.timers import Timers, call_soon
from dbg_agent.process.log import Logger, Shown
from dbg_agent.process.threads import SIGNAL_SECONDS, own_thread, wait_for
from dbg_wire.errors import (
    BadInput,
    BrokerUnreachable,
    DbgError,
    PeerError,
    Refused,
    SilentFile,
    WrongHost,
    error_line,
)
from dbg_wire.limits import CLOSE_SECONDS, HANDSHAKE_SECONDS

if TYPE_CHECKING:
    import asyncio

    from dbg_agent.link.dialling import Dialler
    from dbg_agent.link.loop import LinkLoop
    from dbg_dial.dial import BrokerWebSocket
    from dbg_dial.endpoint import Reach
    from dbg_dial.find import Opening
    from dbg_wire.codec import Input
    from dbg_wire.messages import Message


logger = Logger("dbg_agent.link")

MOST_FAILURES = 6
"""Event loops that can't be made, one after the other, until the link gives up: the pauses between them are five
seconds at most, in which the program may close descriptors again."""


class LinkOwner(Protocol):
    """What the link asks of the rank; all methods except ``find_broker`` run in the link's thread."""

    def find_broker(self, opening: Opening) -> Reach:
        """Return where the broker is now, or raise BadInput; in a thread of its own, not in the link's."""

    def is_attended(self) -> bool:
        """Tell whether a user sits at this rank, and would soon notice a silent link."""

    def world_size(self) -> int:
        """Return how many ranks the job has, as far as that is known: they may all come at the same time."""

    def registration(self) -> str:
        """Return the frame with the identity and the state of this rank."""

    def report(self) -> str:
        """Return the frame with the state of this rank."""

    def redraw(self) -> None:
        """Have the screen drawn again, because output was dropped."""

    def on_message(self, message: Message) -> None:
        """Act on a control message."""

    def on_input(self, frame: Input) -> None:
        """Act on keys."""

    def on_disconnect(self) -> None:
        """Note that no broker listens now."""

    def on_give_up(self, problem: DbgError) -> None:
        """Note that no broker can listen any more before the next stop."""


class Ending(DbgError):
    """This process ends, and has left the broker already."""

    def __str__(self) -> str:
        return "this process is ending and has left the broker"


@dataclass(slots=True)
class _Registration:
    """Whether a broker knows this rank, what was wrong last, and since when the link has tried."""

    is_there: bool = False
    problem: DbgError | None = None
    waiting_since: float | None = None


class _Running(NamedTuple):
    """The event loop that runs, and the events by which other threads have it send what waits, or end."""

    loop: asyncio.AbstractEventLoop
    something_to_send: asyncio.Event
    stopping: asyncio.Event


def import_all() -> None:
    """Import all that a link needs to dial.

    Its thread does so by itself. Beside a program that computes that takes many seconds: each time that an import
    reads a file, the thread gives up the interpreter's lock. So a program that we start begins after this.
    """
    import encodings.idna  # noqa: F401 - for names of hosts

    from dbg_agent.link import dialling, loop  # noqa: F401


class Link:
    """The connection of this process, from :meth:`start` until the process ends."""

    def __init__(self, owner: LinkOwner, clock: Callable[[], float] = time.monotonic) -> None:
        self._owner = owner
        self._clock = clock
        self.outgoing = Outgoing(self._wake, self.reconnect)
        self.fork_safety = ForkSafety()
        self.names = Lookups()
        self._lookup = Lookup(owner.find_broker)
        self._status = threading.Condition()
        self._registration = _Registration()
        self._closing = False
        self._gave_up = False
        self._timers = Timers()
        self._thread: threading.Thread | None = None
        self._running: _Running | None = None
        self._connection: BrokerWebSocket | None = None
        self._dialler: Dialler | None = None

    # --------------------------------------------------------------------------------------------- from any thread

    def start(self) -> None:
        """Start the thread, if there is none; return at once."""
        with self._status:
            if self._registration.waiting_since is None:
                self._registration.waiting_since = self._clock()
            if self._closing or (self._thread is not None and self._thread.is_alive()):
                return
            # The thread is noted before it runs. A signal handler that stops right here starts another thread and can
            # wait for that one; the first thread then sees that it is not the link's thread, and ends.
            self._gave_up = False
            self._thread = own_thread(self._run, "dbg-agent")
            self._thread.start()

    def wait_connected(self, timeout: float | None, unanswered: float = math.inf) -> DbgError | None:
        """Wait until the rank is registered; return None then, or what was wrong after ``timeout`` seconds.

        The time counts from when the link began to try, so that calls in a loop wait only once; None waits for ever.
        Unless ``timeout`` is None, the wait ends early if the broker refuses this rank for good, or if no kernel has
        taken a connection for ``unanswered`` seconds.
        """
        with self._status:
            if timeout is None:
                wait_for(self._status, lambda: self._registration.is_there or self._closing)
            else:
                give_up_at = (self._registration.waiting_since or 0.0) + timeout
                while not (self._registration.is_there or self._closing or self._is_final()):
                    left = min(give_up_at, self._unanswered_since() + unanswered) - self._clock()
                    if left <= 0:
                        break
                    self._status.wait(min(left, SIGNAL_SECONDS))
            if self._closing:
                return Ending()
            if self._registration.is_there:
                return None
            problem = self._registration.problem
        return problem or self._first_problem(timeout or 0.0)

    @property
    def is_served(self) -> bool:
        """Tell whether a kernel took the last connection, though no broker has registered the rank or refused it."""
        with self._status:
            has_dialled = self._dialler is not None and self._dialler.has_been_answered
            return has_dialled and not self._is_final() and not self._closing

    def _unanswered_since(self) -> float:
        dialler = self._dialler
        since = dialler.unanswered_since if dialler is not None else None
        return math.inf if since is None else since

    def _first_problem(self, timeout: float) -> DbgError:
        """Return what is wrong as far as it is known before the link's thread has dialled."""
        found = self._lookup.outcome(MOMENT_SECONDS)
        if isinstance(found, SilentFile):
            with self._status:
                # Without this each further call would wait MOMENT_SECONDS again.
                self._registration.problem = self._registration.problem or found
        if isinstance(found, Exception):
            return found if isinstance(found, DbgError) else _fault(found)
        return BrokerUnreachable(found.endpoint.url, f"no answer within {timeout:g} s" if timeout else "no answer yet")

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Have the link's thread call ``call`` after some seconds; never, if the link has given up."""
        if self.keeps_trying:
            self._timers.call_later(seconds, call)

    @property
    def is_connected(self) -> bool:
        """Tell whether a broker knows this rank now."""
        return self._registration.is_there

    @property
    def keeps_trying(self) -> bool:
        """Tell whether the link goes on to look for a broker by itself."""
        return not (self._gave_up or self._closing)

    def reconnect(self) -> None:
        """Abort the connection, so that the rank registers anew; return at once."""
        running, connection = self._running, self._connection
        if running is not None and connection is not None:
            call_soon(running.loop, connection.transport.abort)

    def close(self) -> None:
        """Send what waits, a goodbye included, and end the connection, within about CLOSE_SECONDS."""
        with self._status:
            # The thread may still be importing its modules; it checks this flag before it dials.
            self._closing = True
            self._status.notify_all()
            thread, running = self._thread, self._running
        if thread is None:
            return
        if running is not None:
            call_soon(running.loop, running.stopping.set)
        thread.join(CLOSE_SECONDS * 2)

    def descriptors(self) -> list[int]:
        """Return the descriptors of sockets that a forked child must close."""
        connection = self._connection
        if connection is None:
            return []
        sock = connection.transport.get_extra_info("socket")
        return [sock.fileno()] if sock is not None and sock.fileno() >= 0 else []

    # ------------------------------------------------------------------------------------------- in the link's thread

    def _is_final(self) -> bool:
        problem = self._registration.problem
        # A missing broker is not final, since it may be starting beside the job. A refusal or a bad setting is final.
        return isinstance(problem, (Refused, BadInput, WrongHost))

    def _wake(self) -> None:
        running = self._running
        if running is not None:
            call_soon(running.loop, running.something_to_send.set)

    def _run(self) -> None:
        if self._thread is not threading.current_thread():
            return
        with self.fork_safety:
            dialler = self._prepare()
            if dialler is not None:
                self._run_loops(dialler)

    def _prepare(self) -> Dialler | None:
        """Import all that dialling needs; return None if that fails."""
        try:
            # The look-up runs while this thread still imports what it needs to dial.
            self._lookup.begin()
            import_all()  # later the program may have another root directory
            from dbg_agent.link.dialling import Dialler

            self._dialler = Dialler(
                self._find_broker, self._owner.is_attended, self.names, self._owner.world_size, self._clock
            )
        except Exception as error:
            # For example no descriptor is left, even for imports. The next stop tries again.
            self._gave_up = True
            self._failed(_fault(error))
            return None
        return self._dialler

    def _run_loops(self, dialler: Dialler) -> None:
        """Run one event loop after the other until the link ends: the program may close the descriptors of each."""
        from dbg_agent.link.loop import make_loop

        failures = 0
        while not self._closing:
            try:
                loop = make_loop(self.fork_safety)
            except Exception as error:
                problem, failures = _fault(error), failures + 1
                if failures == MOST_FAILURES:
                    self._gave_up = True
                    self._failed(problem)
                    self._owner.on_give_up(problem)
                    return
            else:
                ended_by, failures = self._run_loop(loop, dialler), 0
                if ended_by is None:
                    return
                problem = _fault(ended_by)
            self._failed(problem)
            self._rest(dialler.pause(problem))

    def _run_loop(self, loop: LinkLoop, dialler: Dialler) -> Exception | None:
        """Run the loop until the link ends, and return None; or return the exception that has ended the loop before."""
        try:
            loop.run_until_complete(self._main(loop, dialler))
        except Exception as error:
            return error
        finally:
            self._running = None
            self._timers.end()
            loop.end()
        return None

    def _rest(self, seconds: float) -> None:
        self.fork_safety.release_while_waiting()
        with self._status:
            self._status.wait_for(lambda: self._closing, seconds)
        self.fork_safety.reacquire()

    async def _main(self, loop: asyncio.AbstractEventLoop, dialler: Dialler) -> None:
        import asyncio

        with self._status:
            self._running = running = _Running(loop, asyncio.Event(), asyncio.Event())
            if self._closing:
                return
        self._timers.begin(loop)
        stopping = asyncio.ensure_future(running.stopping.wait())
        await asyncio.wait({stopping}, timeout=dialler.first_pause())
        while not stopping.done():
            serving = asyncio.ensure_future(self._serve_once(dialler))
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await self._leave(serving)
                return
            await asyncio.wait({stopping}, timeout=dialler.pause(serving.result()))

    async def _leave(self, serving: asyncio.Future[DbgError | None]) -> None:
        """Send what waits and close; then cancel the task that serves."""
        import asyncio

        from dbg_dial.waiting import within

        connection = self._connection
        if connection is not None:
            try:
                await within(CLOSE_SECONDS, self._flush_and_close(connection))
            except Exception:
                # The process ends, so the error is not reported.
                connection.transport.abort()
        serving.cancel()
        await asyncio.wait({serving}, timeout=CLOSE_SECONDS)

    async def _flush_and_close(self, connection: BrokerWebSocket) -> None:
        while (item := self.outgoing.pop()) is not None:
            await connection.send(self._frame(item))
        await connection.close()

    async def _serve_once(self, dialler: Dialler) -> DbgError | None:
        """Dial, register and serve until the connection ends or is silent; return what was wrong with it."""
        try:
            connection = await dialler.dial()
        except DbgError as error:
            self._failed(error)
            return error
        # This is the problem until the welcome comes.
        problem = BrokerUnreachable(connection.broker_url, "it does not take this rank in")
        self._note(problem)
        if await self._serve_until_silent(connection, dialler):
            return None
        logger.info("is not connected: %s", problem)
        return problem

    async def _serve_until_silent(self, connection: BrokerWebSocket, dialler: Dialler) -> bool:
        """Serve a connection until it ends or is silent; return whether it was welcomed."""
        import asyncio

        from dbg_agent.link.dialling import until_silent

        heard = asyncio.Event()
        serving = asyncio.ensure_future(self._serve(connection, heard))
        watching = asyncio.ensure_future(until_silent(connection, heard, self._owner.is_attended))
        try:
            await asyncio.wait({serving, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            welcomed = self._registration.is_there
            # A ping fails as well when the connection has ended, which is not silence.
            is_silent = watching.done() and not watching.cancelled() and watching.exception() is None
            if is_silent and not serving.done():
                logger.info("%s is silent", connection.broker_url)
                dialler.was_silent(connection)
            for task in (serving, watching):
                task.cancel()
            # Every error has the same answer: the link dials again, and the registration restates everything.
            await asyncio.gather(serving, watching, return_exceptions=True)
            dialler.ended(connection)
            self._disconnected()
            connection.transport.abort()
            # The socket closes in the loop's next round. Python would warn of it if the loop ended before.
            await connection.wait_closed()
        return welcomed

    async def _find_broker(self, waits: bool) -> Reach:
        """Return where the broker is now; with ``waits`` wait for its files without a bound. Raise DbgError."""
        try:
            return await find(self._lookup, SLOW_SECONDS)
        except SilentFile as error:
            if not waits:
                raise
            self._failed(error)
        return await find(self._lookup, None)

    async def _serve(self, connection: BrokerWebSocket, heard: asyncio.Event) -> None:
        import asyncio

        from dbg_dial.waiting import within
        from dbg_wire.messages import Welcome

        self.outgoing.open()
        self._connection = connection
        await connection.send(self._owner.registration())
        if not isinstance(self._receive(await within(HANDSHAKE_SECONDS, connection.recv())), Welcome):
            raise PeerError("a broker that does not begin with welcome")
        with self._status:
            self._registration.is_there, self._registration.problem = True, None
            self._status.notify_all()
        logger.info("is connected to %s", connection.broker_url)
        sending = asyncio.ensure_future(self._send_all(connection))
        # The connection ends with this task: a rank that can't send must not look like a rank with nothing to send.
        sending.add_done_callback(lambda _: connection.transport.abort())
        try:
            async for frame in connection:
                heard.set()
                self._receive(frame)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_all(self, connection: BrokerWebSocket) -> None:
        import asyncio

        if self._running is None:
            return
        event = self._running.something_to_send
        while True:
            item = self.outgoing.pop()
            if item is not None:
                await connection.send(self._frame(item))
                # The loop gets a chance to notice that the connection broke: asyncio complains on the job's stderr of
                # frames for a broken connection.
                await asyncio.sleep(0)
                continue
            if self.outgoing.starved:
                self.outgoing.starved = False
                self._owner.redraw()
            await event.wait()
            event.clear()

    def _frame(self, item: str | bytes | ReportNow) -> str | bytes:
        return self._owner.report() if isinstance(item, ReportNow) else item

    def _receive(self, frame: str | bytes) -> Message | None:
        """Act on a frame; return its message, if it is one."""
        from dbg_wire.codec import Input, UnknownType, decode, decode_data
        from dbg_wire.messages import Sender

        if isinstance(frame, bytes):
            data = decode_data(frame, Sender.CLIENT)
            if isinstance(data, Input):
                self._owner.on_input(data)
            return None
        try:
            message = decode(frame, Sender.BROKER)
        except UnknownType:
            # A newer broker of the same major may say more than this release understands.
            return None
        logger.debug("hears %s", Shown(message))
        self._owner.on_message(message)
        return message

    def _failed(self, error: DbgError) -> None:
        logger.info("is not connected: %s", error)
        self._note(error)

    def _note(self, error: DbgError) -> None:
        """Keep this error for the threads that wait for the connection, until it is connected."""
        with self._status:
            self._registration.problem = error
            self._status.notify_all()

    def _disconnected(self) -> None:
        self._connection = None
        self.outgoing.close()
        with self._status:
            was_connected, self._registration.is_there = self._registration.is_there, False
            if was_connected:
                self._registration.waiting_since = self._clock()
        if was_connected:
            logger.info("is connected no more")
        self._owner.on_disconnect()


def _fault(error: Exception) -> DbgError:
    return BrokerUnreachable("its address", error_line(error))
