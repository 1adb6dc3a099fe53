"""Issued tokens of a site: a set that each broker has wholly, in its home, and tells wholly.

Lists are joined, in any order, whoever had them: a broker that was away brings what its home has learnt meanwhile, and
learns what the others have. The home's own three tokens are never here; the site is a digest of them.
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
"""Subjects of lists: the site follows, and then the sender's name."""

Keep = Callable[[IssuedTokens], None]
"""Join a list into that of the home; blocks. Raise DbgError."""


class SharedTokens:
    """The issued and revoked tokens that all brokers know.

    What another broker has issued or revoked holds here at once, before a disk has it: ``use`` is called with it.
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
        """Return the home's tokens with what all brokers have issued, and without what one has revoked."""
        return replace(self._own, issued=self._known)

    async def listen(self) -> None:
        """Hear the others from now on, and have those answer that know more. Raise an error of NATS' client."""
        await self._nats.subscribe(f"{self._subject}.*", self._told)
        self.tell()

    def tell(self) -> None:
        """Tell the others the whole list: somebody may not know it."""
        self._nats.publish(f"{self._subject}.{self._name}", format_issued(self._known).encode())

    def changed(self, tokens: Tokens) -> None:
        """Take the tokens of the home, which have changed, and tell the others what is new."""
        self._own = tokens
        is_new = self._join(tokens.issued)
        self.use(self.tokens)
        if is_new:
            self.tell()

    def _told(self, name: str, value: bytes) -> None:
        """Take the list of another broker, and tell it what it lacks."""
        if name == self._name:
            return
        try:
            told = parse_issued(value)
        except ValueError as error:
            logger.warning("the broker %s is not understood: %s", printable(name), printable(str(error)))
            return
        if self._join(told):
            logger.info("other brokers have issued or revoked tokens")
            self.use(self.tokens)
            self._is_due.set()
        if told != self._known:
            self.tell()

    def _join(self, others: IssuedTokens) -> bool:
        """Join a list into the known one, and tell whether that is another one now."""
        before, self._known = self._known, self._known.joined(others)
        return self._known != before

    async def run(self) -> None:
        """Have the home keep what the others tell, until it is cancelled."""
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await asyncio.to_thread(self._keep, self._known)
            except DbgError as error:
                logger.error("the tokens of the other brokers can't be kept: %s", printable(str(error)))
