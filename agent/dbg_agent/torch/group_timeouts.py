"""Longer timeouts for torch's process groups, so that other ranks wait for a rank that is stopped.

An operation keeps the timeout that its group had when the operation began. So a group must have the longer timeout in
every rank before a rank stops. This module never imports torch, and changes no operation. The timeout of a single call,
such as ``monitored_barrier(timeout=…)``, stays as it is.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from types import ModuleType
from typing import Any

from dbg_agent.process.imports import forget, when_loaded

MODULE = "torch.distributed.distributed_c10d"
"""The module in which torch keeps its groups."""

_STORE = ("", "store")
"""Key under which the store's timeout is kept with the timeouts of groups. No group has an empty name."""


def shortest() -> tuple[str, float] | None:
    """Return the backend and the timeout, in seconds, of the group with the shortest timeout; None without groups."""
    found = []
    for _, name, backend in _backends(sys.modules.get(MODULE)):
        if backend.size() > 1 and not _waits_for_ever(name):
            found.append((name, backend.options._timeout.total_seconds()))
    return min(found, key=lambda clock: clock[1]) if found else None


def _waits_for_ever(backend: str) -> bool:
    """Return True if NCCL is configured not to end a process whose operations time out."""
    handling = os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING")
    blocking = os.environ.get("TORCH_NCCL_BLOCKING_WAIT", "0")
    return backend == "nccl" and handling == "0" and blocking == "0"


def _backends(torch: ModuleType | None) -> Iterator[tuple[str, str, Any]]:
    """Yield the group's name, the backend's name and the backend, for each backend whose timeout can be read."""
    world = getattr(torch, "_world", None)
    if world is None:
        return
    for group in list(world.pg_map):
        for device in group._device_types:
            try:
                backend = group._get_backend(device)
                # With TORCH_DISTRIBUTED_DEBUG=DETAIL, the group's backend is a wrapper of the real one.
                backend = getattr(backend, "wrapped_pg", backend)
                found = str(world.pg_names[group]), str(backend.name()), backend
                is_known = isinstance(backend.options._timeout, timedelta)
            except (AttributeError, KeyError, NotImplementedError, RuntimeError):
                # A backend that is not part of torch may lack these attributes.
                continue
            if is_known:
                yield found


def _set(backend: Any, timeout: timedelta) -> None:
    # Some backends have no timeout that can be changed.
    with suppress(NotImplementedError, RuntimeError):
        backend._set_default_timeout(timeout)


def _store_of(torch: ModuleType) -> Any:
    """Return the store of the default group, which the stores of all groups use; None without a default group."""
    world = getattr(torch, "_world", None)
    if world is None or world.default_pg is None:
        return None
    return world.pg_map[world.default_pg][1]


