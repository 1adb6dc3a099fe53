"""``interrupt``: break into ranks that run."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_client.verbs.answer import GroupedAnswer
from dbg_client.verbs.asking import Asking
from dbg_client.verbs.attach_options import AttachOptions, RecordingOptions
from dbg_client.verbs.option import Operands
from dbg_client.verbs.orders import is_moving
from dbg_client.verbs.verb import RanksVerb
from dbg_client.views.groups import group_answers
from dbg_client.views.naming import Naming
from dbg_wire.messages import Action
from dbg_wire.records.ranks import RankInfo


class Interrupt(RanksVerb):
    """Have ranks stop where they are; a terminal attaches to a single one then."""

    name = "interrupt"
    example = "interrupt 4"
    operands = Operands.TARGET
    in_session = Operands.MAYBE_TARGET
    help_in_session = "break into running ranks; none named: into this one"
    usual = "running"
    is_about_this_rank = True
    for_agents = (
        "Break into running ranks: each stops where it is and stays stopped until it is continued. Other ranks will "
        "wait for it in collectives."
    )

    attach: AttachOptions = AttachOptions()
    recording: RecordingOptions = RecordingOptions()

    def check(self) -> None:
        self.attach.check()
        self.recording.check()

    def may_change(self) -> bool:
        return True

    def consent(self, ranks: Sequence[RankInfo]) -> tuple[str, Sequence[RankInfo]]:
        moving = [rank for rank in ranks if is_moving(rank)]
        return "Break into", moving if len(moving) > 1 else []

    async def ask(self, asking: Asking) -> GroupedAnswer:
        asking.require_living()
        answers = await asking.asker.ask(Action.INTERRUPT, asking.ranks, frame=self.attach.frame)
        said = tuple(zip(asking.ranks, answers, strict=True))
        return GroupedAnswer(
            command=self.name,
            answers=said,
            grouped=tuple(group_answers(said, compare=False)),
            naming=Naming(asking.ranks),
            errors_fail=True,
        )
