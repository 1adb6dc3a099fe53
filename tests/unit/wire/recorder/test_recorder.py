"""Reading dumps of flight recorders: real ones of gloo, and those of NCCL as its source writes them."""

from __future__ import annotations

import contextlib
import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.recorder.entries import entries_of
from dbg_wire.recorder.plain_pickle import NotPlain, load_plain
from dbg_wire.recorder.seen import bytes_of, name_of, peer_of, shapes_text, types_text
from tests.support.recorded import DUMPS, dump, pickled, raw


def kept(content: bytes) -> list[tuple[str, str, int, bool]]:
    """Return group, name and sequence of each entry that is kept, and whether it is unfinished."""
    return [(entry.group, entry.name, entry.sequence, entry.is_unfinished) for entry in entries_of(content)]


@pytest.mark.parametrize("name", ["gloo_2_13.json", "gloo_2_14.json", "gloo_2_14.pickle"])
def test_real_dumps_give_unfinished_and_last_completed_collectives_of_each_group(name: str) -> None:
    content = (DUMPS / name).read_bytes()

    assert kept(content) == [("1", "all_gather", 1, False), ("0", "broadcast", 3, False), ("0", "all_reduce", 4, True)]
    last = entries_of(content)[-1]
    assert (last.shapes, last.types, last.timeout, last.library) == (((3, 5),), ("BFloat16",), 20000, "gloo")


def test_nccl_entry_has_ended_by_its_state() -> None:
    recorded = [
        raw(1, "nccl:all_reduce", state="completed", retired=True),
        raw(2, "nccl:all_reduce", state="completed"),
        raw(3, "nccl:_all_gather_base", state="started"),
        raw(4, "nccl:all_reduce"),
    ]
    expected = [("0", "all_reduce", 2, False), ("0", "_all_gather_base", 3, True), ("0", "all_reduce", 4, True)]

    assert kept(dump(*recorded)) == expected
    assert kept(pickled(*recorded)) == expected


@pytest.mark.parametrize(("state", "unfinished"), [("completed", []), ("started", ["send 0->1", "coalesced"])])
def test_members_of_a_batch_end_with_the_batch(state: str, unfinished: list[str]) -> None:
    content = dump(
        raw(1, "nccl:send 0->1", is_p2p=True, p2p_seq_id=1),
        raw(2, "nccl:coalesced", p2p_seq_id=1, state=state),
    )

    assert [entry.name for entry in entries_of(content) if entry.is_unfinished] == unfinished


def test_send_is_counted_separately_and_not_as_last_collective() -> None:
    content = dump(
        raw(5, "nccl:all_reduce", state="completed"),
        raw(5, "nccl:send 0->1", is_p2p=True, p2p_seq_id=9, state="completed"),
        raw(5, "nccl:recv 0<-1", is_p2p=True, p2p_seq_id=10, state="started"),
    )

    assert kept(content) == [("0", "all_reduce", 5, False), ("0", "recv 0<-1", 10, True)]


OUTCOMES = st.tuples(st.sampled_from("01"), st.booleans(), st.sampled_from(["plain", 'quoted"},{"x', "},{"]))


@given(st.lists(OUTCOMES, max_size=30))
def test_fast_parse_finds_the_same_entries_as_a_full_parse(outcomes: list[tuple[str, bool, str]]) -> None:
    recorded = [
        raw(number, "gloo:all_reduce", group=group, retired=is_retired, thread_name=thread)
        for number, (group, is_retired, thread) in enumerate(outcomes)
    ]
    # With a space behind the colon, the entries are not where the quick way looks for them.
    slow = dump(*recorded).replace(b'"entries":[{', b'"entries": [{')

    assert kept(dump(*recorded)) == kept(slow)


SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False) | st.text()
KEYS = st.text() | st.integers(-(2**63), 2**64)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.lists(inner).map(tuple),
    max_leaves=30,
)


@given(VALUES, st.integers(2, 5))
def test_plain_values_are_read_as_the_standard_library_reads_them(value: object, protocol: int) -> None:
    assert load_plain(pickle.dumps(value, protocol)) == value


class Runs:
    """An object whose pickle makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", range(6))
def test_unpickling_runs_no_code(protocol: int, tmp_path: Path) -> None:
    data = pickle.dumps({"entries": [Runs(tmp_path / "ran")]}, protocol)
    with pytest.raises(NotPlain):
        load_plain(data)
    assert not list(tmp_path.iterdir())
    pickle.loads(data)  # noqa: S301 - this shows that it would have
    assert [path.name for path in tmp_path.iterdir()] == ["ran"]


@given(st.binary(max_size=200))
def test_any_bytes_are_plain_values_or_refused(data: bytes) -> None:
    for start in (b"", b"\x80\x02", b"\x80\x04}("):
        with contextlib.suppress(NotPlain):
            load_plain(start + data)


BOMBS = {
    "a huge memo": b"\x80\x02]r\xff\xff\xff\x7f.",
    "a huge bytearray": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".",
    "a huge text": b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b"x.",
    "digits": b"I" + b"9" * 1_000_000 + b"\n.",
    "a long number": b"\x8b" + struct.pack("<I", 2**31 - 1) + b".",
    "a key that is hashed for ever": b"\x80\x02}()q\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"K\x01u.",
    "copies of the top": b"]" + b"2" * 1000 + b".",
    "no end": b"\x80\x02" + b"]" * 100,
    "marks alone": b"(" * 100 + b".",
}


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_bombs_are_refused_or_small(data: bytes) -> None:
    with contextlib.suppress(NotPlain):
        assert load_plain(data) == []


@pytest.mark.parametrize(
    ("recorded", "name", "peer", "is_receive"),
    [
        ("all_reduce", "all_reduce", None, False),
        ("_all_gather_base", "all_gather_into_tensor", None, False),
        ("allreduce_coalesced", "all_reduce_coalesced", None, False),
        ("_reduce_oop", "reduce", None, False),
        ("all_reduce_barrier", "barrier", None, False),
        ("send 0->1", "send", 1, False),
        ("recv 3<-12", "recv", 12, True),
        ("send 0->x", "send", None, False),
        ("", "", None, False),
    ],
)
def test_recorded_name_is_converted_to_the_usual_name(
    recorded: str, name: str, peer: int | None, is_receive: bool
) -> None:
    assert (*name_of(recorded), peer_of(recorded)) == (name, is_receive, peer)


def test_shapes_and_types_are_those_of_python() -> None:
    assert shapes_text(()) == ""
    assert shapes_text(((2, 3), ())) == "[2, 3], []"
    assert shapes_text([(1,)] * 20).endswith("[1], and 12 more")
    assert types_text(("Float", "Float", "BFloat16", "Float8_e4m3fn")) == "float32, bfloat16, float8_e4m3fn"


def test_bytes_are_those_of_all_inputs() -> None:
    assert bytes_of(((2, 3), (5,)), ("Float", "Long")) == 64
    assert bytes_of(((),), ("Double",)) == 8
    assert bytes_of(((7,),), ("float8_e5m2",)) == 7
    assert bytes_of((), ()) is None
    assert bytes_of(((2,),), ("QInt8",)) is None
