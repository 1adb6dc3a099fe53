"""What a session is given, by its user and by the lines that a line debugger is told first, and how it ends."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dbg_client.terminal.recording import Recording
from dbg_client.verbs.attach_options import AttachOptions
from dbg_client.verbs.preferences import key_name
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.limits import MAX_INPUT_PENDING, MAX_TEXT
from dbg_wire.records.ranks import RankInfo

RC_FILE = ".pdbrc"

MAX_DEED = 600
"""Characters of what somebody else did: two names and a command."""


class Startup:
    """Hand out the lines once to each process of a rank."""

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self._lines = tuple(lines)
        self._left: dict[str, deque[str]] = {}

    def for_rank(self, key: str) -> deque[str]:
        """Return the lines that this rank was not told yet; the caller takes out each one that it tells."""
        return self._left.setdefault(key, deque(self._lines))


def read_startup(home: str | None, file: str | None) -> Startup:
    """Return the lines of ``.pdbrc`` in ``home``, if there is one, and then of ``file``.

    Blocks for two small files. Raises BadInput if ``file`` can't be read, or either is no text or too long.
    """
    lines: list[str] = []
    if home is not None and (Path(home) / RC_FILE).is_file():
        lines += _read(Path(home) / RC_FILE, "leave it out with --no-rc")
    if file is not None:
        lines += _read(Path(file), "name another file with -x")
    return Startup(lines)


def commands_of(text: str) -> list[str]:
    """Return the lines that are commands: neither empty nor comments, as pdb reads its own file."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _read(path: Path, remedy: str) -> list[str]:
    shown = printable(str(path))
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_INPUT_PENDING + 1)
    except UnicodeDecodeError:
        raise BadInput(f"{shown} is not UTF-8 text", remedy) from None
    except OSError as error:
        raise BadInput(f"{shown} can't be read ({error.strerror or type(error).__name__})", remedy) from None
    commands = commands_of(text)
    if len(text) > MAX_INPUT_PENDING or any(len(line) > MAX_TEXT for line in commands):
        raise BadInput(f"{shown} is too long; {MAX_INPUT_PENDING:,} characters are the most", remedy)
    return commands


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What the user wants of every session of one run; ``note`` is for the first line of the next one.

    ``startup`` is what line debuggers are told first. ``may_run_again`` says that the user can have the job run
    again from here.
    """

    attach: AttachOptions
    colors: int
    color: bool
    note: str | None = None
    startup: Startup = field(default_factory=Startup)
    may_run_again: bool = False
    recording: Recording | None = None

    @property
    def prefix_name(self) -> str:
        """Return what people call the escape key; empty for no such key."""
        return key_name(self.attach.prefix) if self.attach.prefix else ""


class End(enum.Enum):
    """The ways in which a session ends."""

    DETACHED = "detached"
    WENT_ON = "went on"
    AGAIN = "again"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """How a session ended, and at which rank.

    ``error`` says why it failed, ``opened`` whether it began, ``loss`` which keys were discarded right before.
    ``ended_by`` is what somebody else did that has ended the stop, in words, empty if nobody did. ``let_go`` is the
    exception after which a rank was kept that went on, empty for other stops.
    """

    end: End
    rank: RankInfo
    opened: bool
    error: DbgError | None = None
    loss: str | None = None
    ended_by: str = ""
    let_go: str = ""


def how_it_ended(outcome: SessionOutcome) -> str:
    """Return how the session ended, in a few words without a full stop."""
    by = printable(outcome.ended_by, MAX_DEED)
    if outcome.error is not None:
        return f"{by}: {outcome.error}" if by else str(outcome.error)
    went_on = "went on"
    if outcome.let_go:
        # It goes on where the program has caught the exception, which can't be told from here.
        went_on = f"was let go after {printable(outcome.let_go)}, and has not ended yet"
    return f"{printable(outcome.rank.address)} {went_on}{f': {by}' if by else ''}"
