"""Issued tokens of a cluster: each broker stores the whole list in its home, and sends it to the other brokers.

Lists can be joined in any order, regardless of their origin. A broker that was disconnected sends the tokens that its
home has gained, and receives the tokens of the others. The home's own three tokens are never in the list. Their digest,
the ``site``, identifies the cluster.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from dbg_broker.cluster.nats import Nats
from dbg_broker.home.tokens import IssuedTokens, Tokens, format_issued, parse_issued
from dbg_wire.errors import DbgError, printable

logger = logging.getLogger("dbg_broker")

SUBJECT = "dbg_broker.tokens"
"""Prefix of the subjects of token lists, followed by the ``site`` and the sender's name."""

Keep = Callable[[IssuedTokens], None]
"""Function that joins a list into the tokens of the home. It blocks, and raises DbgError."""


class SharedTokens:
    """Issued and revoked tokens that all brokers know.

    If another broker issues or revokes a token, ``use`` is called at once with the new tokens, before they are on disk.
    """

    def __init__(self, nats: Nats, name: str, keep: Keep, tokens: Tokens) -> None:
        self._nats, self._name, self._keep = nats, name, keep
        self._subject = f"{SUBJECT}.{tokens.site()}"
        self._own = tokens
        self._known = tokens.issued
        self._is_due = asyncio.Event()
        self.use: Callable[[Tokens], None] = lambda _tokens: None

    @property
    def tokens(self) -> Tokens:
        """Tokens of the home, plus tokens that any broker issued, minus tokens that any broker revoked."""
        return replace(self._own, issued=self._known)

    async def listen(self) -> None:
        """Subscribe to the lists of other brokers, and publish the own list. Brokers with more tokens reply.

        Raise an error of NATS' client.
        """
        await self._nats.subscribe(f"{self._subject}.*", self._received)
        self.announce()

    def announce(self) -> None:
        """Publish the whole list, because another broker may not have it."""
        self._nats.publish(f"{self._subject}.{self._name}", format_issued(self._known).encode())

    def changed(self, tokens: Tokens) -> None:
        """Use the changed tokens of the home, and publish the list if a token is new."""
        self._own = tokens
        is_new = self._join(tokens.issued)
        self.use(self.tokens)
        if is_new:
            self.announce()

    def _received(self, name: str, value: bytes) -> None:
        """Join the list of another broker, and publish the own list if that broker's list is incomplete."""
        if name == self._name:
            return
        try:
            issued = parse_issued(value)
        except ValueError as error:
            logger.warning("broker %s: can't decode its message: %s", printable(name), printable(str(error)))
            return
        if self._join(issued):
            logger.info("tokens that other brokers issued or revoked are now in effect")
            self.use(self.tokens)
            self._is_due.set()
        if issued != self._known:
            self.announce()

    def _join(self, others: IssuedTokens) -> bool:
        """Join a list into the known list. Return True if the known list changed."""
        before, self._known = self._known, self._known.joined(others)
        return self._known != before

    async def run(self) -> None:
        """Store the tokens from other brokers in the home until this task is cancelled."""
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await asyncio.to_thread(self._keep, self._known)
            except DbgError as error:
                logger.error("can't store the tokens of other brokers: %s", printable(str(error)))
