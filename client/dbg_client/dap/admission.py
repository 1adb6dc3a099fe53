"""Which IDE may attach at a port: one at a time, the one that knows the secret of this turn. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from dbg_client.dap.messages import Message
from dbg_wire.errors import BadInput

SECRET_BYTES = 16
"""Random bytes of a secret: nobody guesses 128 bits, so wrong ones are refused and change nothing for the user."""


class Admission:
    """The seat of a port, and the secret by which it is taken: each lets one IDE in once.

    ``tell`` gets each new secret. Without a ``new_secret`` the seat alone counts.
    """

    def __init__(self, tell: Callable[[str], None], new_secret: Callable[[], str] | None) -> None:
        self._tell = tell
        self._new_secret = new_secret
        self._secret: str | None = None
        self._is_taken = False

    def begin(self) -> None:
        """Make and tell the first secret."""
        self._renew()

    def admit(self, arguments: Message) -> None:
        """Give the seat to the client that sends these arguments to attach. Raises BadInput if it is not let in."""
        given = arguments.get("secret")
        if self._secret is not None and not _is_same(given, self._secret):
            what = "this port asks for a secret, and none was sent" if given is None else "the secret is not the one"
            raise BadInput(what, 'add `"secret": "…"` as the terminal of `dbg-attach dap --port` shows it')
        if self._is_taken:
            raise BadInput(
                "another IDE is attached at this port", "disconnect it, or run a second `dbg-attach dap --port 0`"
            )
        self._is_taken = True

    def leave(self) -> None:
        """Free the seat, whose IDE has gone, for the next secret."""
        self._is_taken = False
        self._renew()

    def _renew(self) -> None:
        if self._new_secret is not None:
            self._secret = self._new_secret()
            self._tell(self._secret)


def random_secret() -> str:
    """Return a new secret."""
    return secrets.token_urlsafe(SECRET_BYTES)


def _is_same(given: object, secret: str) -> bool:
    return isinstance(given, str) and secrets.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())
