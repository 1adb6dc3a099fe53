from __future__ import annotations

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.errors import BadInput, BadSecretFile
from dbg_wire.home import check_private, home_directory
from tests.support.reach import refusal

ME, ROOT, SOMEBODY = 1000, 0, 1001


@pytest.mark.parametrize(
    ("mode", "uid", "own_uid"),
    [
        (stat.S_IFREG | 0o600, ME, ME),
        (stat.S_IFREG | 0o400, ME, ME),
        (stat.S_IFREG | 0o700, ME, ME),
        (stat.S_IFREG | 0o600, ROOT, ROOT),
        (stat.S_IFREG | 0o644, ROOT, ME),  # a secret that the container runtime mounted
        (stat.S_IFIFO | 0o644, ME, ME),  # <(pass show broker)
        (stat.S_IFCHR | 0o620, ME, ME),  # /dev/stdin
    ],
)
def test_a_file_closed_to_others_passes(mode: int, uid: int, own_uid: int) -> None:
    check_private(mode, uid, own_uid, "/run/token")


@pytest.mark.parametrize(
    ("mode", "uid", "own_uid", "reason"),
    [
        (stat.S_IFREG | 0o640, ME, ME, r"is open to others \(mode 640\); type `chmod 600 '/run/my token'`"),
        (stat.S_IFREG | 0o604, ME, ME, "is open to others"),
        (stat.S_IFREG | 0o620, ME, ME, "is open to others"),
        (stat.S_IFREG | 0o644, ROOT, ROOT, "is open to others"),
        (0o644, ME, ME, "is open to others"),
        (stat.S_IFREG | 0o600, SOMEBODY, ME, "belongs to user 1001"),
        (stat.S_IFREG | 0o600, SOMEBODY, ROOT, "belongs to user 1001"),
        (stat.S_IFIFO | 0o600, SOMEBODY, ME, "belongs to user 1001"),
        (stat.S_IFREG | 0o664, ROOT, ME, "can be written by others"),
        (stat.S_IFDIR | 0o700, ME, ME, "is a directory"),
    ],
)
def test_a_file_open_to_others_is_refused(mode: int, uid: int, own_uid: int, reason: str) -> None:
    with pytest.raises(BadSecretFile, match=reason) as caught:
        check_private(mode, uid, own_uid, "/run/my token")
    assert "/run/my token" in str(caught.value)


@given(st.integers(0, 0o777), st.text(st.characters(), min_size=1))
def test_ours_passes_exactly_if_nobody_else_can_read_or_write(mode: int, path: str) -> None:
    refused = refusal(lambda: check_private(stat.S_IFREG | mode, ME, ME, path))
    assert (refused is not None) == bool(mode & 0o066)
    assert str(refused).isprintable()


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"DBG_HOME": "/d", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/d"),
        ({"DBG_HOME": "", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/dbg-broker"),
        ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/dbg-broker"),
        ({"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/dbg-broker"),
        ({"HOME": "/h"}, "/h/.local/state/dbg-broker"),
        ({"XDG_STATE_HOME": "/x"}, "/x/dbg-broker"),
    ],
)
def test_the_home_is_the_first_that_is_set(environ: dict[str, str], home: str) -> None:
    assert home_directory(environ) == home


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "h"}, {"DBG_HOME": "d\x1b", "HOME": "/h"}])
def test_no_usable_home_says_what_to_set(environ: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="DBG_HOME") as caught:
        home_directory(environ)
    assert str(caught.value).isprintable()
