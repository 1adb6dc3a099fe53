"""Watch for replicas that differ between ranks: digests of gradients, parameters, optimizer state and buffers.

A rank sends one digest for all tensors of the same kind and the same ranks, and the broker compares them. The rank
keeps the digest of each tensor for some steps, so that the first tensor that differs can be named.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from dbg_agent.frames.stacks import frames_of, users_frame
from dbg_agent.link.outgoing import ToBroker
from dbg_agent.numbers.digests import digest_of
from dbg_agent.numbers.hooks import Found, Observer, TrainingHooks
from dbg_agent.numbers.late_values import LateValues, Measured
from dbg_agent.numbers.replica_groups import replicas_of, world
from dbg_agent.numbers.tensors import floats_of
from dbg_agent.values.describe import describe
from dbg_wire.errors import error_line, printable
from dbg_wire.limits import MAX_ITEMS
from dbg_wire.messages import Differs, Digests
from dbg_wire.records.numbers import MAX_NAME, NumbersQuestion, ReplicaDigest, ReplicaGroup, Suspect
from dbg_wire.records.record import clamp

SEND_SECONDS = 0.2
"""Time in seconds for which digests are collected into one message. A rank then sends at most five a second."""

KEPT_DIGESTS = 100_000
"""Maximum number of digests of tensors that are kept, about 20 MB: 5 steps of a model with 4,000 parameters and Adam. A
step is compared while the next one or two run."""

STATE_EVERY = 4
"""Optimizer state is half of all replicas, and is compared at each fourth compared step."""

EVAL_SECONDS = 1.0
"""Maximum time in seconds to read the values of an expression at a step."""

_Place = tuple[int, Suspect, ReplicaGroup]
"""Step, kind and ranks of tensors that are compared together."""


@dataclass(eq=False)
class Replicas(Observer):
    """Observer that makes digests of all tensors with replicas in other ranks, and sends them to the broker."""

    sees_tensors = False

    question: NumbersQuestion
    hooks: TrainingHooks
    broker: ToBroker
    is_connected: Callable[[], bool]

    def __post_init__(self) -> None:
        self._late = LateValues()
        self._kept: deque[tuple[_Place, str, int]] = deque(maxlen=KEPT_DIGESTS)
        """Names and digests of tensors, the oldest one first."""
        self._rows: deque[ReplicaDigest] = deque(maxlen=MAX_ITEMS)
        self._next_send = 0.0
        self._found: Found | None = None

    # ---------------------------------------------------------------------------------------- in the program's threads

    def before_step(self, optimizer: Any) -> Found | None:
        """Make digests of the replicas as this step used them. Return a difference that the broker found.

        A rank that stops here has taken part in all collectives of the backward pass, so that no other rank waits.
        It makes no digests, so that it stops while the others still make theirs.
        """
        step, names, everyone = self.hooks.step, self.hooks.names, world()
        is_due = step % max(1, self.question.every) == 0 and self._found is None
        if everyone is not None and is_due and names.roots():
            has_state = step % (STATE_EVERY * self.question.every) == 0
            for kind, group, name, tensor in replicas_of(optimizer, names, everyone, has_state=has_state):
                if group is not None and not any(fnmatchcase(name, pattern) for pattern in self.question.exclude):
                    floats = None if tensor is None else floats_of(tensor)
                    digest = sys.modules["torch"].tensor(0) if floats is None else digest_of(floats)
                    self._late.add(((step, kind, group), name), digest)
            if self.question.expression:
                self._add_values((step, Suspect.VALUE, everyone))
        return self._found

    def after_step(self, optimizer: Any) -> Found | None:
        """Send the digests that have arrived on the host."""
        for _, rows in self._late.read(self.hooks.step):
            self._keep(rows)
        # Without a connection the digests wait for a later step.
        if self._rows and time.monotonic() >= self._next_send and self.is_connected():
            self._next_send = time.monotonic() + SEND_SECONDS
            self.broker.send(clamp(Digests, rows=tuple(self._rows)))
            self._rows.clear()
        return None

    def _add_values(self, place: _Place) -> None:
        try:
            if (at := users_frame(frames_of(sys._getframe()))) is not None:
                values = eval(self.question.expression, at[0].f_globals, at[0].f_locals)  # noqa: S307 - the user's expression
                described = describe(values, seconds=EVAL_SECONDS)
                # A value that can't be compared has no digest, and its text has the reason.
                digest = sys.modules["torch"].tensor(int(described.digest[:15] or described.text, 16))
                self._late.add((place, self.question.expression), digest)
        except Exception as error:
            self.broker.warn(f"--eval {self.question.expression!r} is not compared any more: {error_line(error)}")
            self.question = self.question.replace(expression="")

    def _keep(self, rows: list[Measured]) -> None:
        """Keep the digests that have arrived, and combine those of the same kind and ranks."""
        sets: defaultdict[_Place, dict[str, int]] = defaultdict(dict)
        for (place, name), (digest,) in rows:
            sets[place][name] = digest
            self._kept.append((place, name, digest))
        for (step, kind, group), digests in sets.items():
            tensors, digest = _checksum(digests), _checksum(map(str, digests.values()))
            self._rows.append(clamp(ReplicaDigest, step=step, kind=kind, group=group, tensors=tensors, digest=digest))
        self.hooks.checked += len(rows)

    # ------------------------------------------------------------------------------------------- in the link's thread

    def on_differs(self, message: Differs) -> None:
        """Return the digest of each tensor to the broker, or stop this rank at its next step because of its tensor.

        The name of the tensor is empty if a rank does not keep the digests any more.
        """
        place = message.wrong.step, message.wrong.suspect, message.group
        kept = [(name, str(digest)) for at, name, digest in tuple(self._kept) if at == place][-MAX_ITEMS:]
        if message.odd != self.broker.number:
            self.broker.send(message.replace(each=tuple(digest for _, digest in kept)))
            return
        # A rank that does not keep all of them any more keeps the last ones.
        pairs = zip(kept[-len(message.each) :], message.each[-len(kept) :], strict=False)
        name = next((name for (name, own), other in pairs if own != other), "")
        self._found = self._found or Found(message.wrong.replace(name=printable(name, MAX_NAME)), {})


def _checksum(texts: Iterable[str]) -> int:
    return zlib.crc32("\n".join(texts).encode())
