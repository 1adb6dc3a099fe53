"""What a session at a rank is like: the options of all verbs that attach."""

from __future__ import annotations

from typing import Annotated

from dbg_client.verbs.option import Heading, Option, Preferred, read_frame
from dbg_client.verbs.preferences import (
    DEFAULT_PREFIX,
    PAGER,
    Wish,
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
    Option("-x", heading=Heading.ATTACH, metavar="FILE", help="tell pdb the lines of FILE first"),
]

Recorded = Annotated[
    str | None,
    Option(
        "--record",
        heading=Heading.ATTACH,
        metavar="FILE",
        help="record what the terminal shows in a new file; `asciinema play FILE` plays it",
    ),
]


class AttachOptions(Record):
    """What sessions are like.

    ``prefix`` is the byte of the escape key, None for no such key. ``status`` says whether the last row is a status
    line. ``commands`` is the file whose lines a line debugger is told on attach. ``frame`` is empty for the usual one.
    ``pager`` is the command that shows what a session answers. ``vi`` says that keys at pdb's prompt are those of vi.
    """

    frame: Annotated[
        str,
        Option(
            "--frame",
            heading=Heading.ASKING,
            metavar="FRAME",
            in_session=True,
            help="in this frame: a function's name or a number such as -2, instead of the innermost of your own code",
            read=read_frame,
        ),
    ] = ""
    mode: Annotated[
        Mode,
        Option("--watch", heading=Heading.ATTACH, const=Mode.WATCH, help="look only"),
        Option("--take", heading=Heading.ATTACH, const=Mode.TAKE, help="take the keyboard from whoever has it"),
    ] = Mode.DRIVE
    follow: Annotated[
        bool, Option("--follow", heading=Heading.ATTACH, help="wait for the next stop whenever one ends")
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
    def wish(self) -> Wish:
        """The debugger that the user prefers."""
        return Wish(self.asked_engine, self.default_engine)

    def check(self) -> None:
        """Raise BadInput for options that contradict each other."""
        what = "--frame chooses what the debugger shows and --watch looks only"
        refuse(bool(self.frame) and self.mode is Mode.WATCH, what)
