"""What an error names can be done where the error is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.command_line.help import SHORT, help_on
from dbg_client.command_line.session_line import read_session_line
from dbg_client.core.errors import NotHeld, NotStopped, RankHeld, RankVanished, in_terms_of
from dbg_client.dap.console import COMMANDS
from dbg_client.mcp.tools import TOOLS_OF_COMMANDS
from dbg_client.notebook import CALLS, CellError
from dbg_client.verbs.preferences import key_name, parse_escape_key
from dbg_client.verbs.table import VERBS, is_target, refuse_mistyped
from dbg_client.web import live
from dbg_wire.errors import BadInput, DbgError, NoSuchRank, Remedy
from tests.conftest import Approved


@pytest.mark.parametrize(("text", "byte"), [("^]", 0x1D), ("^\\", 0x1C), ("^o", 0x0F), ("^^", 0x1E), ("^@", 0)])
def test_escape_keys_are_parsed(text: str, byte: int) -> None:
    assert parse_escape_key(text) == bytes([byte])


@pytest.mark.parametrize("text", ["", "]", "d", "^", "^]]", "alt-x", "^é", "^ſ", "\x9b", "ctrl-\x1b[31m"])
def test_invalid_control_key_is_refused_by_value(text: str) -> None:
    with pytest.raises(BadInput) as refusal:
        parse_escape_key(text)
    sentence = str(refusal.value)
    assert "^]" in sentence
    assert sentence.isprintable()
    assert text.isprintable() <= (f"'{text}'" in sentence)


@given(st.integers(0, 0x1F).map(lambda code: bytes([code])))
def test_key_name_is_parsed_back_unless_the_key_is_reserved(prefix: bytes) -> None:
    text = key_name(prefix).replace("Ctrl-", "^")
    if prefix in b"\x03\x04\x08\t\n\r\x11\x13\x1a\x1b":
        with pytest.raises(BadInput):
            parse_escape_key(text)
    else:
        assert parse_escape_key(text) == prefix


def test_help_of_a_verb_has_its_options_and_an_example() -> None:
    text = help_on("eval")

    assert "dbg-attach eval 0-7 'loss, lr'" in text
    assert "--live" in text
    assert "--watch" not in text
    assert help_on("e") == text
    assert help_on("") == SHORT
    for row in VERBS:
        assert row.load().example in help_on(row.name)


def test_help_on_an_unknown_verb_is_refused(approved: Approved) -> None:
    with pytest.raises(BadInput) as caught:
        help_on("wher")
    approved(str(caught.value))
    with pytest.raises(BadInput) as caught:
        help_on("zebra")
    approved(str(caught.value), "2")


VERBS_MISTYPED = ("where", "list", "continue")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("wher", "where"),
        ("LIST", "list"),
        ("contineu", "continue"),
        ("stoped", "stopped"),
        ("lst", "list"),
        ("runing", "running"),
    ],
)
def test_mistyped_verb_or_state_gets_a_suggestion(approved: Approved, word: str, meant: str) -> None:
    with pytest.raises(BadInput) as error:
        refuse_mistyped(word, VERBS_MISTYPED)

    approved(str(error.value))


@pytest.mark.parametrize("word", ["5", "all", "gpu013", "gpu013:5", "list:0", "@2", "zebra", ""])
def test_word_unlike_any_verb_is_accepted(word: str) -> None:
    refuse_mistyped(word, VERBS_MISTYPED)


def test_a_group_can_be_a_target_and_a_bare_host_can_not() -> None:
    assert is_target("@x")
    assert not is_target("gpu013")


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (NotStopped("vm:3 runs", "3", runs=True), "`interrupt 3` in the debug"),
        (NotStopped("vm:3 runs", "3"), "; this window "),
        (RankHeld("vm:3 is held", "a b/3", has_place=True), "`where a b/3` in"),
        (RankHeld("vm:3 is held", "3", has_place=False), "`release 3` in"),
        (NotHeld(["vm:3"], others=True), "`list` in the debug console shows"),
        (RankVanished("vm:3"), "`list` in the debug console shows"),
        (NoSuchRank("9", 0, exited=2), "are listed by `list`"),
    ],
)
def test_error_names_the_commands_of_each_interface(approved: Approved, error: DbgError, command: str) -> None:
    texts = in_terms_of(error, TOOLS_OF_COMMANDS), in_terms_of(error, COMMANDS)
    approved(texts[0])
    assert command in texts[1]
    assert "dbg-attach" not in "".join(texts)
    assert "dbg_client.connect()" in str(CellError(error))
    assert "dbg-attach" not in str(CellError(error))


def test_each_interface_has_words_for_remedies() -> None:
    remedies = [Remedy(verb, "3") for verb in ("list", "wait", "interrupt", "release", "attach")]
    for words in (TOOLS_OF_COMMANDS, COMMANDS, CALLS, live.COMMANDS):
        assert {remedy.verb for remedy in remedies} <= words.keys()
    assert in_terms_of(NotStopped("vm:3 runs", "3"), {}) == str(NotStopped("vm:3 runs", "3"))


def test_examples_of_session_verbs_are_understood_in_a_session() -> None:
    for row in VERBS:
        verb = row.load()
        if verb.in_session is not None and row.name != "help":
            found = read_session_line(verb.example, {})
            assert isinstance(found, verb)
            assert verb.help_in_session
