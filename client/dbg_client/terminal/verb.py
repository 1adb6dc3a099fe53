"""``attach`` and ``wait``: connect a terminal to the debugger of a rank."""

from __future__ import annotations

import math
from typing import ClassVar

from dbg_client.verbs.attach_options import AttachOptions, Recorded
from dbg_client.verbs.option import Operands
from dbg_client.verbs.verb import Bound, Color, Verb, refuse


class Attach(Verb):
    """Attach to a stopped rank, or to the one that the user picks."""

    name = "attach"
    example = "attach gpu013:5"
    operands = Operands.MAYBE_TARGET
    in_session: ClassVar[Operands | None] = Operands.TARGET
    help_in_session = "go to that rank; the verb may be omitted"
    takes_one = True

    target: str | None = None
    attach: AttachOptions = AttachOptions()
    record: Recorded = None
    color: Color = False

    @property
    def deadline(self) -> float | None:
        """Seconds to wait for a stop, infinity for no limit, None for no wait."""
        return None

    def check(self) -> None:
        self.attach.check()

    def check_in_session(self) -> None:
        what = "--frame is for eval, command and interrupt here"
        refuse(bool(self.attach.frame), what, "select a frame in the debugger with `u` and `d`")

    def run(self) -> int:
        import asyncio

        from dbg_client.terminal.attach import attach  # imported here, because few verbs need a session

        return asyncio.run(attach(self))


class Wait(Attach):
    """Attach as soon as the target stops."""

    name = "wait"
    example = "wait 5 --for 60s"
    in_session = None

    bound: Bound = None

    @property
    def deadline(self) -> float | None:
        return self.bound or math.inf
