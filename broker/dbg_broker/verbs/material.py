"""What a broker serves with and can exchange while it serves: its tokens and its certificate."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dbg_broker.home.certificate import Shown
from dbg_broker.home.rendezvous import write_rendezvous
from dbg_broker.home.tokens import Tokens
from dbg_broker.log import LogFormatter
from dbg_broker.verbs.renewal import Tell, look_each_day
from dbg_wire.errors import BadSecretFile, DbgError
from dbg_wire.finding.endpoint import Endpoint
from dbg_wire.finding.rendezvous import DriverTokenPlace, Rendezvous

logger = logging.getLogger("dbg_broker")

Then = Callable[["Tokens | DbgError"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where tokens and certificate come from; both calls block, and raise BadSecretFile.

    ``tokens`` gets those of before. ``certificate`` is None without TLS.
    """

    tokens: Callable[[Tokens | None], Tokens]
    certificate: Callable[[], Shown] | None
    driver_token: DriverTokenPlace = "file"  # noqa: S105 - a word


class Material:
    """Tokens and certificate of a broker that serves, and the files that tell of them.

    Made before the event loop runs; the other methods belong to its thread.
    """

    def __init__(self, home: Path, sources: Sources, log: LogFormatter) -> None:
        """Load both. Raise BadSecretFile."""
        self._home = home
        self._sources = sources
        self._log = log
        self.shown = None if sources.certificate is None else sources.certificate()
        self.tokens = sources.tokens(None)
        log.hide(self.tokens.by_name().values())
        self._endpoint: Endpoint | None = None
        self.show: Callable[[ssl.SSLContext], None] | None = None
        """Called with another certificate to show from then on."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """Return what TLS is spoken with; None without TLS."""
        return None if self.shown is None else self.shown.context

    def serve_at(self, host: str, port: int) -> Endpoint:
        """Take note of where the broker listens, and return the address with all fingerprints."""
        shown = self.shown
        self._endpoint = Endpoint(
            host=host,
            port=port,
            secure=shown is not None,
            fingerprint=None if shown is None else shown.fingerprint,
            other_fingerprints=() if shown is None else shown.others,
        )
        return self._endpoint

    @property
    def endpoint(self) -> Endpoint:
        """Return where the broker listens, with the fingerprints of now. Raise RuntimeError before it listens."""
        if self._endpoint is None:
            raise RuntimeError("the broker does not listen yet")
        return self._endpoint

    def write(self) -> None:
        """Tell ranks and terminals in the files of the home. Raise BadSecretFile."""
        write_rendezvous(self._home, self._rendezvous(self.endpoint, self.tokens))

    def rendezvous(self) -> Rendezvous:
        """Return what the files of the home tell."""
        return self._rendezvous(self.endpoint, self.tokens)

    def read_again(self, then: Then) -> None:
        """Read both anew in a thread, since the home's disk may hang, and use them; ``then`` gets tokens or error."""
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, self._read).add_done_callback(lambda done: self._use(done.result(), then))

    def look_each_day(self, tell: Tell, use: Callable[[Tokens], None]) -> asyncio.Task[None]:
        """Look at the certificate now and each day until the task is cancelled; ``tell`` gets its end.

        Where it was renewed, the tokens are read anew as well, and ``use`` gets them.
        """
        source = self._sources.certificate

        def read_again(then: Then) -> None:
            def take(found: Tokens | DbgError) -> None:
                if isinstance(found, Tokens):
                    use(found)
                then(found)

            self.read_again(take)

        async def look() -> None:
            if source is not None:
                await look_each_day(lambda: self.shown, source, read_again, tell)

        return asyncio.get_running_loop().create_task(look())

    def _read(self) -> tuple[Tokens, Shown | None, Endpoint] | DbgError:
        """Read both, and tell of the new certificate beside the old one, which is still shown; in a thread."""
        source = self._sources.certificate
        try:
            tokens = self._sources.tokens(self.tokens)
            shown = None if source is None else source()
            before = told = endpoint = self.endpoint
            if shown is not None:
                told = endpoint = replace(before, fingerprint=shown.fingerprint, other_fingerprints=shown.others)
                if shown.fingerprint != before.fingerprint:
                    all_pins = dict.fromkeys((*before.fingerprints, *endpoint.fingerprints))
                    told = replace(before, other_fingerprints=tuple(all_pins)[1:])
            write_rendezvous(self._home, self._rendezvous(told, tokens))
        except BadSecretFile as error:
            return error
        self._log.hide(tokens.by_name().values())
        return tokens, shown, endpoint

    def _use(self, read: tuple[Tokens, Shown | None, Endpoint] | DbgError, then: Then) -> None:
        if isinstance(read, DbgError):
            then(read)
            return
        self.tokens, shown, self._endpoint = read
        is_other = shown is not None and self.shown is not None and shown.fingerprint != self.shown.fingerprint
        self.shown = shown
        if shown is None or not is_other:
            then(self.tokens)
            return
        if self.show is not None:
            self.show(shown.context)
        logger.info("another certificate is shown from now on: %s", shown.fingerprint)
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(None, partial(write_rendezvous, self._home, self.rendezvous()))
        writing.add_done_callback(lambda done: then(_error_of(done) or self.tokens))

    def _rendezvous(self, endpoint: Endpoint, tokens: Tokens) -> Rendezvous:
        in_files = self._sources.driver_token == "file"  # noqa: S105 - a word
        return Rendezvous(
            url=endpoint.url,
            host=socket.gethostname(),
            pid=os.getpid(),
            fingerprint=endpoint.fingerprint,
            other_fingerprints=endpoint.other_fingerprints,
            tokens={"rank": tokens.rank},
            driver_tokens=tokens.of_terminals() if in_files else {},
            driver_token=self._sources.driver_token,
        )


def _error_of(done: asyncio.Future[None]) -> DbgError | None:
    error = done.exception()
    if error is None or isinstance(error, DbgError):
        return error
    raise error
