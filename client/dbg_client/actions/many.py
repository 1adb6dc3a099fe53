"""The actions that ask many ranks at once: evaluate, command, where, break in."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from dbg_client.actions.output import in_format
from dbg_client.actions.streams import tell
from dbg_client.core.asking import Asker
from dbg_client.core.remembered_groups import find_remembered_groups
from dbg_client.core.roll_call import RollCall
from dbg_client.questions.answers import ValueAnswer, ask_stacks, ask_values
from dbg_client.questions.verbs import require_living, value_question
from dbg_client.views.groups import (
    AnswerGroup,
    RankAndAnswer,
    differ,
    group_answers,
    groups_document,
    normal,
    remembered,
    show_groups,
)
from dbg_client.views.missing import NOBODY_MISSING, MissingInAnswer
from dbg_client.views.naming import Naming
from dbg_client.views.stacks import MISSING
from dbg_client.words.settings import Eval, Exec, Interrupt, OutputOptions, PdbCommand, Where
from dbg_wire.errors import printable
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.beside import command_line, output_in
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState, rank_order

PARTIAL = 6
"""Exit status when some ranks did not answer."""

DIFFER = 1
"""Exit status of ``--fail-if-differ``; to `git bisect run` it is a bad commit."""

EXTRA_SECONDS = 1.0
"""Seconds of the question beyond those of the command, for the way of its answer."""


@dataclass(frozen=True, slots=True)
class ShownAnswers:
    """An answer as it is printed, the exit status that it leads to, and a sentence on why there is no more."""

    text: str
    status: int = 0
    hint: str = ""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


async def ask_question(
    settings: Eval | PdbCommand,
    asker: Asker,
    ranks: Sequence[RankInfo],
    *,
    calls: Sequence[RollCall],
) -> ShownAnswers:
    """Ask ranks for a value or give them a command, and return the answer; its groups are remembered.

    ``calls`` tell of the ranks that should be among them and are missing.

    Raises BadInput for a command that is not for sets, DbgError if all ranks have exited or the broker fails.
    """
    action, wishes = value_question(settings, ranks)
    answer = await ask_values(asker, ranks, action, settings.question, wishes=wishes, calls=calls)
    shown = _show_values(settings, answer)
    await asyncio.to_thread(remember, shown.groups, settings.target)
    return shown


async def show_stacks_of(
    settings: Where,
    asker: Asker,
    ranks: Sequence[RankInfo],
    *,
    calls: Sequence[RollCall] = (),
    known: Sequence[RankInfo] | None = None,
) -> ShownAnswers:
    """Ask ranks for their stacks, and return the answer; its groups are remembered.

    ``known`` are all ranks there are, of which only these are asked. Raises DbgError if the broker fails.
    """
    answer = await ask_stacks(
        asker, ranks, known=known, calls=calls, threads=settings.threads, native=settings.native, frame=""
    )
    text = in_format(settings.output, answer.document, lambda: answer.shown(color=settings.output.color))
    groups = remembered(answer.groups)
    await asyncio.to_thread(remember, groups, settings.target)
    return ShownAnswers(text, PARTIAL if left_unanswered(answer.said) else 0, groups=groups)


async def break_in(settings: Interrupt, asker: Asker, ranks: Sequence[RankInfo]) -> ShownAnswers:
    """Break into ranks and return the answer, whose groups are remembered; ranks that are stopped say so.

    Raises DbgError if all have exited or the broker fails.
    """
    require_living(ranks, settings.target or "")
    said = list(zip(ranks, await asker.ask(Action.INTERRUPT, ranks, frame=settings.attach.frame), strict=True))
    groups = group_answers(said, compare=False)
    await asyncio.to_thread(remember, remembered(groups), settings.target)
    failed = any(answer.kind is Kind.ERROR for _, answer in said)
    text = render(settings.output, "interrupt", groups, Naming(ranks))
    return ShownAnswers(text, PARTIAL if left_unanswered(said) else 1 if failed else 0, groups=remembered(groups))


def _show_values(settings: Eval | PdbCommand, answer: ValueAnswer) -> ShownAnswers:
    naming, groups, said = answer.naming, answer.groups, answer.said
    differs = differ(groups)
    text = render(settings.output, settings.question, groups, naming, missing=answer.missing)
    hint = _why_nobody(said, may_be_live=isinstance(settings, Eval) and not settings.live)
    # Ranks that run have not been compared, and a script that asks for differences must not take them for equal.
    uncompared = settings.fail_if_differ and any(answer.kind is Kind.RUNNING for _, answer in said)
    status = PARTIAL if uncompared or left_unanswered(said) else 1 if hint else 0
    return ShownAnswers(text, DIFFER if settings.fail_if_differ and differs else status, hint, remembered(groups))


def render(
    output: OutputOptions,
    command: str,
    groups: Sequence[AnswerGroup],
    naming: Naming,
    *,
    missing: MissingInAnswer = NOBODY_MISSING,
) -> str:
    """Return groups of answers as a table or as JSON."""
    return in_format(
        output,
        lambda: groups_document(command, groups, naming, missing),
        lambda: show_groups(command, groups, naming, color=output.color, missing=missing),
    )


def _why_nobody(said: Sequence[RankAndAnswer], *, may_be_live: bool) -> str:
    """Return what to do if all ranks run, so that none has answered; else empty."""
    if not all(answer.kind is Kind.RUNNING for _, answer in said):
        return ""
    live = "; --live asks them all the same" if may_be_live else ""
    who = "no rank of them is" if len(said) > 1 else f"{printable(said[0][0].address)} is not"
    return f"dbg-attach: {who} stopped; --wait waits until one is, and `interrupt` breaks in{live}"


def left_unanswered(said: Sequence[RankAndAnswer]) -> bool:
    """Return whether a rank that could have answered did not; an exited rank can't."""
    return any(
        answer.kind is Kind.SILENT or (answer.kind is Kind.LOST and rank.state is not RankState.EXITED)
        for rank, answer in said
    )


