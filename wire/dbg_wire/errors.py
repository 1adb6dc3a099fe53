"""The tree of errors. Each error explains itself to the user in one sentence.

::

    DbgError                     exit status 1
    ├── BadInput                 2   invalid input or setting of the user
    │   ├── BadTarget                invalid target or rank set
    │   ├── BadEndpoint              invalid broker address
    │   ├── NeedsExtra               a package of an extra is not installed
    │   ├── BadSecretFile            a token or rendezvous file that can't be used
    │   └── NeedsAnswer              a question to the user, but no terminal and no -y
    ├── AmbiguousTarget          2   a target that fits several live ranks
    ├── NoBroker                 4   neither argument nor variable nor file names a broker
    ├── FileTimeout               4   the file system of a required file doesn't respond
    ├── WrongHost                4   the address is the loopback of another host
    ├── BrokerError              1   about the peer at a broker's address
    │   ├── BrokerUnreachable    4   no peer answers there
    │   │   └── ConnectionClosedEarly    the peer closed the connection before it sent anything
    │   └── Refused              5   the peer answers, but rejects us or is not the expected broker
    │       ├── NotABroker
    │       ├── WrongToken
    │       ├── WrongCertificate
    │       │   └── UntrustedCertificate
    │       └── WrongVersion
    ├── ReasonedError            1   the message is one reason
    │   ├── OutputError              stdout can't be written
    │   └── PeerError                the peer violated the protocol: the peer's fault
    ├── RemediedError            1   the message names a command that helps
    │   └── NoSuchRank           3   a target that fits no rank
    └── InvalidTransition        1   our own state table has no such transition: our fault

An exception has attributes for programs, and a sentence for people. ``__str__`` composes the sentence, usually from a
template with the attributes in braces. Text from the network goes through :func:`printable` before it becomes part of a
sentence.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

MAX_QUOTED = 200
"""Maximum number of characters of foreign text that an error quotes; a longer quotation would hide the sentence
itself."""

MAX_OFFERED = 8
"""Maximum number of candidates in the error about an ambiguous target. If there are more, it shows how many more."""


def printable(text: str, limit: int = MAX_QUOTED) -> str:
    """Make foreign text safe for a terminal: at most ``limit`` characters, with ``…`` at the end if it is truncated.

    Control and other unprintable characters, including newlines, are escaped as in Python, so a hostile rank name is
    visible and has no effect.
    """
    if len(text) <= limit and text.isprintable():
        return text
    cut = text[: limit + 1]
    shown = [c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut]
    length = sum(map(len, shown))
    if length <= limit:
        return "".join(shown)
    # An escape sequence is never truncated.
    while length > limit:
        length -= len(shown.pop())
    return "".join(shown) + "…"


def first_of(names: Sequence[str], most: int = MAX_OFFERED) -> str:
    """Format the first names and the number of further names."""
    more = len(names) - most
    return ", ".join(map(printable, names[:most])) + (f" and {more} more" if more > 0 else "")


def error_line(error: BaseException) -> str:
    """Format an error of foreign code as part of a sentence: its type and, if it is not empty, its text."""
    try:
        text = printable(str(error))
    except Exception:
        text = "its text is unavailable"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


HOME_IS_SERVED = 10
"""Exit status of `dbg-broker serve` if another broker serves the home."""


class Remedy(NamedTuple):
    """Command of ``dbg-attach`` that an error recommends: its verb, ranks and options.

    The verb ``attach`` is left out of the command, as in ``dbg-attach 5``.
    """

    verb: str
    ranks: str = ""
    options: tuple[str, ...] = ()

    def typed(self) -> str:
        """Return the command for a shell, in backquotes."""
        verb = () if self.verb == "attach" else (self.verb,)
        ranks = (printable(shlex.quote(self.ranks)),) if self.ranks else ()
        return f"`{' '.join(('dbg-attach', *verb, *ranks, *self.options))}`"


class DbgError(Exception):
    """Base of all errors of this project."""

    exit_status = 1

    def worded(self, word: Callable[[Remedy], str]) -> str:
        """Return the sentence. ``word`` formats each remedy for one interface, such as the command line."""
        return str(self)


class RemediedError(DbgError):
    """Base of errors that name remedies; a subclass composes its sentence in :meth:`worded`."""

    def __str__(self) -> str:
        return self.worded(Remedy.typed)


class ReasonedError(DbgError):
    """Base of errors with one reason; ``sentence`` is the template with ``{reason}``."""

    sentence: ClassVar[str]

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.sentence.format(reason=printable(self.reason))


class BrokerError(DbgError):
    """Base of errors about the peer at ``url``, with a reason; ``sentence`` is the template with both in braces."""

    sentence: ClassVar[str]

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return self.sentence.format(url=printable(self.url), reason=printable(self.reason))


class BadInput(DbgError):
    """Raised for invalid input or an invalid setting: ``what`` is wrong, with its value, and the ``remedy``."""

    exit_status = 2

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


class NeedsExtra(BadInput):
    """Raised if a feature needs a package from one of our extras, and the package is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed here", f"type `pip install 'dbg-broker[{extra}]'`"
        )


