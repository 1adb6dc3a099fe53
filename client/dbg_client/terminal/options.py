"""What the user wants of a session: how it looks, which key commands it, which debugger it asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbg_client.core.left_breakpoints import Breakpoints
from dbg_client.terminal.startup import Startup
from dbg_client.words.engine import NO_WISH, Wish
from dbg_wire.messages import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What the user wants of every session of one run; ``note`` is for the first line of the next one.

    ``prefix`` is the byte of the escape key, None for no such key. ``startup`` is what line debuggers are told first.
    ``breakpoints`` keeps those that people have set; it is the same for all sessions that belong together.
    ``frame`` is the frame to open the debugger at, empty for the usual one. ``may_run_again`` says that the user can
    have the job run again from here.
    """

    mode: Mode
    prefix: bytes | None
    status: bool
    colors: int
    color: bool
    vi: bool = False
    note: str | None = None
    wish: Wish = NO_WISH
    frame: str = ""
    startup: Startup = field(default_factory=Startup)
    may_run_again: bool = False
    breakpoints: Breakpoints = field(default_factory=Breakpoints)
