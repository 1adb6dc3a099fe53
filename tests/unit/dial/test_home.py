from __future__ import annotations

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.launch import claim
from dbg_agent.settings import Settings
from dbg_dial import home
from dbg_dial.home import check_above, check_private, home_directory, is_closed
from dbg_wire.errors import BadInput, BadSecretFile
from tests.conftest import Approved
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
    ("mode", "uid", "own_uid"),
    [
        (stat.S_IFREG | 0o640, ME, ME),
        (stat.S_IFREG | 0o604, ME, ME),
        (stat.S_IFREG | 0o620, ME, ME),
        (stat.S_IFREG | 0o644, ROOT, ROOT),
        (0o644, ME, ME),
        (stat.S_IFREG | 0o600, SOMEBODY, ME),
        (stat.S_IFREG | 0o600, SOMEBODY, ROOT),
        (stat.S_IFIFO | 0o600, SOMEBODY, ME),
        (stat.S_IFREG | 0o664, ROOT, ME),
        (stat.S_IFDIR | 0o700, ME, ME),
    ],
)
def test_a_file_open_to_others_is_refused(approved: Approved, mode: int, uid: int, own_uid: int) -> None:
    with pytest.raises(BadSecretFile) as caught:
        check_private(mode, uid, own_uid, "/run/my token")
    approved(str(caught.value))
    assert "/run/my token" in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "uid"), [(0o755, ROOT), (0o700, ME), (0o711, ME), (0o1777, ROOT), (0o1775, ME), (0o2755, ROOT)]
)
def test_parent_directory_that_only_owner_and_root_can_change_passes(mode: int, uid: int) -> None:
    check_above(stat.S_IFDIR | mode, uid, {ROOT, ME}, "/srv")


@pytest.mark.parametrize(
    ("mode", "uid", "reason"),
    [
        (0o755, SOMEBODY, "belongs to user 1001"),
        (0o1777, SOMEBODY, "belongs to user 1001"),
        (0o777, ROOT, r"others can replace it \(mode 777\); set DBG_HOME .* `chmod go-w '/srv/a b'`"),
        (0o775, ME, r"\(mode 775\)"),
        (0o2775, ROOT, r"\(mode 775\)"),
    ],
)
def test_parent_directory_that_others_can_change_is_named(mode: int, uid: int, reason: str) -> None:
    with pytest.raises(BadSecretFile, match=f"is below /srv/a b, .*{reason}"):
        check_above(stat.S_IFDIR | mode, uid, {ROOT, ME}, "/srv/a b")


def test_directory_is_closed_if_others_cannot_enter_it() -> None:
    assert [mode for mode in (0o700, 0o744, 0o710, 0o701, 0o755) if is_closed(mode)] == [0o700, 0o744]


@given(st.integers(0, 0o777), st.text(st.characters(), min_size=1))
def test_own_file_passes_only_if_others_cannot_read_or_write_it(mode: int, path: str) -> None:
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
def test_home_is_the_first_variable_that_is_set(environ: dict[str, str], home: str) -> None:
    assert home_directory(environ) == home


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "h"}, {"DBG_HOME": "d\x1b", "HOME": "/h"}])
def test_missing_home_error_names_the_variable_to_set(environ: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="DBG_HOME") as caught:
        home_directory(environ)
    assert str(caught.value).isprintable()


def test_variables_of_several_roles_have_one_name() -> None:
    fields = {f"DBG_{name.upper()}" for name in Settings.__dataclass_fields__}
    assert fields >= {
        home.BROKER,
        home.ENGINE,
        home.RANKS,
        home.POST_MORTEM,
        home.COLLECTIVE_TIMEOUT,
    }
    assert claim.VARIABLE == home.AUTOSTART
