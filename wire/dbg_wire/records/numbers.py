"""The numbers of a training job: the question that makes ranks watch them, and the first wrong number of a rank.

``step`` counts the steps of an optimizer, from 1. If the optimizer's own count can be read without a wait for a device,
it is used, so that the count goes on after a restart from a checkpoint.
"""

import enum
import sys
from typing import Annotated

from dbg_wire.errors import printable
from dbg_wire.records.record import Count, FreeText, Inquiry, Path, RankNumber, Record, Row, Texts, elements, reals
from dbg_wire.records.stop_points import StopAt, parse_stop_at

MAX_NORMS = 200
"""Maximum number of steps in a chart: one for three points of its width."""

MAX_DIMENSIONS = 64
"""Maximum number of dimensions of a tensor in torch."""

AnyFloat = Annotated[float, reals(-sys.float_info.max, sys.float_info.max)]

MAX_NAME = 120
"""Maximum number of characters of a module's name in a sentence."""


class Suspect(str, enum.Enum):
    """Kind of a watched tensor."""

    OUTPUT = "output"
    """An output of a module."""
    OUTPUT_GRADIENT = "output gradient"
    """The gradient of an output of a module, in the backward pass."""
    GRADIENT = "gradient"
    """The gradient of a parameter."""
    PARAMETER = "parameter"
    """A parameter: after the optimizer's step, or before it in a comparison of ranks."""
    STATE = "optimizer state"
    """A tensor in the state of an optimizer."""
    BUFFER = "buffer"
    """A buffer of a module."""
    VALUE = "value"
    """A value of an expression that a user has typed."""


class Origin(str, enum.Enum):
    """Source of a wrong number, as far as one rank knows it."""

    COMPUTED = "computed"
    """The rank has computed it: the inputs, and the weights of the module, are finite."""
    BATCH = "batch"
    """An input of the model has a wrong number already."""
    CALLER = "caller"
    """An input of the module has it already, but no output of a module before: code between the modules made it, or a
    collective in this code."""
    CHANGED = "changed"
    """The gradients of outputs are finite in all ranks: its own backward, a reduction or later code has made it."""
    WEIGHT = "weight"
    """A weight of the module has it already."""
    RECEIVED = "received"
    """The rank's gradients of outputs are finite, and the reduced gradient is not: a rank that is stopped sent it."""
    OTHER_RUN = "other run"
    """The numbers are finite, and differ from those of the run that the watch compares with."""
    LINE = "line"
    """An expression has it at a line that the user has named."""
    UNKNOWN = "unknown"
    """The inputs are gone. A cheap watch on a device learns of the number at the end of the step."""
    DIFFERS = "differs"
    """Replicas in other ranks have other numbers."""


_ORIGINS = {
    Origin.COMPUTED: "its inputs and weights are finite, so it was computed here",
    Origin.BATCH: "an input of the model has it already, so it came with the batch",
    Origin.CALLER: "its input has it already, from code or a collective between the modules",
    Origin.WEIGHT: "its parameter `{weight}` has it already",
    Origin.CHANGED: "all ranks' output gradients are finite, so its own backward, the reduction or later code made it",
    Origin.RECEIVED: "this rank's gradients of outputs are finite, so rank {others} sent it in the reduction",
    Origin.LINE: "an earlier line computed it, or it came with the data",
    Origin.UNKNOWN: "seen at the end of the step; --exact stops at the module",
}

_WHERE_COMPUTED = {
    Suspect.OUTPUT_GRADIENT: "later gradients are finite, so the backward of the code after this module computed it",
    Suspect.GRADIENT: "the module's output gradient is finite, so its own backward or later code computed it",
    Suspect.PARAMETER: "its gradient is finite, so the optimizer's step computed it",
}

_WHERE_DIFFERENT = {
    Suspect.GRADIENT: "it differed after backward, before any parameter",
    Suspect.PARAMETER: "no gradient differed before, so a write, the optimizer or the initialization made it different",
}

_SUBJECTS = {
    Suspect.OUTPUT: "the output of `{}`",
    Suspect.OUTPUT_GRADIENT: "the gradient of the output of `{}`",
    Suspect.GRADIENT: "the gradient of `{}`",
    Suspect.PARAMETER: "the parameter `{}`",
    Suspect.STATE: "the optimizer state `{}`",
    Suspect.BUFFER: "the buffer `{}`",
    Suspect.VALUE: "the value of `{}`",
}


