"""The rank's only connection to the broker: a daemon thread with its own event loop.

The thread dials and registers; if the connection ends it dials again, with full-jitter back-off. It looks up the broker
again each time. It never blocks the program; the program may wait for it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dbg_agent.link.fork_safety import ForkSafety, Lookups
from dbg_agent.link.outgoing import Outgoing, ReportNow
from dbg_agent.process.log import Logger
from dbg_agent.process.threads import SIGNAL_SECONDS, own_thread, wait_for
from dbg_dial.find import DiscoveryOptions, Opening, find_broker
from dbg_wire.codec import LogForm
from dbg_wire.errors import (
    BadInput,
    BrokerUnreachable,
    DbgError,
    FileTimeout,
    PeerError,
    Refused,
    WrongHost,
    error_line,
)
from dbg_wire.limits import CLOSE_SECONDS, HANDSHAKE_SECONDS

if TYPE_CHECKING:
    import asyncio

    from dbg_agent.link.dialling import Dialler, LinkLoop
    from dbg_dial.dial import BrokerWebSocket
    from dbg_dial.endpoint import Route
    from dbg_wire.codec import Input
    from dbg_wire.messages import Message

SLOW_SECONDS = 2.0
"""Time in seconds after which a file is treated as unreadable; reading one from a network file system takes
milliseconds."""

MOMENT_SECONDS = 0.2
"""Time in seconds that a thread of the program waits for a look-up that has just started; most take a millisecond."""

broker_overrides: dict[str, str] = {}
"""Variables that locate the broker, set if ``dbg-attach adopt`` has made this process a rank; they take precedence over
the environment."""


def find_ranks_broker(broker: str | None, environ: Mapping[str, str], opening: Opening) -> Route:
    """Return how a rank connects to the broker now; raise NoBroker, BadInput or WrongHost if that isn't known.

    Files in the home and up to two other files are read, and a silent file system can block the call without a limit.
    ``opening`` is called with each path before it is accessed.
    """
    return find_broker(
        DiscoveryOptions(role="rank", argument_name="the argument broker=", opening=opening), broker, environ
    )


class BrokerFinder:
    """Look-ups of the broker in a separate thread; ``find`` may block as long as file systems do."""

    def __init__(self, lookups: Lookups, find: Callable[[Opening], Route]) -> None:
        self._lookups = lookups
        self._find = find
        self._touched = "the broker's address"

    async def find(self) -> Route:
        """Return how to reach the broker; raise DbgError, or FileTimeout after SLOW_SECONDS."""
        try:
            return await self._lookups.ask(self, self._find_route, SLOW_SECONDS)
        except TimeoutError:
            raise FileTimeout(self._touched) from None

    def start(self) -> None:
        """Start a look-up whose result is needed soon; the next call of :meth:`find` or :meth:`now` waits for it."""
        self._lookups.start(self, self._find_route)

    def now(self) -> Route | Exception:
        """Return how to reach the broker if that is known within MOMENT_SECONDS, else the exception with the reason.

        This method raises nothing itself. So only a signal handler of the program can raise an exception in this
        method.
        """
        question = self._lookups.start(self, self._find_route)
        if not question.ended.wait(MOMENT_SECONDS):
            return FileTimeout(self._touched)
        return question.error if isinstance(question.error, Exception) else question.value

    def _find_route(self) -> Route:
        return self._find(self._note)

    def _note(self, path: str) -> None:
        self._touched = path


logger = Logger("dbg_agent.link")

MOST_FAILURES = 6
"""Number of failures in a row to make an event loop, after which the link gives up. The pauses between the attempts, at
most five seconds in all, give the program time to close some of its descriptors."""


class LinkOwner(Protocol):
    """The link's interface to the rank; all methods except ``find_broker`` run in the link's thread."""

    def find_broker(self, opening: Opening) -> Route:
        """Return how to reach the broker now, or raise BadInput; runs in its own thread, not in the link's."""

    def is_attended(self) -> bool:
        """Return True if a user works with this rank and would soon notice a silent link."""

    def registration(self) -> str:
        """Return the frame with the identity and the state of this rank."""

    def report(self) -> str:
        """Return the frame with the state of this rank."""

    def redraw(self) -> None:
        """Draw the screen again, because output was dropped."""

    def on_message(self, message: Message) -> None:
        """Act on a control message."""

    def on_input(self, frame: Input) -> None:
        """Act on keys."""

    def on_disconnect(self) -> None:
        """Handle a lost connection: messages reach no broker until the rank has registered again."""

    def on_give_up(self, problem: DbgError) -> None:
        """Handle the end of the link's attempts to connect. Only the next stop starts them again."""


