"""Full-screen texts of a raw session: bytes that replace what stands on the debugger's rows. Pure."""

from __future__ import annotations

from dbg_wire.errors import printable

_KNOWN_STATE = (
    b"\x18"  # ends a sequence that was cut off
    b"\x1b[?2026l"
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l"
    b"\x1b[?1l\x1b[?66l\x1b>"
    b"\x1b[r\x1b[?6l\x1b[4l\x1b[?7h\x1b[?5l"
    b"\x0f\x1b(B\x1b)B\x1b[0m"
)

ENTER = b"\x1b[?1049h"
"""Shows the alternate screen; the user's shell and its history stay untouched behind it."""

CUT_LINES = b"\x1b[?7l"
"""Cuts lines off at the right edge, until the next page or the terminal's reset wraps them again."""

PUSH_TITLE, POP_TITLE = b"\x1b[22;2t", b"\x1b[23;2t"
"""Keep the window's title, and put it back."""


_KEYS = (
    ("d  or  .", "detach: the rank stays as it is"),
    ("n / p", "next / previous stopped rank of this job"),
    ("r", "pick another rank"),
    (":", "a command to any ranks: where all, e 0-7 loss, release, help"),
    ("w", "take the keyboard"),
    ("R", "end the job and run it again, under dbg-broker run"),
    ("?", "this page"),
)


COMMANDS = """\
where [TARGET]        stacks of all ranks, or of these, as one tree
e [TARGET] EXPR       a value, of all stopped and held ranks or of these
c TARGET CMD          a pdb command, e.g. c all n: one step everywhere
list [TARGET]         the ranks and their states; --all: exited ones, too
release [TARGET]      let held ranks go on; all, or these
continue TARGET       let stopped ranks go on
interrupt [TARGET]    break into running ranks; none named: into this one
screen [TARGET]       what a rank's debugger shows; none named: this one's
kill TARGET           end ranks; asks first
TARGET                go to that rank
help                  this page

TARGET is 5, 0-3,5, 0-1023/8, all, stopped, held, crashed, running, !5,
gpu013:5, gpu013:*, or @2, a group of the last answer; of this job unless
job/ or */ stands before it. The options of dbg-attach work as well:
all -w, 0-7 -e 'loss, lr', held --release; e --frame step 0-7 loss.
"""
"""What the command line of a session takes."""


def last_row(rows: int) -> bytes:
    """Return the bytes that bring any terminal to a known state and clear its last row, the cursor at its beginning."""
    return _KNOWN_STATE + b"\x1b[%d;1H\x1b[2K\x1b[?25h" % rows


def blank(text: str, rows: int, columns: int) -> bytes:
    """Return the bytes that bring any terminal to a known state, clear it, hide the cursor and write ``text``."""
    drawn = ENTER + _KNOWN_STATE + b"\x1b[?25l\x1b[H\x1b[2J"
    for number, line in enumerate(text.split("\n")[: max(0, rows - 1)]):
        if line:
            drawn += b"\x1b[%d;2H%b" % (number + 2, printable(line, max(1, columns - 3)).encode())
    return drawn


def title(address: str) -> bytes:
    """Return the bytes that name the window after the rank."""
    return b"\x1b]2;" + printable(address).encode() + b"\x07"


def line_help(prefix: str) -> str:
    """Return what helps at a line debugger; ``prefix`` is the escape key's name, empty if there is none."""
    lines = [f"{prefix}, then", *(f"  {key:<10}{does}" for key, does in _KEYS)] if prefix else []
    lines += [
        "detach      leave the rank as it is",
        "sticky      show the source after every stop, or no longer",
        "Ctrl-C      drop the line; interrupt what runs",
        "Ctrl-D      ask whether to continue, kill or stay",
        "Tab         complete",
        "Alt-Enter   begin another line of the same block",
        "F4          emacs or vi keys",
        "help        the debugger's own help",
    ]
    return "\n".join(lines) + "\n"


def help_text(prefix: str) -> str:
    """Return the help page; ``prefix`` is the escape key's name."""
    keys = (*_KEYS[:-1], ("]", f"send {prefix} itself"), _KEYS[-1])
    lines = [f"{prefix}, then", ""]
    lines += [f"  {key:<10}{does}" for key, does in keys]
    lines += ["", "Every other key goes to the debugger, Ctrl-C too.", "", "Any key goes back."]
    return "\n".join(lines)
