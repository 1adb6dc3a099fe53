"""A stand-in for the torch module that keeps process groups, with the functions and attributes that the agent uses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any


class FakeBackend:
    """A backend of a group, with a timeout."""

    def __init__(self, name: str, timeout: timedelta, size: int = 2, fixed: bool = False) -> None:
        self.options = SimpleNamespace(_timeout=timeout)
        self._name, self._size, self._fixed = name, size, fixed

    def name(self) -> str:
        return self._name

    def size(self) -> int:
        return self._size

    def _set_default_timeout(self, timeout: timedelta) -> None:
        if self._fixed:
            raise RuntimeError("this backend does not support it")
        self.options._timeout = timeout

    @property
    def seconds(self) -> float:
        return float(self.options._timeout.total_seconds())


class FakeGroup:
    """A process group with one backend for each device."""

    def __init__(self, **backends: Any) -> None:
        self.backends = backends
        self._device_types = [*backends, "meta"]

    def _get_backend(self, device: str) -> Any:
        if device not in self.backends:
            raise RuntimeError(f"no backend for {device}")
        return self.backends[device]


class FakeStore:
    """A key-value store with a timeout."""

    def __init__(self, timeout: timedelta) -> None:
        self.timeout = timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self.timeout = timeout


class FakeC10d(ModuleType):
    """``torch.distributed.distributed_c10d`` as far as timeouts go."""

    def __init__(self) -> None:
        super().__init__("torch.distributed.distributed_c10d")
        self._world = SimpleNamespace(pg_map={}, pg_names={}, default_pg=None)
        self.created_with: list[timedelta] = []

        def helper(*arguments: Any, **options: Any) -> Any:
            size, _rank, _ranks, backend, store, name = arguments
            self.created_with.append(options["timeout"])
            made = options.get("backend_options") or FakeBackend(backend, options["timeout"], size)
            group = FakeGroup(cpu=made)
            self._register_pg_in_world(group, name, backend, store)
            return group, store

        def register(group: FakeGroup, name: str, backend: str, store: object) -> None:
            self._world.pg_map[group] = (backend, store)
            self._world.pg_names[group] = name
            if self._world.default_pg is None:
                self._world.default_pg = group

        self._new_process_group_helper: Callable[..., Any] = helper
        self._register_pg_in_world: Callable[..., None] = register

    def create(self, name: str, seconds: float, store: FakeStore | None = None, **options: Any) -> FakeBackend:
        """Create a group as ``new_group`` does, and return its backend."""
        timeout = timedelta(seconds=seconds)
        group, _ = self._new_process_group_helper(2, 0, [], "gloo", store, name, timeout=timeout, **options)
        found: FakeBackend = group.backends["cpu"]
        return found

    def destroy(self) -> None:
        self._world.pg_map.clear()
        self._world.pg_names.clear()
        self._world.default_pg = None
