"""Server of the page on this host's loopback, until the command ends."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from dbg_client.core.errors import bug
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.switchboard import Switchboard, switchboard_to
from dbg_client.core.wait_progress import cancel_and_wait, read_in_thread
from dbg_client.shell.streams import notify
from dbg_client.verbs.preferences import ANY_ENGINE, EngineSpec
from dbg_client.views.list import nobody_yet
from dbg_client.web.feed import HANG_SECONDS, Feed, VerdictWatch, hang_verdicts
from dbg_client.web.live import LivePage
from dbg_client.web.messages import Ended, Hello
from dbg_client.web.outbox import Outbox, SocketHandler, hold, new_socket
from dbg_client.web.terminals import NO_RANK, PageSeat
from dbg_command.targets import Target
from dbg_wire import RELEASE
from dbg_wire.errors import BadInput, DbgError
from dbg_wire.messages import Mode, Snapshot

if TYPE_CHECKING:
    from dbg_client.web.verb import Web
    from dbg_client.why.explain import SavedJob

LOOPBACK = "127.0.0.1"

SECRET_BYTES = 16
"""Number of random bytes in a secret. Nobody can guess 128 bits, so the number of attempts is not limited."""

NAMES_OF_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Host names that our page uses for this server, also through a tunnel; other names come from foreign pages."""

NONCE = "{{nonce}}"
"""Placeholder of the nonce in the page."""

FIXED_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Server": "dbg-attach",
}
"""Headers of each response."""


class NotAdmitted(DbgError):
    """Raised when a request is rejected; the text is for a person who may have opened an old link."""

    def __init__(self, sentence: str, status: int = 403) -> None:
        super().__init__(sentence)
        self.status = status


NO_COOKIE = "this page needs the link that `dbg-attach web` has printed in its terminal; open that link"
USED = "this link was already used, or is of another server; the terminal of `dbg-attach web` shows the next link"


class Access:
    """The current token and the cookie's secret; ``notify`` receives the next token whenever one is used."""

    def __init__(self, port: int, notify: Callable[[str], None]) -> None:
        self.cookie = f"dbg-web-{port}"
        self._notify = notify
        self._secret = new_secret()
        self._token = self.new_token()

    def new_token(self) -> str:
        """Replace the current token by a new one, which is valid once."""
        self._token = new_secret()
        return self._token

    def exchange(self, token: str) -> str:
        """Exchange the token for the value of the cookie. Raises NotAdmitted for a wrong or used token."""
        if not is_same(token, self._token):
            raise NotAdmitted(USED)
        self._notify(self.new_token())
        return self._secret

    def has_cookie(self, cookies: Mapping[str, str]) -> bool:
        """Return True if the browser has the cookie."""
        return is_same(cookies.get(self.cookie), self._secret)


def require_own(host: str, origin: str | None, site: str | None, *, of_page: bool) -> None:
    """Raise NotAdmitted for a request that does not come from our page.

    ``host`` is the Host header; with DNS rebinding it is the name of the attacker's page. ``origin`` is the Origin
    header, which a browser sends with each WebSocket. ``site`` is Sec-Fetch-Site: a link in another page may open the
    page itself, but only our page may load its parts (``of_page``).
    """
    name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    if name not in NAMES_OF_LOOPBACK:
        raise NotAdmitted("the host name in this address is not this server's; open http://127.0.0.1 and its port", 421)
    if origin is not None and origin != f"http://{host}":
        raise NotAdmitted("another page may not use this server")
    if of_page and site not in (None, "same-origin", "none"):
        raise NotAdmitted("another page may not use this server")


def content_policy(nonce: str) -> str:
    """Return the Content-Security-Policy of the page; xterm creates style elements, which carry the nonce."""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; connect-src 'self'; "
        "img-src 'self' data: blob:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


NOTHING_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The policy of all responses except the page."""


PROGRAM = "web"
"""Program name that other users see after the name of this server's user."""

LOOKS_ONLY = "this page is read-only, unless started by `dbg-attach web --drive`"
WATCHES = "this server's token is read-only: make another by `dbg-broker token --role driver`"

OF_REPORT = "this page shows a report, so its ranks cannot be asked"

GOING_AWAY = 1001
"""Close code of RFC 6455 for a server that shuts down."""

MAX_SOCKETS = 128
"""Maximum open pages and terminals, of all browsers together."""

END_SECONDS = 2.0
"""Timeout for closing the pages at the end, in seconds."""

