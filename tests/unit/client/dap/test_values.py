"""Numbers for frames and values: which are valid, and how many there are at most."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.core.errors import Declined
from dbg_client.core.link import Event
from dbg_client.dap import console
from dbg_client.dap.console import Console, LogTexts
from dbg_client.dap.source import Paths, read_mappings
from dbg_client.dap.step_requests import Keyboard
from dbg_client.dap.values import Handles
from dbg_client.dap.window import Threads, Window
from dbg_wire.errors import BadInput
from dbg_wire.messages import Change, Gone, Logged
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.unit.client.dap.shown import threads
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink

OWNERS = st.sampled_from(["a", "b", "c"])


def test_handle_is_stable_until_its_owner_moves() -> None:
    numbers: Handles[str] = Handles()
    first = numbers.number("a", 1, "-1")
    assert numbers.number("a", 1, "-1") == first
    assert numbers.find(first) == ("a", 1, "-1")
    second = numbers.number("a", 2, "-1")
    assert second != first
    assert numbers.find(second) == ("a", 2, "-1")
    unknown: list[object] = [None, "1", 0, 99, []]
    assert [numbers.find(one) for one in unknown] == [None] * 5


@given(st.lists(st.tuples(OWNERS, st.integers(0, 2), st.integers(0, 4)), max_size=60))
def test_handle_is_never_reused_and_the_table_is_limited(asked: list[tuple[str, int, int]]) -> None:
    numbers: Handles[int] = Handles(most=6)
    given_out: dict[int, tuple[str, int, int]] = {}
    for one in asked:
        number = numbers.number(*one)
        assert given_out.setdefault(number, one) == one
        assert numbers.find(number) == one
        assert len(numbers._things) <= 6
        for known, thing in given_out.items():
            assert numbers.find(known) in (None, thing)


names = st.lists(st.text("abc.", min_size=1, max_size=4).filter(lambda one: one not in (".", "..")), max_size=4)


@given(names, names, names)
def test_path_below_a_root_is_mapped_there_and_back(local: list[str], remote: list[str], rest: list[str]) -> None:
    paths = Paths([("/ide/" + "/".join(local), "/job/" + "/".join(remote))])
    path = "/".join(["/ide", *local, *rest])
    assert paths.to_ide(paths.to_rank(path)) == path
    assert paths.to_rank(path) == "/".join(["/job", *remote, *rest])


def test_longest_root_is_mapped_and_other_paths_are_unchanged() -> None:
    paths = Paths([("/w", "/a"), ("/w/lib", "/b/")])
    assert paths.to_rank("/w/train.py") == "/a/train.py"
    assert paths.to_rank("/w/lib/x.py") == "/b/x.py"
    assert paths.to_rank("/w/library/x.py") == "/a/library/x.py"
    assert paths.to_ide("/b/x.py") == "/w/lib/x.py"
    assert paths.to_rank("/elsewhere/x.py") == "/elsewhere/x.py"
    assert Paths([("/", "/mnt")]).to_rank("/x.py") == "/mnt/x.py"
    assert Paths([("/x", "/")]).to_ide("/y.py") == "/x/y.py"


@pytest.mark.parametrize("given", ["x", [1], [{"localRoot": "/a"}], [{"localRoot": "/a", "remoteRoot": 5}], [{}] * 101])
def test_invalid_mappings_are_refused(given: object) -> None:
    with pytest.raises(BadInput):
        read_mappings(given)


class NoJob:
    """A window that is asked for its ranks."""

    @property
    def switchboard(self) -> object:
        raise Declined("asked")


def answer(text: str) -> str | None:
    nobody = object()
    window = cast("Window", NoJob())
    console = Console(window, cast("Threads", nobody), cast("Keyboard", nobody))
    return asyncio.run(console.answer(text))


@pytest.mark.parametrize(
    "text",
    [
        "loss",
        "x: int = 3",
        "{1: 2}",
        "values[0: 3]",
        "lambda: 0",
        "where(mask)",
        "where = 5",
        "why + 1",
        "continue_",
        "all(x)",
        "take(3)",
        "help(loss)",
        "for i in x: print(i)",
    ],
)
def test_possible_python_is_an_expression(text: str) -> None:
    assert answer(text) is None


@pytest.mark.parametrize(
    "text",
    ["eval all loss", " eval 5  loss\n", "eval @1 x[0: 3]", "where", "where all --threads", "interrupt 5"],
)
def test_session_verb_asks_ranks(text: str) -> None:
    with pytest.raises(Declined, match="asked"):
        answer(text)


@pytest.mark.parametrize("text", ["kill", "attach 5"])
def test_unsupported_verb_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        answer(text)


async def test_ending_a_rank_needs_confirmation() -> None:
    link = ScriptedLink()

    async with threads(link, [make_rank(0)]) as (listing, _, window):
        with pytest.raises(BadInput, match="end gpu013:0; write it with -y"):
            await Console(window, listing, Keyboard(window)).answer("kill 0")
    assert link.sent == []


def running(number: int, **changes: object) -> RankInfo:
    return make_rank(number, state=RankState.RUNNING, where=None, reason=None, **changes)


RANKS = [running(number) for number in range(8)]


def logged(number: int, text: str, left_out: int = 0) -> Logged:
    return Logged(key=RANKS[number].key, text=text, left_out=left_out)


def printed(*events: Event, lines: int = 1) -> list[str]:
    """Return what the console prints after these events of the broker, as soon as there are so many outputs."""

    async def talk() -> list[str]:
        link = ScriptedLink()
        async with threads(link, RANKS) as (_, shown, window):
            with window.switchboard.watched_by(LogTexts(window).receive):
                for event in events:
                    link.events.put_nowait(event)
                await shown.until(lambda: len(shown.named("output")) >= lines)
            return [body["output"] for body in shown.named("output")]

    return asyncio.run(talk())


def test_omitted_output_is_reported(approved: Approved) -> None:
    approved("".join(printed(logged(0, "a"), logged(1, "b", left_out=12), lines=3)).rstrip())


def test_log_text_is_escaped_and_shortened() -> None:
    (line,) = printed(logged(0, "\x1b[2J\nforged: " + "x" * 10_000))
    assert line.startswith("gpu013:0: \\x1b[2J\\nforged: x")
    assert len(line) < console.MAX_TEXT + 20


def test_log_is_printed_for_a_new_rank_and_not_for_an_ended_one() -> None:
    new = running(9)
    texts = [logged(0, "a"), Gone(key=RANKS[1].key), logged(1, "c"), Change(rank=new), Logged(key=new.key, text="b")]
    assert printed(*texts, lines=2) == ["gpu013:0: a\n", "gpu013:9: b\n"]
