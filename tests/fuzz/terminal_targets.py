"""What a terminal's side reads: the bytes that a rank draws and prints, and what the user types."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from contextlib import suppress

from dbg_client.after.case_file import CantReadReport, read_report
from dbg_client.after.recorder_dumps import RankDump, explain_dumps
from dbg_client.command_line.session_line import read_session_line
from dbg_client.verbs.preferences import parse_escape_key
from dbg_client.web.messages import LIVE, TERMINAL, Ask, read
from dbg_client.why.sentences import sentence_of
from dbg_command.sequences import QueryFilter, TextFilter
from dbg_wire.errors import BadInput, PeerError, printable
from dbg_wire.recorder.entries import WRONG_FORM, read_dump
from dbg_wire.records.record import decode_record, encode_record
from tests.fuzz.target import Target, pieces_of, text_of, whole
from tests.support.recorded import dump, pickled, raw
from tests.unit.client.after.test_files import LOOK, case_of, saved, written

ANSWERED = re.compile(
    rb"\x05|\x1bZ|\x1bc|\x1bP|\x1b_|\x1b\^|\x1bX|\x1b\](?!8;)|\x1b\[[0-9;]*[cnxti]|\x1b\[[>=][0-9;]*c|\xc2[\x80-\x9f]"
)
"""What a terminal answers to, or keeps beyond the screen."""

ACTS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;:]*m)")
"""What is neither text nor a colour."""

MAX_HELD = 64 * 1024
"""Bytes of an unfinished sequence that may be kept; the filters keep 4 KiB and less."""


def screen(data: bytes) -> None:
    """Filter what a rank draws: what passes is the same in reads of any size, and asks the terminal nothing."""
    filtered, drawn = QueryFilter(), b""
    for piece in pieces_of(data):
        passed = filtered.feed(piece)
        # Between two reads the status line is painted, so nothing may be left open.
        assert QueryFilter().feed(passed) == passed
        assert filtered.held_back <= MAX_HELD
        drawn += passed
    assert drawn == QueryFilter().feed(data[1:])
    assert ANSWERED.search(drawn) is None
    codecs.decode(drawn, "utf-8")


def printed(data: bytes) -> None:
    """Filter what a program prints: text and colours alone."""
    filtered = TextFilter()
    text = "".join(filtered.feed(read) for read in pieces_of(data))
    assert text == TextFilter().feed(data[1:])
    assert ACTS.search(text) is None


def escape_key(data: bytes) -> None:
    """Read an escape key."""
    with suppress(BadInput):
        parse_escape_key(text_of(data))


def left_dumps(data: bytes) -> None:
    """Read the dump of a rank that is gone, and say why its job hung."""
    for start in (b"", b"\x80\x02"):
        with suppress(*WRONG_FORM):
            found = explain_dumps([RankDump(rank=3, dump=read_dump(start + data), written=1_790_000_000.0)])
            assert all(printable(sentence_of(verdict), 10_000) == sentence_of(verdict) for verdict in found.verdicts)


def reports(data: bytes) -> None:
    """Read the evidence of a report, and say why its job hung."""
    with suppress(CantReadReport):
        assert read_report(data).case.explanation().asked >= 0


def page(data: bytes) -> None:
    """Read what a page in a browser says, and the line that it asks."""
    text = data.decode("utf-8", "replace")
    with suppress(PeerError):
        read(TERMINAL, text)
    line = text
    with suppress(PeerError):
        said = read(LIVE, text)
        assert decode_record(type(said), encode_record(said)) == said
        line = said.line if isinstance(said, Ask) else text
    for has_ranks in (False, True):
        with suppress(BadInput):
            read_session_line(line, {}, has_ranks=has_ranks)


def _target(name: str, run: Callable[[bytes], None], *seeds: bytes) -> Target:
    return Target(name, run, seeds)


DRAWN = (
    b"\x1b[?25l\x1b[2;1H\x1b[0;1;31mline\x1b[K\x1b]8;;https://a\x1b\\b\x1b]8;;\x1b\\\xe2\x94\x80\x1b[6n\x1b]52;c;?\x07"
)
DUMP = pickled(raw(3, "nccl:send 0->1", is_p2p=True, state="started"), raw(4, "nccl:all_reduce", state="completed"))
REPORT = written(saved(case_of(LOOK.everybody, LOOK.everybody)))
TARGETS = (
    _target("screen", screen, *whole(DRAWN, b"\x1bP+q544e\x1b\\\x9b6n\xc2\x9b6n", b"\x1b[?1049h\x1b[?2004h\x1b[5i")),
    _target("printed", printed, *whole(b"loss \x1b[31m0.25\x1b[0m\r\n\x1b]0;title\x07\ttab", b"\x85\xc2\x85\x1b[2J")),
    _target("left_dumps", left_dumps, DUMP, DUMP[2:], dump(raw(4, "gloo:all_reduce"))),
    _target("reports", reports, REPORT, b"dbg-attach: no rank of train-7 has moved for 5 s\ntrain-7: it hangs\n"),
    _target(
        "page",
        page,
        b'{"type":"ask","id":1,"line":"eval --frame step 0-7 loss","keys":["j/0"],"ranks":"@2","every":1.5,"yes":true}',
        b'{"type":"source","id":2,"key":"j/0","file":"/a.py","line":3,"around":10}',
        b'{"type":"complete","id":1,"line":"lo","start":0,"end":2}',
        b"where --threads 0-7,!5",
        b"command -h stopped n",
    ),
    _target("escape_key", escape_key, b"^]", b"ctrl-a"),
)