STATIC = Path(__file__).with_name("static")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer:
    """Pages of one target, for browsers with the cookie; belongs to one event loop."""

    def __init__(
        self,
        switchboard: Switchboard,
        target: Target | None,
        access: Access,
        *,
        drive: bool,
        spec: EngineSpec = ANY_ENGINE,
        hang_seconds: float = HANG_SECONDS,
        saved: SavedJob | None = None,
    ) -> None:
        self._switchboard, self._target, self._access, self._drive = switchboard, target, access, drive
        self._spec, self._hang_seconds = spec, hang_seconds
        self._may_act = True
        self._page = (STATIC / "index.html").read_text(encoding="utf-8")
        self._guests: dict[asyncio.Task[object], Outbox] = {}
        self._saved = saved
        if saved is not None:
            switchboard.directory.receive(Snapshot(ranks=saved.ranks, last=True))
        self.feed = Feed(switchboard, target, self._hello)
        if saved is not None:
            for verdict in hang_verdicts(saved.found, switchboard.directory.ranks, unmoved=True):
                self.feed.judge(verdict)

    @asynccontextmanager
    async def serving(self, listening: socket.socket) -> AsyncIterator[None]:
        """Serve on a listening socket while the block runs."""
        application = web.Application(middlewares=[self._admit])
        application.on_response_prepare.append(_add_headers)
        application.add_routes(
            [
                web.get("/", self._index),
                # Some installers put symlinks in place of all files.
                web.static("/static", STATIC, follow_symlinks=True),
                web.get("/live", self._live),
                web.get("/terminal", self._terminal),
            ]
        )
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=END_SECONDS)
        await runner.setup()
        watching = asyncio.create_task(self._watch())
        try:
            await web.SockSite(runner, listening).start()
            with self._switchboard.watched_by(self.feed.receive):
                yield
        finally:
            await cancel_and_wait(watching)
            self.feed.close()
            await self._send_away()
            await runner.cleanup()

    async def _watch(self) -> None:
        """Run the verdict watch; an internal error there is reported, and the pages continue."""
        try:
            await VerdictWatch(self._switchboard, self.feed, self._hang_seconds).run()
        except Exception as error:
            notify(bug(error))

    async def _send_away(self) -> None:
        """Close all sockets, and abort those that do not close in time."""
        for outbox in self._guests.values():
            outbox.finish(GOING_AWAY, "the command has ended")
        if self._guests:
            await asyncio.wait(self._guests, timeout=END_SECONDS)
        await cancel_and_wait(*self._guests)

    def why_not(self) -> str:
        """Return why a page may not change ranks, or "" if it may."""
        if self._saved is not None:
            return OF_REPORT
        if self._switchboard.welcome is not None:
            # While the broker is away, keep the permission that it gave before.
            self._may_act = self._switchboard.may_act
        if not self._may_act:
            return WATCHES
        return "" if self._drive else LOOKS_ONLY

    def _hello(self) -> Hello:
        why_not = self.why_not()
        return Hello(
            target=self._saved.about
            if self._saved is not None
            else self._target.text
            if self._target is not None
            else "",
            nobody=nobody_yet(self._switchboard.url)
            if self._target is None
            else f"No rank matches {self._target.text}.",
            drive=not why_not,
            why_not=why_not,
            release=RELEASE,
            now=time.time() if self._saved is None else self._saved.now,
        )

    # ---------------------------------------------------------------------------------------------------- requests

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        headers, is_page = request.headers, request.path == "/"
        try:
            require_own(request.host, headers.get("Origin"), headers.get("Sec-Fetch-Site"), of_page=not is_page)
            if is_page and "token" in request.query:
                return self._exchange(request)
            if not self._access.has_cookie(request.cookies):
                raise NotAdmitted(NO_COOKIE)
            return await handler(request)
        except NotAdmitted as refused:
            return web.Response(status=refused.status, text=f"{refused}\n")
        except web.HTTPException as error:
            return web.Response(status=error.status, text=f"{error.reason}\n")
        except Exception as error:
            # Regardless of the error, other requests continue.
            return web.Response(status=500, text=f"{bug(error)}\n")

    def _exchange(self, request: web.Request) -> web.Response:
        answer = web.Response(status=303, headers={"Location": "/"})
        # A browser that already has the cookie may reopen an old link; don't use up the current token for it.
        if not self._access.has_cookie(request.cookies):
            value = self._access.exchange(request.query["token"])
            answer.set_cookie(self._access.cookie, value, httponly=True, samesite="Lax", path="/")
        return answer

    async def _index(self, _: web.Request) -> web.Response:
        nonce = new_secret()
        headers = {"Content-Security-Policy": content_policy(nonce)}
        return web.Response(text=self._page.replace(NONCE, nonce), content_type="text/html", headers=headers)

    async def _live(self, request: web.Request) -> web.StreamResponse:
        return await self._hold(
            request, lambda outbox: LivePage(self._switchboard, self.feed, outbox, self.why_not, self._saved)
        )

    async def _terminal(self, request: web.Request) -> web.StreamResponse:
        rank = self.feed.rows.rank(request.query.get("key", "")) if self._saved is None else None
        wanted = request.query.get("mode", "")
        mode = Mode(wanted) if wanted in [mode.value for mode in Mode] else Mode.WATCH

        def come(outbox: Outbox) -> SocketHandler | None:
            if rank is not None:
                own = self._switchboard.another()
                return PageSeat(own, rank, mode, outbox, spec=self._spec, why_not=self.why_not())
            outbox.send(Ended(sentence="there is no such rank any more"))
            outbox.finish(NO_RANK, "no such rank")
            return None

        return await self._hold(request, come)

    async def _hold(self, request: web.Request, come: Callable[[Outbox], SocketHandler | None]) -> web.StreamResponse:
        """Serve a socket of our page. Raises NotAdmitted without an Origin header, or if too many sockets are open.

        ``_admit`` has already checked the value of the header, and the cookie, which only a browser of the user has.
        """
        if request.headers.get("Origin") is None:
            raise NotAdmitted("a WebSocket without an Origin is not from our page")
        if len(self._guests) >= MAX_SOCKETS:
            raise NotAdmitted(f"{MAX_SOCKETS} pages and terminals are open on this server; close one", 503)
        socket, task, transport = new_socket(), asyncio.current_task(), request.transport
        await socket.prepare(request)
        if task is None or transport is None:
            return socket
        outbox = self._guests[task] = Outbox(socket, transport.abort)
        try:
            guest = come(outbox)
            await (hold(socket, outbox, guest) if guest is not None else outbox.run())
        finally:
            del self._guests[task]
        return socket


