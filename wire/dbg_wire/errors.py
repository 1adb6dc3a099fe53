"""What can go wrong, in one tree; every leaf says it to the user in one sentence.

::

    DbgError                     exit status 1
    ├── BadInput                 2   what the user typed or set
    │   ├── BadTarget                a target or rank set that can't be read
    │   ├── BadEndpoint              a broker address that can't be read
    │   ├── NeedsExtra               something for which a package of an extra is missing
    │   ├── BadSecretFile            a token or rendezvous file that can't be used
    │   └── NeedsAnswer              a question without a terminal, and no -y
    ├── AmbiguousTarget          2   a target that fits ranks of several live jobs
    ├── NoSuchRank               3   a target that fits nothing
    ├── NoBroker                 4   nothing names a broker
    ├── SilentFile               4   the file server of a file that is needed doesn't answer
    ├── WrongHost                4   the address is the loopback of another host
    ├── BrokerError              1   about whoever is at a broker's address
    │   ├── BrokerUnreachable    4   nobody answers there
    │   │   └── HungUp               a peer that has hung up before a word
    │   └── Refused              5   the peer answers, but refuses us or is not the expected broker
    │       ├── NotABroker
    │       ├── WrongToken
    │       ├── WrongCertificate
    │       │   └── UntrustedCertificate
    │       └── WrongVersion
    ├── ReasonedError            1   one reason says all
    │   ├── CantPrint                stdout takes no more
    │   └── PeerError                the peer broke the protocol: the peer's fault
    └── IllegalMove              1   our own table of states has no such move: our fault

Exceptions hold parts and compose their sentence in ``__str__``, most from one with the parts in braces, so that code
matches on attributes and people read a sentence. Text from the network goes through :func:`printable` before it becomes
part of a sentence.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

MAX_QUOTED = 200
"""Characters of foreign text that an error quotes; more would scroll the sentence itself away."""

MAX_OFFERED = 8
"""Candidates that an ambiguous target's error names; more are counted."""


def printable(text: str, limit: int = MAX_QUOTED) -> str:
    """Return foreign text so that it can't act on a terminal: at most ``limit`` characters, and ``…`` if it was cut.

    Control and other unprintable characters, newlines included, come back escaped (``\\x1b``), so a hostile rank name
    is visible and has no effect.
    """
    if len(text) <= limit and text.isprintable():
        return text
    cut = text[: limit + 1]
    shown = [c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut]
    length = sum(map(len, shown))
    if length <= limit:
        return "".join(shown)
    # An escape is shown whole or not at all.
    while length > limit:
        length -= len(shown.pop())
    return "".join(shown) + "…"


def first_of(names: Sequence[str], most: int = MAX_OFFERED) -> str:
    """Return the first of some names, and how many more there are."""
    more = len(names) - most
    return ", ".join(map(printable, names[:most])) + (f" and {more} more" if more > 0 else "")


def error_line(error: BaseException) -> str:
    """Return an error of another's code as part of a sentence: its type and, if it has one, its text."""
    try:
        text = printable(str(error))
    except Exception:
        text = "its text can't be had"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


HOME_IS_SERVED = 10
"""Exit status of `dbg-broker serve` where another broker serves the home."""


class Remedy(NamedTuple):
    """A verb of ``dbg-attach`` that helps, its ranks and its options; ``attach`` is that of a bare target."""

    verb: str
    ranks: str = ""
    options: tuple[str, ...] = ()

    def typed(self) -> str:
        """Return the command for a shell, between backquotes."""
        verb = () if self.verb == "attach" else (self.verb,)
        ranks = (printable(shlex.quote(self.ranks)),) if self.ranks else ()
        return f"`{' '.join(('dbg-attach', *verb, *ranks, *self.options))}`"


class DbgError(Exception):
    """The base of all errors of this project."""

    exit_status = 1

    def worded(self, word: Callable[[Remedy], str]) -> str:
        """Return the sentence; ``word`` says each remedy as the users of one interface know it."""
        return str(self)


class RemediedError(DbgError):
    """An error that names remedies; a subclass has its sentence in :meth:`worded`."""

    def __str__(self) -> str:
        return self.worded(Remedy.typed)


class ReasonedError(DbgError):
    """An error of which one text says all; ``sentence`` has it in braces."""

    sentence: ClassVar[str]

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.sentence.format(reason=printable(self.reason))


class BrokerError(DbgError):
    """An error about the broker, or whoever answers, at ``url``, and why; ``sentence`` has both in braces."""

    sentence: ClassVar[str]

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return self.sentence.format(url=printable(self.url), reason=printable(self.reason))


class BadInput(DbgError):
    """An input or a setting of the user that can't be used: ``what`` with its value, then ``remedy``."""

    exit_status = 2

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


class NeedsExtra(BadInput):
    """Something needs a package that comes with an extra of ours, and is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed here", f"type `pip install 'dbg-broker[{extra}]'`"
        )


class BadTarget(BadInput):
    """A target or rank set that can't be read."""


