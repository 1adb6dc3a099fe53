"""Single values of a command line, read from their texts. Pure."""

from __future__ import annotations

import math

from dbg_client.words.settings import RunOptions
from dbg_client.words.verbs import Operands, VerbRow
from dbg_wire import limits
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.beside import command_line
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.record import length_of
from dbg_wire.records.stop_points import MAX_STOPS, parse_stop_at, parse_stop_in
from dbg_wire.targets.rank_set import parse_ranks
from dbg_wire.targets.selection import parse_target

MOST_PIDS = 1000
"""Processes that are named at once: more than a host has ranks."""

MAX_PORT = 65535

LONGEST_SECONDS = 10_000_000.0
"""The most seconds that a collective, or a rank that does not move, may be given: four months."""


def read_seconds(text: str, name: str, most: float, least: float = 0.0) -> float:
    """Return a number of seconds between two bounds. Raise BadInput, naming the option."""
    seconds = _number(text)
    if not (seconds > 0 and least <= seconds <= most):
        raise BadInput(f"{name} {printable(text)!r} is not a number of seconds", f"give one from 0.1 to {most:.0f}")
    return seconds


def read_frame(text: str | None) -> str:
    """Return the frame that is meant, empty for the usual one. Raise BadInput for an empty or a long text."""
    if text is None:
        return ""
    frame = text.strip()
    if not frame:
        raise BadInput("--frame needs a function or a number, and has an empty text", "write e.g. `--frame train_step`")
    if len(frame) > limits.MAX_FRAME_NAME:
        raise BadInput(
            f"--frame has {len(frame):,} characters, and {limits.MAX_FRAME_NAME} are the most",
            "write a number, e.g. `--frame -2`",
        )
    return frame


def read_tolerance(text: str | None) -> float | None:
    """Return how much floats may differ. Raise BadInput for what is no number."""
    if text is None:
        return None
    tolerance = _number(text)
    if not 0 <= tolerance < math.inf:
        raise BadInput(f"--tol {printable(text)!r} is not a tolerance", "give a number such as 1e-6")
    return tolerance


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def check_question(verb: VerbRow, text: str) -> str:
    """Return the expression or the command that ranks are asked. Raise BadInput for an empty or a long one."""
    if not text.strip():
        what = "an expression" if verb.operands is Operands.EXPRESSION else "a command"
        raise BadInput(f"{verb.name} needs {what}, e.g. `{verb.example}`, and has an empty one", "write one")
    if len(text) > limits.MAX_TEXT:
        raise BadInput(
            f"{verb.name} has {len(text):,} characters, and {limits.MAX_TEXT:,} are the most", "put it into a module"
        )
    return text


def check_run(options: RunOptions) -> None:
    """Raise BadInput for options of a run that can't be used, before anything is started."""
    stops = [*map(parse_stop_at, options.stop_at), *map(parse_stop_in, options.stop_in)]
    if len(stops) > MAX_STOPS:
        raise BadInput(f"{len(stops)} stops are named", f"name {MAX_STOPS} at most")
    if options.ranks is not None:
        parse_ranks(options.ranks)
    for term in parse_target(options.rank_filter or "all").include:
        if term.job is not None:
            what = f"--rank-filter {printable(options.rank_filter or '')!r} names a job"
            raise BadInput(what, "name ranks of this one, such as 0-3 or gpu1:*")
    for name, text in (("--collective-timeout", options.collective_timeout), ("--hang-after", options.hang_after)):
        if text is not None and not 0 <= _number(text) <= LONGEST_SECONDS:
            what = f"{name} {printable(text)!r} is not a number of seconds"
            raise BadInput(what, f"give one up to {LONGEST_SECONDS:.0f}")
    if options.on_hang is not None and options.hang_after is None:
        raise BadInput("--on-hang needs to know what a hang is", "add --hang-after S, such as --hang-after 300")


def check_program(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command beside ranks. Raise BadInput if it can't be run or is too long."""
    try:
        length = length_of(command_line(words))
    except InvalidMessage as error:
        raise BadInput(f"the command can't be run ({error})", "name a program") from None
    if length > limits.MAX_TEXT:
        raise BadInput(f"the command is longer than {limits.MAX_TEXT:,} characters", "put it into a script")
    return words


def read_pids(texts: tuple[str, ...], *, mine: bool) -> tuple[int, ...]:
    """Return the processes that ``adopt`` names. Raises BadInput for what is no number, and for none."""
    for text in texts:
        if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) < 1:
            raise BadInput(f"'{printable(text)}' is no process number", "write those that `ps` shows, or --mine")
    if len(texts) > MOST_PIDS:
        raise BadInput(f"adopt takes {MOST_PIDS} processes at most", "write --mine for all that a launcher started")
    if bool(texts) == mine:
        what = "--mine finds the processes itself" if mine else "adopt needs processes"
        raise BadInput(what, "write `adopt PID…` or `adopt --mine`")
    return tuple(int(text) for text in texts)


def read_port(text: str | None) -> int | None:
    """Return the port of an IDE, None for none. Raise BadInput for what is no port."""
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 5 or int(text) > MAX_PORT:
        raise BadInput(f"--port {printable(text, 20)} is no port", f"write 1024 to {MAX_PORT}, or 0 for a free one")
    return int(text)