class BadTarget(BadInput):
    """Raised for an invalid target or rank set."""


class AmbiguousTarget(DbgError):
    """Raised if a target fits several live ranks; each of ``candidates`` is a target that fits only one rank."""

    exit_status = 2

    def __init__(self, target: str, candidates: Sequence[str]) -> None:
        super().__init__(target, tuple(candidates))
        self.target = target
        self.candidates = tuple(candidates)

    def __str__(self) -> str:
        return f"target '{printable(self.target)}' fits several ranks: {first_of(self.candidates)}; name one of them"


class BadEndpoint(BadInput):
    """Raised for a broker's address that is invalid or must not be dialled."""


class BadSecretFile(BadInput):
    """Raised if a token or rendezvous file is missing, unreadable, or open to other users."""


class NeedsAnswer(BadInput):
    """Raised if the user can't be asked, because there is no terminal, and ``-y`` was not given."""


class OutputError(ReasonedError):
    """Raised if a result can't be written to stdout."""

    sentence = "the answer can't be written to stdout ({reason}); redirect stdout to another file"


class NoSuchRank(RemediedError):
    """Raised if no rank fits a target.

    ``known`` is the number of ranks that have not exited, ``exited`` the number of listed ranks that have. ``past``
    names an exited rank of an ended job that would fit.
    """

    exit_status = 3

    def __init__(self, target: str, known: int, past: str | None = None, exited: int = 0) -> None:
        super().__init__(target, known, past, exited)
        self.target = target
        self.known = known
        self.past = past
        self.exited = exited

    def worded(self, word: Callable[[Remedy], str]) -> str:
        """Return the sentence, with the command that lists the ranks."""
        if self.past is not None:
            past = printable(self.past)
            return f"no rank of a live job fits '{printable(self.target)}'; use {past} for the rank that has exited"
        if self.known:
            there = f"{self.known} others are listed by {word(Remedy('list'))}"
        elif self.exited:
            there = f"all {self.exited} have exited and are listed by {word(Remedy('list', options=('--all',)))}"
        else:
            there = "no rank has connected yet"
        return f"no rank fits '{printable(self.target)}'; {there}"


class NoBroker(DbgError):
    """Raised if neither an argument nor a variable nor a file names a broker."""

    exit_status = 4

    def __str__(self) -> str:
        return "no broker is known; start `dbg-broker serve`, or set DBG_BROKER"


class BrokerUnreachable(BrokerError):
    """Raised if no broker answers at the address."""

    exit_status = 4
    sentence = "no broker answers at {url} ({reason}); is `dbg-broker serve` running?"


class ConnectionClosedEarly(BrokerUnreachable):
    """Raised if the peer accepts a connection and closes it at once, as an overloaded broker does."""

    sentence = (
        "no broker answers at {url} ({reason}); "
        "it is overloaded, or `dbg-broker serve` is not running behind this address"
    )

    def __init__(self, url: str) -> None:
        super().__init__(url, "the connection was closed")


class FileTimeout(DbgError):
    """Raised if a file or directory can't be opened because its file system does not respond."""

    exit_status = 4

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{printable(self.path)} could not be opened in time; check that its file system is available"


class WrongHost(DbgError):
    """Raised for a broker on another host's loopback; it can't be reached from this host."""

    exit_status = 4

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class Refused(BrokerError):
    """Raised if the peer at ``url`` rejects this peer, or is not the expected broker."""

    exit_status = 5
    sentence = "the broker at {url} refused: {reason}"


class NotABroker(Refused):
    """Raised if the peer at ``url`` is not a broker."""

    sentence = (
        "the program at {url} is not a dbg-broker ({reason}); "
        "compare the address with the one that `dbg-broker serve` printed"
    )


class WrongToken(Refused):
    """Raised if a token does not belong to this broker, or is for another role."""

    sentence = (
        "the broker at {url} rejects this token ({reason}); use the token that `dbg-broker token` prints on its host"
    )


class WrongCertificate(Refused):
    """Raised if the peer at ``url`` does not present the pinned certificate; no token was sent to it."""

    sentence = "the certificate at {url} is not the pinned certificate ({reason}); no token was sent"


class UntrustedCertificate(WrongCertificate):
    """Raised if DBG_CA does not verify the certificate at ``url``: unknown authority, other host name, or expired."""

    sentence = "the certificate at {url} can't be verified with DBG_CA ({reason}); no token was sent"


class WrongVersion(Refused):
    """Raised if the peers have different major versions of the protocol."""

    sentence = (
        "the broker at {url} uses another protocol version ({reason}); install the same dbg-broker release on both ends"
    )


class PeerError(ReasonedError):
    """Raised if the peer violates the protocol; ``reason`` names the violation."""

    sentence = "the peer broke the protocol: {reason}"


class InvalidTransition(DbgError):
    """Raised if a transition table has no row for a state and an event."""

    def __init__(self, table: str, state: str, event: str) -> None:
        super().__init__(table, state, event)
        self.table = table
        self.state = state
        self.event = event

    def __str__(self) -> str:
        return f"{self.table} has no transition from state {self.state!r} by event {self.event!r}"
