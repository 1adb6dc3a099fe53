"""Callers of the classic port: which are no debuggers, whose they are, and which is closed when too many call.

A closed connection is an error in the middle of a program, so a session that looks real is not closed for a stranger.
"""

from __future__ import annotations

import codecs
import contextlib
import re
import socket
import struct
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from dbg_wire.finding.endpoint import ip_of, is_loopback_host

MAX_CALLERS = 256
"""Stock sessions at once: no user has more scripts without an agent, and each may keep nearly 1 MiB of its screen."""

MAX_CALLERS_OF_ONE = 64
"""Sessions of one address or of one other user of this host: a host has up to 16 ranks, and it takes four strangers to
fill all places."""

MIN_DRAWN = 512
"""Half the bytes of the smallest screen that PuDB draws; a caller that has written less has shown no debugger yet."""

FRESH_SECONDS = 2.0
"""Seconds for which a caller is new: PuDB draws within one."""

OURS = "us"
"""The party of callers that run as the broker's own user on its host: they are no strangers."""

PORT_IS_FOR = "this port of dbg-broker is for stock pudb.remote.set_trace(reverse=True) alone"

_TLS_REFUSAL = b"\x15\x03\x01\x00\x02\x02\x28"
"""A fatal alert, handshake_failure: a TLS client reports it instead of a broken connection."""

# From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_NETLINK_SOCK_DIAG = 4

_SOCK_DIAG_BY_FAMILY = 20

_NLM_F_REQUEST = 1

_ALL_STATES = 0xFFFFFFFF

MAX_ANSWER = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What is known of a caller: ``party`` is its address or user; a later caller has a higher ``number``."""

    number: int
    party: str
    drawn: int
    is_listed: bool
    is_attended: bool
    is_fresh: bool
    """Whether it came a moment ago, so that nothing can be expected of it yet."""

    @property
    def is_weak(self) -> bool:
        """Tell whether nothing shows that the caller is a debugger in use."""
        return not self.is_attended and self.drawn < MIN_DRAWN


def _worth(caller: Caller) -> tuple[bool, int, int]:
    """Return the sort key of weak callers: the caller with the lowest is closed first."""
    rank = 1 if caller.is_listed else 2 if caller.is_fresh else 0
    return caller.party == OURS, rank, caller.number


def who_goes(others: Collection[Caller], newcomer: Caller) -> Caller | None:
    """Return the caller to close for a newcomer, which may be the newcomer itself, or None if there is room."""
    sizes = Counter(caller.party for caller in others)
    has_party_too_many = newcomer.party != OURS and sizes[newcomer.party] >= MAX_CALLERS_OF_ONE
    if not has_party_too_many and len(others) < MAX_CALLERS:
        return None
    pool = [caller for caller in others if not has_party_too_many or caller.party == newcomer.party]
    weak = [caller for caller in pool if caller.is_weak]
    if weak:
        return min(weak, key=_worth)
    largest, size = sizes.most_common(1)[0]
    crowd = [caller for caller in others if caller.party == largest and not caller.is_attended]
    if has_party_too_many or largest in (newcomer.party, OURS) or size <= sizes[newcomer.party] + 1 or not crowd:
        return newcomer
    # The last caller goes, so that a stranger can't end older sessions of its party by calling again and again.
    return max(crowd, key=lambda caller: caller.number)


_HTTP = re.compile(rb"(?:GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|PRI) ")
_TLS_HELLO = re.compile(rb"\x16\x03")


def answer_to_noise(head: bytes) -> bytes | None:
    """Return the answer to a caller whose first bytes are ``head``; None if it may be a debugger.

    A debugger writes UTF-8 and neither NUL nor telnet's commands.
    """
    if _HTTP.match(head):
        return http_refusal()
    if _TLS_HELLO.match(head):
        return _TLS_REFUSAL
    if b"\0" in head or not _is_utf8(head):
        return sentence(PORT_IS_FOR)
    return None


def sentence(text: str) -> bytes:
    """Return a refusal as a line of text."""
    return f"dbg-broker: {text}\r\n".encode()


def http_refusal() -> bytes:
    """Return the refusal as an HTTP response."""
    body = f"{PORT_IS_FOR}; a browser has no business here\n".encode()
    head = (
        f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    )
    return head.encode() + b"\r\n" + body


def _is_utf8(data: bytes) -> bool:
    try:
        # The last character may be cut.
        codecs.getincrementaldecoder("utf-8")("strict").decode(data)
    except UnicodeDecodeError:
        return False
    return True


Address = tuple[str, int]

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_PORTS = struct.Struct(">HH")
_NO_INTERFACE_NO_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_ANSWER_USER = struct.Struct("=4x48x12xI")
"""The user in an answer behind its header, after the addresses and the queues."""


def party_of(peer: object, own: object, own_user: int) -> tuple[str, bool]:
    """Return a caller's party, which is its address or its user on this host, and whether it is ``own_user``."""
    if not (isinstance(peer, tuple) and isinstance(own, tuple)):
        return "?", False
    if not is_loopback_host(str(peer[0])):
        return str(peer[0]), False
    user = user_of((str(peer[0]), int(peer[1])), (str(own[0]), int(own[1])))
    return f"user {user}", user == own_user


def user_of(peer: Address, own: Address) -> int | None:
    """Return the user whose TCP socket is bound to ``peer`` and connected to ``own``; None if the kernel doesn't say.

    The kernel looks for this socket alone, in microseconds: reading /proc takes tens of milliseconds on a busy host.
    """
    source, target = ip_of(peer[0]), ip_of(own[0])
    if source is None or target is None:
        return None
    family = socket.AF_INET if source.version == 4 else socket.AF_INET6
    ends = _PORTS.pack(peer[1], own[1]) + source.packed.ljust(16, b"\0") + target.packed.ljust(16, b"\0")
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + ends + _NO_INTERFACE_NO_COOKIE
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with contextlib.suppress(OSError, struct.error):
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as kernel:
            kernel.sendto(header + request, (0, 0))
            # The kernel answers within the call that asks.
            answer = kernel.recv(MAX_ANSWER)
        if _HEADER.unpack_from(answer)[1] == _SOCK_DIAG_BY_FAMILY:
            user: int = _ANSWER_USER.unpack_from(answer, _HEADER.size)[0]
            return user
    return None
