"""The actions that ask many ranks at once: evaluate, command, where, break in."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dbg_client.core.asking import Asker
from dbg_client.core.remembered_groups import find_remembered_groups
from dbg_client.core.roll_call import RollCall
from dbg_client.errors import why_not_stopped
from dbg_client.questions.stacks import StackAnswer, ask_stacks
from dbg_client.questions.values import ValueAnswer, ValueWishes, ask_values
from dbg_client.streams import tell
from dbg_client.views.compare import (
    Comparison,
    SavedAnswers,
    compare_answers,
    comparison_document,
    load_answers,
    save_answers,
    show_comparison,
)
from dbg_client.views.groups import AnswerGroup, Said, differ, group_answers, groups_document, remembered, show_groups
from dbg_client.views.missing import NOBODY_MISSING, MissingInAnswer
from dbg_client.views.naming import Naming
from dbg_client.views.stacks import MISSING
from dbg_client.words.settings import CommandSettings, Format, Verb
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Action, Kind
from dbg_wire.records.ranks import RankInfo, RankState

PARTIAL = 6
"""Exit status when some ranks did not answer."""

DIFFER = 1
"""Exit status of ``--fail-if-differ``; to `git bisect run` it is a bad commit."""

MAX_SAVED = 256 * 1024 * 1024
"""Bytes of a file of ``--against`` that are read: the answers of 100,000 ranks are fewer."""

MOVING = (RankState.RUNNING, RankState.UNRESPONSIVE)
"""States of ranks that a break-in stops."""

_ACTIONS = {Verb.EVAL: Action.EVAL, Verb.COMMAND: Action.COMMAND}
_ALONE = {
    **dict.fromkeys(("q", "quit", "exit", "EOF"), "--kill ends ranks and --continue lets them go on"),
    **dict.fromkeys(("interact", "debug", "commands"), "it needs a terminal: attach to one rank for it"),
    **dict.fromkeys(("run", "restart"), "a rank can't be started again by itself: end the job and launch it anew"),
}
"""Commands that are refused for several ranks, and what to do instead."""

_WORD = re.compile(r"\s*([A-Za-z_]+)")


@dataclass(frozen=True, slots=True)
class ShownAnswers:
    """An answer as it is printed, the exit status that it leads to, and a sentence on why there is no more."""

    text: str
    status: int = 0
    hint: str = ""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class CantWrite(DbgError):
    """Say which file could not be written, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{printable(self.path)} can't be written ({printable(self.reason)}); name another file with --save"


def refuse_for_sets(command: str, count: int) -> None:
    """Raise BadInput for a command that would end several ranks, or makes no sense for them."""
    if count < 2:
        return
    for part in command.split(";;"):
        word = _WORD.match(part)
        if word is not None and word[1] in _ALONE:
            raise BadInput(f"`{word[1]}` is not for {count} ranks at once", _ALONE[word[1]])


def read_saved(path: str | None) -> SavedAnswers | None:
    """Return the answers in a file of ``--save``, None without a file. Blocks. Raises BadInput."""
    if path is None:
        return None
    try:
        with Path(path).open(encoding="utf-8") as file:
            return load_answers(file.read(MAX_SAVED), path)
    except UnicodeDecodeError:
        raise BadInput(f"{printable(path)} has no answers that --save has written", "name another file") from None
    except OSError as error:
        raise BadInput(
            f"{printable(path)} can't be read ({error.strerror or type(error).__name__})",
            "name a file that --save has written",
        ) from None


async def ask_many(
    settings: CommandSettings,
    asker: Asker,
    ranks: Sequence[RankInfo],
    saved: SavedAnswers | None,
    *,
    calls: Sequence[RollCall] = (),
    known: Sequence[RankInfo] | None = None,
) -> ShownAnswers:
    """Ask ranks for a value, a command or their stacks, and return the answer; its groups are remembered.

    ``calls`` tell of the ranks that should be among them and are missing; ``known`` are all ranks there are, of which
    only these are asked.

    Raises BadInput for a command that is not for sets, DbgError if all ranks have exited or the broker fails.
    """
    if settings.verb is not Verb.WHERE:
        require_living(ranks, settings.target or "")
    if settings.verb is Verb.COMMAND:
        refuse_for_sets(settings.question, len(ranks))
    if settings.verb is Verb.WHERE:
        shown = _show_stacks(settings, await _ask_where(settings, asker, ranks, calls, known))
    else:
        wishes = ValueWishes(
            frame=settings.frame,
            live=settings.live,
            stats=settings.stats,
            exact=settings.exact,
            tolerance=settings.tolerance,
        )
        answer = await ask_values(asker, ranks, _ACTIONS[settings.verb], settings.question, wishes=wishes, calls=calls)
        if settings.save is not None:
            await asyncio.to_thread(_write, settings.save, save_answers(settings.question, answer.said, answer.naming))
        shown = _show_values(settings, answer, saved)
    await asyncio.to_thread(remember, shown.groups, settings.target)
    return shown


