"""A part of one core that processes may use together, by a control group of the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

FIRST_VERSION = Path("/sys/fs/cgroup/cpu")
SECOND_VERSION = Path("/sys/fs/cgroup")
PERIOD = 100_000
"""Microseconds of a period, the kernel's usual one."""


@contextmanager
def cpu_quota(part: float) -> Iterator[Path | None]:
    """Make a group whose processes get a part of one core; yield the file into which their ids are written.

    Yield None where no group can be made. Processes in the group must have ended at the end.
    """
    is_second = (SECOND_VERSION / "cgroup.controllers").exists()
    folder = (SECOND_VERSION if is_second else FIRST_VERSION) / f"dbg-{uuid4().hex}"
    try:
        folder.mkdir()
    except OSError:
        yield None
        return
    try:
        try:
            if is_second:
                (folder / "cpu.max").write_text(f"{round(part * PERIOD)} {PERIOD}")
            else:
                (folder / "cpu.cfs_period_us").write_text(str(PERIOD))
                (folder / "cpu.cfs_quota_us").write_text(str(round(part * PERIOD)))
            procs: Path | None = folder / "cgroup.procs"
        except OSError:
            procs = None
        yield procs
    finally:
        for pid in (folder / "cgroup.procs").read_text().split():
            (folder.parent / "cgroup.procs").write_text(pid)
        folder.rmdir()
