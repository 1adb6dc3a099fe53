"""The options of a run as typed, and its task with the current state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from dbg_client.numbers.watch_options import WatchOptions, is_watch
from dbg_client.verbs.attach_options import Commands, Engine
from dbg_client.verbs.option import Heading, Option, read_number
from dbg_command.targets import parse_target
from dbg_wire.errors import BadInput, printable
from dbg_wire.rank_set import parse_ranks
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.record import Record
from dbg_wire.records.stop_points import MAX_STOPS, StopAt, StopIn, parse_stop_at, parse_stop_in

run_option = partial(Option, heading=Heading.RUNNING)

REPORT, END = "report", "end"
ON_HANG = (REPORT, END)
"""Actions for a hang: write a report next to the job's output; also end the job."""

LONGEST_SECONDS = 10_000_000.0
"""Maximum value of --collective-timeout and --hang-after, in seconds: four months."""


class RunOptions(Record):
    """The options of a run as typed; None or empty if not given."""

    engine: Engine = None
    commands: Commands = None
    stop_at: Annotated[
        tuple[str, ...],
        run_option(
            "--stop-at",
            metavar="'FILE:LINE[, CONDITION]'|nan|different|'different from DIR'",
            repeats=True,
            help="stop before this line, if the condition is true there; or at the first number of a training with "
            "torch that is not finite, that differs from its replicas in other ranks, or from the run recorded in DIR; "
            "may be given again",
        ),
    ] = ()
    numbers: WatchOptions = WatchOptions()
    record: Annotated[
        str | None,
        run_option(
            "--numbers",
            metavar="'DIR[, last N]'",
            help="record the numbers of all modules, gradients and parameters of each step, or of the last N to 2N "
            "steps; `dbg-attach numbers` compares two runs",
        ),
    ] = None
    stop_in: Annotated[
        tuple[str, ...],
        run_option("--stop-in", metavar="MODULE:FUNCTION", repeats=True, help="stop at the beginning of a function"),
    ] = ()
    ranks: Annotated[
        str | None,
        run_option("--ranks", metavar="SET", help="only these ranks stop, e.g. 0-3,7; the others wait for them"),
    ] = None
    rank_filter: Annotated[
        str | None,
        run_option("--rank-filter", metavar="SET", help="follow only the stops of these ranks (default: all)"),
    ] = None
    post_mortem: Annotated[bool, run_option("--post-mortem", help="keep ranks that crash, and stop there")] = False
    collective_timeout: Annotated[
        str | None,
        run_option(
            "--collective-timeout", metavar="S", help="let no collective time out before S seconds, so ranks can wait"
        ),
    ] = None
    hang_after: Annotated[
        str | None,
        run_option(
            "--hang-after",
            metavar="S",
            help="report why, once no rank has moved for S seconds and none is stopped in a debugger (default: never)",
        ),
    ] = None
    on_hang: Annotated[
        str | None,
        run_option(
            "--on-hang",
            metavar="report|end",
            choices=ON_HANG,
            help="at such a hang, also write a report file next to the job's output; `end` also ends the job, with "
            "status 9 (default: no file)",
        ),
    ] = None
    output: Annotated[
        str | None,
        run_option("--output", metavar="FILE", help="file for the job's output (default: in the home)"),
    ] = None
    listen: Annotated[
        str | None,
        run_option(
            "--listen",
            metavar="HOST:PORT",
            help="address of the run's own broker (default: all addresses under srun, mpirun etc., else 127.0.0.1)",
        ),
    ] = None

    @property
    def stops(self) -> list[StopAt | StopIn]:
        """The stops at lines and in functions. Raises BadInput for a text that is neither a place nor a watch."""
        places = [text for text in self.stop_at if not is_watch(text)]
        return [*map(parse_stop_at, places), *map(parse_stop_in, self.stop_in)]

    @property
    def watch(self) -> NumbersQuestion:
        """The watches over the numbers of the training."""
        return self.numbers.question([text for text in self.stop_at if is_watch(text)], self.record)

    def check(self) -> None:
        """Raise BadInput for invalid options, before anything is started."""
        self.numbers.check(self.watch)
        if len(self.stops) > MAX_STOPS:
            raise BadInput(f"{len(self.stops)} stops are named", f"name {MAX_STOPS} or fewer")
        if self.ranks is not None:
            parse_ranks(self.ranks)
        for term in parse_target(self.rank_filter or "all").include:
            if term.job is not None:
                what = f"--rank-filter {printable(self.rank_filter or '')!r} names a job"
                raise BadInput(what, "name ranks of this job, such as 0-3 or gpu1:*")
        for name, text in (("--collective-timeout", self.collective_timeout), ("--hang-after", self.hang_after)):
            if text is not None and not 0 <= read_number(text) <= LONGEST_SECONDS:
                what = f"{name} {printable(text)!r} is not a number of seconds"
                raise BadInput(what, f"use a number up to {LONGEST_SECONDS:.0f}")
        if self.on_hang is not None and self.hang_after is None:
            raise BadInput("--on-hang needs --hang-after", "add it, such as --hang-after 300")


@dataclass(slots=True, kw_only=True)
class Task:
    """The terminal's task: the job whose stops it follows, the file of the job's output, and the job's state.

    ``ranks`` is a target without a job. ``attach`` is False if no terminal can attach. ``stops`` are the requested
    stops, as shown to users. ``hang_after`` is the time in seconds without a move of any rank after which the terminal
    reports the cause of the hang, or None for never. ``on_hang`` is the additional action in this case, or None.

    ``is_hung`` means that the job is being ended because it hangs, ``took_part`` that one of its ranks has connected.
    """

    job: str
    output: str = ""
    ranks: str = "all"
    attach: bool = True
    stops: tuple[str, ...] = ()
    hang_after: float | None = None
    on_hang: str | None = None
    is_hung: bool = False
    took_part: bool = False
