"""Credentials of a broker that serves: its tokens and its certificate, reloaded when their files change.

Another host that shares the home may change the files, which this host's kernel does not report. So a thread checks
the files each second. It is a daemon thread, so a broker that ends does not wait for a file server that hangs.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dbg_broker.home.certificate import ServedCertificate, load_given, load_own
from dbg_broker.home.private_files import Watched
from dbg_broker.home.rendezvous import write_rendezvous
from dbg_broker.home.tokens import Tokens, load_tokens, token_files
from dbg_broker.serve.service import LogFormatter
from dbg_dial.endpoint import Endpoint, Rendezvous
from dbg_wire.errors import DbgError

logger = logging.getLogger("dbg_broker")

CHECK_SECONDS = 1.0
"""Interval between two checks of the files, in seconds, so that connections of a revoked token end within 2 s. A check
takes 0.1 ms.
"""

CLOSE_SECONDS = 1.0
"""Timeout for a running check when the broker ends, in seconds; it takes longer only if a file server hangs."""

InLoop = Callable[..., object]
"""Function that calls another function, with arguments, in the event loop's thread."""


class Credentials:
    """Tokens and certificate of a broker that serves, and the files that contain and announce them."""

    def __init__(self, home: Path, given: tuple[str, str] | None, log: LogFormatter) -> None:
        """Read tokens and certificate; ``given`` are the files of the user's own certificate. Raise BadSecretFile."""
        self._home = home
        self._log = log
        self._tokens = Watched(token_files(home), partial(load_tokens, home))
        if given is None:
            self._certificate = Watched((), partial(load_own, home))
        else:
            files = certificate, key = Path(given[0]), Path(given[1])
            self._certificate = Watched(files, partial(load_given, certificate, key))
        log.hide(self.tokens.by_name().values())
        self._address = ("", 0)
        self._others: tuple[Endpoint, ...] = ()
        self._is_written = True
        self._complaints: dict[str, str] = {}
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def tokens(self) -> Tokens:
        """The current tokens."""
        return self._tokens.value

    @property
    def shown(self) -> ServedCertificate:
        """The current certificate."""
        return self._certificate.value

    @property
    def endpoint(self) -> Endpoint:
        """The broker's address with the current fingerprint."""
        host, port = self._address
        return Endpoint(host=host, port=port, fingerprint=self.shown.fingerprint)

    def serve_at(self, host: str, port: int) -> None:
        """Set the broker's address."""
        self._address = host, port

    def write(self) -> None:
        """Write address, fingerprint and tokens into the files of the home. Raise BadSecretFile."""
        tokens = self.tokens
        rendezvous = Rendezvous(
            url=self.endpoint.url,
            host=socket.gethostname(),
            pid=os.getpid(),
            fingerprint=self.shown.fingerprint,
            tokens={"rank": tokens.rank},
            driver_tokens=tokens.of_terminals(),
            brokers=self._others,
        )
        write_rendezvous(self._home, rendezvous)

    def announce_brokers(self, others: tuple[Endpoint, ...]) -> None:
        """Write the other brokers of a cluster into the files of the home, at the next check."""
        self._others = others
        self._is_written = False

    def watch(self, in_loop: InLoop, use: Callable[[Tokens], None], show: Callable[[ssl.SSLContext], None]) -> None:
        """Start checking the files.

        Changed tokens and certificates are passed to ``use`` and ``show`` through ``in_loop``.
        """
        self._thread = threading.Thread(
            target=self._watch, args=(in_loop, use, show), name="dbg-credentials", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop checking, and write no file of the home any more."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _watch(self, in_loop: InLoop, use: Callable[[Tokens], None], show: Callable[[ssl.SSLContext], None]) -> None:
        while not self._ending.wait(CHECK_SECONDS):
            is_shown_anew = self._tries("certificate", self._certificate.is_changed)
            are_others = self._tries("tokens", self._tokens.is_changed)
            if self._ending.is_set():
                return
            if is_shown_anew:
                in_loop(show, self.shown.context)
            self._log.hide(self.tokens.by_name().values())
            if is_shown_anew or are_others or not self._is_written:
                self._tries("files of the home", self._write_again)
            if is_shown_anew:
                logger.info("serving a new certificate: %s", self.shown.fingerprint)
            if are_others:
                # The home already contains the new token. The terminals that are closed now find it there.
                in_loop(use, self.tokens)

    def _write_again(self) -> None:
        # Set this first, because announce_brokers may reset it while the files are written.
        self._is_written = True
        try:
            self.write()
        except BaseException:
            self._is_written = False
            raise

    def _tries(self, what: str, call: Callable[[], Any]) -> Any:
        """Return the result of a call, or None if it fails. A repeated failure is logged once."""
        try:
            found = call()
        except Exception as error:
            # Catch every error, so that the thread continues. Otherwise a token revoked later would remain valid until
            # a restart.
            text = str(error) if isinstance(error, DbgError) else f"{type(error).__name__}: {error}"
            if self._complaints.get(what) != text:
                self._complaints[what] = text
                logger.error("can't read or write the %s; trying again each second: %s", what, text)
            return None
        self._complaints.pop(what, None)
        return found
