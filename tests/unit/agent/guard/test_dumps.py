"""faulthandler's dumps, in any pieces, with the rank's own lines between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.guard.dumps import DumpRecord, Stack, choose, parse_dump
from dbg_agent.guard.rank_side import BEAT, CALM, MARK
from dbg_wire.limits import MAX_STACK_FRAMES
from dbg_wire.records.ranks import Place

MAIN = 0x7F5C25E37B80


def header(thread: int | str, name: str = "", *, is_current: bool = False) -> str:
    """Return the line with which faulthandler begins the stack of a thread."""
    number = f"{thread:#018x}" if isinstance(thread, int) else thread
    return f"{'Current thread' if is_current else 'Thread'} {number}{name} (most recent call first):\n"


DUMP = f"""\
{header(0x7F5C252C76C0)}\
  File "/lib/threading.py", line 982 in run
  File "/lib/threading.py", line 1002 in _bootstrap

{header(MAIN)}\
  File "/home/me/train.py", line 41 in step
  File "/own/dbg_agent/program/script.py", line 97 in _run_script
  File "/home/me/train.py", line 60 in <module>
"""

FATAL = f"""\
Fatal Python error: Segmentation fault

{header(0x7F5C252C76C0, " [worker]", is_current=True)}\
  Garbage-collecting
  File "/home/me/d\\xe9p\\u0153t.py", line 7 in load
  File ???, line ??? in ???
  ...

{header(MAIN)}\
  <no Python frame>

Current thread's C stack trace:
  Binary file "/lib/libc.so.6", at abort+0x12 [0x7f]

Extension modules: numpy._core (total: 1)
"""

DUMP_FRAMES = (
    Place(file="/home/me/train.py", line=60, function="<module>"),
    Place(file="/home/me/train.py", line=41, function="step"),
)

texts = st.text(st.characters(codec="utf-8", exclude_characters="\n\\"), max_size=20)
places = st.builds(Place, file=texts, line=st.integers(1, 10**6), function=texts)
stacks = st.builds(
    Stack,
    thread=st.integers(0, 2**64 - 1),
    current=st.booleans(),
    frames=st.lists(places, max_size=5).map(tuple),
)


def record(own: tuple[str, ...] = ("/own/dbg_agent",)) -> DumpRecord:
    return DumpRecord("a/0", MAIN, own)


def dump_of(stacks_: list[Stack]) -> str:
    """Return threads as faulthandler writes them."""
    return "\n".join(
        header(stack.thread, is_current=stack.current)
        + "".join(
            f'  File "{escaped(place.file)}", line {place.line} in {escaped(place.function)}\n'
            for place in reversed(stack.frames)
        )
        for stack in stacks_
    )


def escaped(text: str) -> str:
    def character(c: str) -> str:
        if " " <= c <= "~":
            return c
        number = ord(c)
        return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"

    return "".join(map(character, text))


@given(st.lists(stacks, max_size=4))
def test_dumps_of_faulthandler_are_read_back(threads: list[Stack]) -> None:
    assert parse_dump(dump_of(threads)) == threads


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    for stack in parse_dump(text):
        assert len(stack.frames) <= MAX_STACK_FRAMES
        for place in stack.frames:
            (place.file + place.function).encode()


def test_odd_lines_of_a_dump_are_skipped() -> None:
    crashed, main = parse_dump(FATAL)
    assert crashed.frames == (
        Place(file="", line=0, function="???"),
        Place(file="/home/me/dépœt.py", line=7, function="load"),
    )
    assert main == Stack(MAIN, False, ())


@pytest.mark.parametrize("prefer_current", [True, False], ids=["fatal signal", "stuck interpreter"])
def test_the_main_threads_stack_is_chosen_unless_a_signal_hit_another_thread(prefer_current: bool) -> None:
    def stack(thread: int, name: str, current: bool = False) -> Stack:
        return Stack(thread, current, (Place(file="f", line=1, function=name),))

    def chosen(*threads: Stack) -> list[str]:
        return [place.function for place in choose(threads, MAIN, prefer_current=prefer_current)]

    oldest = stack(9, "oldest")
    assert chosen(stack(7, "current", True), stack(MAIN, "main"), oldest) == ["current" if prefer_current else "main"]
    assert chosen(Stack(7, False, ()), oldest) == ["oldest"], "without a main and a current thread"
    assert chosen() == []


@given(st.data())
def test_pieces_of_any_size_make_the_same_record(data: st.DataObject) -> None:
    stream = f"{MARK}{BEAT} 17 b/1 \n{DUMP}{MARK}{CALM} 17 b/2 wss://login2:6900\n{FATAL}".encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces, whole = record(), record()
    whole.feed(stream)
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        pieces.feed(stream[start:end])
    for made in (pieces, whole):
        assert (made.key, made.thread, made.beats, made.is_calm) == ("b/2", 17, 2, True)
        assert made.owner == "wss://login2:6900"
        assert (made.signal, [place.function for place in made.frames]) == (11, ["???", "load"])


@given(st.integers(0, len(DUMP)))
def test_a_line_of_the_rank_may_interrupt_a_dump(at: int) -> None:
    whole = record()
    whole.feed(f"{DUMP[:at]}{MARK}{BEAT} 17 b/1 \n{DUMP[at:]}".encode())
    assert (whole.key, whole.owner, whole.beats, whole.frames) == ("b/1", "", 1, DUMP_FRAMES)


def test_a_requested_dump_replaces_the_last_one() -> None:
    rank = record()
    rank.feed(DUMP.encode())
    rank.expect()
    assert not rank.frames
    rank.feed(DUMP.replace("line 41", "line 42").encode())
    assert rank.frames[-1].line == 42
