"""Evaluate an expression, or run one command of a debugger, at a frame of the program; in the thread of that frame.

What is typed may do anything: raise, print, read stdin, never end. Whatever it raises is the answer; the caller ends it
in time by KeyboardInterrupt.
"""

from __future__ import annotations

import hashlib
import re
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from dbg_wire.limits import MAX_TEXT
from dbg_wire.messages import Ask, Kind

from ..stop.capture import Capture, talking_to

if TYPE_CHECKING:
    from ..stop.inbox import Wanted
    from ..values.describe import Described
    from .rank import Rank

MAX_ANSWER = MAX_TEXT // 4
"""Characters of one answer's text: a screenful or two; a rank of hundreds that says more is not read."""

ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")
"""Memory addresses as reprs show them, which differ in every process."""


class Words(Protocol):
    """Take the answer."""

    def say(self, kind: Kind, text: str, *, digest: str = "", exact: str = "") -> None:
        """Answer."""

    def keep(self, value: object, exact: str) -> None:
        """Have the value at hand for questions about its parts, under the digest that was answered."""


def evaluate(ask: Ask, frame: FrameType, words: Words) -> None:
    """Answer with the value of ``ask.text`` at this frame, and with what it printed."""
    from ..values.describe import describe

    printed = Capture()
    try:
        with talking_to(printed):
            value = _value(ask.text, frame)
            described = describe(value, stats=ask.stats, seconds=ask.seconds / 2)
    except KeyboardInterrupt:
        words.say(Kind.ERROR, f"interrupted after {ask.seconds:g} s", digest="interrupted", exact="interrupted")
    except BaseException as error:
        _say_error(words, error)
    else:
        if not printed.text:
            words.keep(value, described.exact)
            words.say(Kind.VALUE, described.text, digest=described.digest, exact=described.exact)
        elif value is None:
            _say_text(words, printed)
        else:
            _say_both(words, printed.text, described)


def _say_both(words: Words, printed: str, value: Described) -> None:
    """Answer with what was printed and the value; both count when answers are compared."""
    digest = digests_of(printed + value.digest)[0] if value.digest else ""
    exact = digests_of(printed + value.exact)[1] if value.exact else ""
    words.say(Kind.VALUE, abridged(printed + value.text), digest=digest, exact=exact)


def _value(text: str, frame: FrameType) -> Any:
    code = compile(text.strip(), "<dbg-attach -e>", "eval")
    # One namespace, or what is nested in the expression would not see the frame's locals.
    return eval(code, {**frame.f_globals, **frame.f_locals})  # noqa: S307 - what was asked for


def run_command(ask: Ask, frame: FrameType, rank: Rank, words: Words) -> tuple[Wanted, str] | None:
    """Run a line of commands in a pdb that passes by; answer with what it printed.

    If it ends in a move, nothing is answered: the move is returned, with what was printed before.
    """
    from ..engines.passing_pdb import NotHere, PassingPdb

    printed = Capture()
    wanted = None
    try:
        rank.loaded.show(frame)
        wanted = PassingPdb(rank, printed, frame).run_line(ask.text)
        if rank.breaks:
            # So that somebody traces for it when the rank goes on.
            rank.have_engine()
    except KeyboardInterrupt:
        words.say(Kind.ERROR, f"interrupted after {ask.seconds:g} s", digest="interrupted", exact="interrupted")
    except NotHere as error:
        words.say(Kind.ERROR, str(error))
    except BaseException as error:
        _say_error(words, error)
    else:
        if wanted is None:
            _say_text(words, printed)
        else:
            return wanted, printed.text
    return None


def _say_error(words: Words, error: BaseException) -> None:
    try:
        text = str(error)
    except BaseException as worse:
        # `sys.exit()` in there, or the interrupt of one that never ends, is an answer as well.
        text = f"its str raises {type(worse).__name__}"
    whole = f"{type(error).__name__}: {text}" if text else type(error).__name__
    digest, exact = digests_of(whole)
    words.say(Kind.ERROR, abridged(whole), digest=digest, exact=exact)


def _say_text(words: Words, printed: Capture) -> None:
    text = printed.text.rstrip("\n")
    if printed.lost:
        words.say(Kind.VALUE, f"{abridged(text)}\n[{printed.lost} characters more are lost]")
        return
    digest, exact = digests_of(text)
    # pdb's own mark of what went wrong.
    kind = Kind.ERROR if text.startswith("*** ") else Kind.VALUE
    words.say(kind, abridged(text), digest=digest, exact=exact)


def abridged(text: str) -> str:
    """Return a text that fits into an answer, its middle left out if need be."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    if len(clean) <= MAX_ANSWER:
        return clean
    half = MAX_ANSWER // 2 - 20
    return f"{clean[:half]} … [{len(clean)} characters] … {clean[-half:]}"


def digests_of(text: str) -> tuple[str, str]:
    """Return the digests of a whole text, without and with memory addresses."""
    return _digest(ADDRESS.sub("0x", text)), _digest(text)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
