"""The options of a watch over the numbers of a training, for ``run`` and ``watch``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from dbg_client.verbs.option import Heading, Option
from dbg_client.verbs.verb import refuse
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.record import Record

NAN = "nan"
DIFFERENT = "different"
WATCHES = (NAN, DIFFERENT)
"""The watches that ``watch`` starts in a running job."""

OFF = "off"
"""Typed instead of a watch: it ends all watches."""

DIFFERENT_FROM = "different from "
"""Beginning of the watch that compares a run with another one; the directory of the other run follows."""

LAST = re.compile(r"(.+?)(?:, *last +([1-9][0-9]{0,8}))?", re.DOTALL)
"""Text of ``--numbers``: a directory, and the number of steps to keep."""


def is_watch(text: str) -> bool:
    """Return True if a text names a watch, as users type it."""
    return text in WATCHES or text.startswith(DIFFERENT_FROM)


watch_option = partial(Option, heading=Heading.NUMBERS)


def read_every(text: str) -> int:
    """Return a number of steps. Raise BadInput for a text that is not one."""
    if not (text.isascii() and text.isdecimal() and int(text[:10]) > 0):
        raise BadInput(f"--every {printable(text, 20)} is not a number of steps", "use 1 or more")
    return int(text[:10])


class WatchOptions(Record):
    """The options of a watch as typed."""

    exact: Annotated[
        bool, watch_option("--exact", help="stop at the module, though it waits for the GPU; compare runs bit by bit")
    ] = False
    exclude: Annotated[
        tuple[str, ...],
        watch_option("--except", metavar="PATTERN", repeats=True, help="don't watch such names: 'attn.mask*'"),
    ] = ()
    every: Annotated[int, watch_option("--every", metavar="N", read=read_every, help="compare at each N-th step")] = 1
    expression: Annotated[
        str,
        watch_option(
            "--eval",
            metavar="EXPR",
            help="also compare these values at each step: 'len(batch), lr'; with nan: watch values at a line, in "
            "programs with JAX or numpy, too: 'train.py:38, loss'",
        ),
    ] = ""

    def question(self, watches: Sequence[str], record: str | None = None) -> NumbersQuestion:
        """Return the question that starts these watches, and records numbers in the directory ``record``."""
        runs = [text.removeprefix(DIFFERENT_FROM) for text in watches if text.startswith(DIFFERENT_FROM)]
        typed = LAST.fullmatch(record or "")
        return NumbersQuestion(
            nan=NAN in watches,
            exact=self.exact,
            exclude=self.exclude,
            different=DIFFERENT in watches,
            every=self.every,
            expression=self.expression,
            record=_absolute(typed[1]) if typed else "",
            last=int(typed[2] or 0) if typed else 0,
            reference=_absolute(runs[-1]) if runs else "",
        )

    def check(self, watch: NumbersQuestion) -> None:
        """Raise BadInput for options that need a watch."""
        is_lone = (self.exact or bool(self.exclude)) and not watch.is_watch
        refuse(is_lone, "--exact and --except need a watch", f"add --stop-at {NAN}")
        lacks_ranks = self.every > 1 and not watch.different
        refuse(lacks_ranks, "--every needs a comparison of ranks", f"add --stop-at {DIFFERENT}")
        has_values = watch.different or (watch.at_line is not None and watch.at_line.condition is not None)
        remedy = f"add --stop-at {DIFFERENT}, or {NAN} and write 'FILE:LINE, EXPR'"
        refuse(self.expression != "" and not has_values, "--eval needs a watch", remedy)


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - a word may be any text
