"""The options of a watch over the numbers of a training, for ``run`` and ``watch``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from dbg_client.verbs.option import Heading, Option
from dbg_wire.errors import BadInput
from dbg_wire.records.numbers import MAX_EXCLUDED, NumbersQuestion
from dbg_wire.records.record import Record

NAN = "nan"
WATCHES = (NAN,)
"""The watches as users type them."""

OFF = "off"
"""Typed instead of a watch: it ends all watches."""

watch_option = partial(Option, heading=Heading.NUMBERS)


class WatchOptions(Record):
    """The options of a watch as typed."""

    exact: Annotated[
        bool,
        watch_option(
            "--exact", help="wait for the GPU at each module, and stop there; otherwise at the end of the next step"
        ),
    ] = False
    exclude: Annotated[
        tuple[str, ...],
        watch_option(
            "--except",
            metavar="PATTERN",
            repeats=True,
            help="don't watch modules and parameters of these names, as in 'attn.mask*'; may be given again",
        ),
    ] = ()

    def question(self, watches: Sequence[str]) -> NumbersQuestion:
        """Return the question that starts these watches."""
        return NumbersQuestion(nan=NAN in watches, exact=self.exact, exclude=self.exclude)

    def check(self, *, is_watch: bool) -> None:
        """Raise BadInput for options that need a watch, or for too many patterns."""
        if (self.exact or self.exclude) and not is_watch:
            raise BadInput("--exact and --except need a watch", f"add --stop-at {NAN}")
        if len(self.exclude) > MAX_EXCLUDED:
            raise BadInput(f"--except is given {len(self.exclude)} times", f"use at most {MAX_EXCLUDED} patterns")
