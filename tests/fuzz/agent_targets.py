"""What a rank's guard reads of its rank, which may be dying, and of other programs."""

from __future__ import annotations

from contextlib import suppress

from dbg_agent.guard.dumps import DumpRecord, parse_dump
from dbg_agent.guard.guard_commands import NoStack, frames_of
from dbg_agent.guard.rank_side import MARK
from tests.fuzz.target import Target, pieces_of, text_of, whole


def dump(data: bytes) -> None:
    """Read the pipe into which a rank beats, and faulthandler writes."""
    record = DumpRecord("key", 1, ["/own"])
    for read in pieces_of(data):
        record.feed(read)
    # Once, because a dump is parsed as a whole: after each of many reads it would take quadratic time.
    assert all(place.line >= 0 for place in record.frames)
    parse_dump(text_of(data))


def native(data: bytes) -> None:
    """Read the stacks that py-spy prints."""
    with suppress(NoStack):
        frames_of(text_of(data), 4711, ["/own"], {})


DUMP = (
    b'Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n  File "a\\xe4.py", '
    b"line 3 in f\n  File ???, line ??? in ???\n"
)
STACKS = b'[{"pid":4711,"os_thread_id":4711,"frames":[{"module":null,"filename":"a.py","line":3,"name":"f"}]}]'
TARGETS = (
    Target("dump", dump, whole(f"{MARK}beat 1 key\n{MARK}calm 1 key\n".encode() + DUMP)),
    Target("native", native, (STACKS,)),
)
