"""Verb ``slow``: finds the ranks that slow down a job that does not hang."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from dbg_client.slow.explain import RunFindings, SlowVerdict, exit_status
from dbg_client.slow.show import show_findings, slow_document
from dbg_client.verbs.option import Heading, Operands, Option
from dbg_client.verbs.verb import PLAIN, Answer, Asking, RanksVerb, Style
from dbg_command.command_line import read_duration
from dbg_wire.records.samples import MAX_SAMPLE_SECONDS

DEFAULT_SECONDS = 10.0
"""Default duration of the sampling, in seconds: over 100 times as long as a read of a full flight recorder."""


class Slow(RanksVerb):
    """Find the ranks that slow a job down. The ranks sample themselves for ``seconds``."""

    name = "slow"
    example = "slow --for 30"
    operands = Operands.MAYBE_TARGET
    in_session = Operands.MAYBE_TARGET
    help_in_session = "which ranks arrive last at collectives, and by how much"
    usual = "all"
    without_target = True
    for_agents = (
        "Find the rank that slows down a job that does not hang: which rank arrives last at collectives, how often and "
        "by how much, where it is then, and whether it is short of processor quota or cores. The ranks sample "
        "themselves for some seconds and are not stopped."
    )

    seconds: Annotated[
        float,
        Option(
            "--for",
            heading=Heading.ASKING,
            metavar="S",
            in_session=True,
            help=f"sample for S seconds, as in 60, 60s or 5m (default {DEFAULT_SECONDS:g})",
            read=partial(read_duration, name="--for", most=MAX_SAMPLE_SECONDS),
        ),
    ] = DEFAULT_SECONDS

    async def ask(self, asking: Asking) -> SlowAnswer:
        from dbg_client.slow.questions import find_stragglers

        found = await find_stragglers(asking.asker, asking.ranks, asking.known, self.seconds)
        return SlowAnswer(found, self.seconds)


@dataclass(frozen=True, slots=True)
class SlowAnswer(Answer):
    """Findings from the samples of some runs; ``seconds`` is the requested duration of the sampling."""

    found: tuple[RunFindings, ...]
    seconds: float

    @property
    def verdicts(self) -> list[SlowVerdict]:
        """Verdicts on all runs, the most expensive one of each run first."""
        return [verdict for one in self.found for verdict in one.verdicts]

    @property
    def status(self) -> int:
        return exit_status(self.verdicts)

    def text(self, style: Style = PLAIN) -> str:
        return show_findings(self.found, color=style.color, columns=style.columns, word=style.word)

    def document(self) -> dict[str, object]:
        return slow_document(self.found, self.seconds)
