"""The ``run`` command: a job with its terminal."""

from __future__ import annotations

import os
from typing import Annotated

from dbg_client.run.options import RunOptions
from dbg_client.verbs.attach_options import AttachOptions
from dbg_client.verbs.option import NO_FLAGS, Operands
from dbg_client.verbs.verb import Color, Verb


class Run(Verb):
    """Run a command, and attach wherever one of its ranks stops; ``command`` is never empty."""

    name = "run"
    example = "run --stop-at train.py:38 -- torchrun train.py"
    operands = Operands.JOB

    command: tuple[str, ...] = ()
    options: RunOptions = RunOptions()
    attach: Annotated[AttachOptions, NO_FLAGS] = AttachOptions()
    color: Color = False

    def run(self) -> int:
        from dbg_client.run.start import run

        return run(self, os.environ)
