"""``--replay`` on the command line: what stands beside it, and what does not."""

from __future__ import annotations

import pytest

from dbg_client.words.arguments import read_arguments
from dbg_client.words.settings import CommandSettings, Verb, settle
from dbg_wire.errors import BadInput


def settled(*words: str) -> CommandSettings:
    return settle(read_arguments(words), {}, stdout_is_tty=False)


def test_a_file_is_played_with_short_pauses() -> None:
    settings = settled("--replay", "a.cast")
    assert (settings.verb, settings.replay, settings.idle) == (Verb.REPLAY, "a.cast", 2.0)
    assert settled("--replay", "a.cast", "--idle", "30s").idle == 30.0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--replay", ""), "--replay needs a file"),
        (("--replay", "a", "5"), "a TARGET is about ranks, and --replay shows a file"),
        (("--replay", "a", "--wait"), "--wait is about ranks"),
        (("--replay", "a", "--json"), "--json is about ranks"),
        (("--replay", "a", "--list"), "--list and --replay are two actions"),
        (("--replay", "a", "--take"), "--take is for attaching"),
        (("--replay", "a", "--idle", "x"), "--idle 'x' is no span of time"),
        (("--idle", "3"), "--idle is for a replay; add --replay FILE"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        settled(*words)
