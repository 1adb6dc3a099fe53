"""The worker for which a process waits, by what the kernel reports of all of them, and workers that have ended."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping

import pytest

from dbg_agent.evidence import library_waits as workers
from dbg_agent.evidence.library_waits import Worker, from_workers
from dbg_agent.frames import ended
from dbg_wire.records.evidence import Activity, ActivityInfo

SOCKET, LOCK, SLEEP = Activity.SELECT, Activity.NATIVE_LOCK, Activity.SLEEP


@pytest.mark.parametrize(
    ("kinds", "dead", "holder"),
    [
        pytest.param({1: SOCKET, 2: SLEEP}, None, 2, id="one sleeps"),
        pytest.param({1: SOCKET, 2: LOCK}, None, 2, id="one waits for a lock"),
        pytest.param({1: SLEEP, 2: SLEEP}, None, None, id="both may be it"),
        pytest.param({1: SOCKET, 2: SOCKET}, None, None, id="both wait"),
        pytest.param({1: SLEEP}, -9, None, id="one was killed"),
        pytest.param({}, None, None, id="no worker"),
    ],
)
def test_the_parent_waits_for_the_worker_that_is_not_idle(
    monkeypatch: pytest.MonkeyPatch, kinds: Mapping[int, Activity], dead: int | None, holder: int | None
) -> None:
    found = [Worker(pid, f"W-{pid}", None) for pid in kinds] + ([Worker(7, "W-7", dead)] if dead else [])
    monkeypatch.setattr(workers, "workers", lambda: found)
    monkeypatch.setattr(workers, "has_ended", lambda _: False)
    monkeypatch.setattr(workers, "does", lambda pid: (ActivityInfo(what=kinds[pid]), None))
    activity, pid = from_workers(ActivityInfo(what=Activity.MESSAGE))
    assert pid == holder
    named = {one.name for one in activity.processes}
    assert named == ({f"W-{holder}"} if holder else {"W-7"} if dead else {one.name for one in found})
    assert [one.status for one in activity.processes if one.status is not None] == ([dead] if dead else [])


def test_a_worker_has_its_name_and_status_before_its_parent_waits_for_it() -> None:
    child = multiprocessing.get_context("spawn").Process(target=os._exit, args=(3,), name="W-1")
    child.start()
    os.waitid(os.P_PID, child.pid or 0, os.WEXITED | os.WNOWAIT)
    assert Worker(child.pid or 0, "W-1", 3) in workers.workers()
    child.join()
    assert child.exitcode == 3


def test_a_pool_worker_that_ended_with_an_error_is_remembered() -> None:
    ended.watch()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (worker,) = pool._pool  # type: ignore[attr-defined]
        pool.apply_async(os._exit, (4,))
        while worker in pool._pool:  # type: ignore[attr-defined]
            pass
    assert (worker.pid, worker.name, 4) in ended.ended_workers()
    ended.unwatch()
