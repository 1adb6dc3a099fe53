"""``exec``: runs a command next to each rank, on its host."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Annotated

from dbg_client.verbs.option import Heading, Operands, Option
from dbg_client.verbs.values import FailIfDiffer
from dbg_client.verbs.verb import Asking, GroupedAnswer, WaitingVerb
from dbg_client.views.groups import AnswerGroup, group_answers, normal
from dbg_client.views.naming import Naming
from dbg_wire import limits
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.inspection import command_line, output_in
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, rank_order
from dbg_wire.records.record import InvalidMessage, length_of

EXTRA_SECONDS = 1.0
"""Time for the answer to arrive, in addition to the command's timeout, in seconds."""


class Exec(WaitingVerb):
    """Run a command next to each rank; equal outputs are one group."""

    name = "exec"
    example = "exec 0-7 -- nvidia-smi -L"
    operands = Operands.PROGRAM
    in_session = Operands.PROGRAM
    help_in_session = "run a command next to ranks, e.g. exec 3 -- nvidia-smi"
    is_stoppable = True

    program: tuple[str, ...] = ()
    per_host: Annotated[
        bool,
        Option("--per-host", heading=Heading.ASKING, in_session=True, help="next to one rank of each host only"),
    ] = False
    fail_if_differ: FailIfDiffer = False

    def check(self) -> None:
        super().check()
        try:
            length = length_of(command_line(self.program))
        except InvalidMessage as error:
            raise BadInput(f"the command can't be run ({error})", "name a program") from None
        if length > limits.MAX_TEXT:
            raise BadInput(f"the command is longer than {limits.MAX_TEXT:,} characters", "put it into a script")

    def may_change(self) -> bool:
        return True

    async def ask(self, asking: Asking) -> GroupedAnswer:
        asking.require_living()
        ranks = one_of_each_host(asking.ranks) if self.per_host else asking.ranks
        seconds = self.broker.timeout + EXTRA_SECONDS
        answers = await asking.asker.ask(Action.EXEC, ranks, inquiry=command_line(self.program), seconds=seconds)
        outputs = {answer.key: _output(answer) for answer in answers}
        by_rank = tuple(
            (rank, _comparable(answer, outputs[answer.key])) for rank, answer in zip(ranks, answers, strict=True)
        )
        return GroupedAnswer(
            command=shlex.join(self.program),
            answers=by_rank,
            grouped=tuple(_with_output(group, outputs) for group in group_answers(by_rank)),
            naming=Naming(ranks),
            fails_if_different=self.fail_if_differ,
            errors_fail=True,
        )


def one_of_each_host(ranks: Sequence[RankInfo]) -> list[RankInfo]:
    """Return the first rank of each host, preferring live ranks."""
    chosen: dict[str, RankInfo] = {}
    for rank in sorted(ranks, key=lambda rank: (rank.state not in LIVE_STATES, rank_order(rank))):
        chosen.setdefault(rank.host, rank)
    return sorted(chosen.values(), key=rank_order)


def _output(answer: RankAnswer) -> str:
    """Return a command's output, and how the command ended if it failed.

    If the answer contains no output, return the answer's text.
    """
    found = output_in(answer.rows)
    if found is None:
        return answer.text
    output = found[0].rstrip("\n")
    if answer.kind is Kind.VALUE:
        return output or "(no output)"
    return f"{output}\n({answer.text})" if output else f"({answer.text})"


def _comparable(answer: RankAnswer, output: str) -> RankAnswer:
    """Replace the answer's text by a digest of the whole output, so that outputs of any length can be compared."""
    if answer.kind not in (Kind.VALUE, Kind.ERROR):
        return answer
    return answer.replace(text="", rows=(), digest=sha256(normal(output).encode()).hexdigest())


def _with_output(group: AnswerGroup, outputs: Mapping[str, str]) -> AnswerGroup:
    is_output = group.kind in (Kind.VALUE.value, Kind.ERROR.value)
    return replace(group, text=outputs[group.ranks[0].key]) if is_output else group
