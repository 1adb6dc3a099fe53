"""Stacks of many ranks merged into one tree with counts, or one tree for each thread name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath

from dbg_client.views.groups import (
    ANSWERED,
    AnswerGroup,
    counted,
    paint,
    show_ranks,
    summary,
)
from dbg_client.views.naming import NOBODY_MISSING, MissingInAnswer, Naming, clip
from dbg_client.views.stacks import StackGroup, count_ranks, show_states
from dbg_wire.errors import printable
from dbg_wire.records.ranks import Place, RankInfo

SMALL_PART = 10
"""A place is marked as odd if at most one in SMALL_PART ranks is there, and another place has more ranks.

If two thirds of the ranks are at one place, all places except this one are marked.
"""

MAX_JOINED = 10
"""Maximum places on one line. A longer line shows only the outermost and innermost places."""

KEPT_OUTER = 3
"""Number of outermost places that a shortened line shows, so that it names the caller; the rest are innermost
places."""

MAX_FILE = 60
"""Maximum characters of the name of a file."""

_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<frozen ")

_ODD_COLOR, _RANKS_COLOR = "1;33", "36"

_LEFT_OUT = re.compile(r"\[(\d{1,12}) frames left out\]")
"""Text of a frame that replaces frames omitted by a rank."""


@dataclass(frozen=True, slots=True)
class Step:
    """Piece of a line: a place, or several places of libraries folded into one."""

    text: str


_HERE = Step("(no deeper)")
"""Last step of a stack that ends at a place where other stacks continue."""


@dataclass(slots=True, eq=False)
class _Branch:
    """Stacks that share the steps down to this branch; ``ends`` are the stacks that end here."""

    steps: list[Step] = field(default_factory=list)
    groups: list[StackGroup] = field(default_factory=list)
    below: dict[Step, _Branch] = field(default_factory=dict)
    ends: list[StackGroup] = field(default_factory=list)

    @property
    def count(self) -> int:
        if any(group.thread is not None for group in self.groups):
            # Two threads of one rank may have the same name and be at different places.
            return len(sorted_ranks(self.groups))
        return sum(group.count for group in self.groups)


def show_tree(
    stacks: Sequence[StackGroup],
    others: Sequence[AnswerGroup],
    naming: Naming,
    *,
    color: bool,
    missing: MissingInAnswer = NOBODY_MISSING,
) -> str:
    """Return a summary, a tree for each thread name, and a line for each group of ranks without a stack."""
    lines = [summary_of_stacks(stacks, others, missing)]
    for title, groups in trees_of(stacks, naming):
        lines += [title] if title else []
        lines += draw(groups, naming, color=color)
    return "".join(f"{line}\n" for line in [*lines, *show_others(others, naming)])


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLine:
    """Line of a tree: its ranks, its places, and the groups that end there.

    ``lead`` is the drawing of the tree to the left, three columns for each level. ``groups`` are all groups at or below
    the line.
    """

    lead: str
    count: int
    ranks: str
    places: str
    state: str
    groups: tuple[str, ...]
    is_odd: bool

    def text(self, *, color: bool) -> str:
        """Return the line as text."""
        parts = [paint(f"{self.count} [{self.ranks}]", _RANKS_COLOR if color else None), self.places]
        if self.state:
            parts.append(f"({self.state})")
        line = " ".join(part for part in parts if part)
        if not self.is_odd:
            return self.lead + line
        marked = f"{line}  <- odd one out" if self.count == 1 else f"{line}  <- odd ones out"
        return self.lead + paint(marked, _ODD_COLOR if color else None)


def draw(stacks: Sequence[StackGroup], naming: Naming, *, color: bool) -> list[str]:
    """Return the lines of the tree."""
    return [line.text(color=color) for line in tree_lines(stacks, naming)]


def show_others(others: Sequence[AnswerGroup], naming: Naming) -> list[str]:
    """Return a line for each group of ranks without a stack."""
    return [
        f"{group.id}  {counted(group.count)}  {show_ranks(group.ranks, naming)}  {printable(group.text, 4096)}".rstrip()
        for group in others
    ]


def fold(frames: Sequence[Place]) -> list[Step]:
    """Return a stack as steps: one for each frame of the user's code, and one for the library frames in between.

    Library frames outside of the user's outermost frame are omitted. A stack with only library frames is kept.
    """
    runs: list[tuple[bool, list[Place]]] = []
    for place in frames:
        library = is_library(place.file)
        if not runs or runs[-1][0] is not library or not library:
            runs.append((library, []))
        runs[-1][1].append(place)
    if len(runs) > 1 and runs[0][0]:
        del runs[0]
    last = len(runs) - 1
    if not runs:
        return [Step("(no Python frame)")]
    return [
        Step(_fold_run(run, innermost=index == last) if library else show_frame(run[0]))
        for index, (library, run) in enumerate(runs)
    ]


@lru_cache(4096)
def is_library(file: str) -> bool:
    """Return True if a file belongs to the standard library or an installed package."""
    return any(part in file for part in _LIBRARIES)


def own_frames(frames: Sequence[Place]) -> list[Place]:
    """Return the part of a stack that is in the user's code."""
    return [place for place in frames if not is_library(place.file)]


def file_line(place: Place) -> str:
    """Return the place of a frame as ``train.py:41``."""
    return f"{printable(place.file.rpartition('/')[2], MAX_FILE)}:{place.line}"


