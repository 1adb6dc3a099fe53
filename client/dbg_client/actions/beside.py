"""Run a command beside ranks, and show what it prints; equal outputs are one group."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from dbg_client.actions.many import DIFFER, PARTIAL, ShownAnswers, left_unanswered, remember, render, require_living
from dbg_client.core.asking import Asker
from dbg_client.views.groups import AnswerGroup, differ, group_answers, normal, remembered
from dbg_client.views.naming import Naming, order
from dbg_client.words.settings import CommandSettings
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.beside import command_line, output_in
from dbg_wire.records.ranks import LIVE_STATES, RankInfo

EXTRA_SECONDS = 1.0
"""Seconds of the question beyond those of the command, for the way of its answer."""


async def run_beside(settings: CommandSettings, asker: Asker, ranks: Sequence[RankInfo]) -> ShownAnswers:
    """Run the command of the settings beside ranks, and return the answer, whose groups are remembered.

    Cancelling this withdraws the question; the guards end their commands then. Raises DbgError if all ranks have
    exited or the broker fails.
    """
    require_living(ranks, settings.target or "")
    ranks = one_of_each_host(ranks) if settings.per_host else ranks
    asker.seconds = settings.timeout + EXTRA_SECONDS
    try:
        answers = await asker.ask(Action.EXEC, ranks, inquiry=command_line(settings.program))
    except asyncio.CancelledError:
        asker.withdraw(Action.EXEC, ranks)
        raise
    outputs = {answer.key: _output(answer) for answer in answers}
    said = [(rank, _comparable(answer, outputs[answer.key])) for rank, answer in zip(ranks, answers, strict=True)]
    groups = [_with_output(group, outputs) for group in group_answers(said, exact=settings.exact)]
    await asyncio.to_thread(remember, remembered(groups))
    text = render(settings, shlex.join(settings.program), groups, Naming(ranks))
    failed = any(answer.kind is Kind.ERROR for _, answer in said)
    status = PARTIAL if left_unanswered(said) else 1 if failed else 0
    return ShownAnswers(text, DIFFER if settings.fail_if_differ and differ(groups) else status)


def one_of_each_host(ranks: Sequence[RankInfo]) -> list[RankInfo]:
    """Return the first rank of each host, a living one if there is one."""
    chosen: dict[str, RankInfo] = {}
    for rank in sorted(ranks, key=lambda rank: (rank.state not in LIVE_STATES, order(rank))):
        chosen.setdefault(rank.host, rank)
    return sorted(chosen.values(), key=order)


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
