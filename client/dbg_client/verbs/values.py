"""``eval`` and ``command``: a value of each rank, or what a command of pdb prints there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from dbg_client.core.asking import Asker
from dbg_client.verbs.option import Heading, Operands, Option, read_frame
from dbg_client.verbs.verb import Asking, GroupedAnswer, WaitingVerb
from dbg_client.views.groups import AnswerGroup, RankAndAnswer, group_answers
from dbg_client.views.naming import Naming
from dbg_dial.tcp import within
from dbg_wire import limits
from dbg_wire.errors import BadInput, DbgError, PeerError, printable
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.inspection import Part, PartsQuestion
from dbg_wire.records.ranks import RankInfo

_INSTEAD = {
    **dict.fromkeys(("q", "quit", "exit", "EOF"), "`kill` ends ranks and `continue` lets them go on"),
    **dict.fromkeys(("interact", "debug", "commands"), "it needs a terminal: attach to one rank for it"),
    **dict.fromkeys(("run", "restart"), "a rank can't be started again by itself: end the job and launch it anew"),
}
"""Commands that are refused for several ranks, and what to do instead."""

_WORD = re.compile(r"\s*([A-Za-z_]+)")

Frame = Annotated[
    str,
    Option(
        "--frame",
        heading=Heading.ASKING,
        metavar="FRAME",
        in_session=True,
        help="in this frame: a function's name or a number such as -2, instead of the innermost of your own code",
        read=read_frame,
    ),
]
Exact = Annotated[
    bool,
    Option(
        "--exact",
        heading=Heading.ASKING,
        in_session=True,
        help="also count differing memory addresses as a difference",
    ),
]
FailIfDiffer = Annotated[bool, Option("--fail-if-differ", heading=Heading.ASKING, help="status 1 if ranks disagree")]


class Eval(WaitingVerb):
    """Evaluate an expression in each rank that is stopped or held, in the stopped thread."""

    name = "eval"
    example = "eval 0-7 'loss, lr'"
    operands = Operands.EXPRESSION
    in_session = Operands.EXPRESSION
    help_in_session = "a value, of all stopped and held ranks or of these"
    usual = "stopped,held"
    without_target = True
    for_agents = (
        "Evaluate a Python expression in the frame where each stopped or held rank stands. Equal values are one group, "
        "whose name (@1, @2) can be used as `ranks` afterwards. The expression can change the program."
    )

    expression: str = ""
    live: Annotated[
        bool,
        Option("--live", heading=Heading.ASKING, in_session=True, help="break into running ranks for it, too"),
    ] = False
    frame: Frame = ""
    stats: Annotated[
        bool,
        Option(
            "--stats",
            heading=Heading.ASKING,
            in_session=True,
            help="figures of tensors, e.g. min, max and NaN count",
        ),
    ] = False
    exact: Exact = False
    fail_if_differ: FailIfDiffer = False

    def check(self) -> None:
        super().check()
        check_question(self.expression, self.name, "an expression", self.example)

    def may_change(self) -> bool:
        return True

    async def ask(self, asking: Asking) -> GroupedAnswer:
        asking.require_living()
        answers = await asking.asker.ask(
            Action.EVAL, asking.ranks, self.expression, live=self.live, stats=self.stats, frame=self.frame
        )
        said = tuple(zip(asking.ranks, answers, strict=True))
        groups = group_answers(said, exact=self.exact)
        groups = list(await with_differences(asking.asker, groups, said, exact=self.exact))
        return GroupedAnswer(
            command=self.expression,
            answers=said,
            grouped=tuple(groups),
            naming=Naming(asking.ranks),
            missing=asking.missing(),
            hint=_why_none_has_answered(said, "" if self.live else "; --live asks them all the same"),
            fails_if_different=self.fail_if_differ,
        )


class PdbCommand(WaitingVerb):
    """Run a command of pdb in each stopped rank."""

    name = "command"
    example = "command all n"
    operands = Operands.COMMAND
    in_session = Operands.COMMAND
    help_in_session = "a pdb command, e.g. c all n: one step everywhere"
    usual = "stopped"
    for_agents = "Run a command of pdb on each stopped rank: n, s, r, unt, p x, up;;p x, … `n` steps all of them."

    command: str = ""
    frame: Frame = ""
    exact: Exact = False
    fail_if_differ: FailIfDiffer = False

    def check(self) -> None:
        super().check()
        check_question(self.command, self.name, "a command", self.example)

    def may_change(self) -> bool:
        return True

    async def ask(self, asking: Asking) -> GroupedAnswer:
        asking.require_living()
        refuse_for_sets(self.command, len(asking.ranks))
        answers = await asking.asker.ask(Action.COMMAND, asking.ranks, self.command, frame=self.frame)
        said = tuple(zip(asking.ranks, answers, strict=True))
        return GroupedAnswer(
            command=self.command,
            answers=said,
            grouped=tuple(group_answers(said, exact=self.exact, compare=False)),
            naming=Naming(asking.ranks),
            missing=asking.missing(),
            hint=_why_none_has_answered(said, ""),
            fails_if_different=self.fail_if_differ,
        )


def refuse_for_sets(command: str, count: int) -> None:
    """Raise BadInput for a command that would end several ranks, or makes no sense for them."""
    if count < 2:
        return
    for part in command.split(";;"):
        word = _WORD.match(part)
        if word is not None and word[1] in _INSTEAD:
            raise BadInput(f"`{word[1]}` is not for {count} ranks at once", _INSTEAD[word[1]])


def _why_none_has_answered(said: Sequence[RankAndAnswer], live: str) -> str:
    """Return what to do if all ranks run, so that none has answered; else empty."""
    if not all(answer.kind is Kind.RUNNING for _, answer in said):
        return ""
    who = "no rank of them is" if len(said) > 1 else f"{printable(said[0][0].address)} is not"
    return f"{who} stopped; --wait waits until one is, and `interrupt` breaks in{live}"


MAX_TWINS = 4
"""Groups that are compared with the first one of the same text; each difference takes a line."""

MAX_STEPS = 64
"""Questions for one difference: each one goes into a container, or into a 256th of a large one."""

MAX_NAMED = 4
"""Keys of a mapping that are named where several differ."""


_WHOLE_LENGTH = re.compile("… [0-9,]+ characters in all …")
"""How a rank says what it has left out in the middle of a text: two such texts may differ in nothing else."""


async def with_differences(
    asker: Asker, groups: Sequence[AnswerGroup], said: Sequence[RankAndAnswer], *, exact: bool
) -> Sequence[AnswerGroup]:
    """Return the groups; one that reads like an earlier one says where its value differs from the value of that one.

    No expression is evaluated again. All of it takes as long as one question may take at most. A group whose difference
    can't be found in that time is returned as it was.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + asker.seconds
    answers = {rank.key: answer for rank, answer in said}
    first: dict[str, AnswerGroup] = {}
    found: dict[str, str] = {}
    for group in groups:
        if group.kind != Kind.VALUE.value or not answers[group.ranks[0].key].exact:
            continue
        other = first.setdefault(_WHOLE_LENGTH.sub("…", group.text), group)
        if other is not group and len(found) < MAX_TWINS:
            pair = _Pair(asker, [(each.ranks[0], answers[each.ranks[0].key]) for each in (other, group)], exact=exact)
            try:
                where = await within(max(0.0, end - loop.time()), pair.difference())
            except (DbgError, TimeoutError):
                break
            found[group.id] = f"{where}, {other.id} first" if where else ""
    return [replace(group, difference=found.get(group.id, "")) for group in groups]