@lru_cache(4096)
def show_frame(place: Place) -> str:
    """Return a frame as ``step train.py:41``."""
    name = PurePosixPath(place.file).name
    return printable(f"{place.function} {name}:{place.line}" if name else place.function)


def _fold_run(run: Sequence[Place], *, innermost: bool) -> str:
    if len(run) == 1 and innermost:
        return show_frame(run[0])
    frames = f"[{len(run)} library {'frame' if len(run) == 1 else 'frames'}]"
    # Library frames matter only at the inner end of a stack: the call, and the innermost frame.
    return f"{printable(run[0].function)} … {show_frame(run[-1])} {frames}" if innermost else frames


def tree_lines(stacks: Sequence[StackGroup], naming: Naming) -> Iterator[TreeLine]:
    """Yield the lines of the tree, each before those below it."""
    root = _grown(stacks)
    odd = _odd_ones(root)
    # A list instead of recursion: ranks that recurse to different depths make the tree as deep as their stacks.
    open_nodes = [(root, "", "")] if stacks else []
    while open_nodes:
        node, lead, lead_below = open_nodes.pop()
        yield TreeLine(
            lead=lead,
            count=node.count,
            ranks=show_ranks(sorted_ranks(node.groups), naming),
            places=_joined(node.steps),
            state=_state(node.ends, naming),
            groups=tuple(group.id for group in node.groups),
            is_odd=node in odd,
        )
        below = sorted(node.below.values(), key=lambda child: -child.count)
        for child in reversed(below):
            is_last = child is below[-1]
            open_nodes.append(
                (child, lead_below + ("└─ " if is_last else "├─ "), lead_below + ("   " if is_last else "│  "))
            )


def _state(ends: Sequence[StackGroup], naming: Naming) -> str:
    if not ends:
        return ""
    ids = clip(",".join(group.id for group in ends), 24)
    return printable(f"{ids} {show_states(ends, naming)}".rstrip(), 400)


def sorted_ranks(groups: Sequence[AnswerGroup]) -> list[RankInfo]:
    """Return the ranks of several groups together, each once."""
    return list({rank.key: rank for group in groups for rank in group.ranks}.values())


def _grown(stacks: Sequence[StackGroup]) -> _Branch:
    root = _Branch(groups=list(stacks))
    for group in stacks:
        node = root
        for step in fold(group.frames):
            node = node.below.setdefault(step, _Branch(steps=[step]))
            node.groups.append(group)
        node.ends.append(group)
    _join(root)
    return root


def _join(root: _Branch) -> None:
    """Join each node that has only one child with this child.

    Stacks that end where other stacks continue get a node of their own.
    """
    waiting = [root]
    while waiting:
        node = waiting.pop()
        while len(node.below) == 1 and not node.ends:
            (child,) = node.below.values()
            node.steps += child.steps
            node.below, node.ends = child.below, child.ends
        if node.below and node.ends:
            node.below[_HERE] = _Branch(steps=[_HERE], groups=node.ends, ends=node.ends)
            node.ends = []
        waiting += node.below.values()


def _odd_ones(root: _Branch) -> set[_Branch]:
    places: list[_Branch] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.below.values()
        if node.ends:
            places.append(node)
    counts = {node: node.count for node in places}
    most, everybody = max(counts.values(), default=0), root.count
    bound = most - 1 if most * 3 >= everybody * 2 else min(most - 1, everybody // SMALL_PART)
    return {node for node, count in counts.items() if count <= bound}


def _frames_of(text: str) -> int:
    """Return the number of frames of a step. A step that replaces omitted frames has their number in its text."""
    left_out = _LEFT_OUT.match(text)
    return int(left_out[1]) if left_out is not None else 1


def _joined(steps: Sequence[Step]) -> str:
    texts = [step.text for step in steps]
    if len(texts) > MAX_JOINED:
        inner = MAX_JOINED - KEPT_OUTER
        hidden = sum(map(_frames_of, texts[KEPT_OUTER:-inner]))
        texts = [*texts[:KEPT_OUTER], f"[{hidden} frames]", *texts[-inner:]]
    return " > ".join(texts)


def summary_of_stacks(
    stacks: Sequence[StackGroup], others: Sequence[AnswerGroup], missing: MissingInAnswer = NOBODY_MISSING
) -> str:
    """Return the first line: the number of answers, and of different stacks or threads."""
    everyone = [*stacks, *others]
    threads = {group.thread for group in stacks} - {None}
    if not threads:
        return summary("where", everyone, missing)
    answered = count_ranks([group for group in everyone if group.kind in ANSWERED])
    different = "thread" if len(threads) == 1 else "different threads"
    return f"where: {answered} of {counted(count_ranks(everyone))} answered, {len(threads)} {different}"


def trees_of(stacks: Sequence[StackGroup], naming: Naming) -> Iterator[tuple[str, list[StackGroup]]]:
    """Yield the title and the groups of each tree: one tree without a title, or one for each thread name."""
    answered = count_ranks([group for group in stacks if group.kind in ANSWERED])
    for name in dict.fromkeys(group.thread for group in stacks):
        groups = [group for group in stacks if group.thread == name]
        ranks = sorted_ranks(groups)
        somewhere = f", on {show_ranks(ranks, naming)} only" if len(ranks) < answered else ""
        yield "" if name is None else f"thread {printable(name, 200)}{somewhere}", groups
