"""Digest of a tensor's bytes: exact, equal on all devices, and sensitive to the order of the elements."""

from __future__ import annotations

import sys
from typing import Any

WORDS = 1024
"""Number of 64-bit words in a row. The sums of rows and columns are short, and torch computes both without a copy."""

ROW = 8 * WORDS
"""Size of a row, in bytes."""

_GOLDEN, _MIX, _MIX_2 = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
"""Constants of the generator splitmix64, as signed numbers."""

_weights: dict[Any, Any] = {}
"""The weights on each device, as many as the largest tensor has needed so far."""


def digest_of(tensor: Any) -> Any:
    """Return the digest of a tensor's bytes as a 64-bit integer of 0 dimensions on its device; 0 for an empty tensor.

    The words are added in rows and in columns, modulo 2**64. Each sum is mixed and multiplied by the weight of its
    position, so that a swap of elements or of rows changes the digest. It does not wait for the device.
    """
    torch: Any = sys.modules["torch"]
    data = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    if data.storage_offset() * data.itemsize % 8:
        # Only aligned bytes can be read as words. Parts of a flat buffer may begin anywhere.
        data = data.clone()
    octets = data.view(torch.uint8)
    whole = octets.numel() // ROW * ROW
    rows = octets[:whole].view(torch.int64).view(whole // ROW, WORDS)
    tail = torch.nn.functional.pad(octets[whole:], (0, whole + ROW - octets.numel())).view(torch.int64)
    # The rows come first: their sums read the memory in order, and the sums of columns then read the cache.
    sums = torch.cat([rows.sum(1), rows.sum(0) + tail, tail.sum().reshape(1)])
    # A float's low bits are often 0. The shift makes them depend on the high bits, which a product alone would lose.
    return ((sums ^ (sums >> 32)) * _weights_of(sums)).sum()


def _weights_of(sums: Any) -> Any:
    """Return an odd weight for each of the sums."""
    weights = _weights.get(sums.device)
    if weights is None or weights.numel() < sums.numel():
        torch: Any = sys.modules["torch"]
        weights = torch.arange(1, 2 * sums.numel(), device=sums.device) * _GOLDEN
        weights = (weights ^ (weights >> 30)) * _MIX
        weights = (weights ^ (weights >> 27)) * _MIX_2 | 1
        _weights[sums.device] = weights
    return weights[: sums.numel()]
