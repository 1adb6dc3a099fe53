from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.words.config import key_name, parse_escape_key
from dbg_wire.errors import BadInput


@pytest.mark.parametrize(
    ("text", "byte"),
    [
        ("^]", 0x1D),
        ("^\\", 0x1C),
        ("C-]", 0x1D),
        ("c-a", 1),
        ("ctrl-]", 0x1D),
        ("Ctrl-O", 0x0F),
        ("^^", 0x1E),
        ("^@", 0),
        ("\x1d", 0x1D),
        ("\x1c", 0x1C),
    ],
)
def test_escape_keys_as_users_write_them(text: str, byte: int) -> None:
    assert parse_escape_key(text) == bytes([byte])


def test_none_is_no_escape_key() -> None:
    assert parse_escape_key("none") is None


@pytest.mark.parametrize(
    "text", ["", "]", "d", "^", "^]]", "alt-x", "C-", "^é", "^ſ", "\x9b", "\x1d\x1d", "ctrl-\x1b[31m"]
)
def test_what_is_no_control_key_is_refused_by_value(text: str) -> None:
    with pytest.raises(BadInput) as refusal:
        parse_escape_key(text)
    sentence = str(refusal.value)
    assert "^]" in sentence
    assert sentence.isprintable()
    assert text.isprintable() <= (f"'{text}'" in sentence)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("^C", "interrupt"),
        ("^D", "end of input"),
        ("^z", "suspends"),
        ("^S", "flow"),
        ("C-q", "flow"),
        ("^[", "Esc"),
        ("\x1b", "Esc"),
        ("^M", "Enter"),
        ("^J", "Enter"),
        ("^I", "Tab"),
        ("^H", "Backspace"),
        ("^?", "Backspace"),
        ("\x7f", "Backspace"),
    ],
)
def test_keys_that_others_own_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        parse_escape_key(text)


@given(st.integers(0, 0x1F).map(lambda code: bytes([code])))
def test_the_name_of_a_key_can_be_read_back(prefix: bytes) -> None:
    try:
        parsed = parse_escape_key(key_name(prefix))
    except BadInput as refusal:
        assert "can't be used" in str(refusal)  # noqa: PT017 - the other outcome is as good
    else:
        assert parsed == prefix
