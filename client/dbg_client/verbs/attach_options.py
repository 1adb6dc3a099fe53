"""Options of a session at a rank, shared by all verbs that attach."""

from __future__ import annotations

from typing import Annotated

from dbg_client.verbs.option import Frame, Heading, Option, Preferred
from dbg_client.verbs.preferences import (
    DEFAULT_PREFIX,
    PAGER,
    EngineSpec,
    parse_escape_key,
    read_engine,
)
from dbg_client.verbs.verb import Pager, refuse
from dbg_dial.home import ENGINE
from dbg_wire.messages import Mode
from dbg_wire.records.ranks import ENGINES
from dbg_wire.records.record import Record

Engine = Annotated[
    str | None,
    Option(
        "--engine",
        heading=Heading.ATTACH,
        metavar="NAME",
        choices=ENGINES,
        help="the debugger to open, pudb or pdb (or DBG_ENGINE)",
    ),
]
Commands = Annotated[
    str | None,
    Option("-x", heading=Heading.ATTACH, metavar="FILE", help="run the pdb commands in FILE first"),
]

Recorded = Annotated[
    str | None,
    Option(
        "--record",
        heading=Heading.ATTACH,
        metavar="FILE",
        help="record the terminal's output in a new file; `asciinema play FILE` plays it",
    ),
]


class AttachOptions(Record):
    """Settings of a session.

    ``prefix`` is the byte of the escape key, None for no such key. ``status`` is True if the last row is a status line.
    ``commands`` is a file of commands for a line debugger to run on attach. ``frame`` is empty for the default frame.
    ``pager`` is the command that shows the session's answers. ``vi`` is True for vi keys at pdb's prompt.
    """

    frame: Frame = ""
    mode: Annotated[
        Mode,
        Option("--watch", heading=Heading.ATTACH, const=Mode.WATCH, help="watch only, without the keyboard"),
        Option("--take", heading=Heading.ATTACH, const=Mode.TAKE, help="take the keyboard from its present user"),
    ] = Mode.DRIVE
    follow: Annotated[
        bool, Option("--follow", heading=Heading.ATTACH, help="wait for the next stop whenever a stop ends")
    ] = False
    asked_engine: Engine = None
    default_engine: Annotated[str | None, Preferred(ENGINE, read_engine)] = None
    commands: Commands = None
    vi: Annotated[bool, Preferred("DBG_EDITING", lambda text: text.lower() == "vi")] = False
    prefix: Annotated[
        bytes | None,
        Option(
            "--escape",
            heading=Heading.ATTACH,
            metavar="KEY",
            help="prefix key, e.g. ^], ^\\ or none (default ^]; or DBG_ESCAPE)",
            read=parse_escape_key,
        ),
        Preferred("DBG_ESCAPE", parse_escape_key),
    ] = DEFAULT_PREFIX
    status: Annotated[
        bool,
        Option(
            "--no-status",
            heading=Heading.ATTACH,
            const=False,
            help="no status line; the debugger gets the last row, too",
        ),
    ] = True
    pager: Pager = PAGER

    @property
    def spec(self) -> EngineSpec:
        """The user's preferred debugger."""
        return EngineSpec(self.asked_engine, self.default_engine)

    def check(self) -> None:
        """Raise BadInput for options that contradict each other."""
        what = "--frame selects the debugger's frame, but --watch only watches"
        refuse(bool(self.frame) and self.mode is Mode.WATCH, what)