def remember(groups: Mapping[str, Sequence[str]], target: str | None = None) -> None:
    """Keep the names of an answer's groups for targets of later commands; tell if they can't be kept. Blocks.

    An answer of ``@missing`` alone does not know the collective, so that name stays as it was.
    """
    memory = find_remembered_groups(os.environ)
    if memory is None:
        return
    try:
        if target == MISSING and not groups.get(MISSING):
            groups = {**groups, MISSING: tuple(memory.load().get(MISSING, ()))}
        memory.save(groups)
    except OSError as error:
        tell(f"dbg-attach: the groups' names are not remembered ({error.strerror or type(error).__name__})")


async def run_beside(settings: Exec, asker: Asker, ranks: Sequence[RankInfo]) -> ShownAnswers:
    """Run the command of the settings beside ranks, and return the answer, whose groups are remembered.

    Cancelling this withdraws the question; the guards end their commands then. Raises DbgError if all ranks have
    exited or the broker fails.
    """
    require_living(ranks, settings.target or "")
    ranks = one_of_each_host(ranks) if settings.per_host else ranks
    asker.seconds = settings.broker.timeout + EXTRA_SECONDS
    answers = await asker.ask(Action.EXEC, ranks, inquiry=command_line(settings.program))
    outputs = {answer.key: _output(answer) for answer in answers}
    said = [(rank, _comparable(answer, outputs[answer.key])) for rank, answer in zip(ranks, answers, strict=True)]
    groups = [_with_output(group, outputs) for group in group_answers(said, exact=settings.exact)]
    await asyncio.to_thread(remember, remembered(groups))
    text = render(settings.output, shlex.join(settings.program), groups, Naming(ranks))
    failed = any(answer.kind is Kind.ERROR for _, answer in said)
    status = PARTIAL if left_unanswered(said) else 1 if failed else 0
    return ShownAnswers(text, DIFFER if settings.fail_if_differ and differ(groups) else status)


def one_of_each_host(ranks: Sequence[RankInfo]) -> list[RankInfo]:
    """Return the first rank of each host, a living one if there is one."""
    chosen: dict[str, RankInfo] = {}
    for rank in sorted(ranks, key=lambda rank: (rank.state not in LIVE_STATES, rank_order(rank))):
        chosen.setdefault(rank.host, rank)
    return sorted(chosen.values(), key=rank_order)


def _output(answer: RankAnswer) -> str:
    """Return what a command has printed, with how it ended if that is not success; else the answer's own text."""
    told = output_in(answer.rows)
    if told is None:
        return answer.text
    output = told[0].rstrip("\n")
    if answer.kind is Kind.VALUE:
        return output or "(no output)"
    return f"{output}\n({answer.text})" if output else f"({answer.text})"


def _comparable(answer: RankAnswer, output: str) -> RankAnswer:
    """Return an answer that is compared by its whole output, which is longer than the text of an answer may be."""
    if answer.kind not in (Kind.VALUE, Kind.ERROR):
        return answer
    digest, exact = (sha256(normal(output, exact=exactly).encode()).hexdigest() for exactly in (False, True))
    return answer.replace(text="", rows=(), digest=digest, exact=exact)


def _with_output(group: AnswerGroup, outputs: Mapping[str, str]) -> AnswerGroup:
    is_output = group.kind in (Kind.VALUE.value, Kind.ERROR.value)
    return replace(group, text=outputs[group.ranks[0].key]) if is_output else group
