"""How a terminal asks for the parts of a value that a rank has just answered with, and how the rank lists them.

A question is a JSON object: ``of`` the exact digests of the values that are meant, of which a rank has one, ``path``
the steps from the whole to the part whose parts are asked for, and ``exact`` whether memory addresses count. Each part
is one of an answer's ``rows``, a JSON list of its step, label, digest and text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .errors import PeerError

NOTHING = "..."
"""The expression that goes along with such a question: an older rank evaluates it, which does nothing."""


@dataclass(frozen=True, slots=True)
class Part:
    """Hold one part: ``step`` finds it, ``label`` is what a reader sees of that, empty for a range of elements.

    Equal parts of two ranks have equal digests; an empty one says that the part can't be compared.
    """

    step: str
    label: str
    digest: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsQuestion:
    """Ask for the parts of what is at ``path`` in the value that has one of these digests."""

    of: tuple[str, ...]
    path: tuple[str, ...] = ()
    exact: bool = False


def encode_question(question: PartsQuestion) -> str:
    """Return what stands in a message."""
    return json.dumps({"of": question.of, "path": question.path, "exact": question.exact})


def decode_question(text: str) -> PartsQuestion:
    """Return the question of a message. Raises PeerError for anything else."""
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
    """Return the parts of an answer. Raises PeerError for rows that hold none."""
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