async def _ask_where(
    settings: CommandSettings,
    asker: Asker,
    ranks: Sequence[RankInfo],
    calls: Sequence[RollCall],
    known: Sequence[RankInfo] | None,
) -> StackAnswer:
    return await ask_stacks(
        asker,
        ranks,
        known=known,
        calls=calls,
        threads=settings.threads,
        native=settings.native,
        frame=settings.frame,
    )


async def break_in(settings: CommandSettings, asker: Asker, ranks: Sequence[RankInfo]) -> ShownAnswers:
    """Break into ranks and return the answer, whose groups are remembered; ranks that are stopped say so.

    Raises DbgError if all have exited or the broker fails.
    """
    require_living(ranks, settings.target or "")
    said = list(zip(ranks, await asker.ask(Action.INTERRUPT, ranks, frame=settings.frame), strict=True))
    groups = group_answers(said, compare=False)
    await asyncio.to_thread(remember, remembered(groups), settings.target)
    failed = any(answer.kind is Kind.ERROR for _, answer in said)
    text = render(settings, "interrupt", groups, Naming(ranks))
    return ShownAnswers(text, PARTIAL if left_unanswered(said) else 1 if failed else 0, groups=remembered(groups))


def _show_values(settings: CommandSettings, answer: ValueAnswer, saved: SavedAnswers | None) -> ShownAnswers:
    naming, groups, said = answer.naming, answer.groups, answer.said
    comparison = (
        compare_answers(saved, said, naming, exact=settings.exact, tolerance=settings.tolerance) if saved else None
    )
    differs = differ(groups) or (comparison is not None and comparison.differs)
    text = render(settings, settings.question, groups, naming, comparison=comparison, missing=answer.missing)
    hint = _why_nobody(settings, said)
    # Ranks that run have not been compared, and a script that asks for differences must not take them for equal.
    uncompared = settings.fail_if_differ and any(answer.kind is Kind.RUNNING for _, answer in said)
    status = PARTIAL if uncompared or left_unanswered(said) else 1 if hint else 0
    return ShownAnswers(text, DIFFER if settings.fail_if_differ and differs else status, hint, remembered(groups))


def render(
    settings: CommandSettings,
    command: str,
    groups: Sequence[AnswerGroup],
    naming: Naming,
    *,
    comparison: Comparison | None = None,
    missing: MissingInAnswer = NOBODY_MISSING,
) -> str:
    """Return groups of answers as a table or as JSON, as the settings say."""
    path = settings.against or ""
    if settings.format is Format.JSON:
        document = groups_document(command, groups, naming, missing)
        if comparison is not None:
            document["against"] = comparison_document(comparison, path, naming)
        return json.dumps(document) + "\n"
    table = show_groups(command, groups, naming, color=settings.color, missing=missing)
    return table + (show_comparison(comparison, path, naming) if comparison is not None else "")


def _show_stacks(settings: CommandSettings, answer: StackAnswer) -> ShownAnswers:
    is_json = settings.format is Format.JSON
    text = json.dumps(answer.document()) + "\n" if is_json else answer.shown(color=settings.color)
    return ShownAnswers(text, PARTIAL if left_unanswered(answer.said) else 0, groups=remembered(answer.groups))


def _why_nobody(settings: CommandSettings, said: Sequence[Said]) -> str:
    """Return what to do if all ranks run, so that none has answered; else empty."""
    if not all(answer.kind is Kind.RUNNING for _, answer in said):
        return ""
    live = "; --live asks them all the same" if settings.verb is Verb.EVAL and not settings.live else ""
    who = "no rank of them is" if len(said) > 1 else f"{printable(said[0][0].address)} is not"
    return f"dbg-attach: {who} stopped; --wait waits until one is, and -i breaks in{live}"


def left_unanswered(said: Sequence[Said]) -> bool:
    """Return whether a rank that could have answered did not; an exited rank can't."""
    return any(
        answer.kind is Kind.SILENT or (answer.kind is Kind.LOST and rank.state is not RankState.EXITED)
        for rank, answer in said
    )


def require_living(ranks: Sequence[RankInfo], target: str) -> None:
    """Raise the DbgError that says how they ended if all of these ranks have exited."""
    if all(rank.state is RankState.EXITED for rank in ranks):
        raise why_not_stopped(ranks[0], target)


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


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CantWrite(path, error.strerror or type(error).__name__) from None
