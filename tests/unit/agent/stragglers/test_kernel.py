from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dbg_agent.launch.proc import TICKS, group_folders
from dbg_agent.stragglers.kernel import Kernel, busy_processes, disks, processors
from dbg_wire.records.samples import CoreSpeed, DiskUse

CORE = 3


def stat_line(
    pid: int, *, name: str = "python", used: int = 0, faults: int = 0, core: int = CORE, disk: int = 0
) -> str:
    """Return a line of a stat file; a name may hold a parenthesis."""
    words = ["0"] * 50
    words[0], words[9], words[11], words[36], words[39] = "R", str(faults), str(used), str(core), str(disk)
    return f"{pid} ({name}) {' '.join(words)}\n"


class Files:
    """Files of a kernel, below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.main = threading.main_thread().native_id
        self.write("proc/self/cgroup", "0::/jobs/7\n")
        self.counters()

    def write(self, path: str, text: str) -> None:
        """Write one of them."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def counters(
        self, *, queued: int = 0, faults: int = 0, disk: int = 0, throttled: int = 0, pressure: int = 0
    ) -> None:
        """Write counters; ``queued`` is in ns, ``pressure`` in µs."""
        self.write(f"proc/self/task/{self.main}/stat", stat_line(1, name="a) b", disk=disk))
        self.write(f"proc/self/task/{self.main}/schedstat", f"10 {queued} 3\n")
        self.write("proc/self/stat", stat_line(1, faults=faults))
        self.write("proc/sys/kernel/task_delayacct", "1\n")
        self.write("groups/jobs/7/cpu.stat", f"usage_usec 1\nnr_periods 100\nnr_throttled {throttled}\n")
        self.write("groups/jobs/7/io.pressure", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={pressure}\nfull x\n")

    def kernel(self) -> Kernel:
        """Return what reads them."""
        return Kernel(str(self.root / "proc"), str(self.root / "groups"), str(self.root / "sys"))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return the files of a kernel that counts nothing yet."""
    return Files(tmp_path)


def test_two_readings_tell_what_was_lacking_between(files: Files) -> None:
    kernel = files.kernel()
    before = kernel.read()
    files.counters(queued=2_500_000_000, faults=40, disk=3 * TICKS, throttled=83, pressure=1_500_000)
    after = kernel.read()
    used, waited = processors(before, after, kernel.quota()), disks(before, after, kernel.swapped())
    assert (used.queued, used.throttled, used.periods) == (2.5, 83, 0)
    assert (waited.faults, waited.waits, waited.pressure) == (40, 3.0, 1.5)


def test_a_kernel_that_does_not_count_says_nothing(tmp_path: Path) -> None:
    kernel = Kernel(str(tmp_path / "proc"), str(tmp_path / "groups"), str(tmp_path / "sys"))
    before, after = kernel.read(), kernel.read()
    used = processors(before, after, kernel.quota())
    assert (used.queued, used.throttled, used.periods, used.quota) == (None, None, None, None)
    assert disks(before, after, kernel.swapped()) == DiskUse()
    assert kernel.speed(before, after) == CoreSpeed()


def test_delays_that_are_not_counted_are_not_told_as_none(files: Files) -> None:
    files.write("proc/sys/kernel/task_delayacct", "0\n")
    assert files.kernel().read().disk is None


def test_a_counter_that_goes_back_is_another_one(files: Files) -> None:
    files.counters(queued=5)
    before = files.kernel().read()
    files.counters(queued=1)
    assert processors(before, files.kernel().read(), None).queued is None


@pytest.mark.parametrize(
    ("path", "text", "cores"),
    [
        ("cpu.max", "50000 100000\n", 0.5),
        ("cpu.max", "max 100000\n", None),
        ("cpu.cfs_quota_us", "-1\n", None),
    ],
)
def test_the_quota_of_the_group_is_in_cores(files: Files, path: str, text: str, cores: float | None) -> None:
    files.write(f"groups/jobs/7/{path}", text)
    files.write("groups/jobs/7/cpu.cfs_period_us", "100000\n")
    assert files.kernel().quota() == cores


def test_the_quota_of_version_1_is_in_two_files(files: Files) -> None:
    files.write("groups/jobs/7/cpu.cfs_quota_us", "25000\n")
    files.write("groups/jobs/7/cpu.cfs_period_us", "100000\n")
    assert files.kernel().quota() == 0.25


def test_the_group_around_the_own_one_may_be_throttled(files: Files) -> None:
    files.write("groups/jobs/cpu.stat", "nr_periods 10\nnr_throttled 0\n")
    kernel = files.kernel()
    before = kernel.read()
    files.write("groups/jobs/cpu.stat", "nr_periods 20\nnr_throttled 9\n")
    told = processors(before, kernel.read(), None)
    assert (told.throttled, told.periods) == (9, 10)


def test_groups_of_version_1_have_a_folder_for_each_controller(tmp_path: Path) -> None:
    folder = tmp_path / "cpu/a"
    folder.mkdir(parents=True)
    (folder / "cpu.stat").write_text("nr_periods 1\n")
    text = "5:memory:/elsewhere\n1:cpu,cpuacct:/a\n0::/\n"
    assert group_folders(text, str(tmp_path), "cpu", ("cpu.stat",))[0] == str(folder)


def test_the_speed_of_the_core_is_that_of_the_main_thread(files: Files) -> None:
    files.write(f"sys/devices/system/cpu/cpu{CORE}/cpufreq/scaling_cur_freq", "1200000\n")
    files.write(f"sys/devices/system/cpu/cpu{CORE}/cpufreq/cpuinfo_max_freq", "3400000\n")
    files.write(f"sys/devices/system/cpu/cpu{CORE}/thermal_throttle/core_throttle_count", "7\n")
    kernel = files.kernel()
    before = kernel.read()
    files.write(f"sys/devices/system/cpu/cpu{CORE}/thermal_throttle/core_throttle_count", "9\n")
    told = kernel.speed(before, kernel.read())
    assert told == CoreSpeed(frequency=1_200_000_000, fastest=3_400_000_000, heated=2)


def test_swap_is_told_in_bytes(files: Files) -> None:
    files.write("proc/self/status", "Name:\tpython\nVmSwap:\t    3072 kB\n")
    assert files.kernel().swapped() == 3 << 20


def test_processes_on_the_same_cores_are_found(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    for pid, where in ((11, core), (12, core), (13, 10**6)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(stat_line(pid, name="stress (x)", used=5 * TICKS, core=where))
    (tmp_path / "14").mkdir()
    assert busy_processes(1.0, str(tmp_path)) == {12: ("stress (x)", 5.0), 11: ("stress (x)", 5.0)}


def test_a_host_with_too_many_processes_is_not_read_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "11").mkdir()
    (tmp_path / "11/stat").write_text(stat_line(11, core=min(os.sched_getaffinity(0))))
    assert busy_processes(-1.0, str(tmp_path)) == {}


def test_this_process_has_counters() -> None:
    assert (Kernel().read().main_cpu or 0.0) > 0
