"""What every test gets: an environment of its own, processes that end with the test, and their logs if it failed.

Options: ``--no-skips`` turns a skip into a failure, for machines on which nothing may be missing; ``--logs`` says where
the logs of failed tests go.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import platform
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.approved import ApprovalFile, package_folder, without_places
from tests.support.environment import clean_environment, is_foreign
from tests.support.netns import two_hosts
from tests.support.processes import TAIL, Processes
from tests.support.signals import pass_no_ignored_signals
from tests.support.slurm import slurm, slurm_cluster
from tests.support.terminal import Terminal
from tests.support.tiers import Watch, cpu_seconds, out_of_place, over_budget, tier_of

# Set also where the environment forbids bytecode: without it each worker rewrites the asserts of all tests (7 s), and
# each process that a test starts compiles the packages.
sys.dont_write_bytecode = False

__all__ = ["slurm", "slurm_cluster", "two_hosts"]

# A busy machine would miss hypothesis's deadline, which is in wall-clock time; every test has a time-out.
settings.register_profile("dbg", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dbg")
# For the other Pythons: what differs between Pythons shows in the first examples, and the main one tries all.
settings.register_profile("few", settings.get_profile("dbg"), max_examples=20)

LOGS = Path(__file__).parents[1] / "logs"

HOME = pytest.StashKey[Path]()
WATCH = pytest.StashKey[Watch]()
APPROVALS = pytest.StashKey[dict[Path, ApprovalFile]]()
LOG_FOLDER = pytest.StashKey[Path]()
CPU_BEFORE = pytest.StashKey[float]()
FAILED = pytest.StashKey[bool]()
STDERR = pytest.StashKey[int]()
TALLY = pytest.StashKey[str]()
"""File named by DBG_TEST_TALLY, to which each run appends how many passed, failed and were skipped; empty for none."""

LONGEST_NAME = 80
"""Letters of a parameter in the name of a test."""

GRACE_SECONDS = 30.0
"""Seconds that a test and its fixtures, which end processes, have after the time-out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="count a skipped test as failed")
    parser.addoption(
        "--no-budgets", action="store_true", help="let a test take more processor time than its tier allows"
    )
    parser.addoption("--approve", action="store_true", help="rewrite the approval files instead of comparing")
    parser.addoption("--logs", type=Path, default=LOGS, help="folder for the logs of failed tests (default: logs/)")


def pytest_configure(config: pytest.Config) -> None:
    """Give this process a clean environment, before any module of ours is imported."""
    pass_no_ignored_signals()
    # Python asks `uname` for the processor once; urwid asks Python for it when it is imported.
    platform.platform()
    config.stash[WATCH] = Watch()
    config.stash[APPROVALS] = {}
    home = Path(tempfile.mkdtemp(prefix="dbg-test-home-"))
    config.stash[HOME] = home
    # A copy: pytest redirects descriptor 2 while a test runs.
    config.stash[STDERR] = os.dup(2)
    # Out of the environment: a test may run pytest itself.
    config.stash[TALLY] = os.environ.pop("DBG_TEST_TALLY", "")
    for name in [name for name in os.environ if is_foreign(name)]:
        del os.environ[name]
    os.environ.update(clean_environment(os.environ, home))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten long parameters in names of tests: one had a million letters, and workers tell each other all names."""
    if isinstance(val, (str, bytes)) and len(val) > LONGEST_NAME:
        return f"{val[:LONGEST_NAME]!r}... of {len(val)}"
    return None


@settings(max_examples=50, database=None)
@given(st.text(), st.integers(), st.binary())
def draw_texts(_text: str, _number: int, _data: bytes) -> None:
    """Have hypothesis make its tables now: they would count as the time of the first test that needs them."""


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests out of each garbage collection, a tenth of the processor time."""
    draw_texts()
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Append the counts of this run to its tally, for the sum over all runs of CI."""
    if tally := config.stash[TALLY]:
        counts = {name: len(reports) for name, reports in terminalreporter.stats.items()}
        failed = counts.get("failed", 0) + counts.get("error", 0)
        with Path(tally).open("a") as file:
            file.write(f"{counts.get('passed', 0)} {failed} {counts.get('skipped', 0)}\n")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove this process's home, and end what forks our commands."""
    if config.getoption("approve"):
        for file in config.stash[APPROVALS].values():
            file.write()
    shutil.rmtree(config.stash[HOME], ignore_errors=True)
    os.close(config.stash[STDERR])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End this process, with the stacks of all threads, if a test goes on for long after its time-out.

    The time-out is raised in the main thread. A debugger that runs there takes it for an exception of its command: it
    shows the exception and waits for the next command.
    """
    marker = item.get_closest_marker("timeout")
    timeout = float(marker.args[0] if marker else item.config.getini("timeout") or 0)
    tier = tier_of(item.path)
    watch = item.config.stash[WATCH]
    watch.noted = [] if tier is not None and not tier.starts_processes else None
    item.stash[CPU_BEFORE] = cpu_seconds()
    if timeout > 0:
        faulthandler.dump_traceback_later(timeout + GRACE_SECONDS, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        watch.noted = None
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)  # before xdist's own hook, which reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the tests of one emulated cluster in one worker: each worker would start its own.

    Under ``--approve`` the tests that give no text are left out.
    """
    if config.getoption("approve"):
        items[:] = [item for item in items if "approved" in getattr(item, "fixturenames", ())]
    for item in items:
        if "slurm_cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("slurm"))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse a module with a test that does not fit its tier, and under ``--no-skips`` one that skips itself."""
    report = yield
    if report.passed and (fault := out_of_place(report.result or ())):
        report.outcome = "failed"
        report.longrepr = fault
    if report.skipped and collector.config.getoption("no_skips"):
        report.outcome = "failed"
        report.longrepr = f"skipped where no test may be: {reason_of(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of a failed test's processes in its report, and remove those of a passed one."""
    report = yield
    tier = tier_of(item.path)
    no_skips = item.config.getoption("no_skips") or (tier is not None and not tier.may_skip)
    if report.skipped and not hasattr(report, "wasxfail") and no_skips:
        report.outcome = "failed"
        report.longrepr = f"skipped where no test may be: {reason_of(report.longrepr)}"
    if report.passed and (fault := fault_of(item, report.when)):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} {fault}"
    folder = item.stash.get(LOG_FOLDER, None)
    if report.failed:
        item.stash[FAILED] = True
        report.sections.extend(sections_of(folder))
    elif report.when == "teardown" and folder is not None and not item.stash.get(FAILED, False):
        shutil.rmtree(folder, ignore_errors=True)
    return report


