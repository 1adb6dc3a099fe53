"""How a terminal asks for the parts of a value that a rank has just answered with, and how the rank lists them.

A question is a JSON object. ``of`` holds the exact digests of the values on all asked ranks, ``path`` the steps from
the whole value to the part whose parts are asked for, and ``exact`` whether memory addresses count. Each part is one of
an answer's ``rows``, a JSON list of its step, label, digest and text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .errors import PeerError

NOTHING = "..."
"""The expression that is sent with a question for parts: an older rank evaluates it, without an effect."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part: ``step`` finds it, ``label`` is the step as a reader sees it, empty for a range of elements.

    Equal parts of two ranks have equal digests; a part with an empty digest can't be compared.
    """

    step: str
    label: str
    digest: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsQuestion:
    """A question for the parts of the element at ``path``, in the value that has one of the digests ``of``."""

    of: tuple[str, ...]
    path: tuple[str, ...] = ()
    exact: bool = False


def encode_question(question: PartsQuestion) -> str:
    """Return the text of a question in a message."""
    return json.dumps({"of": question.of, "path": question.path, "exact": question.exact})


def decode_question(text: str) -> PartsQuestion:
    """Return the question of a message. Raise PeerError for any other text."""
    try:
        said = json.loads(text)
        of, path, exact = _texts(said["of"]), _texts(said["path"]), said["exact"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise PeerError("no question for parts of a value") from None
    return PartsQuestion(of=of, path=path, exact=exact is True)


def encode_parts(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return the rows of an answer."""
    return tuple(json.dumps([part.step, part.label, part.digest, part.text]) for part in parts)


def decode_parts(rows: Sequence[str]) -> list[Part]:
    """Return the parts of an answer. Raise PeerError for a row that holds none."""
    parts = []
    for row in rows:
        try:
            parts.append(Part(*_texts(json.loads(row))))
        except (ValueError, TypeError, RecursionError):
            raise PeerError("a part of a value that can't be read") from None
    return parts


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError
    return tuple(values)
