"""Evaluate an expression, or run one command of a debugger, at a frame of the program; in the thread of that frame.

The typed code may do anything: raise, print, read stdin, never end. An exception of it is the answer. The caller ends
it in time by KeyboardInterrupt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.stop.capture import Capture, talking_to
from dbg_agent.stop.frame_locals import read_locals
from dbg_agent.values.record import abridged, error_text, without_addresses
from dbg_wire.messages import Ask, Kind

if TYPE_CHECKING:
    from dbg_agent.engines.port import Port
    from dbg_agent.rank.debuggers import Debuggers
    from dbg_agent.stop.inbox import WantedMove
    from dbg_agent.values.describe import Described


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The outcome of an expression or a command, as it is answered.

    ``kept`` is a 1-tuple with a value that stays available for questions about its parts; None if there is none.
    """

    kind: Kind
    text: str
    digest: str = ""
    exact: str = ""
    kept: tuple[object] | None = None


def evaluate(ask: Ask, frame: FrameType, known_locals: Mapping[str, Any] | None = None) -> Evaluated:
    """Return the value of ``ask.text`` at this frame, and what it printed.

    ``known_locals`` are those that an open debugger has of this frame, if one shows it.
    """
    from dbg_agent.values.describe import describe

    printed = Capture()
    try:
        with talking_to(printed):
            value = _value(ask.text, frame, known_locals)
            described = describe(value, stats=ask.stats, seconds=ask.seconds / 2)
    except KeyboardInterrupt:
        return _interrupted(ask)
    except BaseException as error:
        return _error(error)
    if not printed.text:
        return Evaluated(Kind.VALUE, described.text, described.digest, described.exact, (value,))
    return _printed(printed) if value is None else _both(printed.text, described)


def _both(printed: str, value: Described) -> Evaluated:
    """Return what was printed and the value; both count when answers are compared."""
    digest = digests_of(printed + value.digest)[0] if value.digest else ""
    exact = digests_of(printed + value.exact)[1] if value.exact else ""
    return Evaluated(Kind.VALUE, abridged(printed + value.text), digest, exact)


def _value(text: str, frame: FrameType, known_locals: Mapping[str, Any] | None) -> Any:
    code = compile(text.strip(), "<dbg-attach -e>", "eval")
    # With two namespaces a comprehension or lambda in the expression would not see the frame's locals.
    return eval(code, {**frame.f_globals, **(read_locals(frame) if known_locals is None else known_locals)})  # noqa: S307 - the user asks for it


def run_command(
    ask: Ask, frame: FrameType, rank: Port, debuggers: Debuggers, *, looked_at: FrameType | None = None
) -> Evaluated | tuple[WantedMove, str]:
    """Run a line of commands at ``frame`` in a pdb of its own, without a session; return what it printed.

    The open debugger shows the frame ``looked_at``, if that is another one.

    If the line ends in a move, return the move and what was printed before.
    """
    from dbg_agent.engines.passing_pdb import NotHere, PassingPdb

    printed = Capture()
    known_locals = debuggers.locals_of(looked_at or frame)
    assigned = dict(known_locals or {})
    try:
        rank.loaded.show(frame)
        passing = PassingPdb(rank, printed, looked_at or frame, frame, debuggers.aliases)
        if known_locals is not None:
            # The new pdb has read the frame's variables, and so undone what was assigned in the open one.
            known_locals.update(assigned)
        wanted = passing.run_line(ask.text)
        if rank.breakpoints.lines:
            # A breakpoint needs a debugger that traces for it when the rank goes on.
            debuggers.have_one()
    except KeyboardInterrupt:
        return _interrupted(ask)
    except NotHere as error:
        return Evaluated(Kind.ERROR, str(error))
    except BaseException as error:
        return _error(error)
    return _printed(printed) if wanted is None else (wanted, printed.text)


def _interrupted(ask: Ask) -> Evaluated:
    return Evaluated(Kind.ERROR, f"interrupted after {ask.seconds:g} s", "interrupted", "interrupted")


def _error(error: BaseException) -> Evaluated:
    whole = error_text(error)
    return Evaluated(Kind.ERROR, abridged(whole), *digests_of(whole))


def _printed(printed: Capture) -> Evaluated:
    text = printed.text.rstrip("\n")
    if printed.lost:
        return Evaluated(Kind.VALUE, f"{abridged(text)}\n[{printed.lost} characters more are lost]")
    # pdb marks its errors in this way.
    kind = Kind.ERROR if text.startswith("*** ") else Kind.VALUE
    return Evaluated(kind, abridged(text), *digests_of(text))


def digests_of(text: str) -> tuple[str, str]:
    """Return the digests of a whole text, without and with memory addresses."""
    return _digest(without_addresses(text)), _digest(text)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
