"""What a rank takes from arguments and variables: a warning names a bad value, and the default is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.settings import Settings, read_settings
from tests.conftest import Approved


class _Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


def read(arguments: dict[str, object], environ: dict[str, str] | None = None) -> tuple[Settings, list[str]]:
    warned: list[str] = []
    return read_settings("set_trace", arguments, (), environ or {}, warned.append), warned


def test_an_argument_overrides_its_variable_and_a_variable_overrides_the_default() -> None:
    assert read({}) == (Settings(), [])
    assert read({}, {"DBG_CONNECT_TIMEOUT": "2.5"})[0].connect_timeout == 2.5
    assert read({"connect_timeout": 1}, {"DBG_CONNECT_TIMEOUT": "2.5"})[0].connect_timeout == 1.0
    assert read({}, {"DBG_CLASSIC": "no"})[0].classic is False
    assert read({"on_missing": "wait"})[0].on_missing == "wait"


@pytest.mark.parametrize(
    "arguments",
    [
        {"connect_timeout": "soon"},
        {"connect_timeout": float("nan")},
        {"connect_timeout": -1},
        {"connect_timeout": True},
        {"on_missing": "die"},
        {"broker": 6900},
        {"classic": "perhaps"},
        {"connect_timeout": _Unprintable()},
        {"rank": 3},
    ],
)
def test_an_invalid_argument_is_named_and_the_default_is_used(approved: Approved, arguments: dict[str, object]) -> None:
    settings, warned = read(arguments)
    assert settings == Settings()
    assert len(warned) == 1
    approved(warned[0])


def test_a_bad_argument_is_reported_with_its_replacement(approved: Approved) -> None:
    settings, warned = read({"connect_timeout": "soon"}, {"DBG_CONNECT_TIMEOUT": "3"})
    assert settings.connect_timeout == 3.0
    approved(warned)


def test_positional_arguments_are_reported_and_ignored(approved: Approved) -> None:
    warned: list[str] = []
    assert read_settings("set_trace", {}, (1, 2), {}, warned.append) == Settings()
    approved(warned)


anything = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()))
names = st.sampled_from(["broker", "connect_timeout", "on_missing", "classic", "nonsense\x1b"])


@given(st.dictionaries(names, anything), st.dictionaries(names.map(lambda name: f"DBG_{name.upper()}"), st.text()))
def test_settings_never_raise_and_no_control_character_is_repeated(
    arguments: dict[str, object], environ: dict[str, str]
) -> None:
    settings, warned = read(arguments, environ)
    assert settings.connect_timeout >= 0
    assert all(line.isprintable() for line in warned)
