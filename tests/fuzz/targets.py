"""All targets, and what has been found in them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fuzz import agent_targets, broker_targets, terminal_targets, wire_targets
from tests.fuzz.target import Target

TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")

ODD = (
    *(
        b"\x00",
        b"\x1b[",
        b"\x9b",
        b"\xff",
        b"\xed\xa0\x80",
        b"\n",
        b"\r\n",
        b"null",
        b"true",
        b"[]",
        b"{}",
        b'""',
        b'"',
    ),
    *(b"-1", b"0", b"1.5", b"1e999", b"NaN", b"Infinity", b"-Infinity", b"9" * 20, b"9" * 5000, b"\xd9\xa3"),
    *(b"[" * 2000, b'{"a":' * 2000, b"(" * 2000),
)
"""Words at which readers of texts fail: numbers that are none or too long, depth, digits of other scripts."""

CORPUS = Path(__file__).with_name("corpus")

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (wire_targets, broker_targets, terminal_targets, agent_targets)
    for target in module.TARGETS
}


def corpus_of(target: Target) -> list[bytes]:
    """Return what is read every day, and what was found."""
    return [*target.seeds, *(path.read_bytes() for path in sorted((CORPUS / target.name).glob("*")))]


def tokens_of(data: bytes) -> list[bytes]:
    """Return the words, blanks and signs of which bytes are made."""
    return TOKEN.findall(data)


def words_of(target: Target) -> list[bytes]:
    """Return the tokens of a target's corpus, and those at which readers fail."""
    return sorted({token for data in corpus_of(target) for token in tokens_of(data)} | set(ODD))
