"""Who may use the page: the one-time token of its address, the cookie that it becomes, and where requests come from.

Any program of this host reaches the port, and any page that the user's browser shows may send requests to it. A cookie
is not told apart by ports, so its name has the port in it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dbg_client.core.requests import is_same, new_secret
from dbg_wire.errors import DbgError

NAMES_OF_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Hosts by which a browser may call this server, also through a tunnel; any other is the name of somebody's page."""

NONCE = "{{nonce}}"
"""What the page has in place of the nonce."""

FIXED_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Server": "dbg-attach",
}
"""Headers of each answer."""


class NotAdmitted(DbgError):
    """Say why a request is refused, to a person who may have come by an old link."""

    def __init__(self, sentence: str, status: int = 403) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status

    def __str__(self) -> str:
        return self.sentence


NO_COOKIE = "this page needs the link that `dbg-attach web` has printed in its terminal; open that one"
USED = "this link was used before, or is of another server; the terminal of `dbg-attach web` shows the next one"


class Access:
    """The token that is good now and the cookie's secret; ``tell`` gets the next token whenever one was used."""

    def __init__(self, port: int, tell: Callable[[str], None]) -> None:
        self.cookie = f"dbg-web-{port}"
        self._tell = tell
        self._secret = new_secret()
        self._token = self.new_token()

    def new_token(self) -> str:
        """Make the token that is good from now on, once."""
        self._token = new_secret()
        return self._token

    def exchange(self, token: str) -> str:
        """Return the value of the cookie for the token. Raises NotAdmitted for any other one, and for a used one."""
        if not is_same(token, self._token):
            raise NotAdmitted(USED)
        self._tell(self.new_token())
        return self._secret

    def has_cookie(self, cookies: Mapping[str, str]) -> bool:
        """Tell whether a browser has been let in."""
        return is_same(cookies.get(self.cookie), self._secret)


def require_own(host: str, origin: str | None, site: str | None, *, of_page: bool) -> None:
    """Raise NotAdmitted for a request that no page of ours makes.

    ``host`` is the header Host: of a page whose name leads to this address (DNS rebinding) it is that name. ``origin``
    is the header Origin, which a browser sends with each WebSocket. ``site`` is Sec-Fetch-Site: a link in another page
    may lead to the page itself, and nothing but our page may load what ``of_page`` it needs.
    """
    name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    if name not in NAMES_OF_LOOPBACK:
        raise NotAdmitted("this server is called by another name than its own; open http://127.0.0.1 and its port", 421)
    if origin is not None and origin != f"http://{host}":
        raise NotAdmitted("another page may not use this server")
    if of_page and site not in (None, "same-origin", "none"):
        raise NotAdmitted("another page may not use this server")


def content_policy(nonce: str) -> str:
    """Return the Content-Security-Policy of the page; xterm makes style elements, which carry the nonce."""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; connect-src 'self'; "
        "img-src 'self' data: blob:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


NOTHING_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The policy of all that is no page."""
