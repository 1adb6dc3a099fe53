"""Messages to many ranks about what changed for them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from dbg_wire.messages import Chosen, Kept


class Broadcast(NamedTuple):
    """A message and the keys of the ranks that are to get it.

    A message with a ``name`` says everything, and replaces an earlier one of this name that waits to be sent. A message
    without a name says what changed, and is of use only to a rank that has been told everything before.
    """

    message: Chosen | Kept
    keys: tuple[str, ...]
    name: Hashable


PAUSE = Broadcast(Kept(ranks=()), (), None)
"""A message for nobody: others may have a turn meanwhile."""
