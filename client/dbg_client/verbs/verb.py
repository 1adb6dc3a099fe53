"""The base of all verbs, the options that they share, what a verb is given when it asks, and what it answers."""

from __future__ import annotations

import enum
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol

from dbg_client.core.choose import call_roll, there
from dbg_client.core.errors import why_not_stopped
from dbg_client.verbs.option import LONGEST_WAIT, Heading, Operands, Option, Preferred, read_seconds
from dbg_client.verbs.preferences import DEFAULT_TIMEOUT, PAGER
from dbg_client.views.groups import AnswerGroup, RankAndAnswer, differ, groups_document, remembered, show_groups
from dbg_client.views.naming import NOBODY_MISSING, MissingInAnswer, Naming, missing_in_answer
from dbg_command.command_line import read_duration
from dbg_command.targets import Target
from dbg_wire import limits
from dbg_wire.errors import BadInput, Remedy
from dbg_wire.messages import Kind, Welcome
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.record import Record

if TYPE_CHECKING:
    from dbg_client.core.asking import Asker
    from dbg_client.core.patience import Show
    from dbg_wire.records.ranks import RankInfo


class Format(enum.Enum):
    """How data is written to stdout."""

    TABLE = "table"
    JSON = "--json"


def use_color(refused: str) -> bool:
    """Whether answers on stdout have colours; ``refused`` is the value of NO_COLOR."""
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return is_terminal and not refused


Color = Annotated[bool, Preferred("NO_COLOR", use_color, usual="")]

Pager = Annotated[str, Preferred("PAGER", empty_counts=True)]


class BrokerOptions(Record):
    """Where the broker is, if not where the environment says, and how many seconds we wait for it and its answers."""

    timeout: Annotated[
        float,
        Option(
            "--timeout",
            metavar="S",
            in_session=True,
            help=f"seconds to wait for broker and answers (default {DEFAULT_TIMEOUT:g})",
            read=partial(read_seconds, name="--timeout", most=limits.MAX_ASK_SECONDS),
        ),
    ] = DEFAULT_TIMEOUT
    address: Annotated[
        str | None,
        Option("--broker", metavar="ADDRESS", help="host:port or URL of the broker (or DBG_BROKER)"),
    ] = None


class OutputOptions(Record):
    """How answers are written; ``pager`` is the command for long ones, empty for none."""

    format: Annotated[Format, Option("--json", const=Format.JSON, help="one JSON document on stdout")] = Format.TABLE
    color: Color = False
    pager: Annotated[Pager, Option("--no-pager", const="", help="print long answers as they are")] = PAGER


class Verb(Record):
    """What one command line does. A subclass adds its options as fields.

    ``example`` is typed after ``dbg-attach``, ``short`` instead of the name. ``operands`` are those of a shell and
    ``in_session`` those in a session, None where the verb can't be used.
    """

    name: ClassVar[str]
    short: ClassVar[str | None] = None
    example: ClassVar[str]
    operands: ClassVar[Operands]
    in_session: ClassVar[Operands | None] = None
    help_in_session: ClassVar[str] = ""
    takes_one: ClassVar[bool] = False
    """Whether the target has to be one rank."""

    broker: BrokerOptions = BrokerOptions()
    yes: Annotated[bool, Option("-y", "--yes", in_session=True, help="don't ask")] = False
    verbose: Annotated[bool, Option("-v", "--verbose", help="show where an error came from")] = False

    def check(self) -> None:
        """Raise BadInput for options that contradict each other."""

    def check_in_session(self) -> None:
        """Raise BadInput for options that a session does not take."""

    def run(self) -> int:
        """Do it, and return the exit status. Raises DbgError. A verb on ranks is asked instead."""
        raise NotImplementedError

    @classmethod
    def usage(cls) -> str:
        """Return the verb with its operands."""
        return f"{cls.name} {cls.operands.value}".rstrip()


def refuse(is_wrong: bool, what: str, remedy: str = "give one of them") -> None:
    """Raise BadInput if options contradict each other."""
    if is_wrong:
        raise BadInput(what, remedy)


class RanksVerb(Verb):
    """A question or a command for any number of ranks.

    ``usual`` are the ranks if the user names none, None where a target is needed. ``is_about_this_rank`` says that a
    session means its own rank then. ``without_target`` says that a shell needs no target. ``for_agents`` is the
    description that a coding agent reads, empty where the verb is no tool.
    """

    usual: ClassVar[str | None] = None
    without_target: ClassVar[bool] = False
    is_about_this_rank: ClassVar[bool] = False
    for_agents: ClassVar[str] = ""
    any_job: ClassVar[bool] = False
    """Whether a target may mean ranks of several jobs without naming them, and no rank is an answer."""
    is_stoppable: ClassVar[bool] = False
    """Whether Ctrl-C withdraws the question and the ranks end what they have begun."""

    target: str | None = None
    output: OutputOptions = OutputOptions()

    @property
    def patience(self) -> float | None:
        """Seconds to wait for a stop first, infinity for no limit, None for no wait."""
        return None

    @property
    def with_exited(self) -> bool:
        """Whether ranks that have exited are among those that are asked."""
        return False

    def begin(self) -> int | None:
        """Do what needs no broker; return the exit status if that is all, else None. Blocks. Raises DbgError."""
        return None

    def may_change(self) -> bool:
        """Whether a program may move, end or compute because of this."""
        return False

    def consent(self, ranks: Sequence[RankInfo]) -> tuple[str, Sequence[RankInfo]]:
        """Return how the question begins that the user has to agree to, and the ranks that it names; empty for none."""
        return "", ()

    async def ask(self, asking: Asking) -> Answer:
        """Ask the ranks, and return their answers. Raises DbgError if the broker fails."""
        raise NotImplementedError


