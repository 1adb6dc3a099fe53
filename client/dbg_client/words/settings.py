"""What one run of the command does: a value for each verb, made of a few that verbs share. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import ClassVar, Self

from dbg_client.words.config import DEFAULT_PREFIX, DEFAULT_TIMEOUT, NO_WISH, PREFERENCES, Wish
from dbg_wire.messages import Mode
from dbg_wire.records.record import Record


class Format(enum.Enum):
    """How data is written to stdout."""

    TABLE = "table"
    PLAIN = "--plain"
    JSON = "--json"


# -------------------------------------------------------------------------------------------- what verbs have in common


class BrokerOptions(Record):
    """Where the broker is, if not where the environment says, and for how long it and its answers are waited for."""

    address: str | None = None
    timeout: float = DEFAULT_TIMEOUT


class OutputOptions(Record):
    """How answers are written; ``pager`` is the command for long ones, empty for none."""

    format: Format = Format.TABLE
    color: bool = False
    pager: str = PREFERENCES["pager"].default


class AttachOptions(Record):
    """What sessions are like.

    ``prefix`` is the byte of the escape key, None for no such key. ``status`` tells whether the last row is a status
    line. ``commands`` is the file whose lines a line debugger is told on attach, and ``rc`` whether it is told those of
    ``~/.pdbrc`` before. ``frame`` is empty for the usual one. ``pager`` is the command that shows what a session
    answers. ``record`` is the new file for a recording, None for no recording, and ``record_input`` adds keys to it.
    """

    mode: Mode = Mode.DRIVE
    follow: bool = False
    wish: Wish = NO_WISH
    frame: str = ""
    commands: str | None = None
    rc: bool = True
    vi: bool = False
    prefix: bytes | None = DEFAULT_PREFIX
    status: bool = True
    pager: str = PREFERENCES["pager"].default
    record: str | None = None
    record_input: bool = False
    verbose: bool = False


class VerbSettings(Record):
    """What all verbs have; ``notes`` are sentences for the user, told before all else."""

    name: ClassVar[str]

    broker: BrokerOptions = BrokerOptions()
    notes: tuple[str, ...] = ()


class RankSettings(VerbSettings):
    """What the verbs have that are for any number of ranks.

    ``wait`` are the seconds to wait for a stop first, infinity for no limit, None for not at all.
    """

    target: str | None = None
    wait: float | None = None
    output: OutputOptions = OutputOptions()

    def with_color(self, color: bool) -> Self:
        """Return the same with or without colours."""
        return self.replace(output=self.output.replace(color=color))


# ---------------------------------------------------------------------------------------------- verbs that show and ask


class ListRanks(RankSettings):
    """``list``."""

    name = "list"
    all: bool = False
    all_rows: bool = False


class Where(RankSettings):
    """``where``."""

    name = "where"
    threads: bool = False
    native: bool = False
    all: bool = False


class Why(RankSettings):
    """``why``; ``files`` are words that can be no target."""

    name = "why"
    files: tuple[str, ...] = ()


DEFAULT_SECONDS = 10.0
"""Seconds for which ranks look: a full recorder of torch, which is read once, takes less than 1 % of them."""


class Slow(RankSettings):
    """``slow``; ranks look for so many ``seconds``."""

    name = "slow"
    seconds: float = DEFAULT_SECONDS


class Collectives(RankSettings):
    """``collectives``."""

    name = "collectives"


class Asked(RankSettings):
    """What ranks are asked, of which equal answers are one group."""

    question: str = ""
    frame: str = ""
    exact: bool = False
    fail_if_differ: bool = False


class Eval(Asked):
    """``eval``."""

    name = "eval"
    live: bool = False
    stats: bool = False
    tolerance: float | None = None


class PdbCommand(Asked):
    """``command``."""

    name = "command"


class Exec(RankSettings):
    """``exec``."""

    name = "exec"
    program: tuple[str, ...] = ()
    per_host: bool = False
    exact: bool = False
    fail_if_differ: bool = False


class Report(RankSettings):
    """``report``; ``path`` is where it is written, None for stdout."""

    name = "report"
    path: str | None = None
    yes: bool = False


# ------------------------------------------------------------------------------------------ verbs that change something


class Screen(RankSettings):
    """``screen``, which changes nothing, and is of one rank."""

    name = "screen"


class Continue(RankSettings):
    """``continue``."""

    name = "continue"


class Release(RankSettings):
    """``release``."""

    name = "release"


class Kill(RankSettings):
    """``kill``."""

    name = "kill"
    yes: bool = False


class Interrupt(RankSettings):
    """``interrupt``, which attaches to a single rank."""

    name = "interrupt"
    attach: AttachOptions = AttachOptions()
    yes: bool = False


class Attach(VerbSettings):
    """``attach`` and ``wait``.

    ``wait`` are the seconds to wait for a stop, infinity for no limit, None for ``attach``.
    """

    name = "attach"
    target: str | None = None
    wait: float | None = None
    attach: AttachOptions = AttachOptions()
    color: bool = False


REPORT, END = "report", "end"
ON_HANG = (REPORT, END)
"""What may be done about a hang: a report is written beside the job's output; the job is ended then."""


