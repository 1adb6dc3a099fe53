"""What a console block says: commands behind ``$``, and what they print. Pure.

``…`` stands for any text of a line, and a line of ``…`` alone for any lines. Times and sizes differ from run to run and
count as equal, as do blanks where columns are aligned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

PROMPT = "$ "
PDB_PROMPT = "(Pdb) "
ANYTHING = "…"

_QUANTITY = re.compile(r"\b\d+(?:\.\d+)? (?P<unit>s|ms|min|h|d|KiB|MiB|GiB|B)\b")


@dataclass(frozen=True, slots=True)
class Step:
    """One command with the lines that it prints; ``typed`` are the lines typed at pdb's prompt meanwhile."""

    command: str
    output: tuple[str, ...]

    @property
    def typed(self) -> tuple[str, ...]:
        """The lines that are typed at the prompt of a debugger, in their order."""
        return tuple(line.removeprefix(PDB_PROMPT) for line in self.output if line.startswith(PDB_PROMPT))


def steps(text: str) -> Iterator[Step]:
    """Yield the commands of a console block; blank lines before a command are no output."""
    command: list[str] = []
    output: list[str] = []
    for line in text.splitlines():
        if line.startswith(PROMPT):
            if command:
                yield Step("\n".join(command), _without_blank_end(output))
            command, output = [line.removeprefix(PROMPT)], []
        elif command and command[-1].endswith("\\") and not output:
            command.append(line)
        else:
            output.append(line)
    if command:
        yield Step("\n".join(command), _without_blank_end(output))


def shown(done: Iterable[tuple[Step, Sequence[str]]]) -> str:
    """Return the text of a block for commands and what they have printed now."""
    return "\n".join("\n".join([PROMPT + step.command, *lines, ""]) for step, lines in done)


def agree(expected: Sequence[str], printed: Sequence[str]) -> bool:
    """Tell whether a command has printed what the page says."""
    pattern = "".join(_pattern(line) for line in _without_blank_end(expected))
    return re.fullmatch(pattern, "".join(f"{plain(line)}\n" for line in _without_blank_end(printed))) is not None


def _pattern(line: str) -> str:
    if line.strip() == ANYTHING:
        return r"(?:.*\n)*?"
    return "[^\n]*".join(re.escape(part) for part in plain(line).split(ANYTHING)) + "\n"


def plain(line: str) -> str:
    """Return a line without what differs from run to run."""
    return re.sub(r" {2,}", "  ", _QUANTITY.sub(r"1 \g<unit>", line)).rstrip()


def _without_blank_end(lines: Sequence[str]) -> tuple[str, ...]:
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    return tuple(kept)
