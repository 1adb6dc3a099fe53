"""``run`` and ``tmux``: a job with its terminal, and a pane for each of some ranks."""

from __future__ import annotations

import os
from typing import Annotated

from dbg_client.run.options import RunOptions
from dbg_client.verbs.attach_options import AttachOptions
from dbg_client.verbs.option import NO_FLAGS, Heading, Operands, Option
from dbg_client.verbs.verb import Color, Verb


class Run(Verb):
    """Run a command, and attach wherever one of its ranks stops; ``command`` is empty with ``again``."""

    name = "run"
    example = "run --stop-at train.py:38 -- torchrun train.py"
    operands = Operands.JOB

    command: tuple[str, ...] = ()
    options: RunOptions = RunOptions()
    again: Annotated[
        bool,
        Option(
            "--again",
            heading=Heading.RUNNING,
            help="the last command of this directory, with its options as typed",
        ),
    ] = False
    web: Annotated[
        bool,
        Option(
            "--web",
            heading=Heading.RUNNING,
            help="the job as a page in a browser as well, which only looks; ends with the job",
        ),
    ] = False
    attach: Annotated[AttachOptions, NO_FLAGS] = AttachOptions()
    color: Color = False

    def run(self) -> int:
        from dbg_client.run.start import run

        return run(self, os.environ)


class Tmux(Verb):
    """Attach to each rank of a target in a pane of tmux."""

    name = "tmux"
    example = "tmux 0-3"
    operands = Operands.TARGET

    target: str | None = None
    attach: AttachOptions = AttachOptions()

    def check(self) -> None:
        self.attach.check()

    def run(self) -> int:
        from dbg_client.run.panes import open_panes

        return open_panes(self)