class GroupTimeouts:
    """Longer timeouts for this process's groups, also for new ones, until the groups' own timeouts are restored."""

    def __init__(self) -> None:
        self._raised_to: timedelta | None = None
        self._is_raised = False
        self._own: dict[tuple[str, str], timedelta] = {}
        self._replaced: list[tuple[ModuleType, str, object, object]] = []

    @property
    def seconds(self) -> float | None:
        """The longer timeout in seconds, or None if none was requested."""
        return self._raised_to.total_seconds() if self._raised_to is not None else None

    def install(self, seconds: float) -> None:
        """Set at least this timeout for all groups, even groups created later. A later call replaces the timeout."""
        self.restore()
        # torch rounds to milliseconds, and the comparison in restore() needs the same value.
        self._raised_to = timedelta(milliseconds=round(seconds * 1000))
        self._is_raised = True
        if not self._replaced:
            forget(MODULE, self._change)
            when_loaded(MODULE, self._change)
        else:
            self.raise_again()

    def uninstall(self) -> None:
        """Restore the groups' own timeouts, and don't change groups created later."""
        forget(MODULE, self._change)
        self.restore()
        self._raised_to = None
        while self._replaced:
            module, name, ours, stock = self._replaced.pop()
            if getattr(module, name) is ours:
                setattr(module, name, stock)

    def raise_again(self) -> None:
        """Set the longer timeout for all groups again, if one was requested."""
        torch = sys.modules.get(MODULE)
        if self._raised_to is None or torch is None:
            return
        self._is_raised = True
        for group, name, backend in _backends(torch):
            if backend.options._timeout < self._raised_to:
                self._own[group, name] = backend.options._timeout
                _set(backend, self._raised_to)
        self._raise_store(_store_of(torch))

    def restore(self) -> None:
        """Restore the groups' own timeouts, except for groups where the program has set another timeout since."""
        torch = sys.modules.get(MODULE)
        raised, self._is_raised = self._raised_to, False
        own, self._own = self._own, {}
        if raised is None or torch is None:
            return
        for group, name, backend in _backends(torch):
            if (group, name) in own and backend.options._timeout == raised:
                _set(backend, own[group, name])
        store = _store_of(torch)
        if _STORE in own and store is not None and store.timeout == raised:
            store.set_timeout(own[_STORE])

    def _change(self, torch: ModuleType) -> None:
        """Make torch create groups with the longer timeout: ranks wait for each other during the creation, too."""
        self._replace(torch, "_new_process_group_helper", self._creating)
        self._replace(torch, "_register_pg_in_world", self._registering)
        self.raise_again()

    def _replace(self, torch: ModuleType, name: str, wrap: Callable[[Any], Any]) -> None:
        stock = getattr(torch, name, None)
        if stock is not None:
            ours = functools.wraps(stock)(wrap(stock))
            self._replaced.append((torch, name, ours, stock))
            setattr(torch, name, ours)

    def _creating(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def create(*arguments: Any, **options: Any) -> Any:
            own, raised = options.get("timeout"), self._raised_to
            if not self._is_raised or raised is None or not isinstance(own, timedelta) or own >= raised:
                return stock(*arguments, **options)
            before: set[tuple[str, str]] = set()
            # Another release of torch may have other internals. The resulting error must not prevent torch's own call.
            with suppress(Exception):
                before = self._forget_destroyed()
                self._raise_store(options.get("store", arguments[4] if len(arguments) > 4 else None))
            # The program may pass options, which contain a timeout, too. NCCL warns if that timeout differs from the
            # argument ``timeout``. So a group with options gets the longer timeout after its creation.
            if options.get("backend_options") is None and options.get("pg_options") is None:
                options["timeout"] = raised
            created = stock(*arguments, **options)
            with suppress(Exception):
                self._remember(own, before)
            return created

        return create

    def _remember(self, own: timedelta, before: set[tuple[str, str]]) -> None:
        """Record ``own`` as the own timeout of the new groups. Then raise all timeouts that are too short."""
        for group, name, _ in _backends(sys.modules.get(MODULE)):
            if (group, name) not in before:
                self._own[group, name] = own
        self.raise_again()

    def _forget_destroyed(self) -> set[tuple[str, str]]:
        """Forget destroyed groups, because later groups may have the same names. Return the existing groups."""
        there = {(group, name) for group, name, _ in _backends(sys.modules.get(MODULE))}
        kept = there | {_STORE} if there else there
        self._own = {key: own for key, own in self._own.items() if key in kept}
        return there

    def _registering(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def register(*arguments: Any, **options: Any) -> Any:
            result = stock(*arguments, **options)
            if self._is_raised:
                with suppress(Exception):
                    self.raise_again()
            return result

        return register

    def _raise_store(self, store: Any) -> None:
        """Raise the store's timeout, too: NCCL's first operation on a group waits in the store for the other ranks."""
        own = getattr(store, "timeout", None)
        if self._raised_to is not None and isinstance(own, timedelta) and own < self._raised_to:
            self._own.setdefault(_STORE, own)
            store.set_timeout(self._raised_to)


timeouts = GroupTimeouts()
"""The timeouts of this process."""