class NumbersQuestion(Inquiry, tag="numbers"):
    """Parameters of ``numbers``: the watches to start, or ``ends`` to end all of them. Without any, it only reads.

    With ``nan`` a rank stops at its first number that is not finite. ``exact`` waits for the device at each module, so
    that the rank stops there. Modules and parameters whose names match one of ``exclude`` are not watched.

    With ``different`` a rank stops at its first number that differs from the replicas in other ranks. They are compared
    at every step whose number is a multiple of ``every``. ``expression`` has values that must agree in all ranks; with
    ``nan`` alone it is a place, and an expression whose values are watched there: ``train.py:38, loss``.

    ``record`` is a directory. Each rank records its numbers there: those of the last ``last`` steps, or of all. With
    ``reference``, the directory of another run, a rank stops at its first difference from this run: by more than
    rounding, or with ``exact`` by a single bit.
    """

    nan: bool = False
    exact: bool = False
    exclude: Texts = ()
    different: bool = False
    every: Count = 1
    expression: FreeText = ""
    record: Path = ""
    last: Count = 0
    reference: Path = ""
    ends: bool = False

    @property
    def at_line(self) -> StopAt | None:
        """The line with the expression that is watched there, if there is one. Raises BadInput for another text."""
        return parse_stop_at(self.expression) if self.expression and self.nan and not self.different else None

    @property
    def is_watch(self) -> bool:
        """Whether the question starts a watch."""
        return self.nan or self.different or bool(self.record or self.reference)


class WrongNumber(Row, tag="wrong number"):
    """First wrong number of a rank: its tensor, its step, and its source.

    ``name`` is the name of the module or parameter. ``nans`` and ``infinities`` of ``size`` elements are wrong, the
    first one at the index ``first``. ``weight`` is the name of the wrong weight, if the source is a weight. ``others``
    is the set of ranks that sent it, or whose replicas differ; these were equal until the step ``equal_until``, never
    if it is 0. In another run, the number ``measure`` of the tensor was ``before``, and now it is ``after``.
    """

    step: Count
    suspect: Suspect
    name: FreeText
    origin: Origin
    nans: Count = 0
    infinities: Count = 0
    size: Count = 0
    first: Annotated[tuple[Count, ...], elements(MAX_DIMENSIONS)] = ()
    weight: FreeText = ""
    others: FreeText = ""
    equal_until: Count = 0
    measure: FreeText = ""
    before: AnyFloat = 0.0
    after: AnyFloat = 0.0

    @property
    def text(self) -> str:
        """Sentence with the step, the tensor, its wrong elements, and their source."""
        name = printable(self.name or "the model", MAX_NAME)
        subject = f"step {self.step}: {_SUBJECTS[self.suspect].format(name)}"
        if self.origin is Origin.OTHER_RUN:
            both = f"{self.before:.9g} in the first run, {self.after:.9g} in the second"
            return f"{subject} differs: {printable(self.measure)} {both}"
        if self.origin is Origin.DIFFERS:
            return f"{subject} differs from {self._from_replicas}"
        wrong = " and ".join(
            f"{count:,} {word}" for count, word in ((self.nans, "NaN"), (self.infinities, "inf")) if count
        )
        source = _ORIGINS[self.origin].format(weight=printable(self.weight, MAX_NAME), others=printable(self.others))
        if self.origin is Origin.COMPUTED:
            source = _WHERE_COMPUTED.get(self.suspect, source)
        counted = "is NaN" if self.nans else "is not finite"
        if self.first:
            counted = f"has {wrong} of {self.size:,} (first at {list(self.first)})"
        return f"{subject} {counted}; {source}"

    @property
    def _from_replicas(self) -> str:
        """The ranks with other replicas, the last step with equal ones, and the cause."""
        ranks = f"rank{'s' if set(self.others) & set('-,') else ''} {printable(self.others, MAX_NAME)}"
        equal = f"equal until step {self.equal_until}" if self.equal_until else "never equal since the watch began"
        return "; ".join(filter(None, (ranks, equal, _WHERE_DIFFERENT.get(self.suspect))))


class GradientNorm(Record):
    """Norm of all gradients of one rank at a step, after their reduction."""

    step: Count
    norm: AnyFloat


class NumbersState(Row, tag="numbers state"):
    """State of a rank's watches: the current ``step``, and the number of looks at a tensor or a step since the start.

    ``compiled`` counts the compiled regions, of which only the outputs are watched. ``norms`` are those of the most
    recent steps.
    """

    is_on: bool
    step: Count = 0
    checked: Count = 0
    compiled: Count = 0
    norms: Annotated[tuple[GradientNorm, ...], elements(MAX_NORMS)] = ()


class ReplicaGroup(Record):
    """Ranks that hold replicas, and their number.

    With ``assumed`` nothing says that they do: they do if the first parameters are equal.
    """

    ranks: FreeText
    size: RankNumber
    assumed: bool = False


class ReplicaDigest(Record):
    """Checksum of the digests of all tensors of one kind of which a group holds replicas, as one step used them.

    ``tensors`` is a checksum of the tensors' names; other tensors are not compared.
    """

    step: Count
    kind: Suspect
    group: ReplicaGroup
    tensors: Count
    digest: Count


NumbersRecord = NumbersState | WrongNumber
