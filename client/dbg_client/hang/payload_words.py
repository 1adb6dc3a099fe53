"""Types, sizes and ages of collectives in words. Pure."""

from __future__ import annotations

from dbg_client.core.collective_matching import Standing
from dbg_client.views.ages import show_age
from dbg_client.views.naming import clip
from dbg_client.views.waits import root_of, tag_of
from dbg_wire.errors import printable
from dbg_wire.targets.rank_set import format_ranks

MAX_TYPES = 40
"""Characters of the types of one collective."""


def show_bytes(count: int) -> str:
    """Return a number of bytes as ``40 B``, ``1.2 GiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{_short(size)} {unit}"
        size /= 1024
    return f"{_short(size)} TiB"


def _short(size: float) -> str:
    return f"{size:.1f}".removesuffix(".0") if size < 10 else f"{size:.0f}"


def payload_of(standing: Standing) -> str:
    """Return what the first waiting rank exchanges, as ``float32, 1.2 GiB``; empty if unknown."""
    call = standing.calls[min(standing.calls)]
    size = show_bytes(call.size) if call.size is not None else printable(call.shapes, MAX_TYPES)
    return ", ".join(piece for piece in (printable(call.types, MAX_TYPES), size) if piece)


def full_name(standing: Standing) -> str:
    """Return the collective with its group and payload: ``all_reduce #3172 of group dp_0 (float32, 1.2 GiB)``.

    The tag of a send or receive stands there, too, and the root that all ranks have passed.
    """
    group = f" of group {printable(standing.group.label, 100)}" if standing.group.label else ""
    payload = ", ".join(filter(None, [tag_of(standing), root_of(standing), payload_of(standing)]))
    return f"{printable(standing.call, 80)}{group}" + (f" ({payload})" if payload else "")


def other_roots(standing: Standing) -> list[str]:
    """Return the line that says which ranks have passed which root, if these differ."""
    roots = standing.roots
    said = "; ".join(f"root {root} in {clip(format_ranks(some), MAX_TYPES)}" for root, some in sorted(roots.items()))
    return [f"their calls differ: {said}"] if len(roots) > 1 else []


def short_name(standing: Standing) -> str:
    """Return the collective with its group."""
    return printable(standing.label, 180)


def since(age: float | None) -> str:
    """Return `` since 4 min 12 s``; empty if the age is unknown."""
    return f" since {show_age(age)}" if age is not None and age >= 1 else ""


def time_left(standing: Standing) -> list[str]:
    """Return the line that says when the library gives up, if that is known."""
    seconds = standing.seconds_left
    if seconds is None:
        return []
    member = next(iter(standing.group.members.values()))
    library = printable(member.seen.backend or standing.group.library, 40)
    article = "an" if library[:1] in "aeio" else "a"
    # NCCL is spelt: an N begins with a vowel.
    article = "an" if library.lower().startswith(("nccl", "mpi")) else article
    what = "send or receive" if standing.has_peer else "collective"
    return [f"{article} {library} {what} of these ranks times out in {show_age(seconds)}"]
