"""Issued tokens of a cluster: a replicated set in one entry of a bucket, changed by compare-and-swap.

Each broker keeps the whole list in its own home, too. So NATS may come back empty, and a broker that was away brings
what its home has learnt meanwhile: lists are joined, whoever had them. The home's own three tokens are never here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from dbg_broker.home.issued import IssuedTokens, format_issued, parse_issued
from dbg_broker.home.tokens import Tokens
from dbg_broker.net.bus.buckets import BucketName, Buckets, BusDown, Conflict
from dbg_broker.net.loop import Tasks
from dbg_wire.errors import DbgError, printable

if TYPE_CHECKING:
    from dbg_broker.net.bus.connection import NatsConnection

logger = logging.getLogger("dbg_broker")

ISSUED_KEY = "issued"

SHARE_SECONDS = 3.0
"""Seconds after which ``dbg-broker token``, which waits for 5, is told that the others have not been told."""

REFRESH_SECONDS = 30.0
"""Seconds after which the bucket is read in any case: NATS tells of a change once, and may drop that."""

MAX_NAMES = 10
"""Names of tokens in a line of the log."""

MAX_ATTEMPTS = 100
"""Writes that others come before: each of them has added something, and brokers have only so much to add."""

Keep = Callable[[IssuedTokens], IssuedTokens]
"""Join a list into that of the home and return the join; blocks. Raise DbgError."""


class UnreadableList(DbgError):
    """The bucket holds no list of tokens that this release knows."""

    def __str__(self) -> str:
        return (
            f"the key {ISSUED_KEY} of NATS' bucket {BucketName.TOKENS.value} is no list of tokens of this release; "
            "remove it, and each broker puts what its home has there"
        )


class SharedTokens:
    """The issued and revoked tokens that all brokers of a cluster know.

    What another broker has issued or revoked holds here at once, before a disk has it.
    """

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._connection: NatsConnection | None = None
        """The connection to NATS on which the bucket was read last."""
        self._due = 0.0
        self._known = IssuedTokens()
        self._turn = asyncio.Lock()
        self._waits = False
        self._tasks = Tasks()
        self.keep: Keep = lambda issued: issued
        """What keeps the list in the home."""
        self.use: Callable[[], None] = lambda: None
        """Called when others have changed the list, so that connections end whose token is revoked."""

    def joined(self, tokens: Tokens) -> Tokens:
        """Return a home's tokens with those that other brokers have issued, and without those that they have revoked.

        What the home has is known from then on, and goes to the others with the next exchange.
        """
        self._known = self._known.joined(tokens.issued)
        return replace(tokens, issued=self._known)

    def watch(self) -> None:
        """Have changes by other brokers told from now on."""
        self._buckets.watch(BucketName.TOKENS, ISSUED_KEY, self._changed)

    def sweep(self, now: float) -> None:
        """Exchange over each new connection to NATS, as changes were missed before it, and now and then."""
        connection = self._buckets.connection
        is_due = connection is not self._connection or now >= self._due
        self._connection = connection
        if connection is not None and is_due:
            self._due = now + REFRESH_SECONDS
            self._exchange_soon()

    def close(self) -> None:
        """Stop exchanging."""
        self._tasks.cancel()

    def _changed(self, _: str, value: bytes | None) -> None:
        # It may be a write that the bucket has refused, or no list at all: what counts is read then.
        with contextlib.suppress(ValueError):
            told = parse_issued(value or b"")
            is_new = self._take(self._known.joined(told))
            if not is_new and told == self._known:
                return
        self._exchange_soon()

    def _take(self, joined: IssuedTokens) -> bool:
        """Take a list that holds all of the known one, and tell whether it is another one."""
        if joined == self._known:
            return False
        before, after = ({one.digest: one.name for one in issued.tokens} for issued in (self._known, joined))
        self._known = joined
        for what, names in (
            ("issued", [name for digest, name in after.items() if digest not in before]),
            ("revoked", [name for digest, name in before.items() if digest not in after]),
        ):
            if names:
                more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
                logger.info("other brokers have %s %s", what, ", ".join(names[:MAX_NAMES]) + more)
        self.use()
        return True

    # --------------------------------------------------------------------------------------------------- the exchange

    async def exchange(self) -> None:
        """Bring the bucket, the home and what is known here to their join. Raise DbgError if one of them can't be."""
        async with self._turn:
            # Whoever comes from here on is not in this exchange.
            self._waits = False
            try:
                await self._write()
            finally:
                kept = await asyncio.to_thread(self.keep, self._known)
            if self._take(self._known.joined(kept)):
                await self._write()

    async def _write(self) -> None:
        """Join the bucket's list and the known one, and write that unless the bucket has it already."""
        for _ in range(MAX_ATTEMPTS):
            entry = await self._buckets.read(BucketName.TOKENS, ISSUED_KEY)
            try:
                told = IssuedTokens() if entry is None else parse_issued(entry.value)
            except ValueError:
                raise UnreadableList from None
            self._take(self._known.joined(told))
            if self._known == told:
                return
            value = format_issued(self._known).encode()
            try:
                await self._buckets.write(BucketName.TOKENS, ISSUED_KEY, value, entry.revision if entry else 0)
            except Conflict:
                continue
            return
        raise BusDown("others write it all the time")

    def share(self, then: Callable[[str], None]) -> None:
        """Tell the other brokers what the home has, and call ``then`` with why they can't be told, empty if they were.

        It is called after some seconds at the latest; the others are told when NATS answers again.
        """
        self._tasks.begin(self._share(then))

    async def _share(self, then: Callable[[str], None]) -> None:
        try:
            await asyncio.wait_for(self.exchange(), SHARE_SECONDS)
        except DbgError as error:
            then(str(error))
        except TimeoutError:
            self._exchange_soon()
            then(str(BusDown("it takes too long")))
        else:
            then("")

    def _exchange_soon(self) -> None:
        """Exchange, unless an exchange waits for its turn already."""
        if not self._waits:
            self._waits = True
            self._tasks.begin(self._exchange())

    async def _exchange(self) -> None:
        try:
            await self.exchange()
        except BusDown:
            # A connection is no sign that the servers of NATS have agreed on who leads them.
            logger.debug("what is issued or revoked here waits for NATS")
            self._due = 0.0
        except DbgError as error:
            logger.error("the tokens of the other brokers can't be taken: %s", printable(str(error)))
