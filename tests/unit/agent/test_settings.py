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
    said: list[str] = []
    return read_settings("set_trace", arguments, (), environ or {}, said.append), said


def test_an_argument_goes_before_its_variable_and_that_before_the_default() -> None:
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
def test_what_cant_be_used_is_named_and_the_default_taken(approved: Approved, arguments: dict[str, object]) -> None:
    settings, said = read(arguments)
    assert settings == Settings()
    assert len(said) == 1
    approved(said[0])


def test_a_bad_argument_says_what_is_taken_in_its_place(approved: Approved) -> None:
    settings, said = read({"connect_timeout": "soon"}, {"DBG_CONNECT_TIMEOUT": "3"})
    assert settings.connect_timeout == 3.0
    approved(said)


def test_positional_arguments_are_told_and_ignored(approved: Approved) -> None:
    said: list[str] = []
    assert read_settings("set_trace", {}, (1, 2), {}, said.append) == Settings()
    approved(said)


anything = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()))
names = st.sampled_from(["broker", "connect_timeout", "on_missing", "classic", "nonsense\x1b"])


@given(st.dictionaries(names, anything), st.dictionaries(names.map(lambda name: f"DBG_{name.upper()}"), st.text()))
def test_nothing_raises_and_no_control_character_is_repeated(
    arguments: dict[str, object], environ: dict[str, str]
) -> None:
    settings, said = read(arguments, environ)
    assert settings.connect_timeout >= 0
    assert all(line.isprintable() for line in said)
