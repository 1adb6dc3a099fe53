"""``eval`` and ``command``: a value of each rank, or the output of a pdb command there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from dbg_client.verbs.option import Frame, Heading, Operands, Option
from dbg_client.verbs.verb import Asking, GroupedAnswer, WaitingVerb
from dbg_client.views.groups import RankAndAnswer, group_answers
from dbg_client.views.naming import Naming
from dbg_wire import limits
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Action, Kind

_INSTEAD = {
    **dict.fromkeys(("q", "quit", "exit", "EOF"), "`kill` ends ranks and `continue` resumes them"),
    **dict.fromkeys(("interact", "debug", "commands"), "it needs a terminal: attach to one rank"),
    **dict.fromkeys(("run", "restart"), "a single rank can't be restarted: end the job and launch it again"),
}
"""Commands that are refused for several ranks, with the alternative."""

_WORD = re.compile(r"\s*([A-Za-z_]+)")

FailIfDiffer = Annotated[bool, Option("--fail-if-differ", heading=Heading.ASKING, help="status 1 if answers differ")]


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
        "Evaluate a Python expression in the current frame of each stopped or held rank. Equal values form one group; "
        "its name (@1, @2) can be used as `ranks` afterwards. The expression can change the program."
    )

    expression: str = ""
    live: Annotated[
        bool,
        Option("--live", heading=Heading.ASKING, in_session=True, help="also in running ranks, by breaking into them"),
    ] = False
    frame: Frame = ""
    fail_if_differ: FailIfDiffer = False

    def check(self) -> None:
        super().check()
        check_question(self.expression, self.name, "an expression", self.example)

    def may_change(self) -> bool:
        return True

    async def ask(self, asking: Asking) -> GroupedAnswer:
        asking.require_living()
        answers = await asking.asker.ask(Action.EVAL, asking.ranks, self.expression, live=self.live, frame=self.frame)
        by_rank = tuple(zip(asking.ranks, answers, strict=True))
        return GroupedAnswer(
            command=self.expression,
            answers=by_rank,
            grouped=tuple(group_answers(by_rank)),
            naming=Naming(asking.ranks),
            missing=asking.missing(),
            hint=_why_none_has_answered(by_rank, "" if self.live else "; --live asks running ranks, too"),
            fails_if_different=self.fail_if_differ,
        )


class PdbCommand(WaitingVerb):
    """Run a pdb command in each stopped rank."""

    name = "command"
    example = "command all n"
    operands = Operands.COMMAND
    in_session = Operands.COMMAND
    help_in_session = "a pdb command, e.g. c all n: one step in every rank"
    usual = "stopped"
    for_agents = "Run a pdb command on each stopped rank: n, s, r, unt, p x, up;;p x, … `n` steps all of them."

    command: str = ""
    frame: Frame = ""
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
        by_rank = tuple(zip(asking.ranks, answers, strict=True))
        return GroupedAnswer(
            command=self.command,
            answers=by_rank,
            grouped=tuple(group_answers(by_rank)),
            naming=Naming(asking.ranks),
            missing=asking.missing(),
            hint=_why_none_has_answered(by_rank, ""),
            fails_if_different=self.fail_if_differ,
        )


def refuse_for_sets(command: str, count: int) -> None:
    """Raise BadInput for a command that would end several ranks, or makes no sense for more than one."""
    if count < 2:
        return
    for part in command.split(";;"):
        word = _WORD.match(part)
        if word is not None and word[1] in _INSTEAD:
            raise BadInput(f"`{word[1]}` is not for {count} ranks at once", _INSTEAD[word[1]])


def _why_none_has_answered(by_rank: Sequence[RankAndAnswer], live: str) -> str:
    """Return advice if all ranks run, so that none has answered; else an empty text."""
    if not all(answer.kind is Kind.RUNNING for _, answer in by_rank):
        return ""
    who = "none of these ranks is" if len(by_rank) > 1 else f"{printable(by_rank[0][0].address)} is not"
    return f"{who} stopped; --wait waits until one is, and `interrupt` breaks in{live}"


def check_question(text: str, verb: str, needed: str, example: str) -> None:
    """Raise BadInput for an expression or a command that is empty or too long."""
    if not text.strip():
        raise BadInput(f"{verb} needs {needed}, e.g. `{example}`, but it is empty", "write one")
    if len(text) > limits.MAX_TEXT:
        raise BadInput(
            f"{verb} has {len(text):,} characters, but at most {limits.MAX_TEXT:,} are allowed", "put it into a module"
        )
