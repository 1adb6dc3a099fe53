"""Start of ``run``: starts the broker if needed, starts the job, then follows the job.

The job starts before the terminal's modules are loaded. The job and the broker outlive the terminal that started them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dbg_client.core.own_process import own_environment
from dbg_client.run.environment import is_for_many_hosts, job_environment, job_name, token_file_of
from dbg_client.run.folder import Folder, folder_of
from dbg_client.run.job_process import JobProcess
from dbg_client.run.options import RunOptions, Task
from dbg_client.run.own_broker import BrokerInUse, find_or_start, notes_of
from dbg_client.shell.streams import has_cursor, notify
from dbg_dial.home import BROKER, HOME, JOB, home_directory
from dbg_wire.errors import BadInput, printable

if TYPE_CHECKING:
    from dbg_client.run.verb import Run

NO_RANK_TOOK_PART = "no rank connected to the debugger; is dbg-broker installed in the Python that runs the job?"

LONG_SECONDS = 10.0
"""Time in seconds after which a job's ranks should have registered.

If a job fails earlier, its ranks may not have had time to register. So the run does not report their absence.
"""

HUNG_STATUS = 9
"""Exit status of a run that has ended its hung job; dbg-attach uses it for nothing else."""


def run(settings: Run, environ: Mapping[str, str]) -> int:
    """Run a command until it ends, and return its exit status; its output also goes to a file. Raises DbgError.

    The job and its broker survive if this process is killed or its terminal is closed.
    """
    environ = {**own_environment(environ), **({BROKER: settings.broker.address} if settings.broker.address else {})}
    folder = folder_of(home_directory(environ), _directory())
    _check(settings.options)
    return _OneRun(settings, environ, folder).go()


def _check(options: RunOptions) -> None:
    """Raise BadInput for options that can't be used."""
    options.check()
    if options.commands is not None and not os.access(options.commands, os.R_OK):
        raise BadInput(f"-x {printable(options.commands)} can't be read", "name a file of pdb commands")


def _directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        raise BadInput("the current directory was removed", "change to an existing one") from None


def _print(sentence: str) -> None:
    notify(f"dbg-attach: {sentence}")


class _OneRun:
    """One job from its start to its end."""

    def __init__(self, settings: Run, environ: Mapping[str, str], folder: Folder) -> None:
        self._settings, self._environ, self._folder = settings, environ, folder
        options, command = settings.options, settings.command
        self.task = Task(
            job=job_name(command, f"{os.getpid()}", environ.get(JOB)),
            ranks=options.rank_filter or "all",
            attach=os.isatty(0) and os.isatty(1) and has_cursor(environ),
            stops=tuple(stop.place for stop in options.stops),
            hang_after=float(options.hang_after or 0) or None,
            on_hang=options.on_hang,
        )
        self._job = JobProcess()

    def go(self) -> int:
        """Run the job until it ends; return the exit status."""
        options, command = self._settings.options, self._settings.command
        listen = options.listen or ("0.0.0.0" if is_for_many_hosts(command) else None)  # noqa: S104
        broker = find_or_start(listen, self._environ)
        with self._job.signals_passed_on():
            self._start()
            self._print_start(broker)
            asyncio.run(self._follow())
        self._job.wait()
        has_had_time = self._job.status == 0 or time.monotonic() - self._job.began > LONG_SECONDS
        if self.task.attach and not self.task.took_part and has_had_time:
            # Only an attached terminal knows whether a rank has connected.
            _print(NO_RANK_TOOK_PART)
        return HUNG_STATUS if self.task.is_hung else self._job.status or 0

    def _start(self) -> None:
        home = home_directory(self._environ)
        try:
            self._folder.make()
        except OSError as error:
            raise BadInput(
                f"nothing can be written to {printable(home)} ({error.strerror})", "set DBG_HOME to another directory"
            ) from None
        options, command = self._settings.options, self._settings.command
        given = None if options.output is None else str(Path(options.output).absolute())
        output, path = self._folder.open_output(self.task.job, given)
        self.task.output = str(path)
        try:
            token_file = token_file_of(self.task.job, home, self._environ)
            environ = job_environment(
                self._environ, home=home, job=self.task.job, options=options, token_file=token_file
            )
            self._job.start(command, environ, output)
        finally:
            os.close(output)

    async def _follow(self) -> None:
        # Import this while the job is already running, so that the job does not wait for the import.
        from dbg_client.run.job import follow_job

        await follow_job(self._settings, self.task, self._job)

    def _print_start(self, broker: BrokerInUse) -> None:
        options, command, task = self._settings.options, self._settings.command, self.task
        for sentence in notes_of(broker, options.listen, command):
            _print(sentence)
        _print(f"job {task.job}, its output in {printable(task.output)}")
        when = "if this terminal closes" if task.attach else "to debug the job, type in a terminal"
        _print(f"{when}: {self._way_back}")

    @property
    def _way_back(self) -> str:
        """The command with which to follow the job from another terminal."""
        home = home_directory(self._environ)
        elsewhere = {name: value for name, value in self._environ.items() if name != HOME}
        before = f"DBG_HOME={printable(shlex.quote(home))} "
        with contextlib.suppress(BadInput):
            before = "" if home_directory(elsewhere) == home else before
        return f"{before}dbg-attach --follow {self.task.job}/stopped"