class ProcessExiting(DbgError):
    """Error for callers in a process that is ending and has already disconnected from the broker."""

    def __str__(self) -> str:
        return "this process is ending and has disconnected from the broker"


@dataclass(slots=True)
class _Registration:
    """Whether a broker knows this rank, the latest problem, and the time since which the link has tried to connect."""

    is_there: bool = False
    problem: DbgError | None = None
    waiting_since: float | None = None


class _Running(NamedTuple):
    """The running event loop, and two events that other threads set: to send the queue, and to end the loop."""

    loop: asyncio.AbstractEventLoop
    something_to_send: asyncio.Event
    stopping: asyncio.Event


def import_all() -> None:
    """Import all modules that a link needs to dial.

    The link's thread does this by itself. While the program computes, the import takes many seconds. The thread
    releases the GIL at each file that it reads, and must wait until it gets the GIL again. So the agent starts a
    program only when this import has ended.
    """
    import encodings.idna  # noqa: F401 - for host names

    from dbg_agent.link import dialling  # noqa: F401


class Link:
    """The connection of this process, from :meth:`start` until the process ends."""

    def __init__(self, owner: LinkOwner, clock: Callable[[], float] = time.monotonic) -> None:
        self._owner = owner
        self._clock = clock
        self.outgoing = Outgoing(self._wake, self.reconnect)
        self.fork_safety = ForkSafety()
        self.names = Lookups()
        self._finder = BrokerFinder(self.names, owner.find_broker)
        self._status = threading.Condition()
        self._registration = _Registration()
        self._closing = False
        self._gave_up = False
        self._timers = Timers()
        self._thread: threading.Thread | None = None
        self._running: _Running | None = None
        self._connection: BrokerWebSocket | None = None
        self._dialler: Dialler | None = None
        self._url = ""
        """The last known address of the broker."""

    # --------------------------------------------------------------------------------------------- from any thread

    def start(self) -> None:
        """Start the thread if there is none; return at once."""
        with self._status:
            if self._registration.waiting_since is None:
                self._registration.waiting_since = self._clock()
            if self._closing or (self._thread is not None and self._thread.is_alive()):
                return
            # The thread is recorded before it runs. If a signal handler stops the rank between these two lines, it
            # calls this method too, and starts a second thread. The first thread later finds that another thread is
            # recorded, and ends.
            self._gave_up = False
            self._thread = own_thread(self._run, "dbg-agent")
            self._thread.start()

    def wait_connected(self, timeout: float | None, unanswered: float = math.inf) -> DbgError | None:
        """Wait until the rank is registered and return None, or return the problem after ``timeout`` seconds.

        The time runs from the start of the link's attempts, so that calls in a loop wait only once. A ``timeout`` of
        None waits forever. With a ``timeout`` the wait ends early in two cases: the broker refuses this rank for good,
        or no kernel has accepted a connection for ``unanswered`` seconds.
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
                return ProcessExiting()
            if self._registration.is_there:
                return None
            problem = self._registration.problem
        return problem or self._first_problem(timeout or 0.0)

    @property
    def is_served(self) -> bool:
        """Whether a kernel accepted the connection in the last attempt, and no broker has refused the rank for good."""
        with self._status:
            has_dialled = self._dialler is not None and self._dialler.has_been_answered
            return has_dialled and not self._is_final() and not self._closing

    def _unanswered_since(self) -> float:
        dialler = self._dialler
        since = dialler.unanswered_since if dialler is not None else None
        return math.inf if since is None else since

    def _first_problem(self, timeout: float) -> DbgError:
        """Return the problem to report while the link's thread has not recorded any."""
        if self._dialler is not None:
            self._url = self._dialler.dialled or self._url
        if not self._url:
            found = self._finder.now()
            if isinstance(found, Exception):
                problem = found if isinstance(found, DbgError) else _fault(found)
                with self._status:
                    # The problem is kept, because otherwise each later call would look up the broker again.
                    self._registration.problem = self._registration.problem or problem
                return problem
            self._url = found.endpoint.url
        return BrokerUnreachable(self._url, f"no answer within {timeout:g} s" if timeout else "no answer yet")

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Make the link's thread call ``call`` after some seconds, or never if the link has given up."""
        if self.keeps_trying:
            self._timers.call_later(seconds, call)

    @property
    def is_connected(self) -> bool:
        """Whether a broker knows this rank now."""
        return self._registration.is_there

    @property
    def keeps_trying(self) -> bool:
        """Whether the link still looks for a broker by itself."""
        return not (self._gave_up or self._closing)

    def reconnect(self) -> None:
        """Abort the connection, so that the rank registers again; return at once."""
        running, connection = self._running, self._connection
        if running is not None and connection is not None:
            call_soon(running.loop, connection.transport.abort)

    def close(self) -> None:
        """Send the queue, including a goodbye, and close the connection; block for at most twice CLOSE_SECONDS."""
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
        # A missing broker is not final, because it may start together with the job. A refusal or a bad setting is
        # final.
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
        """Import all modules that dialling needs; return None if that fails."""
        try:
            # The look-up starts before this thread imports the modules for dialling, so that both run at the same time.
            self._finder.start()
            import_all()  # later the program may have another root directory
            from dbg_agent.link.dialling import Dialler

            self._dialler = Dialler(self._finder.find, self.names, self._clock)
        except Exception as error:
            # Imports fail, for example, if the process has used up its file descriptors. The next stop tries again.
            self._gave_up = True
            self._failed(_fault(error))
            return None
        return self._dialler

    def _run_loops(self, dialler: Dialler) -> None:
        """Run one event loop after another until the link ends; the program may close the descriptors of each."""
        from dbg_agent.link.dialling import make_loop

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
        """Run the loop until the link ends and return None, or return the exception that ended the loop earlier."""
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
        self._timers.start(loop)
        stopping = asyncio.ensure_future(running.stopping.wait())
        while not stopping.done():
            serving = asyncio.ensure_future(self._serve_once(dialler))
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await self._leave(serving)
                return
            await asyncio.wait({stopping}, timeout=dialler.pause(serving.result()))

    async def _leave(self, serving: asyncio.Future[DbgError | None]) -> None:
        """Send the queue and close the connection, then cancel the task that serves."""
        import asyncio

        connection = self._connection
        if connection is not None:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._flush_and_close(connection)
            except Exception:
                # The process is ending, so the error is not reported.
                connection.transport.abort()
        serving.cancel()
        await asyncio.wait({serving}, timeout=CLOSE_SECONDS)

    async def _flush_and_close(self, connection: BrokerWebSocket) -> None:
        while (item := self.outgoing.pop()) is not None:
            await connection.send(self._frame(item))
        await connection.close()

    async def _serve_once(self, dialler: Dialler) -> DbgError | None:
        """Dial, register and serve until the connection ends; return the problem, or None after a registration."""
        import asyncio

        from dbg_agent.link.dialling import end_when_silent

        try:
            connection = await dialler.dial()
        except DbgError as error:
            self._failed(error)
            return error
        # If the connection ends before the broker's welcome has arrived, this is the problem to report.
        problem = BrokerUnreachable(connection.broker_url, "it did not register this rank")
        self._note(problem)
        heard = asyncio.Event()
        watching = asyncio.ensure_future(end_when_silent(connection, heard, self._owner.is_attended))
        welcomed = False
        try:
            await self._serve(connection, heard)
        except Exception:  # noqa: S110 - after any error the link dials again, and sends the whole state
            pass
        finally:
            welcomed = self._registration.is_there
            if watching.done() and not watching.cancelled() and watching.exception() is None:
                dialler.avoided = connection.broker_url
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self._disconnected()
            connection.transport.abort()
            # The socket closes in the loop's next round. If the loop ended earlier, Python would warn about an open
            # socket.
            await connection.wait_closed()
        if welcomed:
            return None
        logger.info("not connected: %s", problem)
        return problem

    async def _serve(self, connection: BrokerWebSocket, heard: asyncio.Event) -> None:
        import asyncio

        from dbg_wire.messages import Welcome

        self.outgoing.open()
        self._connection = connection
        await connection.send(self._owner.registration())
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            first = await connection.recv()
        if not isinstance(self._receive(first), Welcome):
            raise PeerError("a broker that does not begin with welcome")
        with self._status:
            self._registration.is_there, self._registration.problem = True, None
            self._status.notify_all()
        logger.info("connected to %s", connection.broker_url)
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
                # This gives the loop a chance to notice that the connection is broken. Otherwise asyncio would warn
                # about each further frame on the job's stderr.
                await asyncio.sleep(0)
                continue
            if self.outgoing.needs_redraw:
                self.outgoing.needs_redraw = False
                self._owner.redraw()
            await event.wait()
            event.clear()

    def _frame(self, item: str | bytes | ReportNow) -> str | bytes:
        return self._owner.report() if isinstance(item, ReportNow) else item

    def _receive(self, frame: str | bytes) -> Message | None:
        """Handle a frame; return its message, or None for keys and unknown messages."""
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
            # A newer broker of the same major version may send messages that this release does not know.
            return None
        logger.debug("received %s", LogForm(message))
        self._owner.on_message(message)
        return message

    def _failed(self, error: DbgError) -> None:
        logger.info("not connected: %s", error)
        self._note(error)

    def _note(self, error: DbgError) -> None:
        """Keep this error for threads that wait for the connection, until the link is connected."""
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
            logger.info("disconnected")
        self._owner.on_disconnect()


