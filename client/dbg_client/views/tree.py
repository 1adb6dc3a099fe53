"""The stacks of many ranks merged into one tree with counts. Pure.

Frames of libraries are folded, so that a line says where in the user's own code its ranks are and which call they are
in. Frames without a branch between them share a line. A few ranks that are elsewhere than most are marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath

from dbg_client.views.groups import MAX_NAMES, AnswerGroup, counted, paint, show_ranks, summary
from dbg_client.views.missing import NOBODY_MISSING, MissingInAnswer
from dbg_client.views.naming import Naming, clip
from dbg_client.views.stacks import StackGroup, show_states
from dbg_wire.errors import printable
from dbg_wire.records.ranks import Place, RankInfo

SMALL_PART = 10
"""A place counts as odd if at most one in so many ranks is there, and another place has more.

If two thirds of the ranks are at one place, every other place is odd.
"""

MAX_JOINED = 10
"""Places on one line; of more the outermost and the innermost are shown."""

KEPT_OUTER = 3
"""Places at the outer end of a line that is too long: where the call came from. The others are at the inner end."""

_LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<frozen ")

_ODD_COLOR, _RANKS_COLOR = "1;33", "36"


@dataclass(frozen=True, slots=True)
class Step:
    """One piece of a line: a place, or several places of libraries folded into one."""

    text: str


_LEFT_OUT = re.compile(r"\[(\d{1,12}) frames left out\]")
"""What stands in place of frames that a rank has left out."""

_HERE = Step("(no deeper)")
"""Stands for stacks that end where others go on."""


@dataclass(slots=True, eq=False)
class _Branch:
    """The stacks that share the steps down to here; ``ends`` are those that end here."""

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
    command: str,
    color: bool,
    missing: MissingInAnswer = NOBODY_MISSING,
) -> str:
    """Return how many answered, the tree, and a line for each group of ranks without a stack."""
    everyone = [*stacks, *others]
    lines = [summary(command, everyone, missing)]
    lines += [*draw(stacks, naming, color=color), *show_others(others, naming)]
    return "".join(f"{line}\n" for line in lines)


def draw(stacks: Sequence[StackGroup], naming: Naming, *, color: bool) -> list[str]:
    """Return the lines of the tree."""
    return list(_Tree(stacks, naming, color=color).lines()) if stacks else []


def show_others(others: Sequence[AnswerGroup], naming: Naming) -> list[str]:
    """Return a line for each group of ranks without a stack."""
    return [
        f"{group.id}  {counted(group.count)}  {show_ranks(group.ranks, naming)}  {printable(group.text, 4096)}".rstrip()
        for group in others
    ]


def fold(frames: Sequence[Place]) -> list[Step]:
    """Return a stack as steps: places of the user's code, and in between runs of library frames as one each.

    Frames outside of the user's outermost one say nothing and are left out; a stack of libraries alone is kept.
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
    """Return whether a file is the standard library's or an installed package's."""
    return any(part in file for part in _LIBRARY)


@lru_cache(4096)
def show_frame(place: Place) -> str:
    """Return a frame as ``step train.py:41``."""
    name = PurePosixPath(place.file).name
    return printable(f"{place.function} {name}:{place.line}" if name else place.function)


def _fold_run(run: Sequence[Place], *, innermost: bool) -> str:
    if len(run) == 1 and innermost:
        return show_frame(run[0])
    frames = f"[{len(run)} library {'frame' if len(run) == 1 else 'frames'}]"
    # Between two of the user's frames library frames don't matter; at the end the call and the innermost frame do.
    return f"{printable(run[0].function)} … {show_frame(run[-1])} {frames}" if innermost else frames


class _Tree:
    def __init__(self, stacks: Sequence[StackGroup], naming: Naming, *, color: bool) -> None:
        self._naming = naming
        self._color = color
        self._root = _grown(stacks)
        self._odd = _odd_ones(self._root)

    def lines(self) -> Iterator[str]:
        # A list instead of recursion: ranks that recurse to different depths make a tree as deep as their stacks.
        open_nodes = [(self._root, "", "")]
        while open_nodes:
            node, lead, lead_below = open_nodes.pop()
            yield lead + self._line(node)
            below = sorted(node.below.values(), key=lambda child: -child.count)
            for child in reversed(below):
                is_last = child is below[-1]
                open_nodes.append(
                    (child, lead_below + ("└─ " if is_last else "├─ "), lead_below + ("   " if is_last else "│  "))
                )

    def _line(self, node: _Branch) -> str:
        ranks = sorted_ranks(node.groups)
        names = printable(clip(self._naming.names(ranks), MAX_NAMES), MAX_NAMES + 400)
        reason = printable(self._naming.explain(ranks))
        where = f"{node.count} [{names}{f' = {reason}' if reason else ''}]"
        parts = [paint(where, _RANKS_COLOR if self._color else None), _joined(node.steps)]
        if node.ends:
            parts.append(self._end(node))
        line = " ".join(part for part in parts if part)
        if node not in self._odd:
            return line
        return paint(f"{line}  <- odd one out" if node.count == 1 else f"{line}  <- odd ones out", self._odd_color())

    def _end(self, node: _Branch) -> str:
        state = show_states(node.ends, self._naming)
        ids = clip(",".join(group.id for group in node.ends), 24)
        return f"({printable(f'{ids} {state}'.rstrip(), 400)})"

    def _odd_color(self) -> str | None:
        return _ODD_COLOR if self._color else None


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
    """Join each node with its child if it has only one; stacks that end above others get a node of their own."""
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
    most = max((node.count for node in places), default=0)
    few = [node for node in places if node.count < most]
    return set(few) if most * 3 >= root.count * 2 else {node for node in few if node.count * SMALL_PART <= root.count}


def _frames_of(text: str) -> int:
    """Return how many frames a step stands for: a rank says so of those that it has left out of a deep stack."""
    left_out = _LEFT_OUT.match(text)
    return int(left_out[1]) if left_out is not None else 1


def _joined(steps: Sequence[Step]) -> str:
    texts = [step.text for step in steps]
    if len(texts) > MAX_JOINED:
        inner = MAX_JOINED - KEPT_OUTER
        hidden = sum(map(_frames_of, texts[KEPT_OUTER:-inner]))
        texts = [*texts[:KEPT_OUTER], f"[{hidden} frames]", *texts[-inner:]]
    return " > ".join(texts)
