"""Watch for replicas that differ between ranks: digests of gradients, parameters, optimizer state and buffers.

A rank sends one digest for all tensors of the same kind and the same ranks, and the broker compares them. The rank
keeps the digest of each tensor for some steps, so that the first tensor that differs can be named.
"""

from __future__ import annotations

import sys
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from dbg_agent.frames.stacks import frames_of, users_frame
from dbg_agent.numbers.digests import digest_of
from dbg_agent.numbers.hooks import Found, Observer, TrainingHooks
from dbg_agent.numbers.late_values import LateValues, Measured
from dbg_agent.numbers.replica_groups import Group, KnownReplicas, Replica, group_of, world
from dbg_agent.numbers.tensors import floats_of
from dbg_agent.values.describe import describe
from dbg_wire.errors import error_line
from dbg_wire.limits import MAX_ITEMS
from dbg_wire.messages import Differs, Digests
from dbg_wire.records.numbers import NumbersQuestion, Origin, ReplicaDigest, Suspect, WrongNumber
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_agent.link.outgoing import ToBroker

SEND_SECONDS = 0.2
"""Time in seconds for which digests are collected into one message. A rank then sends at most five a second."""

KEPT_DIGESTS = 100_000
"""Maximum number of digests of tensors that are kept, about 6 MB: 5 steps of a model with 4,000 parameters and Adam. A
step is compared while the next one or two run."""

EVAL_SECONDS = 1.0
"""Maximum time in seconds to read the values of an expression at a step."""

_FACTOR = 0x9E3779B97F4A7C15
"""An odd number of 64 bits; it makes the combined digest depend on the order."""

_BITS = 2**64 - 1

_Place = tuple[int, Suspect, Group]
"""Step, kind and ranks of tensors that are compared together."""

_Tensors = Iterable[tuple[Suspect, Group | None, str, Any]]
"""Tensors with their kinds, the ranks that hold replicas, and their names."""