class _Pair:
    """Two ranks whose values differ."""

    def __init__(self, asker: Asker, pair: Sequence[tuple[RankInfo, RankAnswer]], *, exact: bool) -> None:
        self._asker = asker
        self._ranks = [rank for rank, _ in pair]
        self._of = tuple(answer.exact for _, answer in pair)
        self._exact = exact

    async def difference(self) -> str:
        """Return where the first difference is and what it is, empty if that can't be found. Raises DbgError."""
        path: tuple[str, ...] = ()
        label = named = ""
        texts = ("", "")
        for _ in range(MAX_STEPS):
            one, two = await self._parts(path)
            if not one or not two:
                break
            lonely = _lonely(one, two)
            if lonely:
                return f"{named}{_place(label)}{lonely}"
            differing = [part for part in one.values() if part.digest != two[part.step].digest]
            if not differing:
                return ""
            part = differing[0]
            named = named or _several(label, differing)
            path, label = (*path, part.step), label + part.label
            texts = part.text, two[part.step].text
        if not path or texts[0] == texts[1]:
            return ""
        return f"{named}first difference: {printable(label)}: {printable(texts[0])} | {printable(texts[1])}"

    async def _parts(self, path: tuple[str, ...]) -> list[Mapping[str, Part]]:
        question = PartsQuestion(of=self._of, path=path, exact=self._exact)
        answers = await self._asker.ask(Action.EVAL, self._ranks, inquiry=question)
        if any(answer.kind is not Kind.VALUE for answer in answers):
            raise PeerError("no parts of a value")
        return [{part.step: part for part in answer.rows if isinstance(part, Part)} for answer in answers]


def _lonely(one: Mapping[str, Part], two: Mapping[str, Part]) -> str:
    """Say which parts only one of the two ranks has."""
    only = [
        [part.label for part in ours.values() if part.step not in other] for ours, other in ((one, two), (two, one))
    ]
    if not any(only):
        return ""
    shown = [_names(labels) if labels else "nothing more" for labels in only]
    return f"first difference: {shown[0]} | {shown[1]}"


def _several(label: str, differing: Sequence[Part]) -> str:
    labels = [part.label for part in differing if part.label.startswith(("['", '["', "."))]
    return f"differ at {printable(label)}{_names(labels)}; " if len(labels) > 1 else ""


def _names(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    return ", ".join(printable(label) for label in labels[:MAX_NAMED] if label) + more or "other parts"


def _place(label: str) -> str:
    return f"at {printable(label)}, " if label else ""


def check_question(text: str, verb: str, needed: str, example: str) -> None:
    """Raise BadInput for an expression or a command that is empty or too long."""
    if not text.strip():
        raise BadInput(f"{verb} needs {needed}, e.g. `{example}`, and has an empty one", "write one")
    if len(text) > limits.MAX_TEXT:
        raise BadInput(
            f"{verb} has {len(text):,} characters, and {limits.MAX_TEXT:,} are the most", "put it into a module"
        )
