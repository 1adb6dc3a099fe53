from __future__ import annotations

import pytest

from dbg_client.words.verbs import is_target, refuse_mistyped
from dbg_wire.errors import BadInput
from tests.conftest import Approved

VERBS = ("where", "list", "continue")


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
def test_a_word_like_a_verb_or_a_state_is_told_what_it_may_be(approved: Approved, word: str, meant: str) -> None:
    with pytest.raises(BadInput) as error:
        refuse_mistyped(word, VERBS)

    approved(str(error.value))


@pytest.mark.parametrize(
    "word", ["5", "all", "gpu013", "gpu013:5", "list:0", "@2", "tcp://127.0.0.1:4444", "zebra", ""]
)
def test_what_is_like_no_verb_passes(word: str) -> None:
    refuse_mistyped(word, VERBS)


def test_a_group_can_be_a_target_and_a_bare_host_can_not() -> None:
    assert is_target("@x")
    assert not is_target("gpu013")
