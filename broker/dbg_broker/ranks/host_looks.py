"""Which ranks' connections to look at, to find hosts that are silent.

Pure: time is an argument. While a host answers, one of its ranks is looked at, another one each time, and not before
the silence of that host could have become long enough. All ranks of a silent host are looked at each time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice

from dbg_wire import limits


class _Host:
    """The ranks of a host, the next one to be looked at first."""

    __slots__ = ("due", "keys", "name", "silent")

    def __init__(self, name: Hashable, due: float) -> None:
        self.name = name
        self.due = due
        self.keys: dict[str, None] = {}
        self.silent: set[str] = set()


class HostLooks:
    """For each connected rank, its host; for each host, when to look at one of its ranks and which are silent."""

    def __init__(self) -> None:
        self._hosts: dict[Hashable, _Host] = {}
        self._host_of: dict[str, _Host] = {}

    def add(self, key: str, name: Hashable, now: float) -> None:
        """Begin with a rank that was just heard; ``name`` is the same for all ranks that are silent together."""
        self.remove(key)
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(name, now + limits.SILENT_SECONDS)
        host.keys[key] = None
        self._host_of[key] = host

    def remove(self, key: str) -> None:
        """End with a rank; an unknown one is no error."""
        host = self._host_of.pop(key, None)
        if host is None:
            return
        del host.keys[key]
        host.silent.discard(key)
        if not host.keys:
            del self._hosts[host.name]

    def due(self, now: float) -> Iterator[str]:
        """Go through the ranks to look at now; the caller calls :meth:`seen` for each before it takes another one."""
        for host in tuple(self._hosts.values()):
            if host.silent:
                yield from tuple(host.keys)
            elif host.due <= now:
                # The host's last rank may have left while the caller was elsewhere.
                yield from tuple(islice(host.keys, 1))
                if host.silent:
                    yield from tuple(host.keys)

    def seen(self, key: str, unheard: float, now: float) -> bool:
        """Note that a rank's host was heard ``unheard`` seconds ago; return whether its silence has begun or ended."""
        host = self._host_of.get(key)
        if host is None:
            return False
        was_silent, is_silent = key in host.silent, unheard >= limits.SILENT_SECONDS
        host.due = now + limits.SILENT_SECONDS - unheard
        del host.keys[key]
        host.keys[key] = None
        if is_silent:
            host.silent.add(key)
        else:
            host.silent.discard(key)
        return was_silent != is_silent
