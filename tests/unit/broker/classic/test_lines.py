"""A stock pdb as the broker presents it: a prompt at the end of its output, one reply per prompt, a log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.classic.line import LineSession
from dbg_broker.classic.screen import (
    Drawn,
    Entered,
    Left,
    Piece,
    PrintedBytes,
    Splitter,
    without_queries,
)
from dbg_broker.classic.session import SessionOutput, Write
from dbg_wire.codec import Output
from dbg_wire.messages import Audience, PromptInfo, PromptState, Replay, Replied, Reply
from dbg_wire.records.ranks import Place, RankState

GREETING = b"> /home/me/train.py(41)step()\r\n-> loss = f(x)\r\n(Pdb) "


def stopped() -> LineSession:
    session = LineSession(0.0)
    session.message(Audience(viewers=1, generation=1, rows=24, columns=80, colors=256), 0.0)
    session.received(GREETING, 0.0)
    return session


def shown(outputs: list[SessionOutput]) -> str:
    return b"".join(deed.data for deed in outputs if isinstance(deed, Output)).decode()


def written(outputs: list[SessionOutput]) -> bytes:
    return b"".join(deed.data for deed in outputs if isinstance(deed, Write))


def reply(text: str, prompt: int = 1, generation: int = 1) -> Reply:
    return Reply(prompt=prompt, generation=generation, text=text)


def prompt_of(session: LineSession) -> PromptInfo | None:
    return session.report(0.0).prompt


@given(st.lists(st.integers(0, len(GREETING)), max_size=10))
def test_a_prompt_is_found_wherever_reads_cut(cuts: list[int]) -> None:
    session = LineSession(0.0)
    session.message(Audience(viewers=1, generation=1, rows=24, columns=80, colors=256), 0.0)
    places = sorted(set(cuts))
    outputs: list[SessionOutput] = []
    for start, end in zip([0, *places], [*places, len(GREETING)], strict=True):
        outputs += session.received(GREETING[start:end], 0.0)
    log = "> /home/me/train.py(41)step()\n-> loss = f(x)\n"
    assert shown(outputs) == log
    prompt = prompt_of(session)
    assert prompt is not None
    assert (prompt.offset, prompt.text, prompt.state) == (len(log), "(Pdb) ", PromptState.COMMAND)
    report = session.report(0.0)
    assert report.state is RankState.STOPPED
    assert report.stop is not None
    assert report.stop.where == Place(file="/home/me/train.py", line=41, function="step")
    assert session.is_proven


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("(Pdb) ", PromptState.COMMAND),
        ("((Pdb)) ", PromptState.COMMAND),
        ("(Pdb++) ", PromptState.COMMAND),
        ("(com) ", PromptState.COMMANDS),
        (">>> ", PromptState.INTERACT),
        ("... ", PromptState.MORE),
    ],
)
def test_every_prompt_of_pdb_is_known(text: str, state: PromptState) -> None:
    session = LineSession(0.0)
    session.received(f"x\r\n{text}".encode(), 0.0)
    prompt = prompt_of(session)
    assert prompt is not None
    assert (prompt.text, prompt.state) == (text, state)


def test_a_reply_is_written_once_and_stands_in_the_log() -> None:
    session = stopped()
    outputs = session.message(reply("p loss"), 1.0)
    assert written(outputs) == b"p loss\n"
    assert shown(outputs) == "(Pdb) p loss\n"
    assert Replied(prompt=1, taken=True) in outputs
    assert prompt_of(session) is None
    (again,) = session.message(reply("p loss"), 1.0)
    assert isinstance(again, Replied)
    assert not again.taken
    assert again.reason
    outputs = session.received(b"0.25\r\n(Pdb) ", 1.1)
    assert shown(outputs) == "0.25\n"
    prompt = prompt_of(session)
    assert prompt is not None
    assert prompt.number == 2


@pytest.mark.parametrize("wrong", [reply("n", prompt=2), reply("n", generation=9), reply("for i in x:\n    print(i)")])
def test_a_reply_that_can_not_be_meant_is_not_written(wrong: Reply) -> None:
    session = stopped()
    outputs = session.message(wrong, 1.0)
    assert written(outputs) == b""
    (settled,) = outputs
    assert isinstance(settled, Replied)
    assert not settled.taken
    assert settled.reason
    assert written(session.message(reply("n"), 1.0)) == b"n\n"


@given(st.lists(st.binary(max_size=100), max_size=10), st.integers(0, 500))
def test_log_and_frames_say_the_same_whatever_comes(chunks: list[bytes], offset: int) -> None:
    session = stopped()
    outputs: list[SessionOutput] = session.message(Replay(session=1, offset=0), 0.0)
    for chunk in chunks:
        outputs += session.received(chunk, 0.0)
    live = b"".join(deed.data for deed in outputs if isinstance(deed, Output))
    replay = session.message(Replay(session=1, offset=offset), 0.0)
    assert b"".join(deed.data for deed in replay if isinstance(deed, Output)) == live[offset:]


STOP = b"before\n\x1b[?1049h\x1b)0\x1b[H\x1b[1;1HPuDB\x1b[K\x1b[?1049l\x1b[?25hprinted\n\x1b[?1049h\x1b[Hagain"


def joined(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces as one read of the whole stream gives them."""
    whole: list[Piece] = []
    for piece in pieces:
        last = whole[-1] if whole else None
        if isinstance(piece, Drawn) and isinstance(last, Drawn):
            whole[-1] = Drawn(last.data + piece.data)
        elif isinstance(piece, PrintedBytes) and isinstance(last, PrintedBytes):
            whole[-1] = PrintedBytes(last.data + piece.data)
        else:
            whole.append(piece)
    return whole


def cut_up(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@given(st.lists(st.integers(min_value=0, max_value=1000), max_size=20))
def test_switches_are_found_wherever_reads_cut(cuts: list[int]) -> None:
    splitter = Splitter()
    pieces = [piece for part in cut_up(STOP, cuts) for piece in splitter.feed(part)]
    assert joined(pieces) == [
        PrintedBytes(b"before\n"),
        Entered(b"\x1b[?1049h"),
        Drawn(b"\x1b)0\x1b[H\x1b[1;1HPuDB\x1b[K"),
        Left(),
        PrintedBytes(b"\x1b[?25hprinted\n"),
        Entered(b"\x1b[?1049h"),
        Drawn(b"\x1b[Hagain"),
    ]


def test_queries_are_left_out_of_a_replay() -> None:
    asked = b"\x1b[?2026$p\x1b[c\x1b[>0q\x1b[6n\x1b]11;?\x07"
    drawn = b"\x1b[?25l\x1b[1;1H\x1b[38;5;17mtext\x1b[K\x1b[4l"
    assert without_queries(asked + drawn + asked) == drawn
    assert without_queries(asked + drawn + b"\x1b[3") == drawn + b"\x1b[3"
