"""The machine and the versions that a run was made with; nothing that names the host or a path."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("websockets", "msgspec", "pudb", "torch")


def machine() -> dict[str, Any]:
    """Return date, machine and versions for the JSON file."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {
            "processor": _field("/proc/cpuinfo", "model name"),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / (1 << 20)),
            "system": f"{platform.system()} {platform.release()}",
            "load": round(os.getloadavg()[0], 1),
        },
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
    }


def _field(file: str, name: str) -> str:
    lines = [line.partition(":") for line in Path(file).read_text().splitlines()]
    return next((value.strip() for key, _, value in lines if key.strip() == name), "unknown")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
