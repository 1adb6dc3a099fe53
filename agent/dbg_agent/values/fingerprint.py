"""Digests of a value: an exact one, and one that is the same for equal values of two processes."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

_ADDRESS = re.compile(r"(?<= at )0x[0-9a-fA-F]{6,}(?=(?:[;:, ][^\n>]{0,300})?>)")
"""A memory address as reprs show it: ``<Model object at 0x7f0000000010>``. Other hexadecimal numbers are values."""

DIGEST_BYTES = 16
"""Bytes of a digest: enough that two different values never have the same digest by chance, in a job of any size."""

PIECE = 1 << 20
"""Characters of a text that are encoded at once, so that no second copy of a large text is made."""


class Fingerprint:
    """Two digests of what is fed: an exact one, and one without memory addresses.

    The second digest is computed only from its first difference on, so most values are digested once.
    """

    __slots__ = ("_exact", "_masked")

    def __init__(self) -> None:
        self._exact = blake2b(digest_size=DIGEST_BYTES)
        self._masked: Any = None

    def feed(self, data: bytes) -> None:
        """Add bytes to both digests."""
        self._exact.update(data)
        if self._masked is not None:
            self._masked.update(data)

    def feed_apart(self, exact: bytes, masked: bytes) -> None:
        """Add to each digest its own bytes."""
        if self._masked is None and exact != masked:
            self._masked = self._exact.copy()
        self._exact.update(exact)
        if self._masked is not None:
            self._masked.update(masked)

    def feed_repr(self, kind: str, text: str) -> None:
        """Add a repr as :meth:`feed_text` adds a text, to the second digest without the addresses in it."""
        masked = without_addresses(text)
        if masked != text:
            self.feed_apart(_framed(kind, text), _framed(kind, masked))
        else:
            self.feed_text(kind, text)

    def feed_text(self, kind: str, text: str) -> None:
        """Add a text with its kind and its length, so that no other texts give the same bytes."""
        if len(text) <= PIECE:
            self.feed(_framed(kind, text))
            return
        self.feed(_frame(kind, len(text)))
        for start in range(0, len(text), PIECE):
            self.feed(_encoded(text[start : start + PIECE]))

    def digests(self) -> tuple[bytes, bytes]:
        """Return the exact digest and the digest without addresses."""
        exact = self._exact.digest()
        return exact, exact if self._masked is None else self._masked.digest()


class NoFingerprint(Fingerprint):
    """Takes the place of a fingerprint where only the text of a value is wanted."""

    __slots__ = ()

    def feed(self, data: bytes) -> None:
        """Do nothing."""

    def feed_apart(self, exact: bytes, masked: bytes) -> None:
        """Do nothing."""

    def feed_repr(self, kind: str, text: str) -> None:
        """Do nothing."""

    def feed_text(self, kind: str, text: str) -> None:
        """Do nothing."""


class Unordered:
    """The sum of the fingerprints of items whose order doesn't count.

    Sets have another order in each rank, since each rank hashes strings with its own seed. A sum needs no memory,
    unlike a sorted list, and differs just as reliably unless values are made to collide.
    """

    def __init__(self) -> None:
        self._exact = 0
        self._masked = 0

    def add(self, fingerprint: Fingerprint) -> None:
        """Add one item."""
        exact, masked = fingerprint.digests()
        self._exact += int.from_bytes(exact, "big")
        self._masked += int.from_bytes(masked, "big")

    def sums(self) -> tuple[bytes, bytes]:
        """Return what to feed for all items: the exact sum, and the sum without addresses."""
        return _wrapped(self._exact), _wrapped(self._masked)


def without_addresses(text: str) -> str:
    """Return a text with the memory addresses of reprs taken out, which differ in every process."""
    return _ADDRESS.sub("0x", text) if " at 0x" in text else text


def _wrapped(total: int) -> bytes:
    return (total % (1 << 8 * DIGEST_BYTES)).to_bytes(DIGEST_BYTES, "big")


def _framed(kind: str, text: str) -> bytes:
    return _frame(kind, len(text)) + _encoded(text)


def _frame(kind: str, length: int) -> bytes:
    return f"{kind} {length}:".encode("utf-8", "surrogatepass")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
