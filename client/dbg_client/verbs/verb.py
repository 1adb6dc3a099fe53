"""Base of all verbs: shared options, the input of a verb's question, and its answer."""

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

from dbg_client.core.choose import find_missing_ranks, there
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
    from dbg_client.core.wait_progress import Show
    from dbg_wire.records.ranks import RankInfo


class Format(enum.Enum):
    """Format of data on stdout."""

    TABLE = "table"
    JSON = "--json"


def use_color(refused: str) -> bool:
    """Return True if answers on stdout have colours; ``refused`` is the value of NO_COLOR."""
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return is_terminal and not refused


Color = Annotated[bool, Preferred("NO_COLOR", use_color, usual="")]

Pager = Annotated[str, Preferred("PAGER", empty_counts=True)]


class BrokerOptions(Record):
    """Address of the broker (None: from the environment), and the timeout in seconds for the broker and for answers."""

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
    """Format of answers; ``pager`` is the command for long answers, empty for none."""

    format: Annotated[Format, Option("--json", const=Format.JSON, help="one JSON document on stdout")] = Format.TABLE
    color: Color = False
    pager: Annotated[Pager, Option("--no-pager", const="", help="print long answers without a pager")] = PAGER


class Verb(Record):
    """The action of one command line. A subclass adds its options as fields.

    ``example`` is an example of a command line, without ``dbg-attach``. ``short`` is a short form of the name.
    ``operands`` are the operands in a shell. ``in_session`` are the operands in a session, None if a session does not
    have the verb.
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
    verbose: Annotated[bool, Option("-v", "--verbose", help="show the traceback of an error")] = False

    def check(self) -> None:
        """Raise BadInput for options that contradict each other."""

    def check_in_session(self) -> None:
        """Raise BadInput for options that a session does not take."""

    def run(self) -> int:
        """Run the verb and return the exit status. Raises DbgError. A :class:`RanksVerb` has ``ask`` instead."""
        raise NotImplementedError

    @classmethod
    def usage(cls) -> str:
        """Return the verb with its operands."""
        return f"{cls.name} {cls.operands.value}".rstrip()


def refuse(is_wrong: bool, what: str, remedy: str = "use one of them") -> None:
    """Raise BadInput if options contradict each other."""
    if is_wrong:
        raise BadInput(what, remedy)


class RanksVerb(Verb):
    """A question or a command for any number of ranks.

    ``usual`` is the target if the user names no ranks; it is None if the user must name some. With
    ``is_about_this_rank``, a session uses the rank that it is attached to instead. With ``without_target``, a shell
    needs no target. ``for_agents`` is the description for coding agents, empty if they have no such tool.
    """

    usual: ClassVar[str | None] = None
    without_target: ClassVar[bool] = False
    is_about_this_rank: ClassVar[bool] = False
    for_agents: ClassVar[str] = ""
    any_job: ClassVar[bool] = False
    """Whether a target may select ranks of several jobs without naming the jobs, or no rank at all."""
    is_stoppable: ClassVar[bool] = False
    """Whether Ctrl-C withdraws the question and makes the ranks end their work on it."""

    target: str | None = None
    output: OutputOptions = OutputOptions()

    @property
    def deadline(self) -> float | None:
        """Seconds to wait for a stop first, infinity for no limit, None for no wait."""
        return None

    @property
    def with_exited(self) -> bool:
        """Whether exited ranks are asked, too."""
        return False

    def start(self) -> int | None:
        """Do the work that needs no broker. Blocks. Raises DbgError.

        Return the exit status if nothing else is to be done, else None.
        """
        return None

    def may_change(self) -> bool:
        """Return True if the verb may make a program move, exit or compute."""
        return False

    def consent(self, ranks: Sequence[RankInfo]) -> tuple[str, Sequence[RankInfo]]:
        """Return the beginning of the text that asks the user for consent, and the ranks that the text names.

        Both are empty if the verb needs no consent.
        """
        return "", ()

    async def ask(self, asking: Asking) -> Answer:
        """Ask the ranks and return their answers. Raises DbgError if the broker fails."""
        raise NotImplementedError


Bound = Annotated[
    float | None,
    Option(
        "--for",
        heading=Heading.ATTACH,
        metavar="S",
        help="maximum wait, e.g. 60, 60s, 5m or 1h",
        read=partial(read_duration, name="--for", most=LONGEST_WAIT),
    ),
]
"""Maximum wait, in seconds."""


class WaitingVerb(RanksVerb):
    """A verb that can wait until one of its ranks stops."""

    wait: Annotated[
        bool, Option("--wait", heading=Heading.ASKING, help="before the request, wait until one of the ranks stops")
    ] = False
    bound: Bound = None

    @property
    def deadline(self) -> float | None:
        return (self.bound or math.inf) if self.wait else None

    def check(self) -> None:
        refuse(
            self.bound is not None and not self.wait,
            "--for limits a wait, but there is no --wait",
            "add --wait, or leave --for out",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A question to ``ranks``, which ``target`` selects from all ``known`` ranks.

    ``show`` displays the status while answers are awaited. ``url`` is the broker's address, which a list without ranks
    and a report show. ``welcome`` is the broker's first message, which a report shows.
    """

    asker: Asker
    ranks: Sequence[RankInfo]
    known: Sequence[RankInfo]
    target: Target | None = None
    show: Show
    url: str = ""
    welcome: Welcome | None = None

    def missing(self) -> MissingInAnswer:
        """Return the ranks that should be among the asked ranks but have exited or never connected."""
        calls = find_missing_ranks(self.known, self.target, {rank.key for rank in self.ranks})
        return missing_in_answer(calls, time.time(), several_jobs=len({rank.job for rank in self.ranks}) > 1)

    def require_living(self) -> None:
        """Raise a DbgError that reports how the ranks ended if all of them have exited."""
        if all(rank.state is RankState.EXITED for rank in self.ranks):
            raise why_not_stopped(self.ranks[0], self.target.text if self.target is not None else "")

    def everybody(self) -> list[RankInfo]:
        """Return all ranks that have not exited."""
        return there(self.known)


PARTIAL = 6
"""Exit status when some ranks did not answer."""

DIFFER = 1
"""Exit status of ``--fail-if-differ`` if values differ; `git bisect run` takes it for a bad commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Style of a text: ``columns`` is the terminal's width, None for lines of any length.

    ``word`` phrases a remedy for the users of an interface such as the page; None phrases it as a shell command.
    """

    color: bool = False
    columns: int | None = None
    word: Callable[[Remedy], str] | None = None


PLAIN = Style()


class Answer(Protocol):
    """Result of a verb; base of the classes that use one of its usual values."""

    @property
    def status(self) -> int:
        """The exit status of a command that prints this answer."""
        return 0

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """The keys of each group's ranks, by the group's name, such as ``@1``, which is a target afterwards."""
        return {}

    @property
    def hint(self) -> str:
        """A sentence on why the answer is incomplete or empty, or an empty text."""
        return ""

    def text(self, style: Style = PLAIN) -> str:
        """Return the answer as lines."""

    def document(self) -> object:
        """Return the answer as the JSON document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedAnswer:
    """Answers of ranks, with equal ones in one group; ``missing`` are the ranks that were not asked.

    With ``fails_if_different``, different values are a failure.
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
            # The values of running ranks have not been compared, and a script must not take them for equal.
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
    """Return True if a rank that could have answered did not; an exited rank can't."""
    return any(
        answer.kind is Kind.SILENT or (answer.kind is Kind.LOST and rank.state is not RankState.EXITED)
        for rank, answer in answers
    )