def fault_of(item: pytest.Item, when: str) -> str | None:
    """Return why a test that has passed does not fit its tier, or None."""
    tier = tier_of(item.path)
    if tier is None:
        return None
    if noted := item.config.stash[WATCH].noted:
        found, noted[:] = noted[0], []
        return f"is a unit test and {found}: move it to tests/smoke, tests/e2e or tests/full"
    return over_budget(tier, cpu_seconds() - item.stash[CPU_BEFORE]) if when == "teardown" else None


def reason_of(longrepr: object) -> object:
    """Return the reason of a skip from pytest's (path, line, reason)."""
    return longrepr[2] if isinstance(longrepr, tuple) else longrepr


def sections_of(folder: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the end of each log as a section of a report."""
    for log in sorted(folder.glob("*.log")) if folder is not None else ():
        yield f"log of {log.stem} ({log})", log.read_text(errors="replace")[-TAIL:]


@pytest.fixture
def processes(request: pytest.FixtureRequest) -> Iterator[Processes]:
    """Children of this test; they are ended after it, and their logs kept in ``logs/<test>`` if it failed."""
    folder: Path = request.config.getoption("logs") / re.sub(r"[^A-Za-z0-9._-]+", "_", request.node.nodeid)
    shutil.rmtree(folder, ignore_errors=True)
    request.node.stash[LOG_FOLDER] = folder
    started = Processes(folder)
    yield started
    started.end_all()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for this test's ``DBG_HOME``, which is also set here."""
    folder = tmp_path / "dbg"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("DBG_HOME", str(folder))
    return folder


OpenTerminal = Callable[..., Terminal]


@pytest.fixture
def open_terminal(processes: Processes) -> Iterator[OpenTerminal]:
    """A function that opens a terminal like :class:`Terminal`; all of them are closed after the test."""
    opened: list[Terminal] = []

    def open_one(
        command: Sequence[str], rows: int = 24, cols: int = 80, env: Mapping[str, str] | None = None
    ) -> Terminal:
        opened.append(Terminal(command, rows, cols, processes.marked(os.environ if env is None else env)))
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.end()


Approved = Callable[..., None]


@pytest.fixture
def approved(request: pytest.FixtureRequest) -> Approved:
    """A function that compares a text with its section in the package's ``messages.txt``.

    The section has the name of the test, and behind it a name that the test may give, or a number from the second on.
    """
    files = request.config.stash[APPROVALS]
    path = package_folder(request.path, Path(__file__).parent) / "messages.txt"
    file = files.setdefault(path, ApprovalFile(path))
    test = f"{request.path.stem.removeprefix('test_')}: {request.node.name.removeprefix('test_')}"
    given: Counter[str] = Counter()

    def compare(said: str | Iterable[str], name: str = "") -> None:
        section, text = f"{test} {name}".rstrip(), without_places(said if isinstance(said, str) else "\n".join(said))
        given[section] += 1
        if given[section] > 1:
            section += f" #{given[section]}"
        if request.config.getoption("approve"):
            file.sections[section] = text
        known = file.sections.get(section)
        assert text == known, f"section {section!r} of {path} differs; `make messages` rewrites it"

    return compare