class Replicas(Observer):
    """Observer that makes digests of all tensors with replicas in other ranks, and sends them to the broker."""

    sees_tensors = False

    def __init__(
        self, question: NumbersQuestion, hooks: TrainingHooks, broker: ToBroker, is_connected: Callable[[], bool]
    ) -> None:
        self._every = max(1, question.every)
        self._exclude = question.exclude
        self._expression = question.expression
        self._hooks = hooks
        self._broker = broker
        self._is_connected = is_connected
        self._known = KnownReplicas(hooks.names)
        self._late = LateValues()
        self._looks = False
        """Whether this step is compared."""
        self._kept: dict[ReplicaDigest, dict[str, int]] = {}
        """The digest of each tensor in a set; the key has no digest."""
        self._count = 0
        self._rows: deque[ReplicaDigest] = deque(maxlen=MAX_ITEMS)
        self._will_send = False
        self._begins = True
        self._found: Found | None = None

    # ---------------------------------------------------------------------------------------- in the program's threads

    def before_step(self, optimizer: Any) -> Found | None:
        """Make digests of the reduced gradients and of the user's values. Return a difference that the broker found.

        A rank that stops here has taken part in all collectives of the backward pass, so that no other rank waits.
        """
        step = self._hooks.step
        self._looks = self._found is None and step % self._every == 0 and bool(self._hooks.names.roots())
        if self._looks:
            replicas, are_new = self._known.of(optimizer)
            if are_new:
                # The first parameters show whether the assumed replicas are replicas.
                self._add(step - 1, map(_parameter, replicas))
            for one in replicas:
                gradient = one.parameter.grad
                self._add(step, ((Suspect.GRADIENT, one.group_of(gradient), one.name, gradient),))
            if self._expression:
                self._add_values(step)
        return self._found

    def after_step(self, optimizer: Any) -> Found | None:
        """Make digests of parameters, optimizer state and buffers, and send those that have arrived on the host."""
        if self._looks:
            self._add(self._hooks.step, self._changed_by(optimizer))
        for _, rows in self._late.read(self._hooks.step):
            self._keep(rows)
        return self._found

    def _add(self, step: int, tensors: _Tensors) -> None:
        """Add the digests of tensors, which are 0 for a tensor without elements and for None."""
        for kind, group, name, tensor in tensors:
            if group is not None and not any(fnmatchcase(name, pattern) for pattern in self._exclude):
                floats = None if tensor is None else floats_of(tensor)
                digest = sys.modules["torch"].tensor(0) if floats is None else digest_of(floats)
                self._late.add(((step, kind, group), name), digest)

    def _changed_by(self, optimizer: Any) -> _Tensors:
        """Yield optimizer state and parameters after the optimizer's step, and all buffers."""
        for one in self._known.of(optimizer)[0]:
            for key, value in optimizer.state.get(one.parameter, {}).items():
                is_count = isinstance(value, sys.modules["torch"].Tensor) and value.dim() == 0 and value.is_cpu
                group = one.group_of(value)
                if group and not group.is_assumed and (is_count or getattr(value, "shape", 0) == one.parameter.shape):
                    yield Suspect.STATE, group, f"{one.name}.{key}", value
            yield _parameter(one)
        for name, buffer in self._hooks.names.buffers():
            # The running statistics of a norm describe a rank's own batches.
            if buffer.is_floating_point() and not name.rpartition(".")[2].startswith("running_"):
                yield Suspect.BUFFER, group_of(buffer, world(is_assumed=True)), name, buffer

    def _add_values(self, step: int) -> None:
        group, at = world(), users_frame(frames_of(sys._getframe()))
        if group is None or at is None:
            return
        try:
            values = eval(self._expression, at[0].f_globals, at[0].f_locals)  # noqa: S307 - the user's own expression
            described = describe(values, seconds=EVAL_SECONDS)
            # A value that can't be compared has no digest, and its text has the reason.
            digest = sys.modules["torch"].tensor(int(described.digest[:15] or described.text, 16))
            self._late.add(((step, Suspect.VALUE, group), self._expression), digest)
        except Exception as error:
            self._broker.warn(f"--eval {self._expression!r} is not compared any more: {error_line(error)}")
            self._expression = ""

    def _keep(self, rows: list[Measured]) -> None:
        """Keep the digests that have arrived, and send them together with those of later steps."""
        if not rows:
            return
        sets: defaultdict[_Place, dict[str, int]] = defaultdict(dict)
        for (place, name), (digest,) in rows:
            sets[place][name] = digest & _BITS
        for (step, kind, (ranks, size, assumed)), digests in sets.items():
            names, combined = zlib.crc32("\n".join(digests).encode()), 0
            for digest in digests.values():
                combined = (combined * _FACTOR + digest) & _BITS
            key = clamp(
                ReplicaDigest, step=step, kind=kind, group=ranks, size=size, tensors=names, digest="", assumed=assumed
            )
            self._count += len(digests) - len(self._kept.pop(key, ()))
            self._kept[key] = digests
            self._rows.append(key.replace(digest=f"{combined:x}"))
        self._hooks.checked += len(rows)
        while self._count > KEPT_DIGESTS:
            self._count -= len(self._kept.pop(next(iter(self._kept))))
        if not self._will_send:
            self._will_send = True
            self._broker.call_later(SEND_SECONDS, self._send)

    # ------------------------------------------------------------------------------------------- in the link's thread

    def _send(self) -> None:
        self._will_send = False
        # Without a connection the digests wait, and the next step sends them.
        if self._is_connected():
            rows = tuple(self._rows.popleft() for _ in range(len(self._rows)))
            self._broker.send(clamp(Digests, rows=rows, begins=self._begins))
            self._begins = False

    def on_differs(self, message: Differs) -> None:
        """Return the digest of each tensor to the broker, or stop this rank at its next step because of its tensor.

        The name of the tensor is empty if a rank does not keep the digests any more.
        """
        kept = self._kept.get(message.digest.replace(digest=""), {})
        digests = {name: f"{digest:x}" for name, digest in kept.items()}
        if message.odd != self._broker.number:
            self._broker.send(message.replace(each=tuple(digests.values())[:MAX_ITEMS]))
            return
        pairs = zip(digests.items(), message.each, strict=False)
        wrong = clamp(
            WrongNumber,
            step=message.digest.step,
            suspect=message.digest.kind,
            name=next((name for (name, own), other in pairs if own != other), ""),
            origin=Origin.DIFFERS,
            others=message.others,
            equal_until=message.equal_until,
        )
        self._found = Found(wrong, {})


def _parameter(one: Replica) -> tuple[Suspect, Group | None, str, Any]:
    return Suspect.PARAMETER, one.group_of(one.parameter), one.name, one.parameter
