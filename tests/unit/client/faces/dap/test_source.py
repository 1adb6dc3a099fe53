"""Files by their names on both sides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.faces.dap.source import Paths, read_mappings
from dbg_wire.errors import BadInput

names = st.lists(st.text("abc.", min_size=1, max_size=4).filter(lambda one: one not in (".", "..")), max_size=4)


@given(names, names, names)
def test_a_file_below_a_root_comes_back_as_it_was(local: list[str], remote: list[str], rest: list[str]) -> None:
    paths = Paths([("/ide/" + "/".join(local), "/job/" + "/".join(remote))])
    path = "/".join(["/ide", *local, *rest])
    assert paths.to_ide(paths.to_rank(path)) == path
    assert paths.to_rank(path) == "/".join(["/job", *remote, *rest])


def test_the_longest_root_counts_and_others_stay() -> None:
    paths = Paths([("/w", "/a"), ("/w/lib", "/b/")])
    assert paths.to_rank("/w/train.py") == "/a/train.py"
    assert paths.to_rank("/w/lib/x.py") == "/b/x.py"
    assert paths.to_rank("/w/library/x.py") == "/a/library/x.py"
    assert paths.to_ide("/b/x.py") == "/w/lib/x.py"
    assert paths.to_rank("/elsewhere/x.py") == "/elsewhere/x.py"
    assert Paths([("/", "/mnt")]).to_rank("/x.py") == "/mnt/x.py"
    assert Paths([("/x", "/")]).to_ide("/y.py") == "/x/y.py"


def test_an_ide_on_windows_has_its_own_slashes_and_no_case() -> None:
    paths = Paths([("C:\\work\\", "/job")])
    assert paths.to_rank("c:\\work\\lib\\x.py") == "/job/lib/x.py"
    assert paths.to_ide("/job/lib/x.py") == "C:\\work\\lib\\x.py"


@pytest.mark.parametrize("given", ["x", [1], [{"localRoot": "/a"}], [{"localRoot": "/a", "remoteRoot": 5}], [{}] * 101])
def test_mappings_that_are_none_are_refused(given: object) -> None:
    with pytest.raises(BadInput):
        read_mappings(given)


def test_the_folder_of_the_debuggee_is_no_mapping() -> None:
    paths = read_mappings([{"localRoot": "/w", "remoteRoot": "."}])
    assert paths.to_rank("/w/x.py") == "/w/x.py"
    assert read_mappings(None).to_rank("/w/./x.py") == "/w/x.py"
