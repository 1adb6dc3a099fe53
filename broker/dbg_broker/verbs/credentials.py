"""Credentials of a broker that serves: its tokens and its certificate, which can be exchanged while it serves.

The certificate is looked at each day: renewed files are taken, and its end is warned of.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from dbg_broker.home.certificate import DAY_SECONDS, Shown, is_soon, read_validity, until
from dbg_broker.home.rendezvous import write_rendezvous
from dbg_broker.home.tokens import Tokens
from dbg_broker.net.loop import Tasks
from dbg_broker.verbs.service import LogFormatter
from dbg_wire.errors import DbgError
from dbg_wire.finding.endpoint import Endpoint
from dbg_wire.finding.rendezvous import Rendezvous

logger = logging.getLogger("dbg_broker")

T = TypeVar("T")

Then = Callable[["Tokens | DbgError"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSources:
    """Loaders of tokens and certificate; both block, and raise BadSecretFile."""

    tokens: Callable[[], Tokens]
    certificate: Callable[[], Shown]


class Credentials:
    """Tokens and certificate of a broker that serves, and the files that tell of them.

    Made before the event loop runs; the other methods belong to its thread.
    """

    def __init__(self, home: Path, sources: CredentialSources, log: LogFormatter) -> None:
        """Load both. Raise BadSecretFile."""
        self._home = home
        self._sources = sources
        self._log = log
        self.shown = sources.certificate()
        self.tokens = sources.tokens()
        log.hide(self.tokens.by_name().values())
        self._endpoint: Endpoint | None = None
        self._tasks = Tasks()
        self._writing = asyncio.Lock()
        self.show: Callable[[ssl.SSLContext], None] | None = None
        """Called with another certificate to show from then on."""
        self.on_shown: Callable[[tuple[str, ...]], None] | None = None
        """Called with the fingerprints of that and of the next one."""
        self._others: tuple[Endpoint, ...] = ()

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context of TLS."""
        return self.shown.context

    def serve_at(self, host: str, port: int) -> Endpoint:
        """Take note of where the broker listens, and return the address with all fingerprints."""
        shown = self.shown
        self._endpoint = Endpoint(
            host=host,
            port=port,
            fingerprint=shown.fingerprint,
            other_fingerprints=shown.others,
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

    def tell_others(self, others: tuple[Endpoint, ...]) -> None:
        """Name the other brokers of a cluster in the files of the home, from now on."""
        self._others = others
        self._tasks.begin(self._write_again())

    async def _write_again(self) -> None:
        try:
            # In a thread, since the home's disk may hang; one after the other, or an older text would be the last.
            async with self._writing:
                await asyncio.to_thread(self.write)
        except DbgError as error:
            logger.error("the other brokers can't be named in the home: %s", error)

    def read_again(self, then: Then) -> None:
        """Read both anew and use them; ``then`` gets tokens or error."""
        self._tasks.begin(self._read_again()).add_done_callback(lambda done: then(done.result()))

    async def _read_again(self) -> Tokens | DbgError:
        try:
            # In a thread, since the home's disk may hang.
            async with self._writing:
                self.tokens, shown, self._endpoint = await asyncio.to_thread(self._read)
            is_other = shown.fingerprint != self.shown.fingerprint
            self.shown = shown
            if is_other:
                if self.show is not None:
                    self.show(shown.context)
                logger.info("another certificate is shown from now on: %s", shown.fingerprint)
                async with self._writing:
                    await asyncio.to_thread(self.write)
            if self.on_shown is not None:
                self.on_shown(self.endpoint.fingerprints)
        except DbgError as error:
            return error
        except Exception as error:
            # Who waits must hear of it, or no later change of the tokens would be read.
            logger.exception("an error of the broker as it read its credentials anew")
            return DbgError(f"the credentials can't be read: {type(error).__name__}: {error}")
        return self.tokens

    async def check_each_day(self, tell: Callable[[float], None], use: Callable[[Tokens], None]) -> None:
        """Look at the certificate now and each day until cancelled; ``tell`` gets its end, in seconds since the epoch.

        Files that the user has named and that were renewed are taken. The tokens are read anew with them, and ``use``
        gets these.
        """
        while True:
            # In a thread, since the disk may hang and since a library that reads certificates loads slowly.
            if await asyncio.to_thread(self._is_renewed, self.shown):
                found = await self._read_again()
                if isinstance(found, Tokens):
                    use(found)
                else:
                    logger.error("the certificate can't be read anew: %s", found)
            ends = (await asyncio.to_thread(read_validity, self.shown.certificate)).ends
            tell(ends)
            if is_soon(ends, now := time.time()):
                logger.warning("the broker's certificate is near its end: %s", until(ends, now))
            await asyncio.sleep(DAY_SECONDS)

    def _is_renewed(self, shown: Shown) -> bool:
        try:
            return self._sources.certificate().fingerprint != shown.fingerprint
        except DbgError as error:
            logger.error("the certificate can't be read anew: %s", error)
            return False

    def _read(self) -> tuple[Tokens, Shown, Endpoint]:
        """Read both, and tell of the new certificate beside the old one, which is still shown; in a thread."""
        tokens, shown, before = self._sources.tokens(), self._sources.certificate(), self.endpoint
        told = endpoint = replace(before, fingerprint=shown.fingerprint, other_fingerprints=shown.others)
        if shown.fingerprint != before.fingerprint:
            all_pins = dict.fromkeys((*before.fingerprints, *endpoint.fingerprints))
            told = replace(before, other_fingerprints=tuple(all_pins)[1:])
        write_rendezvous(self._home, self._rendezvous(told, tokens))
        self._log.hide(tokens.by_name().values())
        return tokens, shown, endpoint

    def _rendezvous(self, endpoint: Endpoint, tokens: Tokens) -> Rendezvous:
        return Rendezvous(
            url=endpoint.url,
            host=socket.gethostname(),
            pid=os.getpid(),
            fingerprint=endpoint.fingerprints[0],
            other_fingerprints=endpoint.other_fingerprints,
            tokens={"rank": tokens.rank},
            driver_tokens=tokens.of_terminals(),
            brokers=self._others,
        )
