"""What is read of executables, damaged ones among them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.adopt.python import Elf, NotElf

PYTHON = Path(sys.executable).resolve()


def test_functions_are_found_where_the_c_library_says_that_they_are() -> None:
    path = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so.6" in line)
    found = Elf(Path(path).read_bytes()).addresses(["mmap", "munmap", "no_such_function"])
    assert set(found) == {"mmap", "munmap"}
    assert all(address > 0 and size > 0 for address, size in found.values())


@given(st.binary(max_size=200))
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(NotElf):
        Elf(data)


@given(st.integers(min_value=7, max_value=4000), st.binary(min_size=1, max_size=40))
def test_damaged_files_raise_nothing_else(at: int, damage: bytes) -> None:
    whole = PYTHON.read_bytes()[:20_000]
    data = whole[:at] + damage + whole[at + len(damage) :]
    try:
        elf = Elf(data)
        assert isinstance(elf.lowest, int)
        elf.addresses(["mmap"])
    except NotElf:
        pass