Bound = Annotated[
    float | None,
    Option(
        "--for",
        heading=Heading.ATTACH,
        metavar="S",
        help="wait at most S seconds, as in 60, 60s, 5m or 1h",
        read=partial(read_duration, name="--for", most=LONGEST_WAIT),
    ),
]
"""The seconds of a wait."""


class WaitingVerb(RanksVerb):
    """A verb that can wait until one of its ranks stops."""

    wait: Annotated[bool, Option("--wait", heading=Heading.ASKING, help="first wait until one of the ranks stops")] = (
        False
    )
    bound: Bound = None

    @property
    def patience(self) -> float | None:
        return (self.bound or math.inf) if self.wait else None

    def check(self) -> None:
        refuse(
            self.bound is not None and not self.wait,
            "--for bounds a wait, and there is none",
            "add --wait, or leave --for out",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Ask ``ranks``, which ``target`` means, of all ``known`` ones; ``show`` takes what an answer waits for.

    ``url`` and ``welcome`` are the broker's, for an empty list and a report.
    """

    asker: Asker
    ranks: Sequence[RankInfo]
    known: Sequence[RankInfo]
    target: Target | None = None
    show: Show
    url: str = ""
    welcome: Welcome | None = None

    def missing(self) -> MissingInAnswer:
        """Return the ranks that should be among those who are asked, and have exited or never connected."""
        calls = call_roll(self.known, self.target, {rank.key for rank in self.ranks})
        return missing_in_answer(calls, time.time(), several_jobs=len({rank.job for rank in self.ranks}) > 1)

    def require_living(self) -> None:
        """Raise the DbgError that says how they ended if all of these ranks have exited."""
        if all(rank.state is RankState.EXITED for rank in self.ranks):
            raise why_not_stopped(self.ranks[0], self.target.text if self.target is not None else "")

    def everybody(self) -> list[RankInfo]:
        """Return all ranks that have not exited."""
        return there(self.known)


PARTIAL = 6
"""Exit status when some ranks did not answer."""

DIFFER = 1
"""Exit status of ``--fail-if-differ``; to `git bisect run` it is a bad commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a text is written: ``columns`` are those of the terminal, None for lines of any length.

    ``word`` says a remedy as the users of one interface know it, None as a command of the shell.
    """

    color: bool = False
    columns: int | None = None
    word: Callable[[Remedy], str] | None = None


PLAIN = Style()


class Answer(Protocol):
    """What a verb has found out."""

    @property
    def status(self) -> int:
        """The exit status of a command that prints this."""

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """The keys of the ranks of each group, by names that are targets afterwards, such as ``@1``."""

    @property
    def hint(self) -> str:
        """A sentence on why there is no more; empty for none."""

    def text(self, style: Style = PLAIN) -> str:
        """Return the answer as lines."""

    def document(self) -> object:
        """Return the answer as the JSON document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedAnswer:
    """Answers of ranks of which equal ones are one group; ``missing`` says which ranks were not asked.

    ``fails_if_different`` makes differing values a failure.
    """

    command: str
    answers: tuple[RankAndAnswer, ...]
    grouped: tuple[AnswerGroup, ...]
    naming: Naming
    missing: MissingInAnswer = NOBODY_MISSING
    hint: str = ""
    fails_if_different: bool = False
    errors_fail: bool = False

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        return remembered(self.grouped)

    @property
    def status(self) -> int:
        if self.fails_if_different:
            if differ(self.grouped):
                return DIFFER
            # Ranks that run have not been compared, and a script must not take them for equal.
            if any(answer.kind is Kind.RUNNING for _, answer in self.answers):
                return PARTIAL
        if left_unanswered(self.answers):
            return PARTIAL
        has_failed = self.errors_fail and any(answer.kind is Kind.ERROR for _, answer in self.answers)
        return 1 if has_failed or self.hint else 0

    def text(self, style: Style = PLAIN) -> str:
        return show_groups(self.command, self.grouped, self.naming, color=style.color, missing=self.missing)

    def document(self) -> dict[str, object]:
        return groups_document(self.command, self.grouped, self.naming, self.missing)


def left_unanswered(answers: Sequence[RankAndAnswer]) -> bool:
    """Whether a rank that could have answered did not; an exited rank can't."""
    return any(
        answer.kind is Kind.SILENT or (answer.kind is Kind.LOST and rank.state is not RankState.EXITED)
        for rank, answer in answers
    )
