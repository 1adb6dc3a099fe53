"""Parser and printer of sets of rank numbers.

The parser reads ``5``, ``0-3,5`` and ``0-1023/8`` (every eighth number, both ends included). The printer writes the
canonical form ``a-b[/step],…``, so that equal sets look equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dbg_wire.errors import BadTarget, printable

MAX_RANK = 10_000_000
"""Largest valid rank number: ten times the number of processes on the largest machines."""

MAX_MEMBERS = 1_000_000
"""Maximum number of ranks in one set, including overlaps: a typing mistake briefly costs 100 MB and not all memory."""

MIN_STEP_MEMBERS = 3
"""Minimum number of members that are printed with a step: ``0,8`` is clearer than ``0-8/8``."""

RANK_PIECE = r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+)(?:/(?P<step>[0-9]+))?)?"
"""Regular expression for the text between two commas."""

_PIECE = re.compile(RANK_PIECE)


def parse_ranks(text: str) -> frozenset[int]:
    """Parse a set of rank numbers.

    The set has at least one member. Sizes are checked before ranges are expanded, so no text costs more than
    ``MAX_MEMBERS`` numbers. Raise :class:`~dbg_wire.errors.BadTarget` with the invalid piece.
    """
    numbers: set[int] = set()
    counted = 0
    for piece in text.split(","):
        members = _parse_piece(piece.strip(), text)
        counted += len(members)
        if counted > MAX_MEMBERS:
            raise BadTarget(
                f"with '{printable(piece)}' the set has more than {MAX_MEMBERS} ranks", "name fewer at once"
            )
        numbers.update(members)
    return frozenset(numbers)


def format_ranks(numbers: Iterable[int]) -> str:
    """Format rank numbers, sorted and without duplicates, as ``a-b[/step],…``; an empty set is an empty string.

    First, two or more neighbours are joined to ``a-b``. Then, from the left, three or more single numbers at equal
    distances with no ``a-b`` between them are joined to ``a-b/step``.
    """
    pieces: list[str] = []
    alone: list[int] = []
    for first, last in _neighbours(sorted(set(numbers))):
        if first == last:
            alone.append(first)
            continue
        pieces.extend(_steps(alone))
        alone = []
        pieces.append(f"{first}-{last}")
    pieces.extend(_steps(alone))
    return ",".join(pieces)


def _parse_piece(piece: str, text: str) -> range:
    match = _PIECE.fullmatch(piece)
    if match is None:
        what = f"'{printable(piece)}' is not a rank or a range" if piece else f"'{printable(text)}' has an empty piece"
        raise BadTarget(what, "write ranks as 5, 0-3,5 or 0-1023/8")
    first, step = _parse_number(match["first"]), _parse_number(match["step"] or "1")
    if step == 0:
        raise BadTarget(f"the step of '{printable(piece)}' is 0", "use a step of 1 or more")
    members = range(first, _parse_number(match["last"] or match["first"]) + 1, step)
    if not members:
        raise BadTarget(f"range '{printable(piece)}' is empty", "write the smaller number first, as 0-3")
    return members


def _parse_number(digits: str) -> int:
    significant = digits.lstrip("0")
    # The length is checked first: int() of thousands of digits is slow, and newer Pythons raise a ValueError for it.
    if len(significant) > len(str(MAX_RANK)) or int(significant or "0") > MAX_RANK:
        raise BadTarget(f"number {printable(digits, 40)} is too large for a rank", f"ranks go up to {MAX_RANK}")
    return int(significant or "0")


def _neighbours(ordered: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for index, number in enumerate(ordered):
        if index + 1 == len(ordered) or ordered[index + 1] != number + 1:
            yield ordered[start], number
            start = index + 1


def _steps(alone: Sequence[int]) -> Iterator[str]:
    start = 0
    while start < len(alone):
        end = _end_of_step(alone, start)
        if end - start >= MIN_STEP_MEMBERS:
            yield f"{alone[start]}-{alone[end - 1]}/{alone[start + 1] - alone[start]}"
            start = end
        else:
            yield str(alone[start])
            start += 1


def _end_of_step(alone: Sequence[int], start: int) -> int:
    end = start + 1
    while end < len(alone) and alone[end] - alone[end - 1] == alone[start + 1] - alone[start]:
        end += 1
    return end