def _fault(error: Exception) -> DbgError:
    return BrokerUnreachable("its address", error_line(error))


@dataclass(frozen=True, slots=True, eq=False)
class Timer:
    """A call, and its due time on the monotonic clock."""

    due: float
    call: Callable[[], None]


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Make a loop call something soon; may be called from any thread. Do nothing if the loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


class Timers:
    """The pending calls; a new loop takes over the calls of the previous loop."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: set[Timer] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Make the loop's thread call ``call`` after some seconds; if there is no loop, the next one does."""
        timer = Timer(time.monotonic() + seconds, call)
        with self._lock:
            self._waiting.add(timer)
            loop = self._loop
        if loop is not None:
            call_soon(loop, partial(self._arm, loop, timer))

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the timers in this loop; called in its thread."""
        with self._lock:
            self._loop, waiting = loop, list(self._waiting)
        for timer in waiting:
            self._arm(loop, timer)

    def end(self) -> None:
        """Keep the timers for the next loop."""
        with self._lock:
            self._loop = None

    def _arm(self, loop: asyncio.AbstractEventLoop, timer: Timer) -> None:
        loop.call_later(timer.due - time.monotonic(), self._fire, timer)

    def _fire(self, timer: Timer) -> None:
        with self._lock:
            self._waiting.discard(timer)
        timer.call()