class RunOptions(Record):
    """The options of a run as typed, None or empty if not given; these are what ``--again`` repeats.

    ``pty`` is None if neither ``--pty`` nor ``--no-pty`` was typed.
    """

    stop_at: tuple[str, ...] = ()
    stop_in: tuple[str, ...] = ()
    ranks: str | None = None
    engine: str | None = None
    post_mortem: bool = False
    collective_timeout: str | None = None
    commands: str | None = None
    rank_filter: str | None = None
    listen: str | None = None
    output: str | None = None
    pty: bool | None = None
    hang_after: str | None = None
    on_hang: str | None = None

    def with_changes(self, given: RunOptions) -> RunOptions:
        """Return these options, replaced by those that are given now; a new stop replaces all stops."""
        usual = RunOptions()
        names = [name for name in self.__struct_fields__ if getattr(given, name) != getattr(usual, name)]
        if given.stop_at or given.stop_in:
            names += ["stop_at", "stop_in"]
        return self.replace(**{name: getattr(given, name) for name in names})


class Run(VerbSettings):
    """``run``; ``options`` are as typed, and so is ``command``, which is empty with ``again``."""

    name = "run"
    command: tuple[str, ...] = ()
    options: RunOptions = RunOptions()
    again: bool = False
    web: bool = False
    attach: AttachOptions = AttachOptions()
    color: bool = False


class Tmux(VerbSettings):
    """``tmux``."""

    name = "tmux"
    target: str | None = None
    attach: AttachOptions = AttachOptions()


class Adopt(VerbSettings):
    """``adopt``; ``mine`` means all processes of this user that a launcher has started here."""

    name = "adopt"
    pids: tuple[int, ...] = ()
    mine: bool = False
    yes: bool = False


# --------------------------------------------------------------------------------------------- verbs for other programs


class Mcp(VerbSettings):
    """``mcp``."""

    name = "mcp"


class Dap(VerbSettings):
    """``dap``; ``port`` is where an IDE is served, 0 for a free one, None for stdin and stdout."""

    name = "dap"
    target: str | None = None
    port: int | None = None
    no_secret: bool = False
    vscode: bool = False


class Web(VerbSettings):
    """``web``; ``port`` is where the page is served, 0 for a free one, and ``drive`` says whether it may act.

    ``wish`` is the debugger that its terminals open.
    """

    name = "web"
    target: str | None = None
    port: int = 0
    drive: bool = False
    wish: Wish = NO_WISH


class ShowCompletion(VerbSettings):
    """``completion``."""

    name = "completion"
    shell: str = ""


class ShowHelp(VerbSettings):
    """``help``; ``topic`` is a verb, ``all`` for everything, or empty."""

    name = "help"
    topic: str = ""


SETTINGS_OF: Mapping[str, type[VerbSettings]] = {
    made.name: made
    for made in (
        *(Attach, Run, ListRanks, Where, Why, Slow, Collectives, Eval, PdbCommand, Exec, Screen, Interrupt, Continue),
        *(Release, Kill, Tmux, Report, Adopt, Mcp, Dap, Web, ShowCompletion, ShowHelp),
    )
} | {"wait": Attach}
"""The class of each verb's settings."""
