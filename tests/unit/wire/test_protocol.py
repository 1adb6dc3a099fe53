"""PROTOCOL.md and the code agree: every message is described, and every example is one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dbg_wire
from dbg_wire import PROTOCOL_MAJOR, limits, subprotocol
from dbg_wire.codec import decode, encode
from dbg_wire.messages import MESSAGES, Sender
from dbg_wire.records.record import name_of

PAGE = (Path(dbg_wire.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")
EXAMPLES = [line for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
SENDERS = {
    "### From agents": Sender.AGENT,
    "### From the broker to agents": Sender.BROKER,
    "### From clients": Sender.CLIENT,
    "### From the broker to clients": Sender.BROKER,
}


def described() -> dict[str, set[Sender]]:
    """Return the types that the page's tables describe, with the senders of their headings."""
    found: dict[str, set[Sender]] = {}
    for section in re.split(r"(?m)^(?=##+ )", PAGE):
        sender = SENDERS.get(section.splitlines()[0])
        for name in re.findall(r"(?m)^\| `([a-z_]+)` \|", section) if sender else ():
            found.setdefault(name, set()).add(sender)  # type: ignore[arg-type] # found only with a sender
    return found


def test_every_message_is_described_under_its_senders() -> None:
    passed_on = {"report", "applied", "discarded", "probe_reply", "replied", "completions", "notice"}
    passed_on |= {"reply", "complete", "interrupt", "replay"}
    expected = {name_of(message): set(message.sender) for message in MESSAGES}
    for name in passed_on:
        expected[name] -= {Sender.BROKER}
    assert described() == expected


@pytest.mark.parametrize("example", EXAMPLES, ids=[json.loads(line)["type"] for line in EXAMPLES])
def test_every_example_decodes_and_encodes_back_to_itself(example: str) -> None:
    name = json.loads(example)["type"]
    for sender in next(message for message in MESSAGES if name_of(message) == name).sender:
        assert encode(decode(example, sender)) == example


def test_every_message_has_an_example() -> None:
    assert {json.loads(line)["type"] for line in EXAMPLES} == {name_of(message) for message in MESSAGES}


def test_numbers_in_the_page_match_the_code() -> None:
    assert f"subprotocol `{subprotocol()}`" in PAGE
    assert PAGE.startswith(f"# The wire protocol `dbg.v{PROTOCOL_MAJOR}`")
    assert f"At most {limits.MAX_DATA_BYTES:,} payload bytes" in PAGE
    assert f"every {limits.PROBE_ATTENDED_SECONDS:.0f} s" in PAGE
    assert f"every {limits.PROBE_IDLE_SECONDS:.0f} s" in PAGE
