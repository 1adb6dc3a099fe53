"""Pickles that are read without running them: those of recorders, those that would run code, and bombs."""

from __future__ import annotations

import contextlib
import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.recorder import plain_pickle
from dbg_wire.recorder.plain_pickle import NotPlain, load_plain
from tests.support.recorded import DUMPS

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


def test_a_dump_of_torch_is_read_as_the_standard_library_reads_it() -> None:
    data = (DUMPS / "gloo_2_14.pickle").read_bytes()
    assert load_plain(data) == pickle.loads(data)  # noqa: S301 - written by torch for this test


class Runs:
    """An object whose pickle makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_runs(protocol: int, tmp_path: Path) -> None:
    data = pickle.dumps({"entries": [Runs(tmp_path / "ran")]}, protocol)
    with pytest.raises(NotPlain):
        load_plain(data)
    assert not list(tmp_path.iterdir())
    pickle.loads(data)  # noqa: S301 - this shows that it would have
    assert [path.name for path in tmp_path.iterdir()] == ["ran"]


def test_code_is_named_as_such() -> None:
    with pytest.raises(NotPlain, match="would run code"):
        load_plain(pickle.dumps(Runs(Path("x")), 2))
    with pytest.raises(NotPlain, match="is no pickle"):
        load_plain(b"# a text")


@given(st.binary(max_size=200))
def test_any_bytes_are_plain_values_or_refused(data: bytes) -> None:
    for begin in (b"", b"\x80\x02", b"\x80\x04}("):
        with contextlib.suppress(NotPlain):
            load_plain(begin + data)


@given(st.data())
def test_a_dump_with_some_bytes_changed_or_missing_is_plain_or_refused(data: st.DataObject) -> None:
    dump = bytearray((DUMPS / "gloo_2_14.pickle").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        dump[data.draw(st.integers(0, len(dump) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(NotPlain):
        load_plain(bytes(dump[: data.draw(st.integers(0, len(dump)))]))


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


def test_operations_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MAX_OPERATIONS", 100)
    with pytest.raises(NotPlain, match="more than 100 operations"):
        load_plain(b"\x80\x02" + b"]" * 200 + b".")


def test_containers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MAX_CONTAINERS", 100)
    for code in (b"]", b"}", b"(t", b")\x85"):
        with pytest.raises(NotPlain, match="more than 100 lists"):
            load_plain(b"\x80\x02" + code * 101 + b".")


def test_deep_nesting_takes_no_stack() -> None:
    value = load_plain(b"]" * 100_000 + b"a" * 99_999 + b".")
    assert len(value) == 1