class AmbiguousTarget(DbgError):
    """A target that fits several live ranks; ``candidates`` are targets that fit one rank each."""

    exit_status = 2

    def __init__(self, target: str, candidates: Sequence[str]) -> None:
        super().__init__(target, tuple(candidates))
        self.target = target
        self.candidates = tuple(candidates)

    def __str__(self) -> str:
        return f"target '{printable(self.target)}' fits several ranks: {first_of(self.candidates)}; name one of them"


class BadEndpoint(BadInput):
    """A broker's address that can't be read, or must not be dialled."""


class BadSecretFile(BadInput):
    """A token or rendezvous file that is missing, unreadable, or open to other users."""


class NeedsAnswer(BadInput):
    """A question that can't be put, since there is no terminal and ``-y`` was not given."""


class CantPrint(ReasonedError):
    """A result that could not be written to stdout, and why."""

    sentence = "the answer can't be written to stdout ({reason}); redirect stdout to another file"


class NoSuchRank(RemediedError):
    """A target that no rank fits, and the ranks that there are.

    ``known`` ranks are there and ``exited`` ones are remembered; ``past`` names one of a job that has ended.
    """

    exit_status = 3

    def __init__(self, target: str, known: int, past: str | None = None, exited: int = 0) -> None:
        super().__init__(target, known, past, exited)
        self.target = target
        self.known = known
        self.past = past
        self.exited = exited

    def worded(self, word: Callable[[Remedy], str]) -> str:
        if self.past is not None:
            past = printable(self.past)
            return f"no rank of a job that lives fits '{printable(self.target)}'; {past} has exited, and is named so"
        if self.known:
            there = f"{self.known} others are listed by {word(Remedy('list'))}"
        elif self.exited:
            there = f"all {self.exited} have exited, and are listed by {word(Remedy('list', options=('--all',)))}"
        else:
            there = "no rank has connected yet"
        return f"no rank fits '{printable(self.target)}'; {there}"


class NoBroker(DbgError):
    """The lack of a broker: neither argument nor variable nor file names one."""

    exit_status = 4

    def __str__(self) -> str:
        return "no broker is known; start `dbg-broker serve`, or set DBG_BROKER"


class BrokerUnreachable(BrokerError):
    """A broker that does not answer at its address, and why."""

    exit_status = 4
    sentence = "no broker answers at {url} ({reason}); is `dbg-broker serve` running?"


class HungUp(BrokerUnreachable):
    """A peer that has taken a connection and hung up, as a broker does to which too many come at once."""

    sentence = (
        "no broker answers at {url} ({reason}): none runs behind that address, or too many peers come to it at once; "
        "is `dbg-broker serve` running?"
    )

    def __init__(self, url: str) -> None:
        super().__init__(url, "it hung up")


class SilentFile(DbgError):
    """A file or directory that can't be opened since its file system does not answer."""

    exit_status = 4

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{printable(self.path)} does not let itself be opened; is its file system there?"


class WrongHost(DbgError):
    """A broker on another host's loopback, which can never be reached from here."""

    exit_status = 4

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class Refused(BrokerError):
    """A peer at ``url`` that refused, or is not the expected broker."""

    exit_status = 5
    sentence = "the broker at {url} refused: {reason}"


class NotABroker(Refused):
    """The refusal of a peer at ``url`` that is not a broker."""

    sentence = (
        "whoever listens at {url} is no dbg-broker ({reason}); "
        "compare the address with the one that `dbg-broker serve` printed"
    )


class WrongToken(Refused):
    """A token that is not this broker's, or not for this role."""

    sentence = (
        "the broker at {url} does not take this token ({reason}); "
        "give the one that `dbg-broker token` prints on its host"
    )


class WrongCertificate(Refused):
    """A peer at ``url`` that does not show the pinned certificate; nothing was sent to it."""

    sentence = "whoever answers at {url} is not the broker that was pinned ({reason}); nothing was sent to it"


class UntrustedCertificate(WrongCertificate):
    """A peer at ``url`` whose certificate no authority of DBG_CA vouches for, or not for this host, or not now."""

    sentence = "DBG_CA does not vouch for the certificate at {url} ({reason}); nothing was sent to it"


class WrongVersion(Refused):
    """Different protocol majors at the two ends."""

    sentence = (
        "the broker at {url} speaks another protocol version ({reason}); "
        "install the same dbg-broker release on both ends"
    )


class PeerError(ReasonedError):
    """A breach of the protocol by the peer; ``reason`` names the rule."""

    sentence = "the peer broke the protocol: {reason}"


class IllegalMove(DbgError):
    """A state and an event that have no row in a transition table."""

    def __init__(self, table: str, state: str, event: str) -> None:
        super().__init__(table, state, event)
        self.table = table
        self.state = state
        self.event = event

    def __str__(self) -> str:
        return f"{self.table} can't go on from {self.state!r} by {self.event!r}"