async def _add_headers(request: web.Request, answer: web.StreamResponse) -> None:
    answer.headers.update(FIXED_HEADERS)
    # A browser revalidates static files; it must not cache anything else.
    is_file = request.path.startswith("/static/")
    answer.headers.setdefault("Cache-Control", "no-cache" if is_file else "no-store")
    answer.headers.setdefault("Content-Security-Policy", NOTHING_POLICY)


@asynccontextmanager
async def _served_page(settings: Web, saved: SavedJob | None) -> AsyncIterator[None]:
    """Serve while the block runs, and print the address. Raises DbgError without a broker or if the port is taken."""
    broker = settings.broker
    target = None
    if settings.target is not None and saved is None:
        target = await read_in_thread(partial(read_target, settings.target, os.environ), broker.timeout)
    switchboard = switchboard_to(broker.address, broker.timeout, program=PROGRAM)
    if saved is None:
        await switchboard.open()
    try:
        listening = listen(settings.port)
        port = int(listening.getsockname()[1])
        access = Access(port, lambda token: notify(f"For another browser: {address_of(port, token)}"))
        server = PageServer(switchboard, target, access, drive=settings.drive, spec=settings.spec, saved=saved)
        async with server.serving(listening):
            address = address_of(port, access.new_token())
            ends = "Ctrl-C ends the page, and ranks stay as they are"
            for line in announcement(address, port, server.why_not(), ends, os.environ):
                notify(line)
            yield
    finally:
        await switchboard.close()


async def serve_web(settings: Web, saved: SavedJob | None) -> int:
    """Serve ranks or a report until the command is ended; return the exit status. Raises DbgError."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup SIGHUP is ignored and must stay ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, ended.set)
    async with _served_page(settings, saved):
        await ended.wait()
    return 0


def address_of(port: int, token: str) -> str:
    """Return the address that opens the page once."""
    return f"http://{LOOPBACK}:{port}/?token={token}"


def announcement(address: str, port: int, why_not: str, ends: str, environ: Mapping[str, str]) -> list[str]:
    """Return the lines that announce the page: its address, and how to reach it from another host."""
    lines = [f"The page is at {address}"]
    if why_not:
        lines.append(f"{why_not[0].upper()}{why_not[1:]}.")
    if environ.get("SSH_CONNECTION"):
        lines.append(f"On your own machine first: ssh -L {port}:{LOOPBACK}:{port} {socket.gethostname()}")
    return [*lines, f"The link works once; {ends}."]


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback, at a free port for 0. Raises BadInput if the port is taken."""
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen()
    except OSError as error:
        listening.close()
        why = os.strerror(error.errno) if error.errno else str(error)
        raise BadInput(f"port {port} can't be served ({why})", "omit --port to use a free one") from None
    listening.setblocking(False)
    return listening


def new_secret() -> str:
    """Return a new secret."""
    return secrets.token_urlsafe(SECRET_BYTES)


def is_same(given: object, secret: str) -> bool:
    """Return True if a client has sent the secret; compares in constant time."""
    return isinstance(given, str) and secrets.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())
