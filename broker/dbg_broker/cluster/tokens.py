"""Issued tokens of a site: a replicated set in one entry of a bucket, changed by compare-and-swap.

Each broker has the whole list in its own home, too. So NATS may come back empty, and a broker that was away brings
what its home has learnt meanwhile: lists are joined, whoever had them. The home's own three tokens are never here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from dbg_broker.cluster.nats import BUCKET, KEY, Conflict, Nats, NatsDown
from dbg_broker.home.issued import IssuedTokens, format_issued, parse_issued
from dbg_broker.home.tokens import Tokens
from dbg_wire.errors import DbgError, printable

logger = logging.getLogger("dbg_broker")

AGAIN_SECONDS = 1.0
"""Seconds after which an exchange is tried again that NATS did not answer."""

MAX_ATTEMPTS = 100
"""Writes that others come before: each of them has added something, and brokers have only so much to add."""

Keep = Callable[[IssuedTokens], IssuedTokens]
"""Join a list into that of the home and return the join; blocks. Raise DbgError."""


class UnreadableList(DbgError):
    """The bucket holds no list of tokens that this release knows."""

    def __str__(self) -> str:
        return (
            f"the key {KEY} of NATS' bucket {BUCKET} is no list of tokens of this release; "
            "remove it, and each broker puts what its home has there"
        )


class SharedTokens:
    """The issued and revoked tokens that all brokers know.

    What another broker has issued or revoked holds here at once, before a disk has it: ``use`` is called with it.
    """

    def __init__(self, nats: Nats, keep: Keep, tokens: Tokens) -> None:
        self._nats, self._keep = nats, keep
        self._own = tokens
        self._known = tokens.issued
        self._is_due = asyncio.Event()
        self.use: Callable[[Tokens], None] = lambda _tokens: None

    @property
    def tokens(self) -> Tokens:
        """Return the home's tokens with what all brokers have issued, and without what one has revoked."""
        return replace(self._own, issued=self._known)

    def changed(self, tokens: Tokens) -> None:
        """Take the tokens of the home, which have changed, and tell the others."""
        self._own = tokens
        self._known = self._known.joined(tokens.issued)
        self.use(self.tokens)
        self._is_due.set()

    def told(self, _key: str, value: bytes) -> None:
        """Take a list that somebody writes; the bucket may not have it yet, and may refuse it."""
        try:
            told = parse_issued(value)
        except ValueError:
            return
        if self._take(told) or told != self._known:
            self._is_due.set()

    def exchange_soon(self) -> None:
        """Have the lists exchanged: NATS may be empty, or something may have been missed."""
        self._is_due.set()

    async def run(self) -> None:
        """Exchange the lists whenever that is due, until it is cancelled."""
        while True:
            await self._is_due.wait()
            try:
                await self.exchange()
            except NatsDown:
                await asyncio.sleep(AGAIN_SECONDS)
                self._is_due.set()
            except DbgError as error:
                logger.error("the tokens of the other brokers can't be taken: %s", printable(str(error)))

    async def exchange(self) -> None:
        """Bring the bucket, the home and what is known here to their join. Raise DbgError if one of them can't be."""
        # What comes from here on is not in this exchange.
        self._is_due.clear()
        try:
            await self._write()
        finally:
            kept = await asyncio.to_thread(self._keep, self._known)
        if self._take(kept):
            await self._write()

    async def _write(self) -> None:
        """Join the bucket's list and the known one, and write that unless the bucket has it already."""
        for _ in range(MAX_ATTEMPTS):
            entry = await self._nats.read()
            try:
                told = IssuedTokens() if entry is None else parse_issued(entry.value)
            except ValueError:
                raise UnreadableList from None
            self._take(told)
            if self._known == told:
                return
            value = format_issued(self._known).encode()
            try:
                await self._nats.write(value, entry.revision if entry else 0)
            except Conflict:
                continue
            return
        raise NatsDown("others write it all the time")

    def _take(self, others: IssuedTokens) -> bool:
        """Join a list into the known one, and tell whether that is another one now."""
        joined = self._known.joined(others)
        if joined == self._known:
            return False
        self._known = joined
        logger.info("other brokers have issued or revoked tokens")
        self.use(self.tokens)
        return True
